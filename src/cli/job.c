/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum job_kind job_kind(const struct job *job)
{
    if (!job->is_layer)
        return (enum job_kind)job->problem.operation;
    return job->problem.operation == CLATTN_BACKWARD ? JOB_LAYER_BACKWARD : JOB_LAYER_FORWARD;
}

const char *job_kind_name(enum job_kind kind)
{
    static const char *const names[JOB_KINDS] = {
#define OPERATION(ID, name, word, ...) [JOB_##ID] = word,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
            [JOB_LAYER_FORWARD] = "layer fwd",
        [JOB_LAYER_BACKWARD] = "layer bwd",
    };

    return names[kind];
}

/* Returns why a layer is not measured, or NULL. */
static const char *refuse_layer(const clattn_multihead *layer)
{
    const clattn_problem *p = &layer->attention;

    if (layer->weights != CLATTN_WEIGHTS_NONE)
        return "layers are measured without weights=, as they are trained and served";
    if (p->dbias || p->dslopes || p->dsinks || p->dfunction)
        return "dbias, dslopes, dsinks and dfunction are measured with attention alone, not with a "
               "layer";
    return NULL;
}

static bool parse_layer(const char *text, struct job *job, char *reason, size_t reason_bytes)
{
    job->is_layer = true;
    if (clattn_multihead_parse(text, &job->layer, reason, reason_bytes) != CLATTN_SUCCESS)
        return false;
    job->problem = job->layer.attention;
    const char *why = refuse_layer(&job->layer);
    if (why != NULL)
        snprintf(reason, reason_bytes, "%s", why);
    return why == NULL;
}

bool job_parse(const char *text, struct job *job, char *reason, size_t reason_bytes)
{
    static const char word[] = "layer";
    const char *begin = text + strspn(text, " \t");

    memset(job, 0, sizeof *job);
    if (strncmp(begin, word, strlen(word)) == 0 && strchr(" \t", begin[strlen(word)]) != NULL)
        return parse_layer(text, job, reason, reason_bytes);
    return clattn_problem_parse(text, &job->problem, reason, reason_bytes) == CLATTN_SUCCESS;
}

struct job job_of(const clattn_problem *problem)
{
    return (struct job){.problem = *problem};
}

static size_t print(const struct job *job, char *text, size_t bytes)
{
    size_t needed = 0;

    if (job->is_layer)
        clattn_multihead_print(&job->layer, text, bytes, &needed);
    else
        clattn_problem_print(&job->problem, text, bytes, &needed);
    return needed;
}

char *job_text(const struct job *job)
{
    const size_t bytes = print(job, NULL, 0);
    char *text = malloc(bytes + 1);

    if (text != NULL) {
        text[0] = '\0';
        print(job, text, bytes);
    }
    return text;
}

double job_flops(const struct job *job)
{
    return job->is_layer ? clattn_multihead_flops(&job->layer)
                         : clattn_problem_flops(&job->problem);
}
