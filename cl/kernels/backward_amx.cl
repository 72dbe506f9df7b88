/* backward_amx: backward_lanes.cl with products by tiles of a matrix unit (cl/bf16/tiles.h): q, k, v and do as
 * they are stored, weights and dS rounded to bf16, which a problem of standard precision allows. dq is summed
 * up in private memory over the blocks of a chunk before it is added to the workspace. All else, the kernels'
 * names too, is backward_lanes.
 *
 * Tunables   src/families/tunables/backward_amx.def, all defined by the host; no fallbacks here. The host
 *            also defines EMULATE. */
#if !defined(EMULATE) || DTYPE != 2 || HAS_STRICT
#error "backward_amx.cl takes bf16 of standard precision and must be built with EMULATE defined"
#endif
#define OPERAND_PAIRS 1
#define OPERAND_TILES 1
#define SIMD_WIDTH 16 /* keys in a row of a tile */
#define DQ_ROWS 32    /* rows of P and dS that are multiplied together */
#define QK_ROWS 32    /* of no use here, as the next two */
#define DKV_COLUMNS 16
#define DQ_VECTORS 1
#include "kernels/backward_lanes.cl"
