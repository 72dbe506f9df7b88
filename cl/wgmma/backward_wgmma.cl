/* backward_wgmma: backward_mma.cl with products of warpgroups (cl/mma/warpgroup_tile.h): NVIDIA's wgmma, of Hopper. Head
 * dims are 64 or 128; owned and streamed rows lie in local memory once, for all products, and the tensor cores read both. With
 * two STAGES a tile of streamed rows arrives while one is multiplied, with one barrier a tile.
 *
 * Tunables   src/families/tunables/backward_wgmma.def, all defined by the host; no fallbacks here. */
#define INSTRUCTION 7
#define DIM_GROUPS 1
#include "kernels/backward_mma.cl"
