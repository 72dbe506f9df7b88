/* backward_dot: backward_lanes.cl with products of bf16 pairs (cl/bf16/pairs.h), two multiply-adds in each
 * lane of an instruction: q, k, v and do as they are stored, weights and dS rounded to bf16, which a problem
 * of standard precision allows. All else, the kernels' names too, is backward_lanes.
 *
 * Tunables   src/families/tunables/backward_lanes.def, all defined by the host; no fallbacks here. The
 *            host also defines EMULATE. */
#if !defined(EMULATE) || DTYPE != 2 || HAS_STRICT
#error "backward_dot.cl takes bf16 of standard precision and must be built with EMULATE defined"
#endif
#define OPERAND_PAIRS 1
#include "kernels/backward_lanes.cl"
