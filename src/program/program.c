#include "program.h"
#include "problem.h"
#include "program_cache.h"
#include "trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ca_program {
    struct ca_program *next;
    const struct ca_family *family;
    cl_program cl;         /* NULL if the verdict is not CLATTN_SUCCESS */
    clattn_status verdict; /* CLATTN_SUCCESS, CLATTN_BUILD_FAILED or CLATTN_MISCOMPILED, for good */
    char options[];
};

struct define {
    const char *name;
    size_t value;
};

/* How many characters it adds, or would. */
static size_t print_defines(const struct define *defines, size_t count, char *text,
                            size_t text_bytes, size_t length)
{
    size_t more = 0;

    for (size_t n = 0; n < count; n++) {
        const size_t at = length + more < text_bytes ? length + more : text_bytes;
        more += (size_t)snprintf(text + at, text_bytes - at, " -D%s=%zu", defines[n].name,
                                 defines[n].value);
    }
    return more;
}

/* The -D options of a projection (see cl/projection.h). */
static size_t print_projection(const clattn_problem *p, char *text, size_t text_bytes,
                               size_t length)
{
    const int x_column = p->q.stride[3] == 1, w_column = p->k.stride[3] == 1;
    const struct define defines[] = {
        {"DTYPE", (size_t)p->dtype},
        {"BIAS_DTYPE", p->bias ? (size_t)p->bias_dtype : 0},
        {"HAS_BIAS", p->bias != 0},
        {"HAS_ACCUMULATE", p->accumulate != 0},
        {"UNIT_X_COLUMN", x_column},
        {"UNIT_X_ROW", !x_column && p->q.stride[2] == 1},
        {"UNIT_W_COLUMN", w_column},
        {"UNIT_W_ROW", !w_column && p->k.stride[1] == 1},
        {"UNIT_Y_COLUMN", p->o.stride[3] == 1},
    };

    return print_defines(defines, sizeof defines / sizeof *defines, text, text_bytes, length);
}

/* Those of attention (see cl/common.cl and cl/backward.h). */
static size_t print_attention(const clattn_problem *p, char *text, size_t text_bytes, size_t length)
{
    const int lengths = p->q_lengths || p->kv_lengths;
    const struct define defines[] = {
        {"DTYPE", (size_t)p->dtype},
        {"BIAS_DTYPE", p->bias ? (size_t)p->bias_dtype : 0},
        {"K_CACHE", (size_t)p->k_cache},
        {"V_CACHE", (size_t)p->v_cache},
        {"DIM_QK", p->dim_qk},
        {"DIM_V", p->dim_v},
        {"UNIT_Q", p->q.stride[3] == 1 || p->dim_qk == 1},
        {"UNIT_K", p->k.stride[3] == 1 || p->dim_qk == 1},
        {"UNIT_V", p->v.stride[3] == 1 || p->dim_v == 1},
        {"UNIT_O", p->o.stride[3] == 1 || p->dim_v == 1},
        {"HAS_SOFTCAP", p->softcap > 0.0f},
        {"HAS_BIAS", p->bias != 0},
        {"HAS_MASK", p->mask != 0},
        {"HAS_ALIBI", p->alibi != 0},
        {"HAS_SINKS", p->sinks != 0},
        {"HAS_WINDOW_LEFT", p->window_left != CLATTN_UNLIMITED},
        {"HAS_WINDOW_RIGHT", p->window_right != CLATTN_UNLIMITED},
        {"HAS_Q_LENGTHS", p->q_lengths != 0},
        {"HAS_KV_LENGTHS", p->kv_lengths != 0},
        {"DIAGONAL_FOLLOWS_LENGTHS", p->diagonal == CLATTN_BOTTOM_RIGHT && lengths},
        {"HAS_LSE", p->lse != 0},
        {"SCORES", (size_t)p->scores},
        {"HAS_DROPOUT", p->dropout > 0.0f},
    };
    const struct define backward[] = {
        {"UNIT_DO", p->d_o.stride[3] == 1 || p->dim_v == 1},
        {"UNIT_DQ", p->dq.stride[3] == 1 || p->dim_qk == 1},
        {"UNIT_DK", p->dk.stride[3] == 1 || p->dim_qk == 1},
        {"UNIT_DV", p->dv.stride[3] == 1 || p->dim_v == 1},
        {"HAS_DBIAS", p->dbias != 0},
        {"HAS_DSLOPES", p->dslopes != 0},
        {"HAS_DSINKS", p->dsinks != 0},
    };
    size_t more =
        print_defines(defines, sizeof defines / sizeof *defines, text, text_bytes, length);

    if (p->operation == CLATTN_BACKWARD)
        more += print_defines(backward, sizeof backward / sizeof *backward, text, text_bytes,
                              length + more);
    return more;
}

int ca_program_options(const struct ca_candidate *candidate, const clattn_problem *p, char *text,
                       size_t text_bytes)
{
    size_t length = (size_t)snprintf(text, text_bytes, "-cl-std=CL1.2");

    length += p->operation == CLATTN_PROJECTION ? print_projection(p, text, text_bytes, length)
                                                : print_attention(p, text, text_bytes, length);
    if (length + 2 >= text_bytes)
        return 0;
    text[length++] = ' ';
    length +=
        (size_t)ca_tunables_print(candidate->family->tunables, candidate->family->num_tunables,
                                  candidate->values, "-D", text + length, text_bytes - length);
    if (candidate->family->options && length < text_bytes)
        length += (size_t)snprintf(text + length, text_bytes - length, "%s",
                                   candidate->family->options(candidate->values));
    return length < text_bytes;
}

static void log_build(const clattn_context *ctx, cl_program program)
{
    size_t bytes = 0;

    if (clGetProgramBuildInfo(program, ctx->device.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) !=
        CL_SUCCESS)
        return;
    char *text = calloc(bytes + 1, 1);
    if (text && clGetProgramBuildInfo(program, ctx->device.device, CL_PROGRAM_BUILD_LOG, bytes,
                                      text, NULL) == CL_SUCCESS)
        ca_log_text(&ctx->log, CLATTN_LOG_WARNING, text);
    free(text);
}

static clattn_status build(clattn_context *ctx, const struct ca_family *family, const char *options,
                           cl_program *program)
{
    const char *source = family->source;
    cl_int err;

    *program = NULL;
    cl_program cl = clCreateProgramWithSource(ctx->cl, 1, &source, NULL, &err);
    if (err != CL_SUCCESS)
        return ca_fail_cl(&ctx->log, err, "clCreateProgramWithSource for %s", family->name);
    err = clBuildProgram(cl, 1, &ctx->device.device, options, NULL, NULL);
    if (err == CL_SUCCESS) {
        atomic_fetch_add(&ctx->builds, 1);
        *program = cl;
        return CLATTN_SUCCESS;
    }
    clattn_status status = CLATTN_BUILD_FAILED;
    if (err == CL_BUILD_PROGRAM_FAILURE) {
        ca_warn(&ctx->log, "%s does not build with '%s' on '%s'; its build log follows",
                family->name, options, ctx->device.name);
        log_build(ctx, cl);
    } else {
        status =
            ca_fail_cl(&ctx->log, err, "clBuildProgram for %s with '%s'", family->name, options);
    }
    clReleaseProgram(cl);
    return status;
}

static struct ca_program *find(struct ca_program *programs, const struct ca_family *family,
                               const char *options)
{
    while (programs && (programs->family != family || strcmp(programs->options, options) != 0))
        programs = programs->next;
    return programs;
}

/* On failure *program is NULL. */
static clattn_status build_and_check(clattn_context *ctx, const struct ca_candidate *candidate,
                                     const clattn_problem *p, const char *options,
                                     cl_program *program)
{
    clattn_status status = build(ctx, candidate->family, options, program);

    if (status != CLATTN_SUCCESS || ctx->skip_self_checks)
        return status;
    status = candidate->family->check ? candidate->family->check(ctx, *program)
                                      : ca_trust_check(ctx, candidate, p, *program);
    if (status != CLATTN_SUCCESS) {
        clReleaseProgram(*program);
        *program = NULL;
    }
    return status;
}

/* Takes a program from the cache on disk, or builds and checks it, and keeps it, or the verdict
 * that it does not work, in the context; a failure that may pass, such as a lack of memory, is not
 * kept. */
static clattn_status add(clattn_context *ctx, const struct ca_candidate *candidate,
                         const clattn_problem *p, const char *options, struct ca_program **added)
{
    const size_t bytes = strlen(options) + 1;
    struct ca_program *made = malloc(sizeof *made + bytes);

    *added = NULL;
    if (!made)
        return ca_fail(&ctx->log, CLATTN_OUT_OF_MEMORY, "no host memory for a program");
    clattn_status status;
    if (!ca_program_cache_load(ctx, candidate->family, options, &made->cl, &status)) {
        if (!ctx->device.compiler_available) {
            free(made);
            return ca_fail(&ctx->log, CLATTN_NO_COMPILER,
                           "device '%s' has no OpenCL C compiler, and the cache of programs has no "
                           "%s with '%s'",
                           ctx->device.name, candidate->family->name, options);
        }
        status = build_and_check(ctx, candidate, p, options, &made->cl);
        if (status != CLATTN_SUCCESS && status != CLATTN_BUILD_FAILED &&
            status != CLATTN_MISCOMPILED) {
            free(made);
            return status;
        }
        if (!ctx->skip_self_checks)
            ca_program_cache_store(ctx, candidate->family, options, made->cl, status);
    }
    made->family = candidate->family;
    made->verdict = status;
    memcpy(made->options, options, bytes);
    made->next = ctx->programs;
    ctx->programs = made;
    *added = made;
    return CLATTN_SUCCESS;
}

clattn_status ca_program_get(clattn_context *ctx, const struct ca_candidate *candidate,
                             const clattn_problem *p, cl_program *program)
{
    char options[CA_OPTIONS_TEXT];
    clattn_status status = CLATTN_SUCCESS;

    *program = NULL;
    if (!ca_program_options(candidate, p, options, sizeof options))
        return ca_fail(&ctx->log, CLATTN_UNSUPPORTED, "%s has too many tunables for its options",
                       candidate->family->name);
    pthread_mutex_lock(&ctx->lock); /* held while building: the same program is built once */
    struct ca_program *known = find(ctx->programs, candidate->family, options);
    if (!known)
        status = add(ctx, candidate, p, options, &known);
    if (known) {
        status = known->verdict;
        *program = known->cl;
        if (status != CLATTN_SUCCESS)
            ca_warn(&ctx->log, "%s is not used on '%s' with '%s': %s", candidate->family->name,
                    ctx->device.name, options,
                    status == CLATTN_MISCOMPILED ? "it failed its self-check"
                                                 : "it does not build");
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

void ca_programs_release(struct ca_program *programs)
{
    while (programs) {
        struct ca_program *next = programs->next;
        if (programs->cl)
            clReleaseProgram(programs->cl);
        free(programs);
        programs = next;
    }
}
