/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes and the mask of a case in a file; see case_file.h. */
#ifndef CLATTN_BENCH_CASE_OPTIONS_H
#define CLATTN_BENCH_CASE_OPTIONS_H

#include "bench/cases/case.h"
#include "bench/cases/safetensors.h"

/* Returns false if attention cannot be stored so. */
bool case_dtype(const struct safetensor *tensor, clattn_dtype *dtype);

/* The attribute `key` as a whole number; it must be there. */
bool case_read_size(const struct safetensors *file, const char *key, size_t *size,
                    struct message *why);

/* qk_matmul_output_mode, 0 if it is not there. */
bool case_read_scores_mode(const struct safetensors *file, clattn_scores *scores,
                           struct message *why);

/* False with the first attribute that is neither known nor a mere description of the file: whoever
 * computed the answers may have heeded it. */
bool case_check_attributes(const struct safetensors *file, struct message *why);

/* Scale, softcap, causality, windows and key lengths; `past` keys came from a cache. */
bool case_read_options(struct attention_case *attention, const struct safetensors *file,
                       size_t past, struct message *why);

/* attn_mask as a mask or a bias; one with fewer columns than there are keys hides the rest. */
bool case_read_mask(struct attention_case *attention, const struct safetensors *file,
                    struct message *why);

#endif
