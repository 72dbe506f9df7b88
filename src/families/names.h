/* SPDX-License-Identifier: Apache-2.0 */
/* Declares a program's tunables, dims and options under the names of its source, at the beginning
 * of a host function that has p and values. The expressions in a family's _sizes.h, which declare
 * its kernels' arrays, then have the same values there.
 *
 * Before including this: TUNABLES_DEF, as for families/expand.h. */
#ifdef TUNABLES_UNIT
const size_t UNIT = values[UNIT_INDEX];
(void)UNIT;
#endif
#define TUNABLE(name, ...)                                                                         \
    const size_t name = values[name##_INDEX];                                                      \
    (void)name;
#define REQUIRE(condition, reason)
#include TUNABLES_DEF
#undef TUNABLE
#undef REQUIRE
const struct ca_size_words words = ca_size_words((clattn_problem *)(uintptr_t)&p->normal);
const size_t DIM_QK = *words.d, DIM_V = words.second_d ? *words.second_d : *words.d;
const size_t HEADS = *words.h, PAGE_SIZE = words.page_size ? *words.page_size : 0;
const size_t K_CACHE = (size_t)ca_problem_cache(&p->normal, CA_K),
             V_CACHE = (size_t)ca_problem_cache(&p->normal, CA_V);
const size_t BLOCK_VALUES = CA_BLOCK;
const int DTYPE = (int)ca_problem_own_dtype(&p->normal), DTYPE_F16 = CLATTN_F16,
          DTYPE_F32 = CLATTN_F32;
const int HAS_DROPOUT = p->normal.dropout > 0.0f, HAS_BLOCKS = p->normal.block_q != 0;
const int HAS_MASK = p->normal.mask != 0, HAS_BIAS = p->normal.bias != 0;
const int HAS_SCORE_FUNCTION = p->normal.score_function != NULL;
const int HAS_V_SCALES = p->normal.v_scales != 0, HAS_INT8 = p->normal.int8 != 0;
const int HAS_INVARIANT = p->normal.invariant != 0;
const int HAS_MASK_FUNCTION = p->normal.mask_function != NULL;
const int UNIT_W_COLUMN = p->normal.projection.w.stride[3] == 1; /* only projections use it */
/* Only appends use these. */
const size_t ROTARY = (size_t)p->normal.append.rotary, ROTARY_DIM = p->normal.append.rotary_dim;
const int HAS_WINDOW_LEFT = p->normal.window_left != CLATTN_UNLIMITED;
(void)DIM_QK, (void)DIM_V, (void)HEADS, (void)PAGE_SIZE, (void)K_CACHE, (void)V_CACHE;
(void)BLOCK_VALUES, (void)DTYPE, (void)DTYPE_F16, (void)DTYPE_F32, (void)HAS_DROPOUT,
    (void)HAS_BLOCKS, (void)HAS_MASK, (void)HAS_SCORE_FUNCTION, (void)HAS_MASK_FUNCTION,
    (void)HAS_V_SCALES, (void)HAS_INT8, (void)HAS_INVARIANT, (void)HAS_BIAS, (void)HAS_WINDOW_LEFT,
    (void)UNIT_W_COLUMN, (void)ROTARY, (void)ROTARY_DIM;
