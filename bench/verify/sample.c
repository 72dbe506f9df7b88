#include "bench/verify/sample.h"
#include "bench/reference/values.h"

#include <math.h>
#include <string.h>

#define WORK 2e7 /* Elements of K and V that are looked at. */

struct tensor_view sample_inputs(const struct attention_case *attention)
{
    struct tensor_view view = {.dropout_seed = CASE_DROPOUT_SEED};

#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_READ(WRITER, GIVEN, view.at[TENSOR_##ID] = attention->in[INPUT_##ID].data;)
    CA_OPERANDS(OPERAND)
#undef OPERAND
    return view;
}

enum output sample_output(enum tensor_id id)
{
    switch (id) {
#define OPERAND(ID, member, GIVEN, WRITER, ...)                                                    \
    CASE_IF_WRITTEN(WRITER, case TENSOR_##ID : return OUTPUT_##ID;)
        CA_OPERANDS(OPERAND)
#undef OPERAND
    default:
        return OUTPUT_COUNT;
    }
}

void sample_compare(struct worst *worst, const struct results *results, enum tensor_id id,
                    const struct tensor_shape *shape, size_t place, struct bounded want)
{
    const void *got = results->out[sample_output(id)];

    if (got != NULL)
        worst_add(worst, value_get(shape->dtype, got, place), want.value, want.bound);
}

size_t sample_affordable(size_t all, double work, size_t fewest)
{
    const double affordable = fmax(WORK / work, (double)fewest);

    return (double)all <= affordable ? all : (size_t)affordable;
}

size_t sample_spread(size_t n, size_t count, size_t all)
{
    return count == all ? n : (size_t)((double)n / (double)(count - 1) * (double)(all - 1));
}

bool sample_held(const struct attention_case *attention, enum output output, void **held,
                 struct message *why)
{
    const struct view view = case_output_view(&attention->job, output);

    *held = NULL;
    if (!case_holds(&attention->job) || !case_has_output(&attention->job, output))
        return true;
    *held = case_allocate(view_extent_bytes(&view), 1, why);
    if (*held != NULL)
        memset(*held, CASE_HELD, view_extent_bytes(&view));
    return *held != NULL;
}
