/* SPDX-License-Identifier: Apache-2.0 */
/* The units of families that have several, for the lists of these. */
#ifndef CA_FAMILY_UNITS_H
#define CA_FAMILY_UNITS_H

#include "families/family.h"

extern const struct ca_family ca_fused_cpu_vector, ca_fused_cpu_pairs, ca_fused_cpu_amx,
    ca_fused_gpu_item, ca_fused_gpu_mma, ca_fused_gpu_warpgroup, ca_backward_cpu_vector,
    ca_backward_cpu_pairs, ca_backward_cpu_amx, ca_backward_gpu_item, ca_backward_gpu_mma,
    ca_backward_gpu_warpgroup, ca_projection_cpu_vector, ca_projection_cpu_pairs,
    ca_projection_cpu_amx, ca_projection_gpu_item, ca_projection_gpu_mma,
    ca_projection_gpu_warpgroup, ca_split_cpu_vector, ca_split_cpu_pairs, ca_split_cpu_amx,
    ca_split_gpu_item, ca_split_gpu_mma;

#endif
