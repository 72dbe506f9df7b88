/* fused_dot: fused_lanes.cl with products of bf16 pairs (cl/bf16/pairs.h), two multiply-adds in each lane
 * of an instruction: q and k as they are stored, weights rounded to bf16, which a problem of standard
 * precision allows. All else, the kernel's name too, is fused_lanes.
 *
 * Tunables   src/families/tunables/fused_lanes.def, all defined by the host; no fallbacks here. The host
 *            also defines EMULATE. */
#if !defined(EMULATE)
#error "fused_dot.cl must be built with EMULATE defined"
#endif
#if DTYPE != 2 || K_DTYPE != 2 || V_DTYPE != 2 || HAS_STRICT || HAS_MASK_KEYS
#error "fused_dot.cl takes q, k and v in bf16, of standard precision, without mask_keys"
#endif
#define OPERAND_PAIRS 1
#include "kernels/fused_lanes.cl"
