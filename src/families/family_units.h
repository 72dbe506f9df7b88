/* SPDX-License-Identifier: Apache-2.0 */
/* For the C files of families' units: the kernels, the units of families that have several, and
 * functions that a unit of multiplication has in every family. */
#ifndef CA_FAMILY_UNITS_H
#define CA_FAMILY_UNITS_H

#include "families/family.h"

/* The kernels, which cl/embed.cmake makes of src/families/NAME/NAME.cl. */
extern const char *const ca_source_append_tokens[];
extern const char *const ca_source_backward_cpu[];
extern const char *const ca_source_backward_gpu_item[];
extern const char *const ca_source_backward_gpu_mma[];
extern const char *const ca_source_backward_gpu_warpgroup[];
extern const char *const ca_source_double_backward[];
extern const char *const ca_source_fused_cpu[];
extern const char *const ca_source_fused_gpu_item[];
extern const char *const ca_source_fused_gpu_mma[];
extern const char *const ca_source_fused_gpu_warpgroup[];
extern const char *const ca_source_indexer_cpu[];
extern const char *const ca_source_indexer_gradients[];
extern const char *const ca_source_indexer_item[];
extern const char *const ca_source_merge_rows[];
extern const char *const ca_source_naive[];
extern const char *const ca_source_projection_cpu[];
extern const char *const ca_source_projection_cpu_amx[];
extern const char *const ca_source_projection_gpu_item[];
extern const char *const ca_source_projection_gpu_mma[];
extern const char *const ca_source_projection_gpu_warpgroup[];
extern const char *const ca_source_split_cpu[];
extern const char *const ca_source_split_gpu_item[];
extern const char *const ca_source_split_gpu_mma[];
extern const char *const ca_source_unfused[];
extern const char *const ca_source_unfused_lanes[];
extern const char *const ca_source_chosen_gradients[];
extern const char *const ca_source_chosen_keys[];
extern const char *const ca_source_weight_sums[];

extern const struct ca_family ca_fused_cpu_vector, ca_fused_cpu_pairs, ca_fused_cpu_amx,
    ca_fused_cpu_bytes, ca_fused_gpu_item, ca_fused_gpu_mma, ca_fused_gpu_warpgroup,
    ca_fused_gpu_bytes, ca_backward_cpu_vector, ca_backward_cpu_pairs, ca_backward_cpu_amx,
    ca_backward_gpu_item, ca_backward_gpu_mma, ca_backward_gpu_warpgroup, ca_projection_cpu_vector,
    ca_projection_cpu_pairs, ca_projection_cpu_amx, ca_projection_gpu_item, ca_projection_gpu_mma,
    ca_projection_gpu_warpgroup, ca_split_cpu_vector, ca_split_cpu_pairs, ca_split_cpu_amx,
    ca_split_gpu_item, ca_split_gpu_mma, ca_indexer_item;

/* NULL if products of p can be computed from pairs of bf16 (cl/bf16/pairs.h), with tiles of AMX or without; else why not. */
const char *ca_bf16_pairs_refusal(const struct ca_problem *p);
/* The same, but k and v may also be e4m3, e5m2 or int8, which kernels convert (cl/bf16/stage_pairs.h). */
const char *ca_bf16_pairs_or_bytes_refusal(const struct ca_problem *p);
/* The same, but operands may also be sums of parts in bf16 (cl/bf16/parts.h). */
const char *ca_bf16_parts_refusal(const struct ca_problem *p);

/* These implement ca_family.options: EMULATE, which is no tunable, since the device decides. */
const char *ca_bf16_pairs_options(const size_t *values, const clattn_device_info *dev);
const char *ca_amx_options(const size_t *values, const clattn_device_info *dev);
const char *ca_bytes_options(const size_t *values, const clattn_device_info *dev);

/* Implements ca_family.refused_by_system: asks for the tiles of AMX unless they are emulated. */
const char *ca_amx_refused_by_system(const clattn_device_info *dev);

/* These implement ca_family.preference, for families whose preference does not depend on the problem. A unit that a
 * device would have to emulate is only used if forced, which tests do. Where the instruction for bf16 pairs is slow,
 * families that compute in f32 are preferred. */
int ca_vector_preference(const struct ca_problem *p, const clattn_device_info *dev);
int ca_bf16_pairs_preference(const struct ca_problem *p, const clattn_device_info *dev);
int ca_amx_preference(const struct ca_problem *p, const clattn_device_info *dev);
int ca_bytes_preference(const struct ca_problem *p, const clattn_device_info *dev);
int ca_item_preference(const struct ca_problem *p, const clattn_device_info *dev);
int ca_mma_preference(const struct ca_problem *p, const clattn_device_info *dev);
/* The preference of an operation's only family, and of a family which is only used if forced. */
int ca_only_preference(const struct ca_problem *p, const clattn_device_info *dev);
int ca_forced_preference(const struct ca_problem *p, const clattn_device_info *dev);

/* The preference of a family, which is `with` where the unit is fast. */
int ca_bf16_pairs_preference_with(const clattn_device_info *dev, int with);
int ca_amx_preference_with(const clattn_device_info *dev, int with);

#endif
