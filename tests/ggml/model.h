/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the programs which try the backend in libllama share. */
#ifndef CLATTN_TESTS_GGML_MODEL_H
#define CLATTN_TESTS_GGML_MODEL_H

#include <ggml-backend.h>
#include <llama.h>
#include <stddef.h>

/* Ends the program with the sentence unless it holds. */
void expect(int holds, const char *sentence);

/* A number from the command line. */
int number(const char *text);

/* Loads every backend, that of GGML_BACKEND_PATH among them, silent but for warnings and errors. */
void backends_load(void);

/* Returns how many programs clattn has compiled; 0 where it is not loaded. */
size_t programs_built(void);

/* A model as its users get it, with the defaults. */
struct llama_model *model_open(const char *path);

double milliseconds(void);

/* The token with the largest logit. */
llama_token largest(const float *logits, int count);

#endif
