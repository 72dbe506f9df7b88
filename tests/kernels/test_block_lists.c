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

/* Guard bands, NaN where nothing is seen, entries and offsets of every kind: by trials (trial_data.c). */
FAMILY_TEST(block_lists, may_hold_anything, CLATTN_FORWARD, NULL, 9)
{
    static const char *const problems[] = {
        "fwd f32 b2 h2 q33 k65 d32 blocks=7x8:40:h mask=qk lse",
        "fwd f32 b2 h4/1 q3 k165 d32 blocks=2x8:40:h mask=qk lse",
    };

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_FORWARD, *family), problems, 2, 0, 6);
}

/* Tiles that lie in one block look no pair up (TILES_IN_BLOCKS() of cl/score/blocks.h). */
FAMILY_TEST(block_lists, of_large_blocks, CLATTN_FORWARD, NULL, 6)
{
    static const char *const problems[] = {
        "fwd f32 b2 h2 q150 k270 d64 blocks=64x64:8:h lse",
        "fwd f32 b2 h2/1 q130 k200 d40 blocks=128x64:5:b causal=br klen lse",
    };

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_FORWARD, *family), problems, 2, 0, 2);
}

FAMILY_TEST(block_lists, of_large_blocks_have_gradients, CLATTN_BACKWARD, NULL, 6)
{
    static const char *const problems[] = {
        "bwd f32 b2 h2 q150 k270 d64 blocks=128x64:6:h",
        "bwd f32 b2 h2/1 q130 k200 d64 blocks=64x128:4:b klen",
    };

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_BACKWARD, *family), problems, 2, 0, 2);
}

FAMILY_TEST(block_lists, of_gradients_may_hold_anything, CLATTN_BACKWARD, NULL, 8)
{
    static const char *const problems[] = {"bwd f32 b2 h2 q33 k65 d32 blocks=7x8:40:h mask=qk"};

    unoptimised();
    trials_pass(clattn_family_name(CLATTN_BACKWARD, *family), problems, 1, 0, 12);
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
