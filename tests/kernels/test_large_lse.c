/* Gradients of rows whose lse is so large that one float holds too little of it: weights sum to 1 all the same
 * (cl/common/backward.h). Every family, whose kernels add up a row's weights each in their own way. */
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include "tests/trials/trial_data.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>

TestSuite(large_lse, .init = unoptimised, .timeout = 300);

/* Every family in two runs, by index: parameters cross processes, pointers do not. */
static struct criterion_test_params families_of(const size_t test)
{
    static size_t families[MOST_FAMILIES];

    return cr_make_param_array(size_t, families,
                               families_taken(CLATTN_BACKWARD, NULL, test, 2, families));
}

#define FOR_EACH_FAMILY(name)                                                                      \
    ParameterizedTestParameters(large_lse, name) {                                                 \
        return families_of(__COUNTER__);                                                           \
    }                                                                                              \
    ParameterizedTest(size_t *family, large_lse, name)

/* Numbers that are no NaN in all inputs. */
static struct trial make(const char *family, const char *problem)
{
    static const enum tensor_id ids[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO, TENSOR_BIAS};
    struct trial t = {.problem = fixture_problem(family_text(family, problem)),
                      .family = family,
                      .seed = 3};

    trial_fill(&t);
    for (size_t n = 0; n < sizeof ids / sizeof *ids; n++)
        if (t.tensor[ids[n]].shape.present)
            trial_set_ordinary(&t, ids[n], 41 + n);
    return t;
}

/* A bias that is the same for all keys of each third query. */
static void set_rows(const struct trial *t, const double bias)
{
    const size_t *size = t->tensor[TENSOR_BIAS].shape.size;

    for (size_t b = 0; b < size[0]; b++)
        for (size_t h = 0; h < size[1]; h++)
            for (size_t i = 1; i < size[2]; i += 3)
                for (size_t j = 0; j < size[3]; j++)
                    trial_set(t, TENSOR_BIAS, b, h, i, j, bias);
}

static void run(struct fixture *f, struct trial *t)
{
    trial_data_fill_results(t);
    trial_run(f, t);
    trial_check(t);
}

/* Weights of a row that sum to 1 make the sum of dv over keys that of do over queries: it is compared for each head
 * and column. */
static void expect_sums(const struct trial *t, const double most)
{
    const clattn_problem *p = &t->problem;
    const size_t group = p->heads / p->kv_heads;

    for (size_t n = 0; n < p->batch * p->kv_heads * p->dim_v; n++) {
        const size_t d = n % p->dim_v, b = n / p->dim_v / p->kv_heads;
        const size_t head = n / p->dim_v % p->kv_heads;
        double dv = 0.0, d_o = 0.0, far = 0.0;
        for (size_t j = 0; j < p->seq_kv; j++)
            dv += trial_value(t, TENSOR_DV, b, head, j, d);
        for (size_t h = head * group; h < (head + 1) * group; h++)
            for (size_t i = 0; i < p->seq_q; i++) {
                const double x = trial_value(t, TENSOR_DO, b, h, i, d);
                d_o += x;
                far += fabs(x);
            }
        cr_assert(fabs(dv - d_o) <= most * far, "column %zu of head %zu: %.9g, not %.9g", d, head,
                  dv, d_o);
    }
}

static double share_of(const struct trial *t)
{
    return t->problem.dtype == CLATTN_F32 ? 2e-5 : t->problem.dtype == CLATTN_F16 ? 1e-3 : 8e-3;
}

/* A bias so low in all of a row that it is all that f32 keeps of the scores: weights are those of a mean. */
FOR_EACH_FAMILY(of_rows_of_the_lowest_bias)
{
    static const double biases[] = {-1e30, -(double)FLT_MAX, -1e9, -1e6, -1e4, 3e5};
    const char *name = clattn_family_name(CLATTN_BACKWARD, *family);
    struct trial t = make(name, "bwd f32 b2 h4/2 q21 k70 d64 bias=f32:hqk sinks dbias dsinks");
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, name);
    for (size_t n = 0; n < sizeof biases / sizeof *biases; n++) {
        for (size_t h = 0; h < 4; h++)
            trial_set(&t, TENSOR_SINKS, 0, 0, 0, h, n == 0 ? -1e30 : -INFINITY);
        set_rows(&t, biases[n]);
        run(&f, &t);
        if (n > 0)
            expect_sums(&t, share_of(&t));
    }
    trial_free(&t);
    fixture_close(&f);
}
