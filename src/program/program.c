/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program.h"
#include "context/in_flight.h"
#include "families/candidate.h"
#include "os/clock.h"
#include "program/program_build.h"
#include "program/program_cache.h"
#include "program/program_function.h"
#include "program/program_options.h"
#include "program/program_parameters.h"
#include "program/verdict.h"

#include <stdlib.h>
#include <string.h>

/* ---- the list -------------------------------------------------------------------------------- */

static struct ca_program *find(struct ca_program *programs, const struct ca_family *family,
                               const char *options)
{
    while (programs && (programs->family != family || strcmp(programs->options, options) != 0))
        programs = programs->next;
    return programs;
}

static struct ca_program *find_made(struct ca_program *programs, cl_program program)
{
    while (programs && (programs->state != CA_MADE || programs->cl != program))
        programs = programs->next;
    return programs;
}

static void unlink_program(clattn_context *ctx, struct ca_program *program)
{
    struct ca_program **place = &ctx->programs;

    while (*place != program)
        place = &(*place)->next;
    *place = program->next;
}

/* Frees it, or leaves that to the last thread that waits for it. */
static void take_out(clattn_context *ctx, struct ca_program *program)
{
    unlink_program(ctx, program);
    program->state = CA_TAKEN_OUT;
    if (program->waiters == 0)
        free(program);
}

/* Puts a program in that this thread is going to make. NULL without memory. */
static struct ca_program *put_in(clattn_context *ctx, const struct ca_family *family,
                                 const struct ca_problem *p, const char *options,
                                 const char *parameters)
{
    char *functions = ca_program_function_text(p ? &p->normal : NULL);
    const size_t bytes = strlen(options) + 1, more = strlen(parameters) + 1;
    const size_t most = functions ? strlen(functions) + 1 : 0;
    struct ca_program *program =
        functions ? calloc(1, sizeof *program + bytes + more + most) : NULL;

    if (!program) {
        free(functions);
        return NULL;
    }
    program->state = CA_BEING_MADE;
    program->family = family;
    memcpy(program->options, options, bytes);
    program->parameters = memcpy(program->options + bytes, parameters, more);
    program->functions = memcpy(program->options + bytes + more, functions, most);
    free(functions);
    program->next = ctx->programs;
    ctx->programs = program;
    return program;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Gives the lock back while it makes the program. */
static clattn_status make(clattn_context *ctx, const struct ca_candidate *candidate,
                          const struct ca_problem *p, ca_self_check *check,
                          struct ca_program *program)
{
    ca_mutex_unlock(&ctx->lock);
    ca_program_make(ctx, candidate, p, check, program);
    ca_mutex_lock(&ctx->lock);
    const clattn_status status = program->status;

    program->state = CA_MADE;
    if (status != program->verdict.status)
        take_out(ctx, program);
    ca_condition_broadcast(&ctx->made);
    return status;
}

/* Gives the lock back while another thread makes the program. *ages: its verdict is one that no store keeps, so that
 * every plan comes across it. */
static clattn_status wait_for(clattn_context *ctx, struct ca_program *program, int *ages,
                              char reason[CA_REASON_BYTES])
{
    program->waiters++;
    while (program->state == CA_BEING_MADE)
        ca_condition_wait(&ctx->made, &ctx->lock);
    program->waiters--;
    const clattn_status status = program->status;

    *ages = program->verdict.until != 0;
    ca_reason(reason, CA_REASON_BYTES, "%s",
              program->verdict.status == status ? program->verdict.reason
                                                : "another thread could not make its program");
    if (program->state == CA_TAKEN_OUT && program->waiters == 0)
        free(program);
    return status;
}

clattn_status ca_program_unchecked(clattn_context *ctx, const struct ca_candidate *candidate,
                                   const struct ca_problem *p, cl_program program,
                                   double *launch_seconds, char why[CA_REASON_BYTES])
{
    (void)ctx, (void)candidate, (void)p, (void)program, (void)launch_seconds, (void)why;
    return CLATTN_SUCCESS;
}

clattn_status ca_program_get(clattn_context *ctx, const struct ca_candidate *candidate,
                             const struct ca_problem *p, ca_self_check *check, cl_program *program)
{
    const char *name = candidate->family->full_name;
    char options[CA_OPTIONS_TEXT], parameters[CA_PARAMETERS_TEXT], reason[CA_REASON_BYTES];
    clattn_status status;
    int ages = 0;

    *program = NULL;
    const char *refused = candidate->family->refused_by_system
                              ? candidate->family->refused_by_system(&ctx->device)
                              : NULL;
    if (refused)
        return ca_fail(&ctx->log, CLATTN_UNSUPPORTED, "%s is not used on '%s': %s", name,
                       ctx->device.name, refused);
    if (!ca_program_options(candidate, p, &ctx->device, options, sizeof options) ||
        !ca_program_parameters(candidate->family, p, parameters, sizeof parameters))
        return ca_fail(&ctx->log, CLATTN_UNSUPPORTED, "%s has too many tunables for its options",
                       name);
    ca_mutex_lock(&ctx->lock);
    struct ca_program *known = find(ctx->programs, candidate->family, options);
    const int waits = known != NULL;
    if (!known)
        known = put_in(ctx, candidate->family, p, options, parameters);
    status = !known  ? CLATTN_OUT_OF_MEMORY
             : waits ? wait_for(ctx, known, &ages, reason)
                     : make(ctx, candidate, p, check, known);
    if (status == CLATTN_SUCCESS) {
        *program = known->cl;
        known->users++;
    }
    ca_mutex_unlock(&ctx->lock);
    if (!known)
        return ca_fail(&ctx->log, status, "no host memory for a program");
    if (waits && (status == CLATTN_OUT_OF_MEMORY || status == CLATTN_OPENCL_ERROR))
        return ca_fail(&ctx->log, status, "no program of %s: %s", name, reason);
    if (waits && status != CLATTN_SUCCESS && !ages) /* else its maker has logged the error */
        ca_warn(&ctx->log, "%s is not used on '%s': %s", name, ctx->device.name, reason);
    return status;
}

/* ---- what nobody uses ------------------------------------------------------------------------ */

/* Returns the number of unused programs; *oldest is the one that was put back longest ago. */
static size_t count_unused(struct ca_program *programs, struct ca_program **oldest)
{
    size_t count = 0;

    *oldest = NULL;
    for (struct ca_program *at = programs; at; at = at->next) {
        if (at->state != CA_MADE || !at->cl || at->users > 0 || at->waiters > 0)
            continue;
        count++;
        if (!*oldest || at->used < (*oldest)->used)
            *oldest = at;
    }
    return count;
}

size_t ca_programs_trim(clattn_context *ctx, size_t most)
{
    struct ca_program *gone = NULL, *oldest;
    size_t count = 0;

    ca_mutex_lock(&ctx->lock);
    while (count_unused(ctx->programs, &oldest) > most) {
        unlink_program(ctx, oldest);
        oldest->next = gone;
        gone = oldest;
        count++;
    }
    ca_mutex_unlock(&ctx->lock);
    ca_programs_release(gone);
    return count;
}

void ca_program_put_back(clattn_context *ctx, cl_program program)
{
    if (!program)
        return;
    ca_mutex_lock(&ctx->lock);
    struct ca_program *made = find_made(ctx->programs, program);
    if (made) {
        made->users--;
        made->used = ++ctx->uses;
    }
    ca_mutex_unlock(&ctx->lock);
    ca_programs_trim(ctx, CA_PROGRAMS_UNUSED);
}

/* ---- what was made --------------------------------------------------------------------------- */

void ca_program_keep(clattn_context *ctx, cl_program program)
{
    ca_mutex_lock(&ctx->lock);
    struct ca_program *made = find_made(ctx->programs, program);
    if (made)
        made->wanted = 1;
    ca_mutex_unlock(&ctx->lock);
}

/* Returns a program that must be stored and that nobody else will store; NULL: there is none left.
 * */
static struct ca_program *take_unstored(clattn_context *ctx)
{
    struct ca_program *program;

    ca_mutex_lock(&ctx->lock);
    program = ctx->programs;
    while (program && !(program->state == CA_MADE && program->wanted && program->unstored))
        program = program->next;
    if (program) {
        program->unstored = 0;
        program->users++; /* keeps the program from being released meanwhile */
    }
    ca_mutex_unlock(&ctx->lock);
    return program;
}

size_t ca_programs_store(clattn_context *ctx, double seconds)
{
    const double end = ca_stopwatch_now() + seconds;
    struct ca_program *program;
    bool stored = true;
    size_t left = 0;

    while (stored && (program = take_unstored(ctx)) != NULL) {
        const double begin = ca_stopwatch_now();
        stored = ca_in_flight_hold_up(end - begin);
        if (stored) {
            ca_program_cache_store(ctx, program, program->cl);
            ca_in_flight_go_on();
            ca_in_flight_part();
        }
        ca_mutex_lock(&ctx->lock);
        program->unstored = !stored;
        program->seconds.storing += ca_stopwatch_now() - begin;
        program->users--;
        ca_mutex_unlock(&ctx->lock);
        if (ca_stopwatch_now() >= end)
            break;
    }
    ca_mutex_lock(&ctx->lock);
    for (const struct ca_program *made = ctx->programs; made; made = made->next)
        left += made->state == CA_MADE && made->wanted && made->unstored;
    ca_mutex_unlock(&ctx->lock);
    return left;
}

static void add_seconds(struct ca_build_seconds *sum, const struct ca_build_seconds *more)
{
    sum->loading += more->loading;
    sum->front_end += more->front_end;
    sum->code_generation += more->code_generation;
    sum->self_check += more->self_check;
    sum->storing += more->storing;
}

void ca_programs_seconds(clattn_context *ctx, struct ca_build_seconds *seconds)
{
    memset(seconds, 0, sizeof *seconds);
    ca_mutex_lock(&ctx->lock);
    for (const struct ca_program *made = ctx->programs; made; made = made->next)
        if (made->state == CA_MADE)
            add_seconds(seconds, &made->seconds);
    ca_mutex_unlock(&ctx->lock);
}

int ca_program_last_failure(clattn_context *ctx, char reason[CA_REASON_BYTES])
{
    ca_mutex_lock(&ctx->lock);
    ca_reason(reason, CA_REASON_BYTES, "%s", ctx->last_failure);
    ca_mutex_unlock(&ctx->lock);
    return reason[0] != '\0';
}

int ca_program_condemned(clattn_context *ctx, const struct ca_candidate *candidate,
                         const struct ca_problem *p, struct ca_verdict *verdict)
{
    char options[CA_OPTIONS_TEXT];

    if (!ca_program_options(candidate, p, &ctx->device, options, sizeof options))
        return 0;
    ca_mutex_lock(&ctx->lock);
    const struct ca_program *known = find(ctx->programs, candidate->family, options);
    const int condemned =
        known && known->state == CA_MADE && known->verdict.status != CLATTN_SUCCESS;
    if (condemned)
        *verdict = known->verdict;
    ca_mutex_unlock(&ctx->lock);
    return condemned;
}

clattn_status ca_programs_forget_verdicts(clattn_context *ctx, const struct ca_problem *p,
                                          size_t *forgotten)
{
    char options[CA_OPTIONS_TEXT] = "";
    struct ca_program *next;
    size_t removed = 0, on_disk;

    *forgotten = 0;
    if (p && ca_program_problem_options(p, options, sizeof options) >= sizeof options)
        return CLATTN_SUCCESS; /* the options do not fit, so no program was built with them */
    ca_mutex_lock(&ctx->lock);
    for (struct ca_program *program = ctx->programs; program; program = next) {
        next = program->next;
        if (program->state != CA_MADE || program->verdict.status == CLATTN_SUCCESS ||
            strncmp(program->options, options, strlen(options)) != 0)
            continue;
        take_out(ctx, program);
        removed++;
    }
    ca_mutex_unlock(&ctx->lock);
    const clattn_status status = ca_program_cache_forget(ctx, options, &on_disk);
    *forgotten = on_disk > removed ? on_disk : removed;
    return status;
}

void ca_programs_release(struct ca_program *programs)
{
    while (programs) {
        struct ca_program *next = programs->next;
        if (programs->unstored)
            ca_in_flight_part();
        if (programs->cl)
            clReleaseProgram(programs->cl);
        free(programs);
        programs = next;
    }
}
