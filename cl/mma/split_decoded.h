/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of split_gpu_mma for quantized keys and values of which each sub-group has its own: TILE_KEYS of the
 * BLOCK_N of a step, with all rows and dims. Their bytes arrive in a place of its own, and it decodes them to
 * operands in registers (decoded_operands.h). So it waits for its own copies alone; sub-groups meet at the end of the
 * range, where their sums are added in their order.
 *
 * Products  s = q k^T, rows by keys, with Q's operands from local memory; o^T += v^T p^T, dims by rows: sums of s
 *           are the second operand where they are. With HALF_ROWS a second product has 8 rows, else twice 8.
 * Scales    those of keys, in f32, multiply the sums of a block's products; those of values are a power of two in the
 *           elements (fragment_tile.h), the rest multiplies weights. prepare_keys() and prepare_values() leave them
 *           in local memory in the order of lanes.
 *
 * A part of split_gpu_mma.cl, which includes it in the place of its kernel. */
#pragma once

enum {
    K_BLOCKS = DIM_QK / BLOCK_VALUES,
    V_BLOCKS = DIM_V / BLOCK_VALUES,
    K_WORDS = ROW_WORDS(K_ROW_BYTES), /* of a row in local memory */
    V_WORDS = ROW_WORDS(V_ROW_BYTES),
    ROW_EIGHTS = BLOCK_M / FRAGMENT_OTHERS
};

/* A sub-group's own local memory. */
struct own {
    __local uchar *k_bytes, *v_bytes;
    __local uint4 *factors;
    /* with pages: the addresses of its rows of keys, then of values, in bytes */
    __local long *places;
};

/* Key number n, in the order of tiles. */
INLINE int key_of_order(const int n)
{
    return place_of_key(n / FRAGMENT_OTHERS, n % FRAGMENT_OTHERS);
}

/* The number of the sub-group's keys in a tile. */
INLINE int own_count(const struct keys *keys)
{
    return clamp(keys->count - group_key(), 0, TILE_KEYS);
}

/* ---- load ------------------------------------------------------------------------------------ */

/* Stores Q's operands, in the order of decoded keys; q_tile may then be overwritten. */
INLINE void store_q_operands(const __local ushort *q_tile, __local uint4 *q_operands)
{
    __local ushort *const elements = (__local ushort *)q_operands;

    for (int n = get_local_id(0); n < Q_PIECES * QUERY_ELEMENTS; n += THREADS) {
        const int e = n % QUERY_ELEMENTS, lane = n / QUERY_ELEMENTS % FRAGMENT_LANES;
        const int step = n / QUERY_ELEMENTS / FRAGMENT_LANES, block = step / 2;
        const int row = query_row(lane, e);
        const int dim = dim_of_term(K_CACHE, block, step % 2, query_depth(lane, e));

        elements[n] =
            row < BLOCK_M ? q_tile[row * ROW_STRIDE + block * BLOCK_VALUES + dim] : (ushort)0;
    }
    LOCAL_BARRIER(); /* Q's operands are complete, its tile may be overwritten */
}

#if PAGE_SIZE
/* Lists the addresses of the sub-group's rows of a tile; they are read after the sub-group's next
 * barrier. */
INLINE void list_own_places(const struct arguments *args, const long b, const struct keys *keys,
                            __local long *places, const int lane)
{
    for (int n = lane; n < own_count(keys); n += FRAGMENT_LANES) {
        const long j = keys->j0 + group_key() + n;
        places[n] = listed_place(K_CACHE, key_row(args, b, j, args->shape->k_stride));
        places[TILE_KEYS + n] = listed_place(V_CACHE, key_row(args, b, j, args->shape->v_stride));
    }
    sub_group_barrier(); /* the places are complete */
}
#else
#define list_own_places(args, b, keys, places, lane) ((void)0)
#endif

/* The number of neighbouring rows in a page, if tiles and pages are multiples of it. */
enum { RUN_ROWS = 16 };

/* Copies the bytes of the sub-group's rows of a tile. matrix is the row of key 0 or, with pages, of
 * page 0. */
INLINE void copy_own(const int cache, __local uchar *to, const struct keys *keys,
                     const __global uchar *matrix, const long row_step, const __local long *places,
                     const int row_bytes, const bool aligned, const int lane)
{
    const int to_step = ROUND_UP(row_bytes, 4), count = own_count(keys);

    if (!EMULATE && count == 0) /* PoCL 3.1 lets the first sub-group decide for all of them */
        return;
#if PAGE_SIZE && PAGE_SIZE % 16 == 0
    if (count == TILE_KEYS && (keys->j0 + group_key()) % RUN_ROWS == 0 && to_step == row_bytes &&
        row_step / BLOCK_VALUES * BLOCK_BYTES(cache) == row_bytes) {
        for (int n = 0; n < TILE_KEYS; n += RUN_ROWS)
            copy_bytes(cache, to + n * to_step, to_step, RUN_ROWS, matrix + places[n], row_step, 0,
                       RUN_ROWS, row_bytes, aligned, FRAGMENT_LANES, lane);
        return;
    }
#endif
    copy_bytes(cache, to, to_step, TILE_KEYS, matrix, row_step, places, count, row_bytes, aligned,
               FRAGMENT_LANES, lane);
}

#define COPY_OWN_KEYS(keys)                                                                        \
    copy_own(K_CACHE, own.k_bytes, keys,                                                           \
             k_place(m.k, from_key((keys)->j0 + group_key(), args->shape->k_stride)),              \
             args->shape->k_stride[2], PAGE_SIZE ? own.places : 0, K_ROW_BYTES, m.k_aligned, lane)
#define COPY_OWN_VALUES(keys)                                                                      \
    copy_own(V_CACHE, own.v_bytes, keys,                                                           \
             v_place(m.v, from_key((keys)->j0 + group_key(), args->shape->v_stride)),              \
             args->shape->v_stride[2], PAGE_SIZE ? own.places + TILE_KEYS : 0, V_ROW_BYTES,        \
             m.v_aligned, lane)

/* ---- scales ---------------------------------------------------------------------------------- */

/* Reads the scales of keys, 0 beyond the last: for each block those of all keys in the order of
 * tiles. */
INLINE void prepare_keys(const __local uchar *bytes, __local float *factors, const int count,
                         const struct row_scales of_rows, const int lane)
{
    UNROLL
    for (int first = 0; first < K_BLOCKS * TILE_KEYS; first += FRAGMENT_LANES) {
        const int n = first + lane;
        if (n >= K_BLOCKS * TILE_KEYS)
            continue;
        const int key = key_of_order(n % TILE_KEYS);
        const float scale = block_scale_at(K_CACHE, bytes + key * K_WORDS * 4,
                                           n / TILE_KEYS * BLOCK_BYTES(K_CACHE));
        factors[n] = key < count ? scale * scale_of_row(of_rows, key) : 0.0f;
    }
    sub_group_barrier(); /* the keys' factors are complete */
}

/* The factors of weights and of values of a key's block. */
struct value_factor {
    float factor;
    uint power; /* an element in both halves */
};

INLINE struct value_factor value_factor_of(const float scale, const bool inside, const bool finite,
                                           int *nonfinite)
{
    const struct element_form form = element_form_of(V_CACHE);
    struct value_factor f = {inside ? scale : 0.0f, form.power};

    if (DTYPE == DTYPE_F16) {
        /* A sixteenth of the least power, for codes in high halves, is an exact element as well. */
        const float x = power_of_scale(V_CACHE, scale,
                                       layout_of(V_CACHE).scale < 0 ? form.least_power : 0x1p-20f);
        f.factor *= as_float((254u << 23) - as_uint(x));
        f.power = pack_pair(x * form.unit, x * form.unit);
    }
    if (finite && (as_uint(scale) & 0x7f800000u) == 0x7f800000u && inside) {
        f.factor = 0.0f;
        *nonfinite = 1;
    }
    return f;
}

/* Of each block of values, for two neighbours among a lane's keys: their factors, and the powers of both with what
 * pair_of_codes() takes. Returns whether a scale is an Inf or NaN, if `finite`. */
INLINE int prepare_values(const __local uchar *bytes, __local uint4 *factors, const int count,
                          const struct row_scales of_rows, const bool finite, const int lane)
{
    const uint one_less = element_form_of(V_CACHE).less;
    int nonfinite = 0;

    UNROLL
    for (int first = 0; first < V_BLOCKS * TILE_KEYS / 2; first += FRAGMENT_LANES) {
        const int n = first + lane;
        if (n >= V_BLOCKS * TILE_KEYS / 2)
            continue;
        const int pair = n % (TILE_KEYS / 2), block = n / (TILE_KEYS / 2);
        struct value_factor f[2];

        UNROLL
        for (int k = 0; k < 2; k++) {
            const int key = key_of_order(2 * pair + k);
            f[k] = value_factor_of(
                block_scale_at(V_CACHE, bytes + key * V_WORDS * 4, block * BLOCK_BYTES(V_CACHE)) *
                    (key < count ? scale_of_row(of_rows, key) : 1.0f),
                key < count, finite, &nonfinite);
        }
        const uint power = permute_bytes(f[0].power, f[1].power, 0x5410);
        const uint less = DTYPE == DTYPE_F16 ? fma_pair(power, one_less, 0) : one_less;
        factors[n] = (uint4)(as_uint(f[0].factor), as_uint(f[1].factor), power, less);
    }
    sub_group_barrier(); /* the values' factors are complete */
    return nonfinite;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Computes s = q k^T for the sub-group's keys. */
INLINE void multiply_own_keys(const struct own *own, const __local uint4 *q_operands,
                              float s[KEY_SUMS], const int lane, __local float *exchange)
{
    const __local float *const factors = (const __local float *)own->factors;
    const uint order = ROTATION_ORDER(lane);

    UNROLL
    for (int x = 0; x < KEY_SUMS; x++)
        s[x] = 0.0f;
        /* The codes of two blocks have the same alignment in words; a loop over all blocks would
         * take more registers. */
#pragma unroll 1
    for (int two = 0; two < K_BLOCKS; two += 2)
        UNROLL
    for (int one = 0; one < MIN(K_BLOCKS, 2); one++) {
        const int block = two + one;
        if (K_BLOCKS % 2 && block >= K_BLOCKS)
            continue;
        uint q_words[2][QUERY_WORDS];

        UNROLL
        for (int i = 0; i < 2; i++)
            vstore4(q_operands[(2 * block + i) * FRAGMENT_LANES + lane], 0, q_words[i]);
        UNROLL
        for (int tile = 0; tile < KEY_TILES; tile++) {
            const __local uint *const row = (const __local uint *)own->k_bytes +
                                            place_of_key(tile, other_column(lane)) * K_WORDS +
                                            two / 2 * (BLOCK_BYTES(K_CACHE) / 2);
            const float2 factor =
                *(const __local float2 *)(factors + block * TILE_KEYS + tile * FRAGMENT_OTHERS +
                                          sum_other(lane, 0));
            float products[FRAGMENT_SUMS] = {0.0f};
            UNROLL
            for (int i = 0; i < 2; i++) {
                uint words[OTHER_WORDS];
                decode_keys(words, row, one, i, lane, order);
                multiply_add(products, q_words[i], words, lane, exchange);
            }
            UNROLL
            for (int e = 0; e < TILE_SUMS; e++)
                s[tile * TILE_SUMS + e] =
                    fma(products[e], e % 2 ? factor.y : factor.x, s[tile * TILE_SUMS + e]);
        }
        in_order();
    }
}

/* Makes the second operand of rows 8 r .. 8 r + 7, in parts, from the weights of four keys times
 * their factors. */
INLINE void take_own_weights(uint words[WEIGHT_PARTS][OTHER_WORDS], const float *p, const int r,
                             const uint4 factors[2])
{
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
        float x = p[pair * TILE_SUMS + 2 * r] * as_float(factors[pair].x);
        float y = p[pair * TILE_SUMS + 2 * r + 1] * as_float(factors[pair].y);
        UNROLL
        for (int part = 0; part < WEIGHT_PARTS; part++)
            words[part][pair] = take_pair(&x, &y);
    }
}

/* Adds v^T p^T for the sub-group's keys to out. finite: Infs and NaNs that lie in codes count as 0, and the result tells
 * whether there are some. */
INLINE int multiply_own_values(const struct own *own, const float p[KEY_SUMS], float out[DIM_SUMS],
                               const bool finite, const int lane, __local float *exchange)
{
    int nonfinite = 0;

    UNROLL
    for (int slab = 0; slab < KEY_TILES / 2; slab++) {
        const __local uchar *rows[4];

        UNROLL
        for (int n = 0; n < 4; n++)
            rows[n] =
                own->v_bytes + place_of_key(2 * slab + n / 2, sum_other(lane, n % 2)) * V_WORDS * 4;
        UNROLL
        for (int block = 0; block < V_BLOCKS; block++) {
            uint weights[ROW_EIGHTS][WEIGHT_PARTS][OTHER_WORDS], values[2][QUERY_WORDS];
            uint4 factors[2];
            uint2 powers[2];

            UNROLL
            for (int pair = 0; pair < 2; pair++) {
                factors[pair] =
                    own->factors[block * (TILE_KEYS / 2) +
                                 (2 * slab + pair) * (FRAGMENT_OTHERS / 2) + LANE_TERM(lane)];
                powers[pair] = (uint2)(factors[pair].z, factors[pair].w);
            }
            decode_values(values, rows, block, powers, lane);
            if (layout_of(V_CACHE).scale < 0 && finite)
                UNROLL
            for (int n = 0; n < 2 * QUERY_WORDS; n++)
                values[n / QUERY_WORDS][n % QUERY_WORDS] =
                    finite_pair(values[n / QUERY_WORDS][n % QUERY_WORDS], &nonfinite);
            UNROLL
            for (int r = 0; r < ROW_EIGHTS; r++) {
                take_own_weights(weights[r], p + 2 * slab * TILE_SUMS, r, factors);
                UNROLL
                for (int part = 0; part < WEIGHT_PARTS; part++)
                    UNROLL
                for (int tile = 0; tile < 2; tile++)
                    add_part(part, out + ((2 * block + tile) * ROW_EIGHTS + r) * FRAGMENT_SUMS,
                             values[tile], weights[r][part], lane, exchange);
            }
        }
        in_order();
    }
    return nonfinite;
}

/* rows: a number for each row of the lane's fragments of Q K^T. Returns the numbers of the rows that the lane holds as columns
 * in the second product. */
INLINE void columns_of_rows(float columns[ROW_EIGHTS][2], const float rows[LANE_QUERIES],
                            const int lane, __local float *exchange)
{
#if EMULATE
    for (int r = 0; r < ROW_EIGHTS && first_of_query(lane); r++)
        exchange[lane_query(lane, r)] = rows[r];
    LOCAL_BARRIER(); /* the numbers are complete */
    for (int x = 0; x < 2 * ROW_EIGHTS; x++)
        columns[x / 2][x % 2] = exchange[x / 2 * FRAGMENT_OTHERS + sum_other(lane, x % 2)];
    LOCAL_BARRIER(); /* the numbers may be overwritten */
#else
    UNROLL
    for (int x = 0; x < 2 * ROW_EIGHTS; x++)
        columns[x / 2][x % 2] = value_of_lane(
            rows[x / 2], sum_other(lane, x % 2) * (SHARING_BITS_END / FIRST_SHARING_BIT));
#endif
}

/* The row, below 8 ROW_EIGHTS, and the dim of sum x of the second products. */
INLINE int row_of_sum(const int x, const int lane)
{
    return x / FRAGMENT_SUMS % ROW_EIGHTS * FRAGMENT_OTHERS + sum_other(lane, x % FRAGMENT_SUMS);
}

INLINE int dim_of_sum(const int x, const int lane)
{
    const int tile = x / FRAGMENT_SUMS / ROW_EIGHTS;

    return tile / 2 * BLOCK_VALUES +
           dim_of_row(V_CACHE, other_column(lane), tile % 2, x % FRAGMENT_SUMS / 2);
}

#define COLUMN_OF_SUM(columns, x) (columns)[(x) / FRAGMENT_SUMS % ROW_EIGHTS][(x) % 2]

/* ---- the loop over tiles --------------------------------------------------------------------- */

/* Scores become weights. Earlier sums lie in columns, and wait for the factors that state->rescale has. */
INLINE void weigh_own(const int lane, const float scale[LANE_QUERIES], float s[KEY_SUMS],
                      const float highest[LANE_QUERIES], struct fragment_state *state,
                      const float weight_exponent)
{
    float base[LANE_QUERIES], rescale[LANE_QUERIES];

    take_maxima(scale, highest, state, weight_exponent, base, rescale);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        state->rescale[n] = rescale[n];
    weights_of_scores(0, lane, scale, base, s, state, 0);
}

/* Attends to the tiles of a range, from the first one on. */
INLINE void attend_own_keys(const struct arguments *args, const struct task task,
                            const struct matrices m, const struct own own,
                            const __local uint4 *q_operands, struct keys keys,
                            const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                            const volatile __local uint *seen_tiles, const bool again,
                            volatile __local int *v_nonfinite,
                            struct fragment_state state[M_FRAGMENTS], const float weight_exponent,
                            const int lane, __local float *exchange)
{
    float scales[LANE_QUERIES];
    struct keys next;

    find_scales(args, rows[0], scales);
    if (keys.j0 < task.end) {
        list_own_places(args, task.b, &keys, own.places, lane);
        COPY_OWN_KEYS(&keys);
    }
    copies_end_set();
    if (keys.j0 < task.end)
        COPY_OWN_VALUES(&keys);
    copies_end_set();
    for (; keys.j0 < task.end; keys = next) {
        float s[M_FRAGMENTS][KEY_SUMS], highest[M_FRAGMENTS][LANE_QUERIES];
        float columns[ROW_EIGHTS][2];
        bool rescales = false;

        COPIES_WAIT_BUT_SETS(1);
        sub_group_barrier(); /* the keys' bytes are complete, factors may be overwritten */
        prepare_keys(own.k_bytes, (__local float *)own.factors, own_count(&keys),
                     k_scales_from(args, task.b, task.kv_head, keys.j0 + group_key()), lane);
        multiply_own_keys(&own, q_operands, s[0], lane, exchange);
        next = find_tile_of_keys(args, &task, keys.j0 + keys.count, 0, seen_tiles);
        sub_group_barrier(); /* the keys' bytes and factors may be overwritten */
        if (next.j0 < task.end) {
            list_own_places(args, task.b, &next, own.places, lane);
            COPY_OWN_KEYS(&next);
        }
        copies_end_set();
        find_scores(args, &task, &keys, rows, state, s, highest, lane, exchange);
        weigh_own(lane, scales, s[0], highest[0], state, weight_exponent);
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++)
            rescales = rescales || state->rescale[n] != 1.0f;
        columns_of_rows(columns, state->rescale, lane, exchange);
        if (any_in_sub_group(rescales) || EMULATE) {
            UNROLL
            for (int x = 0; x < DIM_SUMS; x++)
                state->out[x] *= COLUMN_OF_SUM(columns, x);
        }
        COPIES_WAIT_BUT_SETS(1);
        sub_group_barrier(); /* the values' bytes are complete */
        if (prepare_values(own.v_bytes, own.factors, own_count(&keys),
                           v_scales_from(args, task.b, task.kv_head, keys.j0 + group_key()), again,
                           lane))
            atomic_or(v_nonfinite, 1);
        if (multiply_own_values(&own, s[0], state->out, again, lane, exchange))
            atomic_or(v_nonfinite, 1);
        sub_group_barrier(); /* the values' bytes may be overwritten */
        if (next.j0 < task.end)
            COPY_OWN_VALUES(&next);
        copies_end_set();
    }
}

/* ---- store ----------------------------------------------------------------------------------- */

/* Adds the sums of all sub-groups, in their order, and stores the partial results of all rows. */
INLINE void store_row_eights(const struct arguments *args, const struct task *task,
                             const struct shared *l,
                             const struct lane_row rows[M_FRAGMENTS][LANE_QUERIES],
                             struct fragment_state *state, __local float *sums,
                             __global float *results, const float weight_exponent, const int lane,
                             __local float *exchange)
{
    float scales[LANE_QUERIES], highest[M_FRAGMENTS][LANE_QUERIES], columns[ROW_EIGHTS][2];

    find_scales(args, rows[0], scales);
    query_sum(state->row_sum, lane, exchange);
    scale_rows(scales, state, weight_exponent);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        highest[0][n] = state->row_max[n];
    store_statistics(l, highest, lane);
    LOCAL_BARRIER(); /* maxima are complete */
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++)
        for (int m = 0; m < SUB_GROUPS; m++)
            highest[0][n] = fmax(highest[0][n], l->statistics[m * BLOCK_M + lane_query(lane, n)]);
    UNROLL
    for (int n = 0; n < LANE_QUERIES; n++) {
        state->rescale[n] =
            power_of_two((state->row_max[n] - finite_maximum(highest[0][n])) * M_LOG2E_F);
        state->row_sum[n] *= state->rescale[n];
    }
    columns_of_rows(columns, state->rescale, lane, exchange);
    LOCAL_BARRIER(); /* nobody reads maxima any more */
    store_statistics(l, &state->row_sum, lane);
    for (int m = 0; m < SUB_GROUPS; m++) {
        if (sub_group_n() == m) {
            UNROLL
            for (int x = 0; x < DIM_SUMS; x++) {
                __local float *const to = sums + row_of_sum(x, lane) * DIM_V + dim_of_sum(x, lane);
                const float here = state->out[x] * (1.0f / weight_scale_of(weight_exponent));
                *to = fma(here, COLUMN_OF_SUM(columns, x), m == 0 ? 0.0f : *to);
            }
        }
        LOCAL_BARRIER(); /* the sub-group's sums and statistics are complete */
    }
    for (int n = get_local_id(0); n < task->rows * DIM_V; n += THREADS) {
        long h, i;
        find_row(args, task, n / DIM_V, &h, &i);
        results[result_of(args, task, h, i) * DIM_V + n % DIM_V] = sums[n];
    }
    if (sub_group_n() == 0 && first_of_query(lane)) {
        UNROLL
        for (int n = 0; n < LANE_QUERIES; n++) {
            long h, i;
            find_row(args, task, lane_query(lane, n), &h, &i);
            if (lane_query(lane, n) < task->rows)
                vstore2((float2)(highest[0][n], total_of(l, lane_query(lane, n))),
                        result_of(args, task, h, i), STATISTICS(args, results));
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) SUB_GROUP_ATTRIBUTE void
split(PARAMETERS_split)
{
    struct arguments arguments = ARGUMENTS_split;
    ENTER_SEQUENCE(args, &arguments,
                   get_group_id(0) / ROW_BLOCKS(&arguments) / count_ranges(&arguments) /
                       arguments.shape->kv_heads);
    __local uint4 pieces[GROUP_PIECES], q_operands[Q_PIECES], factors[SUB_GROUPS * TILE_FACTORS];
    __local float statistics[SUB_GROUPS * BLOCK_M];
    __local long q_places[BLOCK_M], places[OWN_PLACES];
    __local uint seen_tiles[SEEN_WORDS];
    __local int not_finite;  /* is nonzero once an output is Inf or NaN */
    __local int v_nonfinite; /* is nonzero once an Inf or NaN of V became 0 */
    DECLARE_EXCHANGE(SUB_GROUPS);
    const struct shared l = {
        .q_tile = (__local ushort *)pieces, .statistics = statistics, .q_places = q_places};
    __local uchar *const bytes =
        (__local uchar *)pieces + sub_group_n() * (TILE_K_BYTES + TILE_V_BYTES);
    const struct own own = {bytes, bytes + TILE_K_BYTES, factors + sub_group_n() * TILE_FACTORS,
                            places + (PAGE_SIZE ? sub_group_n() * 2 * TILE_KEYS : 0)};
    const int lane = THIS_THREAD % FRAGMENT_LANES;
    LEAVE_IF_BEYOND(get_group_id(0) % ROW_BLOCKS(args) * BLOCK_M,
                    args->shape->group * args->shape->seq_q);
    const struct task task = find_range_task(args);
    const struct matrices m = find_matrices(args, &task);
    struct lane_row rows[M_FRAGMENTS][LANE_QUERIES];
    struct fragment_state state[M_FRAGMENTS];
    uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS];
    bool again = false; /* the second pass */

    mark_tiles(args, &task, seen_tiles);
    find_lane_rows(args, &task, rows, lane);
    if (get_local_id(0) == 0)
        not_finite = v_nonfinite = 0;
    load_q(args, &task, &m, &l, q_words, lane);
    store_q_operands(l.q_tile, q_operands);
    do {
        const float weight_exponent = weight_exponent_of(again);
        const struct keys keys = find_tile_of_keys(args, &task, task.begin, 0, seen_tiles);
        clear_rows(state);
        attend_own_keys(args, task, m, own, q_operands, keys, rows, seen_tiles, again, &v_nonfinite,
                        state, weight_exponent, lane, exchange);
        if (!all_finite(state))
            atomic_or(&not_finite, 1);
        LOCAL_BARRIER(); /* not_finite is final, and no bytes are read any more */
        again = !again && not_finite;
    } while (again);

    __global float *const results = args->workspace;
    store_row_eights(args, &task, &l, rows, state, (__local float *)pieces, results,
                     weight_exponent_of(not_finite), lane, exchange);
    barrier(CLK_GLOBAL_MEM_FENCE); /* the partial results are complete */
    if (v_nonfinite)               /* V's Infs and NaNs were 0 in the products */
        add_nonfinite_to_results(args, &task, &m, &l, results);
    END_KERNEL();
}
