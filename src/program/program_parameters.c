/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program_parameters.h"
#include "problem/operations.h"
#include "problem/tensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What is printed so far, cut off at bytes; length is what it would have. */
struct text {
    char *begin;
    size_t bytes, length;
};

static void print(struct text *text, const char *format, ...)
{
    const size_t at = text->length < text->bytes ? text->length : text->bytes;
    va_list arguments;

    va_start(arguments, format);
    text->length += (size_t)vsnprintf(text->begin + at, text->bytes - at, format, arguments);
    va_end(arguments);
}

static const char *name_of(const struct ca_tensor *tensors, unsigned n)
{
    return n == CA_WORKSPACE ? "workspace" : tensors[n].member;
}

static const char *type_of(const struct ca_tensor *tensors, unsigned n)
{
    return n == CA_WORKSPACE ? "float" : tensors[n].type;
}

static int is_taken(const struct ca_stage *stage, const clattn_problem *p,
                    const struct ca_tensor *tensors, unsigned n)
{
    return (stage->arguments & CA_BIT(n)) &&
           (n == CA_WORKSPACE ? ca_stage_takes_workspace(stage, p) : tensors[n].present);
}

static void print_stage(const struct ca_stage *stage, const clattn_problem *p,
                        const struct ca_tensor *tensors, struct text *text)
{
    static const char *const operations[] = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = #name,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const char *operation = operations[p->operation];

    if (!ca_stage_exists(stage, p))
        return;
    print(text, "#define PARAMETERS_%s const struct %s_shape a, const struct %s_offsets at",
          stage->kernel, operation, operation);
    for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++) {
        const int written =
            n == CA_WORKSPACE ? !(stage->arguments & CA_READ_ONLY) : tensors[n].written;
        if (is_taken(stage, p, tensors, n))
            print(text, ", %s__global %s *restrict %s", written ? "" : "const ",
                  type_of(tensors, n), name_of(tensors, n));
    }
    print(text, "\n");
    print(text, "#define ARGUMENTS_%s {&a, &at", stage->kernel);
    for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++) {
        const char *name = name_of(tensors, n);
        if (!is_taken(stage, p, tensors, n))
            continue;
        if (n == CA_WORKSPACE) /* a stage that only reads it has it as const */
            print(text, ", .workspace = (__global float *)workspace + at.workspace");
        else if (strcmp(type_of(tensors, n), "void") == 0) /* whose elements the kernel knows */
            print(text, ", .%s = %s", name, name);
        else if (!ca_is_attention(p) || ca_problem_cache(p, n) == CLATTN_CACHE_PLAIN)
            print(text, ", .%s = %s + at.%s", name, name, name);
        else
            print(text, ", .%s = %c_PLACE(%s, at.%s)", name, n == CA_K ? 'K' : 'V', name, name);
    }
    print(text, "}\n");
}

static void print_members(const struct ca_tensor *tensors, struct text *text)
{
    print(text, "#define ARGUMENTS_MEMBERS");
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if (tensors[n].present)
            print(text, " %s__global %s *%s;", tensors[n].written ? "" : "const ",
                  type_of(tensors, n), name_of(tensors, n));
    print(text, " __global float *workspace;\n");
}

int ca_program_parameters(const struct ca_family *family, const clattn_problem *p, char *text,
                          size_t text_bytes)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    struct text all = {text, text_bytes, 0};

    text[0] = '\0';
    if (!p)
        return 1;
    ca_problem_tensors(p, tensors);
    for (size_t s = 0; s < family->num_stages; s++)
        print_stage(&family->stages[s], p, tensors, &all);
    print_members(tensors, &all);
    return all.length < text_bytes;
}
