/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/tensors.h"
#include "base/structs.h"
#include "problem/operations.h"
#include "problem/text/problem_words.h"
#include <clattn/tensors.h>

#include <string.h>

enum { AXES = sizeof((clattn_tensor *)0)->size / sizeof(size_t) };

/* The dtype, by name, of tensors that have the same one in every problem, from the kernels' name
 * for it; NULL: the problem decides. */
static const char *fixed_type(const char *type)
{
    static const char *const of[][2] = {{"float", "f32"}, {"int", "i32"},     {"uchar", "u8"},
                                        {"half", "f16"},  {"ushort", "bf16"}, {"char", "i8"}};

    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        if (strcmp(type, of[n][0]) == 0)
            return of[n][1];
    return NULL;
}

static const char *type_of(const clattn_problem *p, unsigned argument, const struct ca_tensor *t)
{
    const char *fixed = fixed_type(t->type);
    const clattn_cache cache = ca_problem_cache(p, argument);

    return fixed                         ? fixed
           : cache != CLATTN_CACHE_PLAIN ? ca_cache_names[cache]
                                         : ca_dtype_names[ca_problem_dtype(p, argument)];
}

/* The axis of all states' batches is two to callers. */
static void split_states(const clattn_merge_problem *p, size_t axis, clattn_tensor *tensor)
{
    tensor->size[axis - 1] = p->states;
    tensor->size[axis] = p->batch;
    tensor->stride[axis - 1] = p->batch * tensor->stride[axis];
}

/* The last axis, of one, is none to callers. */
static void drop_last_axis(clattn_tensor *tensor)
{
    for (size_t n = AXES - 1; n > 0; n--) {
        tensor->size[n] = tensor->size[n - 1];
        tensor->stride[n] = tensor->stride[n - 1];
    }
}

static void describe(const clattn_problem *p, unsigned argument, const struct ca_tensor *t,
                     clattn_tensor *tensor)
{
    tensor->name = t->member;
    tensor->type = type_of(p, argument, t);
    tensor->written = t->written;
    tensor->broadcasts = ca_is_attention(p) && (argument == CA_BIAS || argument == CA_MASK);
    tensor->size[0] = 1;
    for (size_t n = 1; n < AXES; n++) {
        tensor->size[n] = t->sizes[n - 1];
        tensor->stride[n] = t->layout.stride[n - 1];
    }
    if (p->operation == CLATTN_MERGE && argument == CA_MERGE_PARTS)
        split_states(&p->merge, 1, tensor);
    if (p->operation == CLATTN_MERGE && argument == CA_MERGE_PARTS_LSE)
        split_states(&p->merge, 2, tensor);
    if (p->operation == CLATTN_MERGE && argument == CA_MERGE_LSE)
        drop_last_axis(tensor);
}

clattn_status clattn_problem_tensor(const clattn_problem *problem, size_t number,
                                    clattn_tensor *tensor)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_tensor found = {.struct_size = sizeof found};
    char why[CA_REASON_BYTES];

    if (!CA_FILLABLE(clattn_tensor, "tensor", tensor, why))
        return ca_refuse(CLATTN_INVALID_ARGUMENT, "%s", why);
    ca_struct_fill(tensor, &found, sizeof found);
    const clattn_status status = clattn_problem_check(problem, NULL, 0);
    if (status != CLATTN_SUCCESS)
        return status;
    ca_problem_tensors(problem, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        if (!tensors[n].present || number-- != 0)
            continue;
        describe(problem, n, &tensors[n], &found);
        break;
    }
    ca_struct_fill(tensor, &found, sizeof found);
    return CLATTN_SUCCESS;
}
