/* SPDX-License-Identifier: Apache-2.0 */
/* families/names.h, and the sizes of INSTRUCTION's fragments under the names of the headers of
 * cl/mma/. */
#include "families/names.h"
const struct ca_fragment *const fragment = ca_fragment_of(INSTRUCTION);
const size_t FRAGMENT_LANES = fragment->lanes, FRAGMENT_QUERIES = fragment->queries;
const size_t FRAGMENT_OTHERS = fragment->others, FRAGMENT_DEPTH = fragment->depth;
const size_t OTHERS_AT_ONCE = fragment->others_at_once, REPLICAS = fragment->replicas;
const size_t ROW_PADDING = fragment->row_padding;
const size_t K_ROW_BYTES = p->normal.dim_qk / CA_BLOCK *
                           ca_cache_bytes(ca_problem_cache(&p->normal, CA_K), p->normal.dtype);
const size_t V_ROW_BYTES = p->normal.dim_v / CA_BLOCK *
                           ca_cache_bytes(ca_problem_cache(&p->normal, CA_V), p->normal.dtype);
const int PACKED_VALUES = fragment->packed_values, HAS_TILE_PRODUCTS = INSTRUCTION == CA_WGMMA;
const int HAS_COPIES = HAS_TILE_PRODUCTS || INSTRUCTION == CA_MMA_SYNC;
const int HAS_STRICT = p->normal.strict != 0;
(void)FRAGMENT_LANES, (void)FRAGMENT_QUERIES, (void)FRAGMENT_OTHERS, (void)FRAGMENT_DEPTH;
(void)OTHERS_AT_ONCE, (void)REPLICAS, (void)ROW_PADDING, (void)PACKED_VALUES;
(void)HAS_TILE_PRODUCTS, (void)HAS_COPIES, (void)K_ROW_BYTES, (void)V_ROW_BYTES, (void)HAS_STRICT;
