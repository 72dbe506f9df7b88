/* From the products of split_tiles' lanes to weights: one work-item for each row and team.
 *
 * Before including this: score.h, tile_exp.h, team_keys.h; BLOCK_M. */
#ifndef CLATTN_TEAM_WEIGHTS_H
#define CLATTN_TEAM_WEIGHTS_H

#if HAS_DROPOUT
#define RANDOM_LANES 1
#include "common/philox.h"
#endif

#define QUADS (THREAD_N / 4)
/* Where four keys of a row and a team are: their products of one lane, their weights. */
#define QUAD_AT(row, quad, team) (((row) * QUADS + (quad)) * THREADS_N + (team))
/* Odd, so that neighbouring lanes write to different banks. */
#define LANE_STRIDE (BLOCK_M * QUADS * THREADS_N + 1)

/* A row of a work-group, which is a query of a head, and the keys [first, end) of the group that it
 * may see by lengths, window and causality. */
struct seeing {
    long b, h, i, first, end;
    struct extent e;
};

/* The weights of row r and team `team` for the block from key j0 on, from the sum of all lanes'
 * products; those of hidden keys are -0. Of the team's keys so far *top is the highest score and
 * *total the sum of weights; returns what scales earlier weights. */
INLINE float weigh_keys(SHAPE_PARAMS, const struct seeing row, const int r, const int team,
                        const long j0, const __local float4 *products, __local float4 *weights,
                        float *top, float *total SCORE_OPERANDS_PARAM)
{
    const float old = *top, scale = score_scale(a, at, row.h SCORE_OPERANDS_ARG);
    float s[THREAD_N], new = old, sum = 0.0f;

#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        float4 x = 0.0f;
        for (int lane = 0; lane < THREADS_D; lane++)
            x += products[lane * LANE_STRIDE + QUAD_AT(r, quad, team)];
        const float4 scaled = SOFTCAPPED(scale * x);
        vstore4(scaled, quad, s);
    }
#pragma unroll
    for (int n = 0; n < THREAD_N; n++) {
        s[n] = biased_score(a, at, row.e, row.first, row.end, row.b, row.h, row.i,
                            j0 + KEY_OF(team, n), s[n] SCORE_OPERANDS_ARG);
        new = fmax(new, s[n]);
    }
    const float rescale = EXP2((old - FINITE(new)) * LOG2E);
#pragma unroll
    for (int n = 0; n < THREAD_N; n++) {
        s[n] = s[n] == -INFINITY ? -0.0f : EXP2((s[n] - FINITE(new)) * LOG2E);
        sum += s[n];
    }
    *top = new;
    *total = *total * rescale + sum;
#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        float4 x = vload4(quad, s);
#if HAS_DROPOUT
        float kept[4];
        dropout_factors(a, at, row.b * a.heads + row.h, (uint)row.i,
                        (uint)((j0 + KEY_OF(team, 4 * quad)) / 4), kept);
        x *= vload4(0, kept);
#endif
        weights[QUAD_AT(r, quad, team)] = x;
    }
    return rescale;
}

#endif
