/* fused_amx: fused_lanes.cl with products by tiles of a matrix unit (cl/bf16/tiles.h): q and k as they are
 * stored, weights rounded to bf16, which a problem of standard precision allows. All else, the kernel's name
 * too, is fused_lanes.
 *
 * Tunables   src/families/tunables/fused_amx.def, all defined by the host; no fallbacks here. The host also
 *            defines EMULATE. */
#if !defined(EMULATE)
#error "fused_amx.cl must be built with EMULATE defined"
#endif
#if DTYPE != 2 || K_DTYPE != 2 || V_DTYPE != 2 || HAS_STRICT || HAS_MASK_KEYS
#error "fused_amx.cl takes q, k and v in bf16, of standard precision, without mask_keys"
#endif
#define OPERAND_PAIRS 1
#define OPERAND_TILES 1
#define SIMD_WIDTH 16 /* queries in a row of a tile */
#define QK_KEYS 8     /* whose products become scores at a time */
#define PV_COLUMNS 8  /* of no use here */
#define STAGE_KV 0    /* pairs are copied anyway */
#include "kernels/fused_lanes.cl"
