/* split_amx: split_lanes.cl with products by tiles of a matrix unit (cl/bf16/tiles.h), for several rows that
 * share a kv head: q, k and v as they are stored, weights rounded to bf16, which a problem of standard
 * precision allows. All else, the kernels' names too, is split_lanes.
 *
 * Tunables   src/families/tunables/split_pairs.def, all defined by the host; no fallbacks here. The host also
 *            defines EMULATE. */
#if !defined(EMULATE)
#error "split_amx.cl must be built with EMULATE defined"
#endif
#if DTYPE != 2 || K_DTYPE != 2 || V_DTYPE != 2 || K_CACHE || V_CACHE || HAS_STRICT
#error "split_amx.cl takes q, k and v in bf16, of standard precision"
#endif
#define OPERAND_PAIRS 1
#define OPERAND_TILES 1
#define SIMD_WIDTH 16
#include "kernels/split_lanes.cl"
