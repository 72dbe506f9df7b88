#include "workloads.h"

#include <stddef.h>
#include <string.h>

const struct workload workloads[] = {
    {"minilm",
     "all-MiniLM-L6-v2: a sentence, a paragraph, a batch of them",
     {"fwd f32 b1 h12 q32 d32", "fwd f32 b1 h12 q256 d32", "fwd f32 b8 h12 q128 d32"}},
    {"bert-base",
     "BERT-base: short and full length, a batch",
     {"fwd f32 b1 h12 q128 d64", "fwd f32 b1 h12 q512 d64", "fwd f32 b8 h12 q128 d64"}},
    {"gpt2",
     "GPT-2 small: the whole context at once",
     {"fwd f32 b1 h12 q1024 d64 causal=tl", "fwd f16 b1 h12 q1024 d64 causal=tl"}},
    {"llama3-8b-prefill-512",
     "Llama 3 8B: a prompt of 512, and 512 more behind 1536",
     {"fwd f16 b1 h32/8 q512 d128 causal=tl", "fwd bf16 b1 h32/8 q512 d128 causal=tl",
      "fwd f16 b1 h32/8 q512 k2048 d128 causal=br"}},
    {"gemma2-9b-prefill-512",
     "Gemma 2 9B: softcap, a window in every other layer",
     {"fwd bf16 b1 h16/8 q512 d256 scale=0.0625 softcap=50 causal=tl",
      "fwd bf16 b1 h16/8 q512 k4096 d256 scale=0.0625 softcap=50 causal=br window=4095,*"}},
    {"vit-b16",
     "ViT-B/16: 197 patches, one picture and eight",
     {"fwd f32 b1 h12 q197 d64", "fwd f32 b8 h12 q197 d64"}},
    {"sd15",
     "Stable Diffusion 1.5 at 512 x 512: pixels to pixels, pixels to words",
     {"fwd f16 b1 h8 q4096 d40", "fwd f16 b1 h8 q4096 k77 d40"}},
    {"forward-2048",
     "8 heads, 2048 queries and keys, dims 64 and 128, causal and not",
     {"fwd f32 b1 h8 q2048 d64", "fwd f32 b1 h8 q2048 d128", "fwd f32 b1 h8 q2048 d64 causal=tl",
      "fwd f32 b1 h8 q2048 d128 causal=tl"}},
    {"standard",
     "what clattn-tune tunes by default: six groups of alike programs",
     {"fwd f32 b1 h12 q128 d32", "fwd f32 b1 h12 q512 d32", "fwd f32 b1 h12 q128 d64",
      "fwd f32 b1 h12 q512 d64", "fwd f32 b1 h8 q2048 d64", "fwd f16 b1 h12 q1024 d64 causal=tl",
      "fwd f16 b1 h4 q4096 d64 causal=tl", "fwd f16 b1 h8 q1024 d80", "fwd f16 b1 h4 q4096 d80",
      "fwd f16 b1 h8 q512 d128 causal=tl", "fwd f16 b1 h8 q2048 d128 causal=tl",
      "fwd f32 b1 h8 q256 d128", "fwd f32 b1 h8 q2048 d128"}},
    {NULL, NULL, {NULL}},
};

const struct workload *workload_find(const char *name)
{
    for (const struct workload *w = workloads; w->name != NULL; w++)
        if (strcmp(w->name, name) == 0)
            return w;
    return NULL;
}
