#include "program/program_parameters.h"

#include <stdio.h>

struct parameter {
    const char *name, *type;
};

static const struct parameter parameters[CA_NUM_ARGUMENTS] = {
#define OPERAND(ID, member, GIVEN, WRITER, LAYER, LAYOUT, layout, text, type, ...)                 \
    [CA_##ID] = {#member, #type},
    CA_OPERANDS(OPERAND)
#undef OPERAND
        [CA_WORKSPACE] = {"workspace", "float"},
};

/* Adds a stage's macro; returns how many characters it has, or would have. */
static size_t print_stage(const struct ca_stage *stage, const clattn_problem *p,
                          const struct ca_tensor *tensors, char *text, size_t text_bytes)
{
    size_t length = (size_t)snprintf(text, text_bytes,
                                     "#define PARAMETERS_%s const struct attention_shape a, "
                                     "const struct attention_offsets at",
                                     stage->kernel);

    for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++) {
        const int is_operand = n != CA_WORKSPACE;
        const int written = is_operand ? tensors[n].written : !(stage->arguments & CA_READ_ONLY);
        const char *name =
            is_operand && p->operation == CLATTN_PROJECTION ? tensors[n].name : parameters[n].name;
        if (!(stage->arguments & CA_BIT(n)) || (is_operand && !tensors[n].present))
            continue;
        const size_t at = length < text_bytes ? length : text_bytes;
        length += (size_t)snprintf(text + at, text_bytes - at, ", %s__global %s *restrict %s",
                                   written ? "" : "const ", parameters[n].type, name);
    }
    const size_t at = length < text_bytes ? length : text_bytes;
    return length + (size_t)snprintf(text + at, text_bytes - at, "\n");
}

int ca_program_parameters(const struct ca_family *family, const clattn_problem *p, char *text,
                          size_t text_bytes)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    size_t length = 0;

    text[0] = '\0';
    ca_problem_tensors(p, tensors);
    for (size_t s = 0; s < family->num_stages && length < text_bytes; s++)
        length += print_stage(&family->stages[s], p, tensors, text + length, text_bytes - length);
    return length < text_bytes;
}
