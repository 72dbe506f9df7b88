/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a problem beside functions of the library (cl/functions) that say the same, each computed by the same family with
 * the same tunables from the same data. CLATTN_TEST_SEED and CLATTN_TEST_FAMILY are as in the sweep. */
#include "bench/judge/judge.h"
#include "bench/judge/values.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "tests/support/families.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include "tests/trials/trial_data.h"
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(function_options, .init = unoptimised, .timeout = 300);

enum option { ALIBI, SOFTCAP, WINDOW, CAUSAL, NUM_OPTIONS };

/* The words of a problem for the option, of which a number may be the values', and for the function. */
static const char *const words[NUM_OPTIONS][2] = {
    [ALIBI] = {"alibi", "score=alibi"},
    [SOFTCAP] = {"softcap=%.9g", "score=softcap"},
    [WINDOW] = {"window=%.9g,0", "visible=sliding_window"},
    [CAUSAL] = {"causal=tl", "visible=prefix_lm"},
};

enum { MOST_CASES = 128, SHAPES = 2 };

/* Parameters cross processes, pointers do not. */
struct pair_case {
    size_t family;
    enum option option;
};

/* A run takes one or two of them; shapes share the programs. */
ParameterizedTestParameters(function_options, equal_functions) {
    static struct pair_case cases[MOST_CASES];
    const char *only = getenv("CLATTN_TEST_FAMILY");
    const struct ca_family *family;
    size_t count = 0, number = 0;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++)
        for (int option = 0; option < NUM_OPTIONS && family->operation <= CLATTN_BACKWARD; option++)
            if (count < MOST_CASES && !family_is_slow(family->full_name) &&
                (only && only[0] ? strcmp(only, family->full_name) == 0 : run_takes(number++, 20)))
                cases[count++] = (struct pair_case){n, (enum option)option};
    return cr_make_param_array(struct pair_case, cases, count);
}

/* The trials of an option and of its function. */
struct both {
    struct trial option, function;
    size_t wrong;
    char first[240];
};

static void compare(void *user, const int id, const size_t at[4], const struct bounded *want,
                    const size_t count)
{
    struct both *both = user;

    for (size_t n = 0; n < count; n++) {
        const double a = trial_value(&both->option, id, at[0], at[1], at[2], at[3] + n);
        const double b = trial_value(&both->function, id, at[0], at[1], at[2], at[3] + n);
        if (a == b || fabs(a - b) <= 2 * want[n].bound || both->wrong++ > 0)
            continue;
        snprintf(both->first, sizeof both->first,
                 "%s[%zu, %zu, %zu, %zu] is %.9g by the option, %.9g by the function, each +- %.3g",
                 both->option.tensor[id].shape.name, at[0], at[1], at[2], at[3] + n, a, b,
                 want[n].bound);
    }
}

static unsigned char *begin_of(const struct trial *t, int id)
{
    const struct host_tensor *x = &t->tensor[id];

    return x->bytes + tensor_bytes(&x->shape, x->offset);
}

/* Makes numbers of what nobody sees, and of a NaN that somebody does. */
static void calm(const struct trial *t, int id, struct rng *r)
{
    const struct tensor_shape *s = &t->tensor[id].shape;

    for (size_t n = 0; s->present && n < tensor_count(s); n++) {
        const double x = value_get(s->dtype, begin_of(t, id), tensor_nth(s, n));
        if (!(fabs(x) < 1e6))
            value_set(s->dtype, begin_of(t, id), tensor_nth(s, n), rng_uniform(r, -1, 1));
    }
}

/* Makes the data of the option's trial, and gives those of the function's the same ones. */
static void fill(struct both *both, enum option option, float value, struct rng *r)
{
    static const int numbers[] = {TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO};
    struct trial *o = &both->option, *f = &both->function;

    while (trial_sent(o).dropout_place.heads >
           0) /* functions know of a part's place, options do not */
        o->seed++;
    f->seed = o->seed;
    trial_fill(o);
    trial_fill(f);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        calm(o, numbers[n], r);
    if (o->problem.operation == CLATTN_BACKWARD)
        trial_data_fill_results(o);
    for (int id = 0; id < NUM_TENSORS; id++)
        if (o->tensor[id].bytes && f->tensor[id].bytes)
            memcpy(f->tensor[id].bytes, o->tensor[id].bytes, o->tensor[id].num_bytes);
    if (option == ALIBI)
        memcpy(begin_of(f, TENSOR_FUNCTION_0), begin_of(o, TENSOR_SLOPES),
               o->problem.heads * sizeof(float));
    if (option == CAUSAL) /* no prefix */
        memset(begin_of(f, TENSOR_FUNCTION_0), 0, o->problem.batch * sizeof(cl_int));
    f->valued = 1;
    f->values = (clattn_function_values){.ints = {(int)value + 1}, .floats = {value}};
}

static struct trial trial_of(const char *family, const char *text, const char *word, double value)
{
    char whole[300];
    const size_t length = (size_t)snprintf(whole, sizeof whole, "%s ", text);

    snprintf(whole + length, sizeof whole - length, word, value);
    return (struct trial){.problem = fixture_problem(family_text(family, whole)), .family = family};
}

/* Makes the trials of both forms, whose tunables are those that suit the function. They are invariant, so that tiles begin at
 * multiples of their size, where the family keeps that. */
static int make_both(struct fixture *f, const struct ca_family *family, const char *text,
                     enum option option, float value, struct both *both)
{
    const clattn_device_info *dev = clattn_context_device(f->context);
    char longer[300];
    size_t values[CA_MAX_TUNABLES];

    snprintf(longer, sizeof longer, "%s%s", text, family->keeps_invariant ? " invariant" : "");
    both->option = trial_of(family->full_name, longer, words[option][0], (double)value);
    both->function = trial_of(family->full_name, longer, words[option][1], (double)value);
    const struct ca_problem p = ca_problem_own(&both->function.problem);
    ca_family_suggest(family, &p, dev, values);
    ca_tunables_print(family->tunables, family->num_tunables, values, both->option.tunables,
                      sizeof both->option.tunables);
    strcpy(both->function.tunables, both->option.tunables);
    return trial_is_supported(f, &both->option) && trial_is_supported(f, &both->function);
}

/* Returns whether both forms compute the same tiles in the same order. Without `invariant` unfused and fused_gpu begin at the
 * first key that a window shows, and fused_cpu computes keys that all queries of a tile see in a tile of their own. In
 * backward_cpu tiles of queries begin at the first one that an option lets see a key, which a function does not decide. */
static int has_same_tiles(const struct ca_family *family, enum option option)
{
    if (option < WINDOW || strcmp(family->name, "backward_cpu") == 0)
        return 0;
    if (family->keeps_invariant || option == CAUSAL)
        return family->keeps_invariant || strcmp(family->name, "fused_cpu") != 0;
    return strncmp(family->name, "fused", 5) != 0 && strcmp(family->name, "unfused") != 0;
}

/* Counts the numbers of results in which the forms differ. */
static size_t differences(const struct both *both)
{
    size_t count = 0;

    for (int id = 0; id < NUM_TENSORS; id++) {
        const struct tensor_shape *s = &both->option.tensor[id].shape;
        for (size_t n = 0; s->present && s->written && n < tensor_count(s); n++)
            count +=
                trial_value_nth(&both->option, id, n) != trial_value_nth(&both->function, id, n);
    }
    return count;
}

/* Each form's numbers are within the problem's bound (clattn/problem.h, "Precision"; bench/judge has it for each element) of
 * exact ones, hence within twice that of each other's. Masks that give the same tiles give the same numbers. */
ParameterizedTest(struct pair_case *c, function_options, equal_functions) {
    const struct ca_family *family = ca_family_at(c->family);
    const int backward = family->operation == CLATTN_BACKWARD;
    struct rng r = rng_seed(run_seed());
    struct fixture f;

    fixture_open(&f);
    fixture_need_groups_of(&f, family->full_name);
    const size_t dim = RNG_PICK(&r, 8, 16, 32);
    const char *lengths = rng_one_in(&r, 2) ? " klen" : "";
    for (int n = 0; n < SHAPES; n++) {
        static struct both both;
        const float value =
            c->option == WINDOW ? (float)rng_below(&r, 80) : 0.5f + (float)rng_below(&r, 16) / 4;
        char text[200];
        snprintf(text, sizeof text, "%s %s b2 h4/2 q%zu k%zu d%zu%s%s", backward ? "bwd" : "fwd",
                 family_takes_f32(family->full_name) ? "f32" : "bf16", 33 + rng_below(&r, 60),
                 129 + rng_below(&r, 90), dim, lengths, backward ? "" : " lse");
        cr_assert(make_both(&f, family, text, c->option, value, &both), "%s: '%s %s': %s",
                  family->full_name, text, words[c->option][1],
                  clattn_context_last_error(f.context));
        both.option.seed = rng_next(&r);
        fill(&both, c->option, value, &r);
        trial_run(&f, &both.option);
        trial_run(&f, &both.function);
        const struct tensor_view sent = trial_sent(&both.option);
        both.wrong = 0;
        cr_assert(
            judge_results(&both.option.problem, &sent, PRECISION_SINGLE, INFINITY, compare, &both));
        const size_t differ = differences(&both);
        cr_expect(both.wrong == 0, "%s '%s %s' of %g, seed %llu: %zu are not equal: %s",
                  family->full_name, text, words[c->option][1], (double)value,
                  (unsigned long long)run_seed(), both.wrong, both.first);
        cr_expect(differ == 0 || !has_same_tiles(family, c->option),
                  "%s '%s %s' of %g, seed %llu: %zu numbers have other bits", family->full_name,
                  text, words[c->option][1], (double)value, (unsigned long long)run_seed(), differ);
        trial_free(&both.option);
        trial_free(&both.function);
    }
    fixture_close(&f);
}
