/* SPDX-License-Identifier: Apache-2.0 */
/* projection_cpu UNIT=amx: products by tiles of AMX, by the processor's instruction where it has one, and emulated as on
 * one that lacks it, which both must give the same bits; and what is chosen. The sweep draws more
 * (CLATTN_TEST_FAMILY=projection_cpu UNIT=amx, projection/sweep). */
#include "context/context.h"
#include "device/capacity.h"
#include "tests/bf16/bf16_trials.h"
#include "tests/support/families.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/projection_trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

TestSuite(projection_cpu_amx, .init = unoptimised, .timeout = 300);

/* All ways to pack, odd depths, strips, panels and parts of the depth that end within a tile, and sums that
 * wait for several parts. */
static const char *const projections[][2] = {
    {"proj bf16 b2 h3/1 q37 d131/50 bias=f32",
     "STRIP_K=64 BLOCK_K=64 BLOCK_M=32 BLOCK_N=32 SUMS_M=32 SPLIT_K=1"},
    {"proj bf16 b2 h3/5 q37 d33/20 w=oi x=bshd y=bshd accumulate",
     "STRIP_K=32 BLOCK_K=128 BLOCK_M=64 BLOCK_N=64 SUMS_M=64 SPLIT_K=2"},
    {"proj bf16 b2 h2 q67 d75/33 x=bhds y=bhds bias=bf16 accumulate",
     "STRIP_K=64 BLOCK_K=256 BLOCK_M=64 BLOCK_N=64 SUMS_M=32 SPLIT_K=1"},
    {"proj bf16 b2 h2/3 q17 d45/35 x=0.0.90.2 w=0.0.0.7",
     "STRIP_K=32 BLOCK_K=64 BLOCK_M=32 BLOCK_N=32 SUMS_M=32 SPLIT_K=2"},
    {"proj bf16 q150 d300/70",
     "STRIP_K=128 BLOCK_K=64 BLOCK_M=256 BLOCK_N=128 SUMS_M=64 SPLIT_K=1"},
    /* Strips whose tiles lie in x, that go on in another batch, and that end before whole steps. */
    {"proj bf16 b2 q72 d112/70 x=16000.0.130.1",
     "STRIP_K=64 BLOCK_K=128 BLOCK_M=256 BLOCK_N=128 SUMS_M=32 SPLIT_K=1"},
    {"proj bf16 b2 q70 d192/40 x=16000.0.200.1 bias=bf16",
     "STRIP_K=32 BLOCK_K=128 BLOCK_M=64 BLOCK_N=64 SUMS_M=64 SPLIT_K=2"},
    {"proj bf16 q1 d200/90 w=oi",
     "STRIP_K=256 BLOCK_K=256 BLOCK_M=32 BLOCK_N=64 SUMS_M=32 SPLIT_K=1"},
};
enum { NUM_PROJECTIONS = sizeof projections / sizeof *projections };

static struct projection_trial make(const size_t number)
{
    struct projection_trial t = {.problem = fixture_problem(projections[number][0]),
                                 .family = "projection_cpu UNIT=amx",
                                 .seed = 3 + number};

    snprintf(t.tunables, sizeof t.tunables, "%s", projections[number][1]);
    return t;
}

ParameterizedTestParameters(projection_cpu_amx, options) {
    return bf16_parts(NUM_PROJECTIONS);
}

/* The second time around with a NaN in x and an infinity in w, which zeros beside them must not spread. */
ParameterizedTest(struct bf16_part *part, projection_cpu_amx, options) {
    struct fixture f;

    bf16_open(&f, part->emulated);
    for (int poisoned = 0; poisoned < 2; poisoned++) {
        struct projection_trial t = make(part->number);
        t.poisoned = poisoned;
        projection_pass(&f, &t);
    }
    fixture_close(&f);
}

static void run(struct projection_trial *t, const size_t number, const int emulated)
{
    struct fixture f;

    bf16_open(&f, emulated);
    *t = make(number);
    projection_fill(t);
    for (size_t n = 0; n < 16; n++) { /* sums of any size, and products that are flushed */
        projection_set(t, PROJECTION_X, n, ldexp(1.0, n % 2 ? (int)n - 127 : (int)n));
        projection_set(t, PROJECTION_W, 3 * n, ldexp(1.0, n % 3 ? -20 : 7));
    }
    projection_run(&f, t);
    fixture_close(&f);
}

Test(projection_cpu_amx, emulation_has_the_instructions_bits) {

    bf16_need_tiles();
    for (size_t n = 0; n < 2; n++) {
        struct projection_trial one, other;
        run(&one, n, 0);
        run(&other, n, 1);
        cr_expect(memcmp(one.tensor[PROJECTION_Y].got, other.tensor[PROJECTION_Y].got,
                         one.tensor[PROJECTION_Y].num_bytes) == 0,
                  "%s", projections[n][0]);
        projection_free(&one);
        projection_free(&other);
    }
}

Test(projection_cpu_amx, is_chosen_where_there_is_a_matrix_unit) {
    static const char unit[] = "avx512_bf16 amx_bf16";
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    cr_expect_str_eq(bf16_choice(&f, "proj bf16 q40 d16", unit), "projection_cpu UNIT=amx");
    cr_expect_str_eq(bf16_choice(&f, "proj f16 q40 d16", unit), "projection_cpu UNIT=vector");
    cr_expect_str_eq(bf16_choice(&f, "proj bf16 q40 d16", "avx512_bf16"),
                     "projection_cpu UNIT=pairs");
    cr_expect_str_eq(bf16_choice(&f, "proj bf16 q40 d16", ""), "projection_cpu UNIT=vector");
    fixture_close(&f);
}

Test(projection_cpu_amx, refusals) {
    static const struct family_refusal refused[] = {{"proj f32 q3 d8", NULL, "bf16 alone"},
                                                    {"proj f16 q3 d8", NULL, "bf16 alone"}};

    families_expect_refusals("projection_cpu UNIT=amx", refused, sizeof refused / sizeof *refused);
}
