/* SPDX-License-Identifier: Apache-2.0 */
/* generate MODEL PROMPT TOKENS TYPE [FILE]: reads a prompt of PROMPT made-up tokens and goes on
 * greedily for TOKENS more, with keys and values of TYPE (f16, q8_0, q4_0). It prints times, and
 * how many programs clattn compiled by the end of the prompt, of the third token, and in all.
 * Logits of every step go to FILE if that is not there yet. If it is, the run is fed the tokens
 * that its logits chose. It then prints how far its own logits are from them, and how many
 * tokens it would have chosen otherwise. Choices between two logits that are nearer to each
 * other than this distance do not count. With NODES in the environment every node of a graph is
 * computed and timed by itself. Attention's shares of the prompt's time and of the tokens' are
 * printed as well. */
#include "model.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum phase { THE_PROMPT, FIRST_TOKENS, TOKENS, PHASES };

struct run {
    struct llama_model *model;
    struct llama_context *context;
    int prompt, tokens, words;
    /* ggml's CPU backend rounds queries to 8 bits where keys are quantized, and a cache's rounding
     * multiplies what little results differ by. */
    bool quantized;
    float *logits;   /* (tokens, words), of this run. */
    float *expected; /* The results of the run before; NULL if there was none. */
    double prompt_ms, token_ms;
    size_t programs[3];
    /* The times of nodes, in milliseconds. */
    enum phase phase;
    double node_began, attention[PHASES], nodes[PHASES];
};

static enum ggml_type type_of(const char *name)
{
    const enum ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_F32};

    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        if (strcmp(ggml_type_name(types[n]), name) == 0)
            return types[n];
    expect(0, "a type is f16, q8_0, q4_0 or f32");
    return GGML_TYPE_F16;
}

/* Called before each node, to which it says that its end is to be told as well, and at its end. */
static bool time_node(struct ggml_tensor *node, bool begins, void *user_data)
{
    struct run *run = user_data;
    const double now = milliseconds();

    if (begins) {
        run->node_began = now;
        return true;
    }
    run->nodes[run->phase] += now - run->node_began;
    if (node->op == GGML_OP_FLASH_ATTN_EXT)
        run->attention[run->phase] += now - run->node_began;
    return true;
}

static void open_run(struct run *run, char **arguments)
{
    struct llama_context_params parameters = llama_context_default_params();
    const char *threads = getenv("THREADS");

    run->model = model_open(arguments[0]);
    run->prompt = number(arguments[1]);
    run->tokens = number(arguments[2]);
    run->words = llama_vocab_n_tokens(llama_model_get_vocab(run->model));
    parameters.n_ctx = (uint32_t)(run->prompt + run->tokens);
    parameters.n_batch = (uint32_t)run->prompt;
    parameters.type_k = parameters.type_v = type_of(arguments[3]);
    run->quantized = ggml_is_quantized(parameters.type_k);
    parameters.n_threads = parameters.n_threads_batch = threads != NULL ? number(threads) : 2;
    if (getenv("NODES") != NULL) {
        parameters.cb_eval = time_node;
        parameters.cb_eval_user_data = run;
    }
    run->context = llama_init_from_model(run->model, parameters);
    expect(run->context != NULL, "no context");
    run->logits = calloc((size_t)run->tokens * (size_t)run->words, sizeof *run->logits);
    expect(run->logits != NULL, "no memory");
}

static void read_expected(struct run *run, const char *path)
{
    const size_t count = (size_t)run->tokens * (size_t)run->words;
    FILE *file = fopen(path, "rb");

    if (file == NULL)
        return;
    run->expected = calloc(count, sizeof *run->expected);
    expect(run->expected != NULL &&
               fread(run->expected, sizeof *run->expected, count, file) == count,
           "the file is of another run");
    fclose(file);
}

static void write_logits(const struct run *run, const char *path)
{
    const size_t count = (size_t)run->tokens * (size_t)run->words;
    FILE *file = fopen(path, "wb");

    expect(file != NULL && fwrite(run->logits, sizeof *run->logits, count, file) == count &&
               fclose(file) == 0,
           "the file cannot be written");
}

static void step(struct run *run, llama_token *tokens, int count, int at)
{
    const struct llama_batch batch = llama_batch_get_one(tokens, count);
    float *row = run->logits + (size_t)at * (size_t)run->words;

    expect(llama_decode(run->context, batch) == 0, "llama_decode fails");
    memcpy(row, llama_get_logits_ith(run->context, -1), (size_t)run->words * sizeof *row);
}

static void compute(struct run *run)
{
    llama_token *prompt = calloc((size_t)run->prompt, sizeof *prompt);
    unsigned state = 1;

    expect(prompt != NULL, "no memory");
    for (int n = 0; n < run->prompt; n++) {
        state = state * 1664525u + 1013904223u;
        prompt[n] = (llama_token)(state >> 8) % run->words;
    }
    double before = milliseconds();
    step(run, prompt, run->prompt, 0);
    run->prompt_ms = milliseconds() - before;
    run->programs[0] = programs_built();
    run->phase = FIRST_TOKENS;
    for (int n = 1; n < run->tokens; n++) {
        const float *from = run->expected != NULL ? run->expected : run->logits;
        llama_token token = largest(from + (size_t)(n - 1) * (size_t)run->words, run->words);
        if (n == 4) {
            run->programs[1] = programs_built();
            run->phase = TOKENS;
            before = milliseconds();
        }
        step(run, &token, 1, n);
    }
    run->token_ms = (milliseconds() - before) / (run->tokens > 4 ? run->tokens - 4 : 1);
    run->programs[2] = programs_built();
    free(prompt);
}

static int compare(const struct run *run)
{
    const size_t words = (size_t)run->words;
    double error = 0.0, size = 0.0;
    int different = 0;

    for (size_t n = 0; n < (size_t)run->tokens * words; n++) {
        error = fmax(error, fabs((double)run->logits[n] - (double)run->expected[n]));
        size = fmax(size, fabs((double)run->expected[n]));
    }
    for (int n = 0; n < run->tokens; n++) {
        const float *row = run->logits + (size_t)n * words,
                    *other = run->expected + (size_t)n * words;
        const llama_token a = largest(row, run->words), b = largest(other, run->words);
        different += a != b && (double)(other[b] - other[a]) > 2.0 * error;
    }
    printf(" logit_error %.2g of %.3g different_tokens %d", error, size, different);
    return different > 0 || !(error < (run->quantized ? 0.1 : 0.02) * size);
}

int main(int count, char **arguments)
{
    struct run run = {.context = NULL};
    int wrong = 0;

    expect(count == 5 || count == 6, "generate MODEL PROMPT TOKENS TYPE [FILE]");
    backends_load();
    open_run(&run, arguments + 1);
    if (count == 6)
        read_expected(&run, arguments[5]);
    compute(&run);
    printf("prompt_ms %.1f token_ms %.3f programs %zu %zu %zu", run.prompt_ms, run.token_ms,
           run.programs[0], run.programs[1], run.programs[2]);
    if (getenv("NODES") != NULL)
        printf(" prompt_share %.3f token_share %.3f",
               run.attention[THE_PROMPT] / run.nodes[THE_PROMPT],
               run.attention[TOKENS] / run.nodes[TOKENS]);
    if (run.expected != NULL)
        wrong = compare(&run);
    else if (count == 6)
        write_logits(&run, arguments[5]);
    printf("\n");
    free(run.logits);
    free(run.expected);
    llama_free(run.context);
    llama_model_free(run.model);
    llama_backend_free();
    return wrong;
}
