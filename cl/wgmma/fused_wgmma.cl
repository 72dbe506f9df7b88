/* fused_wgmma: fused_mma.cl with products of warpgroups (cl/mma/warpgroup_products.h): NVIDIA's wgmma, of Hopper. Head
 * dims are whole blocks of 64 columns. Queries are operands in registers (Q_RESIDENT), or lie in local memory, where the
 * tensor cores read them. Copies are asked for while products are under way; with OVERLAP so is softmax of
 * the tile before (cl/mma/fused_overlap.h). All else, the kernel's name too, is fused_mma.
 *
 * Tunables   src/families/tunables/fused_wgmma.def, all defined by the host; no fallbacks here. */
#define INSTRUCTION 7
#define M_FRAGMENTS 1
#include "kernels/fused_mma.cl"
