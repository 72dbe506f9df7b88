/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/problems/workloads.h"

#include <string.h>

/* These problems are in a set as well. A window of W keys includes the query's own: W - 1 before
 * it. */
#define MINILM_BATCH "fwd f32 b8 h12 q128 k128 d32"
#define BERT_512 "fwd f32 b1 h12 q512 k512 d64"
#define BERT_BATCH "fwd f32 b8 h12 q128 k128 d64"
#define GPT2_F32 "fwd f32 b1 h12 q1024 k1024 d64 causal=tl"
#define GPT2_F16 "fwd f16 b1 h12 q1024 k1024 d64 causal=tl"
#define LLAMA_PREFILL_512 "fwd f16 b1 h32/8 q512 k512 d128 causal=tl"
#define LLAMA_PREFILL_2K "fwd f16 b1 h32/8 q2048 k2048 d128 causal=tl"
#define LLAMA_DECODE_4K "fwd f16 b1 h32/8 q1 k4096 d128 causal=br"
#define LLAMA_DECODE_32K "fwd f16 b1 h32/8 q1 k32768 d128 causal=br"
#define MISTRAL_CHUNK "fwd f16 b1 h32/8 q512 k8192 d128 causal=br window=4095,0"
#define GEMMA_PREFILL "fwd bf16 b1 h16/8 q512 k512 d256 softcap=50 causal=tl"
#define GEMMA_CHUNK "fwd bf16 b1 h16/8 q512 k8192 d256 softcap=50 causal=br window=4095,0"
#define GPT_OSS_WINDOW "fwd bf16 b1 h64/8 q2048 k2048 d64 causal=tl window=127,0 sinks"
#define GPT_OSS_DECODE "fwd bf16 b1 h64/8 q1 k4096 d64 causal=br sinks"
#define DEEPSEEK_LITE "fwd bf16 b1 h16 q2048 k2048 d192/128 causal=tl"
#define VIT_ONE "fwd f32 b1 h12 q197 k197 d64"
#define VIT_BATCH "fwd f32 b8 h12 q197 k197 d64"
#define WHISPER_ENCODER "fwd f32 b1 h12 q1500 k1500 d64"
#define WHISPER_STEP "fwd f32 b1 h12 q1 k1500 d64"
#define SD15_PIXELS "fwd f16 b2 h8 q4096 k4096 d40"
#define SD15_MIDDLE "fwd f16 b2 h8 q1024 k1024 d80"
#define SDXL_WORDS "fwd f16 b2 h10 q4096 k77 d64"
/* Forward with what backward needs, backward; the projection to q, k and v; the layer, likewise.
 * The sizes are those of attention: (batch, heads, queries, dim). */
#define GPT2_TRAINING                                                                              \
    "fwd f32 b1 h12 q1024 k1024 d64 causal=tl lse", "bwd f32 b1 h12 q1024 k1024 d64 causal=tl",    \
        "proj f32 b1 h36/1 q1024 d768/64 y=bshd bias=f32",                                         \
        "layer fwd f32 b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias "         \
        "training",                                                                                \
        "layer bwd f32 b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias training"
#define BERT_TRAINING                                                                              \
    "fwd f32 b4 h12 q512 k512 d64 lse", "bwd f32 b4 h12 q512 k512 d64",                            \
        "proj f32 b4 h12/1 q512 d768/64 y=bshd w=oi bias=f32",                                     \
        "layer fwd f32 b4 h12 q512 k512 d64 model=768 biases obias training",                      \
        "layer bwd f32 b4 h12 q512 k512 d64 model=768 biases obias training"
#define VIT_TRAINING                                                                               \
    "fwd f32 b8 h12 q197 k197 d64 lse", "bwd f32 b8 h12 q197 k197 d64",                            \
        "layer fwd f32 b8 h12 q197 k197 d64 model=768 biases obias training",                      \
        "layer bwd f32 b8 h12 q197 k197 d64 model=768 biases obias training"
#define FUNCTION(operation, words) operation " f32 b1 h8 q1024 k1024 d64" words
#define SQUARE(dtype, rest) "fwd " dtype " b1 h8 q2048 k2048 " rest
#define CACHED(dtype, queries, keys) "fwd " dtype " b1 h32/8 q" queries " k" keys " d128 causal=br"
#define IN_FORMAT(name) "fwd f16 b1 h32/8 q1 k32768 d128 kcache=" name " vcache=" name " causal=br"
#define SCALED_IN(name) IN_FORMAT(name) " kscales=bhk vscales=bhk"
#define APPENDED_IN(name)                                                                          \
    "append f16 b1 h32/8 q4096 k8192 d128 kcache=" name " vcache=" name                            \
    " klen rope=halves:128:500000"
/* A cache that is contiguous, and in pages of 16, 64 and 256 in random order. */
#define PAGED(keys, rest, by16, by64, by256)                                                       \
    "fwd f16 b1 h32/8 q1 k" keys " d128" rest,                                                     \
        "fwd f16 b1 h32/8 q1 k" keys " d128" rest " page=16 pages=" by16,                          \
        "fwd f16 b1 h32/8 q1 k" keys " d128" rest " page=64 pages=" by64,                          \
        "fwd f16 b1 h32/8 q1 k" keys " d128" rest " page=256 pages=" by256
/* DeepSeek V3.2's attention, and its indexer, of some queries behind so many keys, 2048 of which each query sees. */
#define CHOSEN(queries, keys) "fwd bf16 b1 h128/1 q" queries " k" keys " d576/512 topk=2048"
#define INDEXER(queries, keys) "indexer bf16 b1 h64 q" queries " k" keys " d128 causal=br topk=2048"
#define SEQUENCES(rest)                                                                            \
    "fwd f32 b1 h8 q128 k128 " rest, "fwd f32 b1 h8 q256 k256 " rest,                              \
        "fwd f32 b1 h8 q512 k512 " rest, "fwd f32 b1 h8 q1024 k1024 " rest,                        \
        "fwd f32 b1 h8 q2048 k2048 " rest, "fwd f32 b1 h8 q4096 k4096 " rest,                      \
        "fwd f32 b1 h8 q8192 k8192 " rest

const struct workload workloads[] = {
    {"minilm",
     "all-MiniLM-L6-v2: a sentence, a paragraph, a batch of sentences",
     "config.json of sentence-transformers/all-MiniLM-L6-v2: 12 heads, hidden_size 384",
     {"fwd f32 b1 h12 q32 k32 d32", "fwd f32 b1 h12 q256 k256 d32", MINILM_BATCH}},
    {"bert-base",
     "BERT-base: short and full length, a batch",
     "config.json of google-bert/bert-base-uncased: 12 heads, hidden_size 768, 512 positions",
     {"fwd f32 b1 h12 q128 k128 d64", BERT_512, BERT_BATCH, "fwd f16 b8 h12 q512 k512 d64"}},
    {"gpt2",
     "GPT-2 small: the whole context at once, and its last token",
     "config.json of openai-community/gpt2: n_head 12, n_embd 768, n_ctx 1024",
     {GPT2_F32, GPT2_F16, "fwd f32 b1 h12 q1 k1024 d64 causal=br"}},
    {"llama3-8b-prefill-512",
     "Llama 3 8B: a prompt of 512, and 512 more behind 1536",
     "config.json of meta-llama/Meta-Llama-3-8B: 32 heads, 8 kv heads, hidden_size 4096",
     {LLAMA_PREFILL_512, "fwd bf16 b1 h32/8 q512 k512 d128 causal=tl",
      "fwd f16 b1 h32/8 q512 k2048 d128 causal=br"}},
    {"llama3-8b-prefill-2k",
     "Llama 3 8B: a prompt of 2048",
     "config.json of meta-llama/Meta-Llama-3-8B: 32 heads, 8 kv heads, hidden_size 4096",
     {LLAMA_PREFILL_2K, "fwd bf16 b1 h32/8 q2048 k2048 d128 causal=tl"}},
    {"llama3-8b-prefill-8k",
     "Llama 3 8B: a prompt as long as its context, 8192",
     "config.json of meta-llama/Meta-Llama-3-8B: 32 heads, 8 kv heads, 8192 positions",
     {"fwd f16 b1 h32/8 q8192 k8192 d128 causal=tl",
      "fwd bf16 b1 h32/8 q8192 k8192 d128 causal=tl"}},
    {"llama3-8b-decode-4k",
     "Llama 3 8B: one token behind 4095, one request and eight",
     "config.json of meta-llama/Meta-Llama-3-8B: 32 heads, 8 kv heads, hidden_size 4096",
     {LLAMA_DECODE_4K, "fwd bf16 b1 h32/8 q1 k4096 d128 causal=br",
      "fwd f16 b8 h32/8 q1 k4096 d128 causal=br"}},
    {"llama3-8b-decode-32k",
     "Llama 3 8B's heads with a longer context: one token behind 32767",
     "config.json of meta-llama/Meta-Llama-3-8B: 32 heads, 8 kv heads, hidden_size 4096",
     {LLAMA_DECODE_32K, "fwd bf16 b1 h32/8 q1 k32768 d128 causal=br"}},
    {"mistral-7b",
     "Mistral 7B, window of 4096 keys: 8192 at once, their last 512, their last one",
     "config.json of mistralai/Mistral-7B-v0.1: 32 heads, 8 kv heads, sliding_window 4096",
     {"fwd f16 b1 h32/8 q8192 k8192 d128 causal=tl window=4095,0", MISTRAL_CHUNK,
      "fwd f16 b1 h32/8 q1 k8192 d128 causal=br window=4095,0"}},
    {"gemma2-9b",
     "Gemma 2 9B, softcap: a prompt, every other layer's window of 4096, one token",
     "config.json of google/gemma-2-9b: 16 heads, 8 kv heads, head_dim 256, sliding_window 4096",
     {GEMMA_PREFILL, GEMMA_CHUNK, "fwd bf16 b1 h16/8 q1 k4096 d256 softcap=50 causal=br"}},
    {"gpt-oss-20b",
     "GPT-OSS 20B, sinks, with and without a window of 128: a prompt, one token",
     "config.json of openai/gpt-oss-20b: 64 heads, 8 kv heads, head_dim 64, sliding_window 128",
     {"fwd bf16 b1 h64/8 q2048 k2048 d64 causal=tl sinks", GPT_OSS_WINDOW, GPT_OSS_DECODE,
      "fwd bf16 b1 h64/8 q1 k4096 d64 causal=br window=127,0 sinks"}},
    {"deepseek-mla",
     "DeepSeek V2 Lite and V3: a prompt; keys of 128 + 64 dimensions, values of 128",
     "config.json of deepseek-ai/DeepSeek-V2-Lite, 16 heads, and deepseek-ai/DeepSeek-V3, 128 "
     "heads",
     {DEEPSEEK_LITE, "fwd bf16 b1 h128 q512 k512 d192/128 causal=tl"}},
    {"vit-b16",
     "ViT-B/16: 196 patches and the class token, one picture and eight",
     "config.json of google/vit-base-patch16-224: 12 heads, hidden_size 768, 14 x 14 patches",
     {VIT_ONE, VIT_BATCH, "fwd f16 b8 h12 q197 k197 d64"}},
    {"whisper",
     "Whisper small: 30 s of sound; to it one token, five beams, a prompt of 224",
     "config.json of openai/whisper-small: 12 heads, d_model 768, max_source_positions 1500",
     {WHISPER_ENCODER, "fwd f16 b1 h12 q1500 k1500 d64", WHISPER_STEP,
      "fwd f32 b5 h12 q1 k1500 d64", "fwd f32 b1 h12 q224 k1500 d64"}},
    {"sd15",
     "Stable Diffusion 1.5, guided: 512 x 512 pixels, pixels to words, 1024 x 1024",
     "unet/config.json of stable-diffusion-v1-5: 8 heads, block_out_channels 320, 640, 1280",
     {SD15_PIXELS, SD15_MIDDLE, "fwd f16 b2 h8 q4096 k77 d40", "fwd f16 b2 h8 q4096 k4096 d80"}},
    {"sdxl",
     "Stable Diffusion XL, guided: 1024 x 1024 pixels, pixels to words",
     "unet/config.json of stabilityai/stable-diffusion-xl-base-1.0: 10 and 20 heads of 64",
     {"fwd f16 b2 h10 q4096 k4096 d64", "fwd f16 b2 h20 q1024 k1024 d64", SDXL_WORDS,
      "fwd f16 b2 h20 q1024 k77 d64"}},
    {"gpt2-training",
     "GPT-2 small, 1024 tokens: attention, its gradients, a projection, a layer",
     "config.json of openai-community/gpt2: n_head 12, n_embd 768, n_ctx 1024; Conv1D c_attn",
     {GPT2_TRAINING}},
    {"bert-base-training",
     "BERT-base, 4 texts of 512: attention, its gradients, a projection, a layer",
     "config.json of google-bert/bert-base-uncased: 12 heads, hidden_size 768, 512 positions",
     {BERT_TRAINING}},
    {"vit-b16-training",
     "ViT-B/16, eight pictures: attention, its gradients, a layer",
     "config.json of google/vit-base-patch16-224: 12 heads, hidden_size 768, 14 x 14 patches",
     {VIT_TRAINING}},
    {"quick",
     "six problems of the above, to look around: a minute on two cores",
     NULL,
     {MINILM_BATCH, BERT_512, VIT_ONE, LLAMA_PREFILL_512, LLAMA_DECODE_4K, SD15_MIDDLE}},
    {"standard",
     "twenty problems over all of the above, to compare devices",
     NULL,
     {MINILM_BATCH,      BERT_512,         BERT_BATCH,      GPT2_F32,         GPT2_F16,
      LLAMA_PREFILL_512, LLAMA_PREFILL_2K, LLAMA_DECODE_4K, LLAMA_DECODE_32K, MISTRAL_CHUNK,
      GEMMA_PREFILL,     GEMMA_CHUNK,      GPT_OSS_WINDOW,  GPT_OSS_DECODE,   DEEPSEEK_LITE,
      VIT_BATCH,         WHISPER_ENCODER,  WHISPER_STEP,    SD15_PIXELS,      SDXL_WORDS}},
    {"lengths",
     "8 heads, 128 to 8192 queries and keys, dims 64 and 128, causal and not",
     NULL,
     {SEQUENCES("d64"), SEQUENCES("d64 causal=tl"), SEQUENCES("d128"),
      SEQUENCES("d128 causal=tl")}},
    {"forward-2048",
     "8 heads, 2048 queries and keys, dims 64 and 128, causal and not",
     NULL,
     {"fwd f32 b1 h8 q2048 k2048 d64", "fwd f32 b1 h8 q2048 k2048 d128",
      "fwd f32 b1 h8 q2048 k2048 d64 causal=tl", "fwd f32 b1 h8 q2048 k2048 d128 causal=tl"}},
    {"dims",
     "8 heads, 2048 queries and keys, dims 32 to 256; ragged, lse, f16, bf16",
     NULL,
     {SQUARE("f32", "d32"), SQUARE("f32", "d40"), SQUARE("f32", "d59"), SQUARE("f32", "d64"),
      SQUARE("f32", "d80"), SQUARE("f32", "d96"), SQUARE("f32", "d111"), SQUARE("f32", "d128"),
      SQUARE("f32", "d256"), SQUARE("f32", "d64 lse"), SQUARE("f32", "d128 lse"),
      SQUARE("f16", "d64"), SQUARE("f16", "d128"), SQUARE("bf16", "d64"), SQUARE("bf16", "d128"),
      "fwd f32 b1 h8 q2047 k2047 d64", "fwd f32 b1 h8 q2049 k2049 d64"}},
    {"options",
     "what options cost: 8 heads, 2048 queries and keys; causal with fewer heads",
     NULL,
     {SQUARE("f32", "d64"), SQUARE("f32", "d64 causal=tl"), SQUARE("f32", "d128 causal=tl"),
      "fwd f32 b1 h1 q2048 k2048 d64 causal=tl", "fwd f32 b1 h2 q2048 k2048 d64 causal=tl",
      "fwd f32 b1 h3 q2048 k2048 d64 causal=tl", SQUARE("f32", "d64 causal=tl window=127,0"),
      SQUARE("f32", "d64 causal=tl window=511,0"), SQUARE("f32", "d64 window=255,255"),
      SQUARE("f32", "d64 klen"), SQUARE("f32", "d64 bias=f32:bhqk"), SQUARE("f32", "d64 mask=bqk"),
      SQUARE("f32", "d64 softcap=50"), SQUARE("f32", "d64 alibi"), SQUARE("f32", "d64 sinks"),
      SQUARE("f32", "d64 dropout=0.125")}},
    {"functions",
     "functions of the library beside plain attention and options like them",
     NULL,
     {FUNCTION("fwd", ""),
      FUNCTION("fwd", " score=t5"),
      FUNCTION("fwd", " score=t5_decoder"),
      FUNCTION("fwd", " alibi"),
      FUNCTION("fwd", " score=alibi"),
      FUNCTION("fwd", " softcap=50"),
      FUNCTION("fwd", " score=softcap"),
      FUNCTION("fwd", " score=temperature"),
      "fwd f32 b64 h8 q49 k49 d32",
      "fwd f32 b64 h8 q49 k49 d32 score=swin",
      "fwd f32 b1 h1 q4096 k4096 d64",
      "fwd f32 b1 h1 q4096 k4096 d64 score=sam",
      FUNCTION("fwd", " causal=tl"),
      FUNCTION("fwd", " visible=prefix_lm"),
      FUNCTION("fwd", " visible=documents"),
      "fwd f32 b8 h8 q128 k128 d64 causal=tl totalq=1024 totalkv=1024",
      "fwd f32 b1 h2 q8192 k8192 d64 visible=sliding_window",
      "fwd f32 b1 h2 q8192 k8192 d64 causal=tl window=511,0",
      FUNCTION("fwd", " visible=dilated"),
      "fwd f32 b1 h4 q3136 k3136 d32 visible=neighborhood",
      "fwd f32 b1 h32/8 q64 k4096 d128 visible=draft_tree",
      FUNCTION("bwd", ""),
      FUNCTION("bwd", " score=t5"),
      FUNCTION("bwd", " score=t5 dfunction"),
      FUNCTION("bwd", " score=t5_decoder"),
      FUNCTION("bwd", " score=alibi"),
      FUNCTION("bwd", " score=softcap"),
      FUNCTION("bwd", " score=temperature"),
      "bwd f32 b64 h8 q49 k49 d32 score=swin",
      "bwd f32 b1 h1 q4096 k4096 d64 score=sam",
      FUNCTION("bwd", " visible=prefix_lm"),
      FUNCTION("bwd", " visible=documents"),
      "bwd f32 b1 h2 q4096 k4096 d64 visible=sliding_window",
      "bwd f32 b1 h2 q4096 k4096 d64 causal=tl window=511,0",
      FUNCTION("bwd", " visible=dilated"),
      "bwd f32 b1 h4 q3136 k3136 d32 visible=neighborhood"}},
    {"short",
     "12 heads of 64 dims, 128 to 512 queries and keys, and lengths beside them",
     NULL,
     {"fwd f32 b1 h12 q128 k128 d64", "fwd f32 b1 h12 q197 k197 d64",
      "fwd f32 b1 h12 q512 k512 d64", "fwd f32 b1 h12 q127 k127 d64",
      "fwd f32 b1 h12 q511 k511 d64", "fwd f32 b1 h12 q513 k513 d64"}},
    {"decoding",
     "one to eight queries of 32 heads, 4096 to 131072 cached keys of 8, dim 128",
     NULL,
     {CACHED("f32", "1", "4096"), CACHED("f32", "1", "32768"), CACHED("f32", "1", "131072"),
      CACHED("f32", "4", "32768"), CACHED("f32", "8", "32768"), CACHED("f16", "1", "4096"),
      CACHED("f16", "1", "32768"), CACHED("f16", "1", "131072"), CACHED("f16", "4", "32768"),
      CACHED("f16", "8", "32768"), CACHED("bf16", "1", "32768"), CACHED("bf16", "4", "32768"),
      "fwd f16 b4 h32/8 q1 k32768 d128 causal=br klen",
      "fwd f16 b1 h32/8 q1 k32768 d128 kcache=q8_0 vcache=q8_0 causal=br",
      "fwd f16 b1 h32/8 q1 k131072 d128 kcache=q8_0 vcache=q8_0 causal=br",
      "fwd f16 b1 h32/8 q1 k32768 d128 kcache=q8_0 vcache=q4_0 causal=br"}},
    {"formats",
     "a query of 32 heads over 32768 keys of 8 in each format of caches; appends",
     NULL,
     {CACHED("f16", "1", "32768"), IN_FORMAT("q8_0"), IN_FORMAT("q5_0"), IN_FORMAT("q4_0"),
      IN_FORMAT("iq4_nl"), IN_FORMAT("q4_1"), IN_FORMAT("q5_1"), IN_FORMAT("e4m3"),
      IN_FORMAT("e5m2"), SCALED_IN("e4m3"), SCALED_IN("int8"),
      "fwd f16 b1 h32/8 q1 k32768 d128 kcache=q8_0 vcache=q5_0 causal=br",
      "fwd f16 b1 h32/8 q1 k32768 d128 kcache=q5_0 vcache=q5_0 page=16 pages=2048 causal=br",
      APPENDED_IN("q8_0"), APPENDED_IN("q5_0"), APPENDED_IN("q4_0"), APPENDED_IN("iq4_nl"),
      APPENDED_IN("q5_1"), APPENDED_IN("e4m3")}},
    {"serving",
     "paged and contiguous caches, packed batches, block lists, appends, merges",
     NULL,
     {PAGED("4096", "", "256", "64", "16"), PAGED("32768", "", "2048", "512", "128"),
      PAGED("32768", " kcache=q8_0 vcache=q8_0", "2048", "512", "128"),
      "fwd f16 b8 h32/8 q1 k4096 d128 k=bshd v=bshd page=16 pages=2048 klen",
      "fwd f16 b1 h32/8 q512 k4096 d128 causal=br",
      "fwd f16 b1 h32/8 q512 k4096 d128 page=16 pages=256 causal=br",
      "fwd f32 b64 h2 q4096 k4096 d128 causal=br totalq=131072 totalkv=131072",
      "fwd f32 b64 h2 q2048 k2048 d128 causal=br", "fwd f32 b1 h2 q8192 k8192 d64",
      "fwd f32 b1 h2 q8192 k8192 d64 blocks=64x64:1638", "bwd f32 b1 h2 q8192 k8192 d64",
      "bwd f32 b1 h2 q8192 k8192 d64 blocks=64x64:1638",
      "append f16 b1 h32/8 q4096 k8192 d128 klen rope=halves:128:500000",
      "append f16 b1 h32/8 q4096 k8192 d128 kcache=q8_0 vcache=q8_0 klen rope=halves:128:500000",
      "merge f32 b8 h32 q512 d128 n4"}},
    {"continuous-batching",
     "Llama 3 8B for 32 requests of many lengths: a token each; prompts among them",
     NULL,
     {"fwd f16 b32 h32/8 q1 k8192 d128 klen",
      "fwd f16 b32 h32/8 q1 k8192 d128 page=16 pages=8192 klen",
      "fwd f16 b32 h32/8 q512 k4096 d128 page=16 pages=4096 causal=br klen totalq=1024",
      "append f16 b32 h32/8 q1 k8192 d128 klen rope=halves:128:500000 queries",
      "append f16 b32 h32/8 q1 k8192 d128 kcache=q8_0 vcache=q8_0 klen rope=halves:128:500000 "
      "queries"}},
    {"shared-prefix",
     "16 requests behind 32768 keys that all see: whole; the prefix once, merged",
     NULL,
     {"fwd f16 b16 h32/8 q1 k33792 d128 page=16 pages=3072",
      "fwd f16 b1 h32/8 q16 k32768 d128 lse odtype=f32",
      "fwd f16 b16 h32/8 q1 k1024 d128 page=16 pages=1024 lse odtype=f32 totalq=16",
      "merge f32 b1 h32 q16 d128 n2"}},
    {"int8",
     "prompts whose q and k are rounded to bytes, beside standard precision",
     NULL,
     {"fwd f32 b1 h16 q2048 k2048 d128", "fwd f32 b1 h16 q2048 k2048 d128 precision=int8",
      "fwd bf16 b1 h16 q2048 k2048 d128", "fwd bf16 b1 h16 q2048 k2048 d128 precision=int8",
      "fwd bf16 b1 h32/8 q4096 k4096 d128 causal=tl",
      "fwd bf16 b1 h32/8 q4096 k4096 d128 causal=tl precision=int8"}},
    {"drafts",
     "one query, and trees of four and eight drafts, behind 32768 cached keys",
     NULL,
     {"fwd f16 b1 h32/8 q1 k32768 d128", "fwd f16 b1 h32/8 q4 k32768 d128 mask=bqk maskkeys=4",
      "fwd f16 b1 h32/8 q8 k32768 d128 mask=bqk maskkeys=8",
      "fwd f16 b1 h32/8 q8 k32768 d128 kcache=q8_0 vcache=q8_0 mask=bqk maskkeys=8"}},
    {"longformer",
     "Longformer, 4096 tokens: windows of 512 and a global block; the same dense",
     NULL,
     {"fwd f32 b1 h12 q4096 k4096 d64 blocks=64x64:640", "fwd f32 b1 h12 q4096 k4096 d64",
      "bwd f32 b1 h12 q4096 k4096 d64 blocks=64x64:640", "bwd f32 b1 h12 q4096 k4096 d64"}},
    {"mla",
     "DeepSeek V3: one token of 128 heads behind 4096 and 32768 latent keys",
     NULL,
     {"fwd bf16 b1 h128/1 q1 k4096 d576/512", "fwd bf16 b1 h128/1 q1 k32768 d576/512",
      "fwd f16 b1 h16/1 q1 k32768 d576/512"}},
    {"sparse",
     "DeepSeek V3.2: 2048 keys of 8k, 32k, 128k, one query or 64; dense; indexers",
     "config.json of deepseek-ai/DeepSeek-V3.2-Exp: 128 heads, index_n_heads 64, index_topk 2048",
     {"fwd bf16 b1 h128/1 q1 k2048 d576/512", CHOSEN("1", "8192"), CHOSEN("1", "32768"),
      CHOSEN("1", "131072"), "fwd bf16 b1 h128/1 q64 k2048 d576/512", CHOSEN("64", "8192"),
      CHOSEN("64", "32768"), CHOSEN("64", "131072"), INDEXER("1", "8192"), INDEXER("1", "32768"),
      INDEXER("1", "131072"), INDEXER("64", "8192"), INDEXER("64", "32768"),
      INDEXER("64", "131072"), "bwd bf16 b1 h128/1 q64 k32768 d576/512 topk=2048"}},
    {"training",
     "attention with lse, its gradients, projections, layers, as training has them",
     NULL,
     {"fwd f32 b1 h8 q2048 k2048 d64 lse", "bwd f32 b1 h8 q2048 k2048 d64",
      "fwd f32 b1 h8 q2048 k2048 d128 lse", "bwd f32 b1 h8 q2048 k2048 d128",
      "bwd f32 b1 h8 q2048 k2048 d64 causal=tl", "bwd f32 b1 h8 q2048 k2048 d128 causal=tl",
      GPT2_TRAINING, BERT_TRAINING, VIT_TRAINING, "proj f32 b1 h1 q2048 d768 w=oi",
      "proj f32 b1 h1 q4096 d1024 w=oi", "fwd bf16 b1 h8 q2048 k2048 d64 lse",
      "bwd bf16 b1 h8 q2048 k2048 d64", "fwd bf16 b1 h8 q2048 k2048 d128 lse",
      "bwd bf16 b1 h8 q2048 k2048 d128", "proj bf16 b1 h1 q2048 d768 w=oi"}},
    {"tuning",
     "what clattn-tune tunes by default: six groups of alike programs",
     NULL,
     {"fwd f32 b1 h12 q128 k128 d32", "fwd f32 b1 h12 q512 k512 d32",
      "fwd f32 b1 h12 q128 k128 d64", "fwd f32 b1 h12 q512 k512 d64",
      "fwd f32 b1 h8 q2048 k2048 d64", "fwd f16 b1 h12 q1024 k1024 d64 causal=tl",
      "fwd f16 b1 h4 q4096 k4096 d64 causal=tl", "fwd f16 b1 h8 q1024 k1024 d80",
      "fwd f16 b1 h4 q4096 k4096 d80", "fwd f16 b1 h8 q512 k512 d128 causal=tl",
      "fwd f16 b1 h8 q2048 k2048 d128 causal=tl", "fwd f32 b1 h8 q256 k256 d128",
      "fwd f32 b1 h8 q2048 k2048 d128"}},
    {NULL, NULL, NULL, {NULL}},
};

const struct workload *workload_find(const char *name)
{
    for (const struct workload *w = workloads; w->name != NULL; w++)
        if (strcmp(w->name, name) == 0)
            return w;
    return NULL;
}

const struct workload *workload_origin(const struct workload *workload, size_t n)
{
    for (const struct workload *w = workloads; w->name != NULL && workload->source == NULL; w++)
        for (size_t m = 0; w->source != NULL && w->problems[m] != NULL; m++)
            if (strcmp(w->problems[m], workload->problems[n]) == 0)
                return w;
    return workload;
}
