/* backward_wgmma: backward_mma.cl with products of warpgroups (cl/mma/warpgroup_tile.h): NVIDIA's wgmma, of Hopper. Head
 * dims are 64 or 128; streamed rows lie in local memory once, for both products. Owned rows of v, or of do, are
 * operands in registers throughout, those of k, or of q, are loaded for each tile.
 *
 * Tunables   src/families/tunables/backward_wgmma.def, all defined by the host; no fallbacks here. */
#define INSTRUCTION 7
#define DIM_GROUPS 1
#include "kernels/backward_mma.cl"
