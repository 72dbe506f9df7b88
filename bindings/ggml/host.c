/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* RTLD_DEFAULT, dl_iterate_phdr() */
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SENTENCE_BYTES 512

/* ---- looking for a function ------------------------------------------------------------------ */

struct search {
    const char *name;
    void *found;
};

/* Libraries that a program opened for itself alone, as Python does, are in no scope of ours; those of
 * ggml's name are asked one by one. */
static int look_into(struct dl_phdr_info *library, size_t bytes, void *data)
{
    struct search *search = data;
    const char *slash = strrchr(library->dlpi_name, '/');

    (void)bytes;
    if (strncmp(slash != NULL ? slash + 1 : library->dlpi_name, "libggml", 7) != 0)
        return 0;
    void *handle = dlopen(library->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    if (handle == NULL)
        return 0;
    search->found = dlsym(handle, search->name);
    dlclose(handle);
    return search->found != NULL;
}

static bool find(const char *name, void *function, size_t bytes)
{
    struct search search = {.name = name, .found = dlsym(RTLD_DEFAULT, name)};

    if (search.found == NULL)
        dl_iterate_phdr(look_into, &search);
    memcpy(function, &search.found, bytes); /* C has no conversion from an object's address */
    return search.found != NULL;
}

/* ---- whether it suits ------------------------------------------------------------------------ */

/* The numbers that ggml renumbers from version to version without a new API version, by name. */
static const struct {
    enum ggml_op op;
    const char *name;
} ops[] = {{GGML_OP_NONE, "NONE"},           {GGML_OP_RESHAPE, "RESHAPE"},
           {GGML_OP_VIEW, "VIEW"},           {GGML_OP_PERMUTE, "PERMUTE"},
           {GGML_OP_TRANSPOSE, "TRANSPOSE"}, {GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT"}};

static const struct {
    enum ggml_type type;
    const char *name;
} types[] = {{GGML_TYPE_F32, "f32"},       {GGML_TYPE_F16, "f16"},   {GGML_TYPE_BF16, "bf16"},
             {GGML_TYPE_Q8_0, "q8_0"},     {GGML_TYPE_Q4_0, "q4_0"}, {GGML_TYPE_Q5_0, "q5_0"},
             {GGML_TYPE_IQ4_NL, "iq4_nl"}, {GGML_TYPE_Q4_1, "q4_1"}, {GGML_TYPE_Q5_1, "q5_1"}};

static bool suits(const struct host *host, char sentence[SENTENCE_BYTES])
{
    const char *version = host->ggml_version();
    const size_t before_tensor = 4 * sizeof(void *); /* ggml's own record of it */

    if (host->ggml_tensor_overhead() != sizeof(struct ggml_tensor) + before_tensor) {
        snprintf(sentence, SENTENCE_BYTES,
                 "ggml %s has tensors of another size than the ggml " GGML_CLATTN_VERSION
                 " that this backend was built with: build it with that ggml's sources",
                 version);
        return false;
    }
    const char *number = NULL;
    for (size_t n = 0; n < sizeof ops / sizeof *ops; n++)
        if (strcmp(host->ggml_op_name(ops[n].op), ops[n].name) != 0)
            number = ops[n].name;
    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        if (strcmp(host->ggml_type_name(types[n].type), types[n].name) != 0)
            number = types[n].name;
    if (number == NULL)
        return true;
    snprintf(sentence, SENTENCE_BYTES,
             "ggml %s has another number for %s than the ggml " GGML_CLATTN_VERSION
             " that this backend was built with: build it with that ggml's sources",
             version, number);
    return false;
}

/* ---- once in a process ----------------------------------------------------------------------- */

/* ggml keeps one address of a backend for the life of the process, so this is static. */
static struct host found;
static bool suitable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find_all(void)
{
    char sentence[SENTENCE_BYTES];
    const char *missing = NULL;

#define HOST(type, name, parameters)                                                               \
    if (!find(#name, &found.name, sizeof found.name))                                              \
        missing = #name;
#include "host.def"
#undef HOST
    if (missing == NULL) {
        suitable = suits(&found, sentence);
        if (!suitable)
            host_log(&found, GGML_LOG_LEVEL_ERROR, "%s", sentence);
        return;
    }
    snprintf(sentence, sizeof sentence,
             "this program's ggml exports no %s: it is linked statically, or older or newer than "
             "the ggml " GGML_CLATTN_VERSION " that this backend was built with",
             missing);
    if (found.ggml_log_get != NULL)
        host_log(&found, GGML_LOG_LEVEL_ERROR, "%s", sentence);
    else
        fprintf(stderr, "clattn: %s\n", sentence);
}

const struct host *host_find(void)
{
    pthread_once(&once, find_all);
    return suitable ? &found : NULL;
}

void host_log(const struct host *host, enum ggml_log_level level, const char *format, ...)
{
    char text[2 * SENTENCE_BYTES] = "clattn: ";
    const size_t prefix = strlen(text);
    ggml_log_callback log = NULL;
    void *user_data = NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + prefix, sizeof text - prefix - 1, format, arguments);
    va_end(arguments);
    memcpy(text + strlen(text), "\n", 2);
    host->ggml_log_get(&log, &user_data);
    if (log != NULL)
        log(level, text, user_data);
}
