/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void expect(int holds, const char *sentence)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", sentence);
    exit(1);
}

int number(const char *text)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);

    expect(end != text && *end == '\0' && value >= 0 && value <= 1 << 30, "not a number");
    return (int)value;
}

static void log_problems(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)user_data;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR || getenv("VERBOSE") != NULL)
        fputs(text, stderr);
}

void backends_load(void)
{
    llama_log_set(log_problems, NULL);
    ggml_backend_load_all();
    llama_backend_init();
}

size_t programs_built(void)
{
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("CLATTN");
    union {
        void *object;
        size_t (*function)(void);
    } address = {.object = reg != NULL
                               ? ggml_backend_reg_get_proc_address(reg, "clattn_programs_built")
                               : NULL};

    return address.object != NULL ? address.function() : 0;
}

struct llama_model *model_open(const char *path)
{
    struct llama_model *model = llama_model_load_from_file(path, llama_model_default_params());

    expect(model != NULL, "the model cannot be loaded");
    return model;
}

double milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

llama_token largest(const float *logits, int count)
{
    llama_token best = 0;

    for (llama_token n = 1; n < count; n++)
        if (logits[n] > logits[best])
            best = n;
    return best;
}
