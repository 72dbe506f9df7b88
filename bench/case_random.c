#include "case.h"
#include "values.h"

#include <stdint.h>
#include <string.h>

/* xorshift64: fast, and the same numbers on every machine. */
static float uniform(uint64_t *state, float low, float high)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return low + (high - low) * (float)(*state >> 40) / (float)(1 << 24);
}

static bool fill_values(struct block *block, const struct view *view, float low, float high,
                        uint64_t *state, struct message *why)
{
    block->data = case_allocate(view->extent, value_bytes(view->dtype), why);
    if (block->data == NULL)
        return false;
    block->bytes = view->extent * value_bytes(view->dtype);
    for (size_t n = 0; n < view->extent; n++)
        value_set(view->dtype, block->data, n, uniform(state, low, high));
    return true;
}

static bool fill_mask(struct block *block, const struct view *view, uint64_t *state,
                      struct message *why)
{
    block->data = case_allocate(view->extent, 1, why);
    if (block->data == NULL)
        return false;
    block->bytes = view->extent;
    for (size_t n = 0; n < view->extent; n++)
        ((unsigned char *)block->data)[n] = uniform(state, 0.0f, 1.0f) < 0.75f;
    return true;
}

static bool fill_floats(struct block *block, size_t count, float low, float high, uint64_t *state,
                        struct message *why)
{
    const struct view view = {.dtype = CLATTN_F32, .extent = count};

    return fill_values(block, &view, low, high, state, why);
}

static bool fill_lengths(struct block *block, size_t batch, size_t longest, uint64_t *state,
                         struct message *why)
{
    block->data = case_allocate(batch, sizeof(cl_int), why);
    if (block->data == NULL)
        return false;
    block->bytes = batch * sizeof(cl_int);
    for (size_t b = 0; b < batch; b++)
        ((cl_int *)block->data)[b] = (cl_int)((float)longest * uniform(state, 0.5f, 1.0f));
    return true;
}

static bool fill(struct attention_case *attention, const clattn_problem *p, uint64_t *state,
                 struct message *why)
{
    struct block *in = attention->in;

    for (enum input n = INPUT_Q; n <= INPUT_V; n++) {
        const struct view view = case_input_view(p, n);
        if (!fill_values(&in[n], &view, -2.0f, 2.0f, state, why))
            return false;
    }
    const struct view bias = case_input_view(p, INPUT_BIAS);
    const struct view mask = case_input_view(p, INPUT_MASK);
    return (!p->bias || fill_values(&in[INPUT_BIAS], &bias, -1.0f, 1.0f, state, why)) &&
           (!p->mask || fill_mask(&in[INPUT_MASK], &mask, state, why)) &&
           (!p->alibi || fill_floats(&in[INPUT_SLOPES], p->heads, 0.004f, 0.5f, state, why)) &&
           (!p->sinks || fill_floats(&in[INPUT_SINKS], p->heads, -1.0f, 1.0f, state, why)) &&
           (!p->q_lengths || fill_lengths(&in[INPUT_Q_LENGTHS], p->batch, p->seq_q, state, why)) &&
           (!p->kv_lengths || fill_lengths(&in[INPUT_KV_LENGTHS], p->batch, p->seq_kv, state, why));
}

bool case_random(struct attention_case *attention, const clattn_problem *problem, unsigned seed,
                 struct message *why)
{
    uint64_t state = 0x9e3779b97f4a7c15u ^ seed;

    memset(attention, 0, sizeof *attention);
    attention->problem = *problem;
    if (fill(attention, problem, &state, why))
        return true;
    case_free(attention);
    return false;
}
