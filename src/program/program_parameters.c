/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program_parameters.h"
#include "base/writer.h"
#include "problem/function.h"
#include "problem/operations.h"
#include "problem/tensors.h"

#include <stdio.h>
#include <string.h>

static const char *name_of(const struct ca_tensor *tensors, unsigned n)
{
    return n == CA_WORKSPACE ? "workspace" : tensors[n].member;
}

static const char *type_of(const struct ca_tensor *tensors, unsigned n)
{
    return n == CA_WORKSPACE ? "float" : tensors[n].type;
}

static const char *operation_of(const struct ca_problem *p)
{
    static const char *const operations[] = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = #name,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };

    return operations[p->normal.operation];
}

const struct ca_stage ca_function_values_stage = {
    .kernel = "function_values", .arguments = CA_FUNCTION_BITS | CA_BIT(CA_WORKSPACE)};

static void print_offsets(const struct ca_stage *stage, const struct ca_problem *p,
                          const struct ca_tensor *tensors, struct ca_writer *text)
{
    const uint64_t takes = ca_stage_takes(stage, p, tensors);

    if (!ca_stage_exists(stage, p))
        return;
    ca_put(text, " struct %s_offsets {", stage->kernel);
    for (unsigned n = 0; n <= CA_WORKSPACE; n++)
        if (takes & CA_BIT(n))
            ca_put(text, "long %s; ", name_of(tensors, n));
    ca_put(text, "struct attention_call call;};");
}

/* The strides and offsets of a program of attention. */
static void print_structs(const struct ca_family *family, const struct ca_problem *p,
                          const struct ca_tensor *tensors, struct ca_writer *text)
{
    ca_put(text, "#define STRIDES_MEMBERS");
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if (ca_takes_strides(tensors, n))
            ca_put(text, " long %s_stride[4];", tensors[n].member);
    ca_put(text, "\n#define OFFSETS_STRUCTS");
    for (size_t s = 0; s < family->num_stages; s++)
        print_offsets(&family->stages[s], p, tensors, text);
    if (ca_has_functions(&p->normal))
        print_offsets(&ca_function_values_stage, p, tensors, text);
    ca_put(text, "\n");
}

static void print_stage(const struct ca_stage *stage, const struct ca_problem *p,
                        const struct ca_tensor *tensors, struct ca_writer *text)
{
    const uint64_t takes = ca_stage_takes(stage, p, tensors);
    const int attention = ca_is_attention(&p->normal);
    const char *operation = operation_of(p);

    if (!ca_stage_exists(stage, p))
        return;
    ca_put(text, "#define PARAMETERS_%s const struct %s_shape a, const struct %s_offsets at",
           stage->kernel, operation, attention ? stage->kernel : operation);
    for (unsigned n = 0; n <= CA_WORKSPACE; n++) {
        const int written =
            n == CA_WORKSPACE ? !(stage->arguments & CA_READ_ONLY) : tensors[n].written;
        if (takes & CA_BIT(n))
            ca_put(text, ", %s__global %s *restrict %s", written ? "" : "const ",
                   type_of(tensors, n), name_of(tensors, n));
    }
    ca_put(text, "\n");
    ca_put(text, "#define ARGUMENTS_%s {&a, %s", stage->kernel, attention ? "&at.call" : "&at");
    for (unsigned n = 0; n <= CA_WORKSPACE; n++) {
        const char *name = name_of(tensors, n);
        if (!(takes & CA_BIT(n)))
            continue;
        if (n == CA_WORKSPACE) /* a stage that only reads it has it as const */
            ca_put(text, ", .workspace = (__global float *)workspace + at.workspace");
        else if (strcmp(type_of(tensors, n), "void") == 0) /* the kernel knows its element type */
            ca_put(text, ", .%s = %s", name, name);
        else if (!attention || ca_problem_cache(&p->normal, n) == CLATTN_CACHE_PLAIN)
            ca_put(text, ", .%s = %s + at.%s", name, name, name);
        else
            ca_put(text, ", .%s = %c_place(%s, at.%s)", name, n == CA_K ? 'k' : 'v', name, name);
    }
    ca_put(text, "}\n");
}

/* Members of all operands: those that the problem lacks are null, so that kernels need no #if to name them. */
static void print_members(const struct ca_tensor *tensors, struct ca_writer *text)
{
    ca_put(text, "#define ARGUMENTS_MEMBERS");
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if (tensors[n].member)
            ca_put(text, " %s__global %s *%s;", tensors[n].written ? "" : "const ",
                   type_of(tensors, n), name_of(tensors, n));
    ca_put(text, " __global float *workspace;\n");
}

int ca_program_parameters(const struct ca_family *family, const struct ca_problem *p, char *text,
                          size_t text_bytes)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    struct ca_writer all = {text, text_bytes, 0};

    text[0] = '\0';
    if (!p)
        return 1;
    ca_problem_tensors(&p->normal, tensors);
    if (ca_is_attention(&p->normal))
        print_structs(family, p, tensors, &all);
    for (size_t s = 0; s < family->num_stages; s++)
        print_stage(&family->stages[s], p, tensors, &all);
    if (ca_has_functions(&p->normal))
        print_stage(&ca_function_values_stage, p, tensors, &all);
    print_members(tensors, &all);
    return all.length < text_bytes;
}
