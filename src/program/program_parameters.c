#include "program/program_parameters.h"
#include "problem/operations.h"

#include <stdarg.h>
#include <stdio.h>

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

static void print_stage(const struct ca_stage *stage, const clattn_problem *p,
                        const struct ca_tensor *tensors, struct text *text)
{
    static const char *const names[] = {
#define OPERATION(ID, name, ...) [CLATTN_##ID] = #name,
        CA_OPERATIONS(OPERATION)
#undef OPERATION
    };
    const char *whole = p->total_q || p->total_kv ? "whole_" : ""; /* cl/common/sequence.h */

    if (!ca_stage_exists(stage, p))
        return;
    print(text, "#define PARAMETERS_%s const struct %s_shape %sa, const struct %s_offsets %sat",
          stage->kernel, names[p->operation], whole, names[p->operation], whole);
    for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++) {
        const int is_operand = n != CA_WORKSPACE;
        const int written = is_operand ? tensors[n].written : !(stage->arguments & CA_READ_ONLY);
        if ((stage->arguments & CA_BIT(n)) &&
            (is_operand ? tensors[n].present : ca_stage_takes_workspace(stage, p)))
            print(text, ", %s__global %s *restrict %s", written ? "" : "const ",
                  is_operand ? tensors[n].type : "float",
                  is_operand ? tensors[n].member : "workspace");
    }
    print(text, "\n");
}

static void print_score_operands(const struct ca_tensor *tensors, struct text *text)
{
    print(text, "#define SCORE_OPERANDS_PARAM ");
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if ((CA_SCORE_OPERANDS & CA_BIT(n)) && tensors[n].present)
            print(text, ", const __global %s *%s", tensors[n].type, tensors[n].member);
    print(text, "\n#define SCORE_OPERANDS_ARG ");
    for (unsigned n = 0; n < CA_WORKSPACE; n++)
        if ((CA_SCORE_OPERANDS & CA_BIT(n)) && tensors[n].present)
            print(text, ", %s", tensors[n].member);
    print(text, "\n");
}

int ca_program_parameters(const struct ca_family *family, const clattn_problem *p, char *text,
                          size_t text_bytes)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    struct text all = {text, text_bytes, 0};

    text[0] = '\0';
    ca_problem_tensors(p, tensors);
    for (size_t s = 0; s < family->num_stages; s++)
        print_stage(&family->stages[s], p, tensors, &all);
    if (ca_is_attention(p))
        print_score_operands(tensors, &all);
    return all.length < text_bytes;
}
