#include "tuner/recording/recording.h"

#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

struct ca_recording *ca_recording_create(const char *device_name, const char *kernel_name,
                                         const char *problem_size)
{
    struct ca_recording *recording = calloc(1, sizeof *recording);

    if (!recording)
        return NULL;
    recording->space = ca_space_create();
    recording->device_name = copy_text(device_name);
    recording->kernel_name = copy_text(kernel_name);
    recording->problem_size = copy_text(problem_size);
    if (recording->space && recording->device_name && recording->kernel_name &&
        recording->problem_size)
        return recording;
    ca_recording_destroy(recording);
    return NULL;
}

void ca_recording_destroy(struct ca_recording *recording)
{
    if (!recording)
        return;
    for (size_t n = 0; n < recording->num_facts; n++) {
        free(recording->facts[n].text);
        free(recording->facts[n].key);
    }
    free(recording->facts);
    for (size_t n = 0; n < recording->num_attempts; n++)
        free(recording->attempts[n].runtimes);
    free(recording->attempts);
    ca_space_destroy(recording->space);
    free(recording->problem_size);
    free(recording->kernel_name);
    free(recording->device_name);
    free(recording);
}

bool ca_recording_add(struct ca_recording *recording, const struct ca_attempt *attempt)
{
    const size_t bytes = attempt->num_runtimes * sizeof *attempt->runtimes;

    if (recording->num_attempts == recording->capacity) {
        const size_t capacity = recording->capacity ? 2 * recording->capacity : 64;
        struct ca_attempt *grown = realloc(recording->attempts, capacity * sizeof *grown);
        if (!grown)
            return false;
        recording->attempts = grown;
        recording->capacity = capacity;
    }
    struct ca_attempt copy = *attempt;
    copy.runtimes = NULL;
    if (bytes > 0) {
        copy.runtimes = malloc(bytes);
        if (!copy.runtimes)
            return false;
        memcpy(copy.runtimes, attempt->runtimes, bytes);
    }
    recording->attempts[recording->num_attempts++] = copy;
    return true;
}

bool ca_recording_add_fact(struct ca_recording *recording, const char *key, const char *text)
{
    struct ca_fact *grown = realloc(recording->facts, (recording->num_facts + 1) * sizeof *grown);

    if (!grown)
        return false;
    recording->facts = grown;
    const struct ca_fact fact = {copy_text(key), copy_text(text)};
    if (!fact.key || !fact.text) {
        free(fact.key);
        free(fact.text);
        return false;
    }
    grown[recording->num_facts++] = fact;
    return true;
}

/* Kernel Tuner knows three errors, T4 six. */
static const struct {
    const char *error, *invalidity;
} outcomes[CA_NUM_OUTCOMES] = {
    [CA_CORRECT] = {NULL, "correct"},
    [CA_COMPILE_FAILED] = {"CompilationFailedConfig", "compile"},
    [CA_RUNTIME_FAILED] = {"RuntimeFailedConfig", "runtime"},
    [CA_CONSTRAINT_FAILED] = {"InvalidConfig", "constraints"},
    [CA_TIMED_OUT] = {"RuntimeFailedConfig", "timeout"},
    [CA_WRONG] = {"RuntimeFailedConfig", "correctness"},
    [CA_CRASHED] = {"RuntimeFailedConfig", "runtime"},
};

const char *ca_outcome_error(enum ca_outcome outcome)
{
    return outcomes[outcome].error;
}

const char *ca_outcome_invalidity(enum ca_outcome outcome)
{
    return outcomes[outcome].invalidity;
}
