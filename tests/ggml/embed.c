/* SPDX-License-Identifier: Apache-2.0 */
/* embed MODEL FILE: the embeddings of the sentences in FILE, one a line, each a line of numbers. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#define MOST_TOKENS 512

static void print_embedding(struct llama_context *context, int columns)
{
    const float *embedding = llama_get_embeddings_seq(context, 0);

    expect(embedding != NULL, "no embedding");
    for (int n = 0; n < columns; n++)
        printf("%.9g%c", (double)embedding[n], n + 1 < columns ? ' ' : '\n');
}

static void embed(struct llama_context *context, const struct llama_model *model,
                  const char *sentence)
{
    llama_token tokens[MOST_TOKENS];
    const int count = llama_tokenize(llama_model_get_vocab(model), sentence, (int)strlen(sentence),
                                     tokens, MOST_TOKENS, true, true);

    expect(count > 0, "the sentence is too long");
    fprintf(stderr, "%d tokens\n", count);
    expect(llama_encode(context, llama_batch_get_one(tokens, count)) == 0, "llama_encode fails");
    print_embedding(context, llama_model_n_embd(model));
}

int main(int count, char **arguments)
{
    struct llama_context_params parameters = llama_context_default_params();
    char sentence[4096];

    expect(count == 3, "embed MODEL FILE");
    backends_load();
    struct llama_model *model = model_open(arguments[1]);
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = MOST_TOKENS;
    parameters.embeddings = true;
    parameters.n_threads = parameters.n_threads_batch = 2;
    struct llama_context *context = llama_init_from_model(model, parameters);
    FILE *file = fopen(arguments[2], "r");
    expect(context != NULL && file != NULL, "no context or no file");
    while (fgets(sentence, sizeof sentence, file) != NULL) {
        sentence[strcspn(sentence, "\n")] = '\0';
        embed(context, model, sentence);
    }
    fclose(file);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
