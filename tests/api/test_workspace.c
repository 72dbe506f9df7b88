/* SPDX-License-Identifier: Apache-2.0 */
/* Fused families need no memory that grows with seq_q * seq_kv, whatever the options are; but a byte for each
 * tile, of 64 pairs or more, of a mask or a bias (families/kernels/pair_marks.h). */
#include "families/candidate.h"
#include "families/pair_marks.h"
#include "families/registry.h"
#include "problem/problem.h"
#include "tests/support/fixture.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(workspace, .timeout = 60);

/* Every option alone, and many together. */
static const char *const options[] = {
    "",
    "causal=tl",
    "causal=br",
    "window=100,50",
    "softcap=30",
    "mask=bhqk",
    "bias=f32:bhqk",
    "alibi",
    "sinks",
    "qlen",
    "klen",
    "dropout=0.1",
    "window=200,0 softcap=30 mask=bhqk bias=f32:bhqk alibi sinks qlen klen dropout=0.1",
};
static const char *const of_forward[] = {"", "lse"};
static const char *const of_backward[] = {
    "",
    "bias=f32:bhqk dbias",
    "bias=f32:hqk dbias",
    "bias=f32:k dbias",
    "bias=f32:q dbias",
    "alibi dslopes",
    "sinks dsinks dlse",
};

/* Returns whether both have a bias, or slopes, or sinks. */
static int given_twice(const char *first, const char *second)
{
    static const char *const words[] = {"bias=", "alibi", "sinks"};

    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        if (strstr(first, words[n]) && strstr(second, words[n]))
            return 1;
    return 0;
}

static clattn_problem problem_of(const char *direction, const char *dtype, const char *heads,
                                 size_t seq, const char *first, const char *second)
{
    char text[256];

    snprintf(text, sizeof text, "%s %s b2 h%s q%zu k%zu d64 %s %s", direction, dtype, heads, seq,
             seq, first, second);
    return fixture_problem(text);
}

/* The size that marks of tiles may have, in whole floats, with a bias of any layout. The
 * smallest tiles, 8 x 8, are suggested where work-groups have one item. */
static size_t marks_of(const struct ca_problem *problem)
{
    const clattn_problem *p = &problem->normal;
    const size_t marks = p->batch * p->heads * p->seq_q * p->seq_kv / 64;

    return ca_marks_pairs(problem) ? marks + sizeof(cl_float) : 0;
}

/* With the values that suit the larger problem, for both. */
static void check(const struct ca_family *family, const clattn_device_info *dev,
                  const clattn_problem *small, const clattn_problem *large, const char *what)
{
    size_t values[CA_MAX_TUNABLES] = {0};
    const struct ca_problem p[] = {ca_problem_own(small), ca_problem_own(large)};

    if (!family->workspace_bytes || ca_family_unsupported(family, &p[1], dev))
        return;
    ca_family_suggest(family, &p[1], dev, values);
    const size_t bytes[] = {family->workspace_bytes(&p[0], values),
                            family->workspace_bytes(&p[1], values)};
    cr_expect(bytes[1] <= 4 * bytes[0] + marks_of(&p[1]), "%s %s: %zu bytes, 4 times as long %zu",
              family->full_name, what, bytes[0], bytes[1]);
}

static void check_family(const struct ca_family *family, const clattn_device_info *dev)
{
    const int backward = family->operation == CLATTN_BACKWARD;
    const char *direction = backward ? "bwd" : "fwd";
    const char *const *more = backward ? of_backward : of_forward;
    const size_t num_more = backward ? sizeof of_backward / sizeof *of_backward
                                     : sizeof of_forward / sizeof *of_forward;
    static const char *const dtypes[] = {"f32", "f16", "bf16"}, *const heads[] = {"1", "8", "8/2"};
    static const size_t seqs[] = {50, 1000, 1024, 9000};

    for (size_t n = 0; n < 3 * 3 * 4; n++)
        for (size_t o = 0; o < sizeof options / sizeof *options; o++)
            for (size_t m = 0; m < num_more; m++) {
                char what[200];
                const size_t seq = seqs[n / 9];
                if (given_twice(options[o], more[m]))
                    continue;
                const clattn_problem small = problem_of(direction, dtypes[n % 3], heads[n / 3 % 3],
                                                        seq, options[o], more[m]),
                                     large = problem_of(direction, dtypes[n % 3], heads[n / 3 % 3],
                                                        4 * seq, options[o], more[m]);
                snprintf(what, sizeof what, "%s h%s q%zu %s %s", dtypes[n % 3], heads[n / 3 % 3],
                         seq, options[o], more[m]);
                check(family, dev, &small, &large, what);
            }
}

DeviceTest(workspace, grows_with_the_length_alone)
{
    clattn_device_info of_one_item = *clattn_context_device(f->context);
    size_t fused = 0;

    /* As PoCL since 4 is taken (doc/design/drivers.md). */
    of_one_item.max_work_group_size = 1;
    for (int d = 0; d < 3; d++)
        of_one_item.max_work_item_sizes[d] = 1;
    for (size_t n = 0; ca_family_at(n); n++) {
        const struct ca_family *family = ca_family_at(n);
        if (family->operation > CLATTN_BACKWARD || strncmp(family->name, "unfused", 7) == 0)
            continue;
        check_family(family, clattn_context_device(f->context));
        check_family(family, &of_one_item);
        fused++;
    }
    cr_expect(fused >= 5);
}
