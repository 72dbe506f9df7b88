/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/record.h"
#include "internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const outcome_state_words[] = {
    [OUTCOME_MEASURED] = "measured",       [OUTCOME_LOOSE] = "loose",
    [OUTCOME_UNSUPPORTED] = "unsupported", [OUTCOME_WRONG] = "wrong",
    [OUTCOME_FAILED] = "failed",           NULL,
};

const char *outcome_state_name(enum outcome_state state)
{
    return outcome_state_words[state];
}

bool outcome_timed(const struct outcome *outcome)
{
    return outcome->seconds.count > 0 &&
           (outcome->state == OUTCOME_MEASURED || outcome->state == OUTCOME_LOOSE);
}

void outcome_give_up(struct outcome *outcome, enum outcome_state state, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(outcome->why.text, sizeof outcome->why.text, format, arguments);
    va_end(arguments);
    ca_make_printable(outcome->why.text);
    outcome->state = state;
    outcome->seconds.count = 0;
    outcome->host.count = 0;
    outcome->cold_start_source = outcome->cold_start_cache = NAN;
}

void outcome_wrong(struct outcome *outcome, const struct worst *worst)
{
    outcome_give_up(outcome, OUTCOME_WRONG, "a result is off by %.3g where %.3g is allowed",
                    worst->error, worst->bound);
}

bool record_ok(const struct record *record)
{
    for (size_t n = 0; n < record->count; n++) {
        const struct outcome *outcome = &record->outcome[n];
        const bool ours = strncmp(outcome->implementation, "clattn", strlen("clattn")) == 0;
        if (ours && outcome->state != OUTCOME_MEASURED)
            return false;
    }
    return record->count > 0;
}

double record_share(const struct record *record, const struct outcome *outcome)
{
    const double clattn = record->count > 0 ? samples_median(&record->outcome[0].seconds) : 0.0;

    if (!outcome_timed(outcome) || clattn <= 0.0 || outcome->distributed != NULL)
        return 0.0;
    return samples_median(&record->share) * clattn / samples_median(&outcome->seconds);
}

double record_flops(const struct record *record, const struct outcome *outcome)
{
    return outcome->distributed != NULL ? outcome->distributed->flops : record->flops;
}

double record_bytes(const struct record *record, const struct outcome *outcome)
{
    return outcome->distributed != NULL ? outcome->distributed->bytes : record->bytes;
}

const struct outcome *record_find(const struct record *record, const char *implementation)
{
    for (size_t n = 0; n < record->count; n++)
        if (strcmp(record->outcome[n].implementation, implementation) == 0)
            return &record->outcome[n];
    return NULL;
}

/* The beginnings of reasons, in the order of the words. */
static const char *const reasons[] = {
    "the caller forced",
    "an override",
    "tuned for this class of problems on",
    "tuned for this class of problems, with another",
    "tuned for the nearest class",
    "tuned elsewhere",
    "untuned",
    "each step",
};
const char *const record_origin_words[] = {"forced",  "override", "tuned", "stale",   "nearest",
                                           "shipped", "untuned",  "steps", "unknown", NULL};

const char *record_origin(const char *reason)
{
    size_t n = 0;

    while (n < sizeof reasons / sizeof *reasons &&
           strncmp(reason, reasons[n], strlen(reasons[n])) != 0)
        n++;
    return record_origin_words[n];
}

void record_free(struct record *record)
{
    free(record->problem);
    free(record->reason);
    for (size_t n = 0; n < record->count; n++) {
        free(record->outcome[n].configuration);
        distributed_free(record->outcome[n].distributed);
    }
    memset(record, 0, sizeof *record);
}

const char *const roof_keys[] = {
    [ROOF_FMA] = "fma", [ROOF_READ] = "read", [ROOF_FMA_BF16] = "fma_bf16", NULL};

const char *roof_words(enum roof roof)
{
    static const char *const words[NUM_ROOFS] = {[ROOF_FMA] = "multiply-adds",
                                                 [ROOF_READ] = "reading",
                                                 [ROOF_FMA_BF16] = "multiply-adds of bf16"};

    return words[roof];
}
