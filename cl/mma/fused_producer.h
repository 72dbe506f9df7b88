/* The loop over tiles of keys where one warpgroup, the producer, copies K and V, and the others compute: each waits for the
 * tile that it needs, not for each other. Softmax of a tile overlaps with products as in fused_overlap.h. The way is
 * FlashAttention-3's (arXiv 2407.08608, section 3), but that the copies are cp.async.
 *
 * Local      STAGES places of tiles, which take turns, and for each of its halves two mbarriers: one that the copies of K
 *            or V complete, one that each sub-group arrives at that has read them. A place's n-th use has parity n % 2.
 * Registers  the producer gives most of its own to the others (setmaxnreg).
 * Turns      with PRODUCER 2 warpgroups ask for products one after the other, so that one's softmax overlaps with
 *            another's products.
 * Emulated   there is no producer: all wait for each other, and the first warpgroup copies what is needed next.
 *
 * Before including this: fused_mma.cl as far as its kernel. */
#ifndef CLATTN_FUSED_PRODUCER_H
#define CLATTN_FUSED_PRODUCER_H

/* Of a place. */
enum { KEYS_COMPLETE, KEYS_READ, VALUES_COMPLETE, VALUES_READ, PLACE_BARRIERS };

/* Where a tile lies, and the parity of that use of the place. */
struct use {
    int place;
    uint parity;
};

INLINE struct use next_use(struct use u)
{
    if (++u.place == STAGES) {
        u.place = 0;
        u.parity ^= 1;
    }
    return u;
}

#if !EMULATE
#define WARPGROUP_THREADS 128
#if SUB_GROUPS == 8 /* 128 * (40 + 2 * 232) and 128 * (32 + 3 * 160) registers are all or fewer */
#define FEWER_REGISTERS() __asm volatile(SM_90A "setmaxnreg.dec.sync.aligned.u32 40;" : : : "memory")
#define MORE_REGISTERS() __asm volatile(SM_90A "setmaxnreg.inc.sync.aligned.u32 232;" : : : "memory")
#else
#define FEWER_REGISTERS() __asm volatile(SM_90A "setmaxnreg.dec.sync.aligned.u32 32;" : : : "memory")
#define MORE_REGISTERS() __asm volatile(SM_90A "setmaxnreg.inc.sync.aligned.u32 160;" : : : "memory")
#endif
/* Of the whole work-group, each from its own branch, and of those that compute. */
#define GROUP_BARRIER() __asm volatile("bar.sync 0, %0;" : : "n"(THREADS) : "memory")
#define COMPUTING_BARRIER() __asm volatile("bar.sync 1, %0;" : : "n"(COMPUTING) : "memory")

INLINE void start_barrier(__local ulong *barrier, const uint arrivals)
{
    __asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                   :
                   : "r"(shared_address(barrier)), "r"(arrivals)
                   : "memory");
}

INLINE void wait_for(__local ulong *barrier, const uint parity)
{
    __asm volatile("{.reg .pred complete; TRY_AGAIN: mbarrier.try_wait.parity.shared.b64 complete, "
                   "[%0], %1; @!complete bra TRY_AGAIN;}"
                   :
                   : "r"(shared_address(barrier)), "r"(parity)
                   : "memory");
}

INLINE void arrive_at(__local ulong *barrier)
{
    __asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}"
                   :
                   : "r"(shared_address(barrier))
                   : "memory");
}

/* Arrives once the thread's copies are complete; background: none was a plain store. */
INLINE void arrive_with_copies(__local ulong *barrier, const bool background)
{
    if (background) {
        __asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"
                       :
                       : "r"(shared_address(barrier))
                       : "memory");
    } else {
        copies_wait();
        arrive_at(barrier);
    }
}

/* By one thread; the next barrier of the group completes it. */
INLINE void start_barriers(__local ulong *barriers)
{
    for (int n = 0; n < STAGES * PLACE_BARRIERS; n++)
        start_barrier(barriers + n, n % 2 == KEYS_COMPLETE % 2 ? WARPGROUP_THREADS : SUB_GROUPS);
}

#define BARRIER(u, which) (barriers + (u).place * PLACE_BARRIERS + (which))
/* A barrier that nobody has arrived at yet takes the parity before for complete. */
#define PLACE_FREE(u, which) wait_for(BARRIER(u, which), (u).parity ^ 1)
/* What the producer has copied is there for the tensor cores, too. */
#define TILE_HERE(u, which)                                                                        \
    do {                                                                                           \
        wait_for(BARRIER(u, which), (u).parity);                                                   \
        __asm volatile(SM_90A "fence.proxy.async.shared::cta;" : : : "memory");                    \
    } while (0)
#define TILE_READ(u, which)                                                                        \
    do {                                                                                           \
        if (lane == 0)                                                                             \
            arrive_at(BARRIER(u, which));                                                          \
    } while (0)
#define KEYS_HERE(keys, u) TILE_HERE(u, KEYS_COMPLETE)
#define VALUES_HERE(keys, u) TILE_HERE(u, VALUES_COMPLETE)

#if PRODUCER == 2
INLINE void take_turn(const int warpgroup)
{
    __asm volatile("bar.sync %0, 256;" : : "r"(2 + warpgroup) : "memory");
}

INLINE void give_turn(const int warpgroup)
{
    __asm volatile("bar.arrive %0, 256;" : : "r"(2 + warpgroup % (SUB_GROUPS / 4)) : "memory");
}
#define TAKE_TURN() take_turn(warpgroup)
#define GIVE_TURN() give_turn(warpgroup + 1)
/* The last one gives the first its first turn. */
#define FIRST_TURN(warpgroup)                                                                      \
    do {                                                                                           \
        if ((warpgroup) + 1 == SUB_GROUPS / 4)                                                     \
            give_turn(0);                                                                          \
    } while (0)
#endif

/* All that the producer does: both times around, if there are two. */
INLINE void produce(SHAPE_PARAMS, const struct query_block block, const struct task t,
                    __local ushort *q_tile, volatile __local int *not_finite,
                    volatile __local int *v_nonfinite, __local ulong *barriers)
{
    struct use u = {0, 0};
    bool again = false;

    do {
        for (struct keys keys = find_keys(a, at, block, block.begin); keys.j0 < block.end;
             keys = find_keys(a, at, block, after_keys(keys))) {
            PLACE_FREE(u, KEYS_READ);
            STAGE_KEYS(keys, u.place);
            arrive_with_copies(BARRIER(u, KEYS_COMPLETE),
                               WIDTH(UNIT_K, DIM_QK) == 8 && t.k_aligned);
            PLACE_FREE(u, VALUES_READ);
            STAGE_VALUES(keys, u.place, again, v_nonfinite);
            arrive_with_copies(BARRIER(u, VALUES_COMPLETE),
                               WIDTH(UNIT_V, DIM_V) == 8 && t.v_aligned && !again);
            u = next_use(u);
        }
        GROUP_BARRIER(); /* not_finite is final */
        again = !again && *not_finite;
    } while (again);
}
#else
#define COMPUTING_BARRIER()                                                                        \
    do {                                                                                           \
        barrier(CLK_GLOBAL_MEM_FENCE);                                                             \
        LOCAL_BARRIER();                                                                           \
    } while (0)
#define GROUP_BARRIER() LOCAL_BARRIER()
#define KEYS_HERE(keys, u)                                                                         \
    do {                                                                                           \
        LOCAL_BARRIER(); /* what was there may be overwritten */                                   \
        if (THIS_THREAD < FILL_THREADS)                                                            \
            STAGE_KEYS(keys, (u).place);                                                           \
        LOCAL_BARRIER(); /* K is complete */                                                       \
    } while (0)
#define VALUES_HERE(keys, u)                                                                       \
    do {                                                                                           \
        LOCAL_BARRIER();                                                                           \
        if (THIS_THREAD < FILL_THREADS) {                                                          \
            STAGE_VALUES(keys, (u).place, finite, v_nonfinite);                                    \
        }                                                                                          \
        LOCAL_BARRIER();                                                                           \
    } while (0)
#define TILE_READ(u, which)
#endif
#if EMULATE || PRODUCER == 1
#define TAKE_TURN()
#define GIVE_TURN()
#define FIRST_TURN(warpgroup)
#endif

/* Each warpgroup its queries, to a tile of their own; to registers, with Q_RESIDENT. */
INLINE void load_own_queries(const struct attention_shape a, const struct task *t,
                             const int first_row, __local ushort *own_q,
                             uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const int lane)
{
    const int first = first_row / 64 * 64;

    if (THIS_THREAD < COMPUTING && t->block.begin < t->block.end)
        fill_rows(own_q, ROW_STRIDE, 64, COLUMNS, t->q + first * a.q_stride[2], a.q_stride[2], 0,
                  Q_STEP, t->block.queries - first, DIM_QK, WIDTH(UNIT_Q, DIM_QK), t->q_aligned,
                  false);
    copies_wait();
    LOCAL_BARRIER(); /* q is complete */
#if Q_RESIDENT
    if (THIS_THREAD < COMPUTING) {
        UNROLL
        for (int d = 0; d < PART_DEPTHS; d++)
            load_queries(own_q + first_row % 64 * ROW_STRIDE, d, q_words[d], lane);
    }
    LOCAL_BARRIER(); /* its place may be overwritten */
#endif
}

/* *next: the use that follows the last one. */
INLINE void attend(SHAPE_PARAMS, const struct query_block block, const struct task t,
                   const int first_row, __local ushort *q_tile, const __local ushort *own_q,
                   uint q_words[HELD_DEPTHS][M_FRAGMENTS][QUERY_WORDS], const bool finite,
                   volatile __local int *v_nonfinite, __local ulong *barriers,
                   struct use *next, float row_max[M_FRAGMENTS][LANE_QUERIES],
                   float row_sum[M_FRAGMENTS][LANE_QUERIES],
                   float seen[M_FRAGMENTS][LANE_QUERIES],
                   float out[M_FRAGMENTS][DIM_SUMS] SCORE_OPERANDS_PARAM FRAGMENT_PARAM)
{
    const int warpgroup = warpgroup_rows(first_row) / 64;
    struct keys keys = find_keys(a, at, block, block.begin);
    struct use now = *next;
    float s[M_FRAGMENTS][KEY_SUMS];
    TILE_WEIGHTS(weights);

    (void)warpgroup;
    if (keys.j0 >= block.end)
        return;
    KEYS_HERE(keys, now);
    begin_own_qk(own_q, K_TILE(now.place), q_words, s FRAGMENT_ARG);
    FINISH_QK(q_words, s, 0);
    TILE_READ(now, KEYS_READ);
    weigh_tile(a, at, &block, &keys, first_row, s, row_max, row_sum, seen,
               out SCORE_OPERANDS_ARG KEPT_ARG FRAGMENT_ARG);
    round_weights(weights, 0, s FRAGMENT_ARG);
    for (;;) {
        const struct keys after = find_keys(a, at, block, after_keys(keys));
        const struct use then = next_use(now);
        if (after.j0 >= block.end)
            break;
        TAKE_TURN();
        KEYS_HERE(after, then);
        begin_own_qk(own_q, K_TILE(then.place), q_words, s FRAGMENT_ARG);
        VALUES_HERE(keys, now);
        begin_sums_of_tile(weights, WEIGHT_PARTS, PART_KEYS, V_TILE(now.place), DIMS,
                           out[0] FRAGMENT_ARG);
        GIVE_TURN();
        FINISH_QK(q_words, s, 1);
        TILE_READ(then, KEYS_READ);
        weigh_tile(a, at, &block, &after, first_row, s, row_max, row_sum, seen,
                   out SCORE_OPERANDS_ARG KEPT_ARG FRAGMENT_ARG);
        TILE_READ(now, VALUES_READ);
        round_weights(weights, 0, s FRAGMENT_ARG);
        keys = after;
        now = then;
    }
    VALUES_HERE(keys, now);
    add_rows_of_tile(weights, WEIGHT_PARTS, PART_KEYS, V_TILE(now.place), DIMS,
                     out[0] FRAGMENT_ARG);
    TILE_READ(now, VALUES_READ);
    *next = next_use(now);
}

#endif
