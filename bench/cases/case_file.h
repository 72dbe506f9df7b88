/* SPDX-License-Identifier: Apache-2.0 */
/* Attention cases in safetensors files. Tensors have the names of ONNX's operator Attention,
 * those of tutorials (context, weights; K2, V2, context_cross, weights_cross), or the answer is
 * named O. ONNX's inputs are Q K V attn_mask past_key past_value nonpad_kv_seqlen, its outputs Y
 * present_key present_value qk_matmul_output. Attributes stand in __metadata__ as texts: scale,
 * softcap, is_causal, q_num_heads, kv_num_heads, left_window_size, right_window_size,
 * qk_matmul_output_mode, softmax_precision. One that is not known is refused. Rank 2 is (seq,
 * dim), rank 3 (batch, seq, heads * dim), rank 4 (batch, heads, seq, dim). */
#ifndef CLATTN_BENCH_CASE_FILE_H
#define CLATTN_BENCH_CASE_FILE_H

#include "bench/cases/case.h"
#include "bench/cases/safetensors.h"

/* Returns how many answers the file has; each makes a case. */
size_t case_file_count(const struct safetensors *file);

/* Makes the case of answer `index`. Past and present tensors are joined, and compared with what
 * the file says that they are. `path` names the case if the file does not. */
bool case_file_read(struct attention_case *attention, const struct safetensors *file,
                    const char *path, size_t index, struct message *why);

#endif
