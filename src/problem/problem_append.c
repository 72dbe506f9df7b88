/* Problems of operation CLATTN_APPEND: what problem.c and problem_class.c ask for them. */
#include "problem/problem_append.h"
#include "base/log.h"
#include "problem/classes/class_size.h"
#include "problem/layout.h"
#include "problem/operations.h"
#include "problem/tensors.h"

#include <math.h>

enum { MOST_ROTARY_DIM = 4096 };

/* Tokens, heads, and rows of caches and tables in a representative. */
enum { MOST_TOKENS = 4096, MOST_HEADS = 128, MOST_ROWS = 4096 };

void ca_append_rotation(const clattn_problem *p, float *high, float *low, int64_t *length)
{
    const double step =
        p->rotary_base > 0.0f ? pow((double)p->rotary_base, -2.0 / (double)p->rotary_dim) : 1.0;

    *high = (float)step;
    *low = (float)(step - (double)*high);
    *length = (int64_t)p->rotary_length;
}

clattn_problem ca_append_normal(const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem normal = *p;

    ca_problem_tensors(p, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        clattn_layout *layout = ca_problem_layout(&normal, n);
        if (layout && tensors[n].present)
            *layout = tensors[n].layout;
    }
    return normal;
}

static clattn_status check_rotary(const clattn_problem *p, char *reason, size_t bytes)
{
    const int tables = p->rotary_length > 0;
    const struct {
        const char *sentence;
        int broken;
    } rules[] = {
        {"queries are given, but there is no rotary that they need",
         !p->rotary && p->queries != CLATTN_QUERIES_NONE},
        {"rotary_dim, rotary_base and rotary_length are 0 without rotary",
         !p->rotary && (p->rotary_dim || p->rotary_base != 0.0f || tables)},
        {"positions are given, but there is no rotary that needs them", !p->rotary && p->positions},
        {"rotary_dim must be even, from 2 to dim_qk and 4096",
         p->rotary && (p->rotary_dim < 2 || p->rotary_dim % 2 != 0 || p->rotary_dim > p->dim_qk ||
                       p->rotary_dim > MOST_ROTARY_DIM)},
        {"rotary_base must be finite and at least 1",
         p->rotary && !tables && !(p->rotary_base >= 1.0f && isfinite(p->rotary_base))},
        {"rotary_base must be 0 where rotary_length says that there are tables",
         tables && p->rotary_base != 0.0f},
    };

    for (size_t n = 0; n < sizeof rules / sizeof *rules; n++) {
        if (rules[n].broken) {
            ca_reason(reason, bytes, "%s", rules[n].sentence);
            return CLATTN_INVALID_PROBLEM;
        }
    }
    return CLATTN_SUCCESS;
}

clattn_status ca_append_check(const clattn_problem *p, char *reason, size_t reason_bytes)
{
    clattn_problem rest = *p;

    rest.kv_lengths = 0; /* which an append may have */
    const clattn_status status = ca_refuse_options(&rest, "an append", reason, reason_bytes);
    if (status != CLATTN_SUCCESS)
        return status;
    if (p->bias || p->accumulate) {
        ca_reason(reason, reason_bytes, "an append has no %s", p->bias ? "bias" : "accumulate");
        return CLATTN_INVALID_PROBLEM;
    }
    if (p->heads % p->kv_heads != 0) {
        ca_reason(reason, reason_bytes, "heads (%zu) must be a multiple of kv_heads (%zu)",
                  p->heads, p->kv_heads);
        return CLATTN_INVALID_PROBLEM;
    }
    if (p->rotary_length > CA_MAX_SIZE) {
        ca_reason(reason, reason_bytes, "rotary_length is %zu but must be at most %zu",
                  p->rotary_length, CA_MAX_SIZE);
        return CLATTN_INVALID_PROBLEM;
    }
    return check_rotary(p, reason, reason_bytes);
}

double ca_append_flops(const clattn_problem *p)
{
    const size_t heads = p->kv_heads + (p->queries ? p->heads : 0);

    return 3.0 * (double)p->batch * (double)p->seq_q * (double)heads * (double)p->rotary_dim;
}

/* Packed, (1, heads, rows, dim), or with a gap after each element. */
static clattn_layout simple_layout(int unit, size_t heads, size_t rows, size_t dim)
{
    if (unit)
        return (clattn_layout){{0}};
    return (clattn_layout){{2 * heads * rows * dim, 2 * rows * dim, 2 * dim, 2}};
}

static int is_unit(const clattn_problem *p, unsigned argument)
{
    struct ca_tensor tensors[CA_WORKSPACE];

    ca_problem_tensors(p, tensors);
    return !tensors[argument].present || tensors[argument].layout.stride[3] == 1;
}

int ca_append_reads_units(const clattn_problem *p)
{
    return is_unit(p, CA_Q) && is_unit(p, CA_K) && is_unit(p, CA_V);
}

int ca_append_writes_units(const clattn_problem *p)
{
    return is_unit(p, CA_O) && is_unit(p, CA_DK) && is_unit(p, CA_DV);
}

clattn_problem ca_append_representative(const clattn_problem *p)
{
    const double tokens = (double)p->batch * (double)p->seq_q;
    const int reads = ca_append_reads_units(p), writes = ca_append_writes_units(p);
    clattn_problem r = *p;

    r.batch = 1;
    r.seq_q = ca_size_rounded(tokens < MOST_TOKENS ? (size_t)tokens : MOST_TOKENS, MOST_TOKENS);
    r.heads = ca_size_rounded(p->heads, MOST_HEADS);
    r.kv_heads = r.heads / ca_size_rounded(p->heads / p->kv_heads, r.heads);
    r.seq_kv = ca_size_rounded(p->seq_kv, MOST_ROWS);
    r.rotary_length = p->rotary_length ? ca_size_rounded(p->rotary_length, MOST_ROWS) : 0;
    r.rotary_base = p->rotary_base != 0.0f ? 10000.0f : 0.0f;
    r.kv_lengths = p->kv_lengths != 0;
    r.positions = p->positions != 0;
    r.slots = p->slots != 0;
    r.page_size = p->page_size ? ca_size_rounded(p->page_size, MOST_ROWS) : 0;
    for (;;) {
        r.pages = r.page_size == 0 ? 0 : ca_table_pages(&r) ? ca_table_pages(&r) : 1;
        r.k = simple_layout(reads, r.kv_heads, r.seq_q, r.dim_qk);
        r.v = simple_layout(reads, r.kv_heads, r.seq_q, r.dim_v);
        r.q = simple_layout(reads, r.heads, r.seq_q, r.dim_qk);
        r.o = simple_layout(writes, r.heads, r.seq_q, r.dim_qk);
        r.dk = simple_layout(writes || p->k_cache, r.kv_heads, ca_cache_rows(&r), r.dim_qk);
        r.dv = simple_layout(writes || p->v_cache, r.kv_heads, ca_cache_rows(&r), r.dim_v);
        /* As in the classes of attention: dims of huge problems. */
        if ((r.seq_q == 1 && r.seq_kv == 1 && r.heads == 1) ||
            clattn_problem_check(&r, NULL, 0) == CLATTN_SUCCESS)
            return r;
        size_t *largest = r.seq_q > r.seq_kv ? &r.seq_q : &r.seq_kv;
        largest = *largest > r.heads ? largest : &r.heads;
        *largest /= 2;
        r.kv_heads = r.kv_heads < r.heads ? r.kv_heads : r.heads;
    }
}
