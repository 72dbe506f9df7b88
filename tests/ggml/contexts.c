/* SPDX-License-Identifier: Apache-2.0 */
/* contexts MODEL: threads that each make a context, read a prompt, generate and throw it away,
 * again and again, while others are at work. Every one must choose the tokens that a single one
 * chose before. */
#include "model.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 3
#define PROMPT 40
#define TOKENS 24

struct worker {
    struct llama_model *model;
    llama_token tokens[TOKENS];
};

static void generate(struct worker *w)
{
    struct llama_context_params parameters = llama_context_default_params();
    const int words = llama_vocab_n_tokens(llama_model_get_vocab(w->model));
    llama_token next[PROMPT];
    int count = PROMPT;

    parameters.n_ctx = 256;
    parameters.n_threads = parameters.n_threads_batch = 1;
    struct llama_context *context = llama_init_from_model(w->model, parameters);
    expect(context != NULL, "no context");
    for (int n = 0; n < PROMPT; n++)
        next[n] = (llama_token)(n * 31 + 7) % words;
    for (int n = 0; n < TOKENS; n++) {
        expect(llama_decode(context, llama_batch_get_one(next, count)) == 0, "llama_decode fails");
        next[0] = w->tokens[n] = largest(llama_get_logits_ith(context, -1), words);
        count = 1;
    }
    llama_free(context);
}

static void *work(void *data)
{
    struct worker *w = data, round = {.model = w->model};

    generate(w);
    for (int n = 1; n < ROUNDS; n++) {
        generate(&round);
        expect(memcmp(round.tokens, w->tokens, sizeof w->tokens) == 0,
               "a context chose other tokens than the thread's first");
    }
    return NULL;
}

int main(int count, char **arguments)
{
    struct worker alone = {.model = NULL}, workers[THREADS];
    pthread_t threads[THREADS];

    expect(count == 2, "contexts MODEL");
    backends_load();
    alone.model = model_open(arguments[1]);
    generate(&alone);
    for (int n = 0; n < THREADS; n++) {
        workers[n].model = alone.model;
        expect(pthread_create(&threads[n], NULL, work, &workers[n]) == 0, "no thread");
    }
    for (int n = 0; n < THREADS; n++) {
        pthread_join(threads[n], NULL);
        expect(memcmp(workers[n].tokens, alone.tokens, sizeof alone.tokens) == 0,
               "a thread chose other tokens than a single one");
    }
    llama_model_free(alone.model);
    llama_backend_free();
    printf("%d contexts in %d threads chose the same tokens\n", THREADS * ROUNDS, THREADS);
    return 0;
}
