/* projection_dot: projection_lanes.cl with products of bf16 pairs (cl/bf16/pairs.h), two multiply-adds in
 * each lane of an instruction. All else, the kernels' names too, is projection_lanes.
 *
 * Tunables   src/families/tunables/projection_lanes.def, all defined by the host; no fallbacks here. The
 *            host also defines EMULATE. */
#if !defined(EMULATE) || DTYPE != 2
#error "projection_dot.cl takes bf16 and must be built with EMULATE defined"
#endif
#define OPERAND_PAIRS 1
#include "kernels/projection_lanes.cl"
