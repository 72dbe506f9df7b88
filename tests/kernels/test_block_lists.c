/* SPDX-License-Identifier: Apache-2.0 */
/* Block lists: lists that hold anything, and the bits of a mask that hides the same. The sweep draws
 * lists with every other option. */
#include "tests/support/families.h"
#include "tests/support/rng.h"
#include "tests/support/unoptimised.h"
#include "tests/trials/trial.h"
#include <clattn/blocks.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

TestSuite(block_lists, .timeout = 600);

/* Those with walks of their own. */
static const struct walker {
    char family[32], text[80];
} walkers[] = {
    {"naive", "fwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
    {"fused_cpu UNIT=vector", "fwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
    {"fused_gpu UNIT=item", "fwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
    {"split_cpu UNIT=vector", "fwd f32 b2 h4/1 q3 k165 d16 blocks=2x8:40:h mask=qk lse"},
    {"split_gpu UNIT=item", "fwd f32 b2 h4/1 q3 k165 d16 blocks=2x8:40:h mask=qk lse"},
    {"split_gpu UNIT=mma", "fwd f16 b2 h4/1 q3 k165 d16 blocks=2x8:40:h mask=qk lse"},
    {"split_cpu UNIT=amx", "fwd bf16 b2 h4/1 q3 k165 d32 blocks=2x8:40:h mask=qk lse"},
    {"split_cpu UNIT=pairs", "fwd bf16 b2 h4/1 q3 k165 d32 blocks=2x8:40:h mask=qk lse"},
    {"fused_gpu UNIT=mma", "fwd f16 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
    {"unfused", "fwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
    {"unfused_lanes", "fwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk lse"},
    {"backward_cpu UNIT=vector", "bwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk"},
    {"backward_gpu UNIT=item", "bwd f32 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk"},
    {"backward_gpu UNIT=mma", "bwd f16 b2 h2 q33 k65 d16 blocks=7x8:40:h mask=qk"},
};
enum { NUM_WALKERS = sizeof walkers / sizeof *walkers };

ParameterizedTestParameters(block_lists, may_hold_anything) {
    static struct walker parameters[NUM_WALKERS];
    size_t taken[NUM_WALKERS];
    const size_t count = numbers_taken(NUM_WALKERS, 3, taken);

    for (size_t n = 0; n < count; n++)
        parameters[n] = walkers[taken[n]];
    return cr_make_param_array(struct walker, parameters, count);
}

/* Guard bands, NaN where nothing is seen, entries and offsets of every kind: by trials (trial_data.c). */
ParameterizedTest(struct walker *walker, block_lists, may_hold_anything) {
    struct fixture f;

    unoptimised();
    fixture_open(&f);
    fixture_need_groups_of(&f, walker->family);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct trial t = {
            .problem = fixture_problem(walker->text), .family = walker->family, .seed = seed};
        trial_pass(&f, &t);
    }
    fixture_close(&f);
}

/* ---- the bits of a mask ------------------------------------------------------------------------ */

enum { HEADS = 2, QUERIES = 30, KEYS = 44, DIM = 16, ROOM = 100 };

struct results {
    float o[HEADS * QUERIES * DIM], lse[HEADS * QUERIES];
};

static void attend(struct fixture *f, const char *text, clattn_host_forward_tensors tensors,
                   struct results *results)
{
    const clattn_problem p = fixture_problem(text);
    const clattn_plan_options options = {.struct_size = sizeof options, .family = "naive"};

    tensors.struct_size = sizeof tensors;
    tensors.o = results->o;
    tensors.lse = results->lse;
    cr_assert(clattn_attention_forward_host(f->context, &p, &options, &tensors) == CLATTN_SUCCESS,
              "%s: %s", text, f->log.last);
}

/* Where one item goes through the keys in their order, what is not listed is as if it were masked; and
 * a list of the blocks in which a mask sees something, beside that mask, changes nothing. */
DeviceTest(block_lists, have_the_bits_of_a_mask)
{
    static const char with[] = "fwd f32 h2 q30 k44 d16 lse mask=qk blocks=7x8:100";
    static float q[HEADS * QUERIES * DIM], k[HEADS * KEYS * DIM], v[HEADS * KEYS * DIM];
    static unsigned char mask[QUERIES * KEYS];
    static struct results want, got;
    const clattn_problem p = fixture_problem(with);
    struct rng r = rng_seed(3);
    int32_t offsets[6], entries[ROOM];

    unoptimised();
    for (size_t n = 0; n < sizeof q / sizeof *q; n++)
        q[n] = (float)rng_uniform(&r, -2, 2);
    for (size_t n = 0; n < sizeof k / sizeof *k; n++) {
        k[n] = (float)rng_uniform(&r, -2, 2);
        v[n] = (float)rng_uniform(&r, -2, 2);
    }
    for (size_t n = 0; n < sizeof mask; n++) /* empty, partly and wholly visible blocks */
        mask[n] = (n / KEYS / 7 + n % KEYS / 8) % 3 == 0 ||
                  ((n / KEYS / 7 + n % KEYS / 8) % 3 == 1 && rng_one_in(&r, 2));
    const clattn_host_forward_tensors masked = {.q = q, .k = k, .v = v, .mask = mask};
    clattn_host_forward_tensors listed = masked;
    listed.block_offsets = offsets;
    listed.block_entries = entries;
    cr_assert(clattn_blocks_mask(&p, mask, 0, 0, offsets, entries, NULL) == CLATTN_SUCCESS);
    attend(f, "fwd f32 h2 q30 k44 d16 lse mask=qk", masked, &want);
    attend(f, with, listed, &got);
    cr_expect(memcmp(&want, &got, sizeof want) == 0, "beside the mask");
    for (size_t n = 0; n < sizeof mask; n++)
        mask[n] = (n / KEYS / 7 + n % KEYS / 8) % 3 != 2;
    attend(f, "fwd f32 h2 q30 k44 d16 lse mask=qk", masked, &want);
    listed.mask = NULL;
    attend(f, "fwd f32 h2 q30 k44 d16 lse blocks=7x8:100", listed, &got);
    cr_expect(memcmp(&want, &got, sizeof want) == 0, "in place of the mask");
}
