/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file problem.h  What is to be computed, and its one-line text form.
 * @ingroup describing
 * For each batch b, query head h (kv head h / (heads / kv_heads)), query i and key j, in this
 * order, in f32:
 *
 *     s  = scale * dot(q[i], k[j])
 *     s  = softcap * tanh(s / softcap)               if softcap > 0
 *     s  = score(s)                                  if score_function (clattn/function.h)
 *     s += bias[b,h,i,j]                             if bias; a bias of -inf masks
 *     s += slope[h] * (j - i - diagonal)             if alibi; with alibi_symmetric
 *     s -= slope[h] * |j - i - diagonal|
 *     s  = -inf                                      where masked
 *     p  = exp(s - m) / (sum_j exp(s - m) + exp(sink[h] - m))   m = maximum, the sink's included
 *     o  = sum_j p * v[j]
 *     lse = m + log(sum_j exp(s - m) + exp(sink[h] - m))
 *
 * (the terms with sink only if sinks). A key is masked if the boolean mask holds 0 there (with
 * mask_keys: holds 0 in column j - (keys in use - mask_keys), if that is one), if it
 * lies outside the window or after the diagonal of a causal problem, if mask_function says so, or at or beyond the batch's
 * key length, or if there are block lists and its block is not listed; a query at or beyond the
 * batch's query length sees no key. A query that sees no key
 * gives o = 0, lse = -inf and weights 0, with or without a sink. What lies behind a mask (NaN,
 * Inf, 1e30), in q, k, v or bias, never reaches the output; NaN in visible data does.
 *
 * A finite bias hides nothing, however low: -1e9 is a number that is added. Beside a key without it
 * such a key has a weight of 0, as if it were masked, but v is still multiplied with that 0, so that a
 * NaN there shows. A row that has -1e9 everywhere is no row that sees nothing: in f32, where -1e9 + s
 * is rounded to a multiple of 64, its scores are equal, and its weights those of a mean over its keys.
 * Mask with -inf or with the boolean mask.
 *
 * Dropout, with probability r > 0, multiplies each p by 0 or by 1 / (1 - r) before the sum that
 * gives o: by 0 where u < r, with u from Philox 4x32-10, keyed by an execution's seed and offset
 * and by (b, h, i, j) alone, so that it is the same for every family and device (which are dropped,
 * and how to read that out: clattn/dropout.h). Neither lse nor the weights that are handed out
 * change.
 *
 * Sums of weights. With key_sums, for each batch, kv head and key the sum of p, before dropout, over all queries and
 * over the query heads that share the kv head: how much attention a key of a cache has received, by which
 * H2O (Zhang et al. 2023), SnapKV and others decide what to evict. Keys that nobody sees have 0. With
 * CLATTN_SCORES_MEAN the mean of p over the heads, as PyTorch's MultiheadAttention averages weights. Both
 * are computed from q, k and the lse that forward has written, exp(s - lse), at most 1, after o and without a score
 * matrix: they cost about one more product of q and k. lse is one float, so that a weight is off by up to
 * 2^-24 |lse| of itself.
 *
 * Block lists (block-sparse attention). With block_q and block_kv, query i belongs to row i / block_q
 * of blocks and key j to column j / block_kv; the last row and column may be smaller. Each row lists the
 * columns that its queries see. The lists lie in device memory as block-compressed sparse rows (BSR), of
 * one head or for all: block_offsets holds rows + 1 int32_t, block_entries max_blocks of them, and the
 * entries of row r are those from block_offsets[r] to before block_offsets[r + 1]. An entry is a column.
 * With CLATTN_BLOCK_FULL added to it the boolean mask, if there is one, is not looked at in that block:
 * none of its pairs is masked by it. Windows, causality, lengths and biases hold in listed blocks as
 * elsewhere.
 *
 * Entries may stand in any order. Whatever the lists hold, nothing outside them is read and what comes
 * out is defined: offsets below 0 count as 0 and those above max_blocks as max_blocks, a row whose
 * offsets decrease lists nothing, rows whose entries overlap each have them, an entry that is negative
 * or whose column does not exist is left out, and a column that is listed several times is seen once,
 * with CLATTN_BLOCK_FULL if one of its entries has it. A query whose row lists nothing sees no key.
 * clattn/blocks.h makes lists.
 *
 * Chosen keys (token-sparse attention). With topk, each query has a list of topk key numbers, int32_t in device memory,
 * topk_indices, packed (batch, 1, seq_q, topk); with topk_heads each kv head has a list of its own, (batch, kv_heads,
 * seq_q, topk). With total_q the rows are those of all sequences, (1, 1 or kv_heads, total_q, topk); keys count from the
 * first of their sequence. A query sees the keys of its list that causality, windows, lengths, the mask, the bias and the
 * mask function leave visible: the list hides all others, as a mask does. So a list has the keys that an
 * indexer chose (DeepSeek V3.2, GLM-5). Entries stand in any order; -1 stands for none.
 * Whatever a list holds, nothing outside the keys is read: an entry that is no key of the batch counts as -1. A key that
 * stands several times is seen once, as in a mask, so that lists may be joined. A query whose list names no visible key
 * sees no key. The list of all keys gives what attention without lists gives, within rounding. Forward and backward, without
 * block lists, scores, key_sums and invariant. The order of a list changes no bit of a result.
 *
 * A first program turns the lists into something that each family reads, in the workspace; the plan chooses which. Forward by
 * rows: ascending lists of rows are the page tables of pages of one key, and each query is a batch. It reads the listed
 * keys alone, but nothing is shared between queries. It needs 4 * topk bytes for each list. Gradients by copies: the rows of
 * k and v that some lists name are copied, dense gradients of these copies are computed in f32, and those of keys are
 * added up, list by list: the same inputs give the same bits. That needs besides about 128 MiB, or what one list needs,
 * and 4 (dim_qk + dim_v) bytes for each key of each kv head. By a mask of bytes (batch, 1 or heads, seq_q, seq_kv): dense
 * attention, for options that look at a pair's place (bias, mask, ALiBi, functions, dropout), and where it is faster,
 * since queries share keys. A mask that the device cannot hold at once is refused with CLATTN_UNSUPPORTED.
 *
 * Scales. Formats of bytes alone (e4m3, e5m2 and int8) may have scales of f32: with k_scales the key that is multiplied is
 * k[j] times k_scales[b, g, j], for kv head g, and with v_scales the value is v[j] times v_scales[b, g, j]. Strides of 0
 * say what shares a scale: the whole tensor, a kv head, or nothing, so that each key of each kv head has its own, as
 * vLLM's caches fp8_per_token_head and int8_per_token_head have them. In pages scales lie as the keys do. Any float may stand
 * there; one that belongs to no visible key changes nothing. A scale is multiplied in f32. In f16 matrix units of GPUs take
 * magnitudes up to 2^15, of e5m2 up to 2^11; with larger ones elements of o may be infinite or NaN. An append (k_scaled,
 * v_scaled) divides a new row by the scale of its place, with quotients rounded to f32, before it is stored: the caller writes
 * the scales of new tokens before. A scale that is no normal number, or whose reciprocal is none, gives any codes.
 *
 * Backward. Given do, the gradient of some loss with respect to o, and o and lse as forward wrote
 * them, with p' the weights after dropout and w = p' / p:
 *
 *     dv[j] = sum_i p'[i,j] do[i]
 *     delta = dot(do[i], o[i]) - dlse[i]
 *     ds    = p * (w * dot(do[i], v[j]) - delta)                dbias = ds
 *     dsink[h]  = -sum_i exp(sink[h] - lse[i]) delta
 *     dslope[h] = sum_ij ds * (j - i - diagonal)                 or -|j - i - diagonal|
 *     dt    = ds * score_derivative(s) * (1 - tanh^2)            the score function's and softcap's derivatives
 *     dx    = sum_ij ds * (d score() / d x)                      of an element x that score() loads
 *     dq[i] = scale * sum_j dt k[j]            dk[j] = scale * sum_i dt q[i]
 *
 * with sums over all query heads of a kv head in dk and dv, over batches in dsink and dslope, over all
 * pairs for which score() loads x in dx, and over the dimensions that the bias broadcasts over in dbias.
 * What is masked contributes nothing: rows that see nothing and keys that nobody sees have gradients of 0, and so have rows
 * whose lse is -inf because all of their scores are. dlse, the gradient of the loss with respect to lse, is 0 unless the
 * problem has it: a z-loss has one, and so has a loss behind a merge of states. It is not read of rows whose
 * lse is -inf.
 *
 * p is exp(s - lse). lse is one float, though, and where scores are large it holds little of log(sum):
 * nothing of it in a row of scores of -1e30 all. So where |lse| is at least 64, or 1024 in a problem of
 * standard precision ("Precision" below), a row's weights exp(s - lse) are added up anew, the sink's with
 * them, and divided by their sum S, if rounding explains that S is not 1: |log S| <=
 * (dim_qk + 16) 2^-24 |lse|. Any other lse is taken as it is given, so that the keys may be a part of those
 * that o and lse are of: the parts' dk and dv are then those of the whole, and their dq add up to it. Only
 * a part of a row whose scores are so large that an lse explains any sum, as -1e30, cannot be told from
 * a whole: its weights sum to 1 in each part.
 *
 * Precision. Operands are multiplied as they are stored, without error, products are added in f32, and
 * results are rounded once when they are stored. A problem in f16 or bf16 is of standard precision
 * unless strict asks for more:
 *
 * - standard (the default): p' (forward, of which the keys' sum and lse know nothing; backward for dv)
 *   and dt (for dq and dk) may be rounded once to the dtype before they are multiplied with v, do, k
 *   or q, as FlashAttention, cuDNN and PyTorch do, so that these products are of two operands of the
 *   dtype, which processors have instructions for. Where v is quantized, p' times the scale of v's
 *   block is rounded instead; where v is of another dtype than q, p' stays as it is. Operands below 2^-126 may count as 0,
 *   as they do to x86's instructions for bf16.
 * - strict: p' and dt have the accuracy of f32.
 *
 * In f16 matrix units of GPUs take a p' that is off by up to 2^-40 of its row's largest as well, with a quantized v
 * 2^-39, strict ones 2^-51. That shows only where an element of o is the sum of p' below 2^-28 alone, 2^-29 if strict. With a
 * quantized v that has scales from 64 on, and with any in invariant problems, p' is off by up to 2^-29, 2^-41 if strict, which
 * shows below 2^-17 and 2^-19.
 *
 * An f32 problem is strict, whether it asks for it or not: its strict field is ignored, and its text
 * form has no such word. How far an element may be off, with r = 2^-11 of f16 and 2^-8 of bf16, u = 2^-24,
 * e_j what a score is off by (at most (dim_qk + 6) u scale sum_d |q_d k_d|, and what softcap, bias and
 * ALiBi add) and half a distance between neighbours of the dtype for storing it:
 *
 *     o    strict: sum_j |p'_j v_j| (expm1(e_j + (8 + 3 |s_j - m|) u) + (2 n + 16) u) and as much
 *          again of |o|, for n keys; standard: r sum_j |p'_j v_j| more
 *     dv   strict: likewise of sum_i |p'_i do_i|;            standard: r sum_i |p'_i do_i| more
 *     dq   strict: sum_j (what dt_j is off by) |k_j| and (n + 16) u scale sum_j |dt_j k_j|;
 *          standard: r scale sum_j |dt_j k_j| more; dk likewise
 *
 * r is the unit roundoff of the dtype; the strict terms are those of rounding error analysis (N. J.
 * Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapters 3 and 4). lse, scores and
 * weights that are handed out, dbias, dslopes and dsinks are as good in both, projections, merges and
 * appends have nothing in between that could be rounded. Both bounds are what tests, the benchmark and
 * clattn-bench verify hold results to, in their exact form (bench/judge), and what the library holds its own kernels to before
 * it uses them. A standard problem may be computed as a strict one, where that is as fast.
 *
 * Products of int8. With int8 ("precision=int8", which nothing chooses by itself) scores are approximate: q and k are
 * rounded to bytes and multiplied as integers, as SageAttention does it (J. Zhang et al., 2025). The mean of keys is taken
 * away before, since keys often have large values in the same few columns, and its product is added back:
 *
 *     dot(q[i], k[j])  becomes  a[i] b[j] sum_d Q[i,d] K[j,d] + dot(q[i], mean)      the sum is exact, all else in f32
 *     Q[i] = round(q[i] / a[i])                a[i] = max_d |q[i,d]| / 127
 *     K[j] = round((k[j] - mean) / b[j])       b[j] = max_d |k[j,d] - mean[d]| / 127
 *     mean = sum_j (k[j] / m[j]^2) / sum_j (1 / m[j]^2)      m[j] = max_d |k[j,d]|
 *
 * The mean is that of a batch's and kv head's keys, over all keys in use that lie in a page and whose m is from 2^-40 to 2^40.
 * It decides how accurate scores are, not what they are. Keys that a mask hides count in it, but large ones hardly,
 * by their weights. Keys of int8 (k_cache) are multiplied as they are stored, by their k_scales, with no mean. A row whose
 * largest magnitude is below 2^-100 counts as zeros. A query or a key with a NaN or an infinity has scores of NaN.
 *
 * All that comes after is as precise as without: softcap, functions, biases, masks, lse and P V. A score is off by
 *
 *     |scale| sum_d (|q_d| B + |k_d - mean_d| A + A B)        A = a[i] / 2, B = b[j] / 2 (0 for keys of int8)
 *
 * more than e_j above, in which |q_d k_d| becomes |q_d mean_d| + |q_d (k_d - mean_d)|. These e_j give the bounds of o and lse.
 * The bound of a score is one of the worst case; what random data are off by: doc/guide/numerics.md.
 * The option is for forward, without topk, scores, key_sums and invariant. On CPUs products are those of VPDPBUSD, with
 * AVX512-VNNI or AVX-VNNI (fused_cpu UNIT=bytes); in bf16 and f16 of standard precision also those of AMX-INT8's tiles
 * (fused_cpu UNIT=amx). On GPUs they are, in bf16 and f16, those of matrix units (fused_gpu UNIT=mma): NVIDIA's mma.sync from
 * sm_80 on, AMD's MFMA of CDNA 3, Intel's DPAS. Others, and f32, take instructions of work-items (fused_gpu UNIT=bytes):
 * NVIDIA's dp4a (from sm_61 on), AMD's v_dot4_i32 or cl_khr_integer_dot_product. A device without any refuses a problem, unless
 * plan options name the family, which then computes the same bits slowly.
 *
 * What gradients cannot promise. The figures are the largest distance from gradients that double
 * precision gives for the same inputs, as a share of the gradient's largest element, on PoCL:
 *
 * - An o of the dtype is rounded before dot(do, o) is formed. What all values have in common cancels in
 *   dot(do, v) - dot(do, o), but not its rounding. With o_f32 forward writes an o of f32, which
 *   backward reads. "h2 q128 d64", q, k and do normal with deviation 1, v likewise around a mean:
 *
 *                                dq and dk                                      dv
 *       mean of v                0          1          4          16            any
 *       f32                      8.2e-7     4.7e-7     1.1e-6     3.9e-6        6.0e-7
 *       f16                      3.2e-4     3.5e-4     1.1e-3     5.2e-3        2.3e-4
 *       bf16                     2.7e-3     3.7e-3     1.3e-2     3.5e-2        2.8e-3
 *       f16 strict odtype=f32    4.0e-7     3.5e-7     1.1e-6     3.7e-6        4.7e-7
 *       bf16 strict odtype=f32   6.8e-7     8.9e-7     1.1e-6     4.8e-6        1.3e-6
 *
 *   FlashAttention reads an o of the dtype.
 * - dslope sums ds * (j - i - diagonal), whose parts are a hundred times what is left of them. "h4
 *   q256 d64 alibi", of the largest slope's: f32 3e-6, f16 2e-3, bf16 1e-2 with a mean of 0; f32
 *   1e-5, f16 1e-2, bf16 0.15 with a mean of 4.
 * - A score of f32 is off by up to half a distance to the next float, which is much where scores are
 *   large, and weights of several keys by the factor exp of it: "q73 d16" in f32, q and k times 1, 3, 10:
 *   dq and dk 4.3e-7, 1.2e-6, 1.7e-5. Weights sum to 1 all the same, so that one that is all of its row is
 *   exact: dv 3.2e-7, 2.6e-6, 1.0e-6.
 *
 * Projection: a matrix product that splits or merges heads:
 *
 *     y[b,g,i,e] = sum_{h,d} x[b,h,i,d] * w[h,d,g,e]
 *     y[b,g,i,e] += bias[g,e]                        if bias
 *     y[b,g,i,e] += what y held before               if accumulate
 *
 * for x (batch, x_heads, rows, x_dim), w (x_heads, x_dim, y_heads, y_dim) and y (batch, y_heads, rows,
 * y_dim), in f32 and rounded
 * once when stored. Strides say what is transposed: a gradient with respect to x is a projection
 * with w turned around, one with respect to w sums over batches and rows in place of heads and
 * columns, one with respect to bias has a 1 for x that broadcasts (strides 0, but for one along an
 * axis of size 1: four zeros are the packed layout).
 *
 * Merge: o and lse of attention over n disjoint sets of keys, the states, become those over all of them:
 *
 *     m   = max(max_s lse[s], sink[h])       z   = sum_s exp(lse[s] - m) + exp(sink[h] - m)
 *     o   = sum_s exp(lse[s] - m) / z * parts[s]                 lse = m + log(z)
 *
 * (the terms with sink only if sinks) for parts (n, batch, heads, seq_q, dim) and lse, natural logarithms,
 * for each (b, h, i). In layouts n and batch are one axis of n * batch, all batches of the first state before
 * those of the second. With accumulate o and lse hold one more state and become the union with it: two states
 * are merged in place by n = 1. A state weighs as much as its lse says, which is one float: weights are off by
 * a factor of up to exp(2^-23 |lse|), and states of scores of -1e30 all weigh the same, of however many keys
 * they are.
 *
 * Sinks belong to the merge that gives the whole, of several merges in place to one of them, and to none of
 * the states: a row that sees no key in a state has lse = -inf there, with or without a sink, so that a sink
 * that was given with this state would be lost to the row. The merge gives o and lse of attention over all
 * keys with the sinks. The gradients of the parts need that o and lse; any one part can hand out dsinks, which
 * is a sum over queries of what belongs to no key. Then:
 *
 * - A state of lse = -inf is empty: its row of parts is not read, whatever it holds. Only empty states
 *   give o = 0, lse = -inf, as a row that sees nothing does, with or without a sink; a single one that is
 *   not gives its own row and lse, to the bit, and so does one beside which the weights of all others, and
 *   of the sink, vanish in f32, if these are finite.
 * - A NaN in lse makes o and lse of its row NaN; a NaN or infinity in a row that is not empty counts with
 *   the row's weight, even where that is 0.
 * - A sink counts as a state with that lse and values of 0: one of -inf is none, one of NaN makes o and lse
 *   of all rows of its head NaN that are not empty.
 * - An lse of +inf outweighs all finite ones; several share equally, and lse is +inf. clattn gives none
 *   for scores that are finite. FlashAttention 2 gives it for rows that see nothing: there +inf is to be
 *   replaced by -inf before.
 *
 * Append: new keys and values, k (batch, kv_heads, tokens, dim_qk) and v (batch, kv_heads, tokens, dim_v) in
 * the dtype, are written to their places in k_cache and v_cache, (batch, kv_heads, capacity, dim), in
 * cache_dtype or quantized (then to the bits of clattn/quantize.h, if not rotated):
 *
 *     token i of batch b goes to row kv_lengths[b] + i of batch b       (kv_lengths is 0 if not given)
 *     (lengths are not clamped here: with -2 tokens 0 and 1 are skipped and token 2 goes to row 0)
 *     ... with slots to row slots[b,i] % capacity of batch slots[b,i] / capacity
 *
 * With page_size the caches are pools of pages, as "Paged caches" below says: token i goes to key
 * kv_lengths[b] + i of its batch, which is below capacity and lies where the page table says; with slots there
 * is no table, and it goes to row slots[b,i] % page_size of page slots[b,i] / page_size. A token whose place is outside of the
 * cache (a negative slot, a full cache) is skipped: nothing of it is written. All else in the caches keeps its bits. No two
 * tokens may have one place: what such a row holds is of any of them, column by column. With rotary keys, and queries if they
 * are given, turn on the way, the first rotary_dim columns in pairs (x, y):
 *
 *     t = position * rotary_base^(-2 i / rotary_dim)         x' = x cos(t) - y sin(t)
 *     position = positions[b,i], or kv_lengths[b] + i        y' = x sin(t) + y cos(t)
 *
 * for pair i, of positions from -2^22 to 2^22, as which those beyond count; with rotary_length > 0 cosine and sine are elements
 * (position, i) of given tables, (rotary_length, rotary_dim / 2) floats, the position within them: others
 * count as the first or last. q is rotated at its token's position, of all heads, wherever k goes.
 *
 * Double backward. The gradients of gradients, for gradient penalties and products with a Hessian. A loss
 * L depends on dq, dk and dv of backward (without dropout, bias, masks by bytes, sinks, softcap and functions); given its
 * gradients ggq, ggk and ggv with respect to these three, each of which may be absent and is 0 then, it writes
 * those with respect to q, k, v and do. With S = scale q k^T, P the weights, dP = do v^T, D = sum_j P dP and
 * dS = P (dP - D), for each batch and head, as matrices of queries by keys:
 *
 *     t   = scale (ggq k^T + q ggk^T)            r   = sum_j P t
 *     u   = do ggv^T                             c   = sum_j P (u + (t - r) (dP - D))
 *     gP' = P (t - r)                            gS  = P (u + (t - r) (dP - D) - c)
 *     gq  = scale (gS k + dS ggk)                gk  = scale (gS^T q + dS^T ggq)
 *     gdo = P ggv + gP' v                        gv  = gP'^T do
 *
 * gk and gv are sums over the query heads of a kv head. P, D, r and c are computed anew: neither o nor lse is
 * read. What is masked by causality, a window or a length contributes nothing and is not looked at; rows that see nothing and
 * keys that nobody sees get 0. All is strict ("Precision" below): sums in f32, rounded once when stored.
 *
 * Indexer. A light score of each query and key chooses the keys that the query attends to (DeepSeek V3.2's lightning
 * indexer). With q (batch, heads, seq_q, dim) of the index heads, k (batch, 1, seq_kv, dim), one head for all, and w
 * (batch, heads, seq_q, 1), floats that hold whatever factors the model has:
 *
 *     score[i,j] = sum_h w[h,i] * max(0, dot(q[h,i], k[j]))         in f32, over h in rising order
 *
 * Row i of topk_indices lists the topk keys with the largest scores of those that query i sees, in rising order of
 * their numbers; -1 in the last entries where it sees fewer. Of equal scores the lower key is chosen; 0 and -0 are
 * equal, and a NaN counts as the largest number, so that it shows. So the list is what "Chosen keys" takes. With scores,
 * row i of scores has the scores of the listed keys, and -inf beside -1. No more than about 2 topk scores of a query
 * are kept at any time, and the same inputs give the same lists on every run.
 *
 * Keys that causality, lengths or the page table hide are not read, and a query at or beyond its batch's length lists
 * nothing. Causality, lengths, "Paged caches" and "Packed batches" are as in attention; of a packed batch the lists are
 * those of all rows, (1, 1, total_q, topk), rows of no sequence keep what they held, and keys count from the first of
 * their sequence.
 *
 * The list is exact for scores as they are rounded. Each is off by at most
 *
 *     e[i,j] = u sum_h |w[h,i]| ((dim + 4 + heads) sum_d |q[h,i,d] k[j,d]|)        u = 2^-24
 *
 * so that no key is left out whose score in exact arithmetic is larger than that of a listed one by more than the
 * sum of their e. Products are those of the values as they are stored; operands below 2^-126 may count as 0.
 *
 * Gradients of an indexer, to train it on chosen pairs. With gradients the operation reads lists, chosen, and a gradient
 * of each entry's score, dscores of the same shape, and writes those of q, k and w:
 *
 *     x[h,i,n]  = dot(q[h,i], k[chosen[i,n]])                       x counts where it is not <= 0, as in PyTorch's relu
 *     dw[h,i]   = sum_n dscores[i,n] max(0, x[h,i,n])
 *     dq[h,i]   = w[h,i] sum_n dscores[i,n] k[chosen[i,n]]          over n where x[h,i,n] counts
 *     dk[j]     = sum_i,n,h dscores[i,n] w[h,i] q[h,i]              over entries with chosen[i,n] = j where x[h,i,n] counts
 *
 * The sums are in f32, and in an order that depends on the lists alone. An entry that is no key that its query sees counts
 * nothing, and its dscores is not looked at; one that stands twice counts twice. All elements of dq, dk and dw are
 * written. Each is off by its sum's roundings, and by what pairs contribute whose x is within its error of 0.
 *
 * Paged caches. With page_size > 0 k and v are pools of pages, (pages, kv_heads, page_size, dim)
 * tensors that any number of requests share, in either order by strides: "k=bshd v=bshd" is (pages,
 * page_size, kv_heads, dim). Key j of batch b is row j % page_size of page table[b, j / page_size],
 * with table a (batch, ceil(seq_kv / page_size)) array of int32_t in device memory, of which a plan
 * knows nothing: it may change from execution to execution. seq_kv, of an append capacity, is the most keys
 * that a batch may have; kv_lengths says how many it has. An entry that is negative, or pages or more, hides the keys
 * of its page as the boolean mask would; what the table holds for pages behind the last key in use
 * is not looked at, except where scores of hidden pairs are handed out, to which a key that no page
 * holds is one of zeros. Nothing outside the pool is read whatever the table holds, several entries may
 * name the same page (a prefix that requests share), and with the same tunables o and lse are bit for
 * bit those of a contiguous cache that holds the same keys, where no entry hides any. Forward, which reads
 * pages, and appends, which write them; without dropout: gradients with respect to keys that requests share would be sums over
 * requests, which no engine that keeps pages asks for; gather them into a contiguous tensor to train on them.
 *
 * Latent attention (MLA). Inputs may share memory: where values are the first columns of keys, v is the
 * buffer of k with k's strides, and dim_v is less than dim_qk. A tile's values are then in the device's
 * cache, since its keys were just read, and are not read from memory again.
 *
 * Packed batches (varlen). With total_q > 0 the queries of all sequences follow each other in q and o,
 * (1, heads, total_q, dim) tensors, and lse is (heads, total_q); with total_kv > 0 so do keys in k and v,
 * (1, kv_heads, total_kv, dim). Either may be packed without the other. Batch b is the rows from
 * starts[b] to before starts[b + 1], with q_starts and kv_starts, batch + 1 int32_t each, in device memory,
 * such as prefix sums of lengths. A plan is made for seq_q and seq_kv, the longest sequences' lengths, and
 * serves any starts. i and j in the formula, in bias, mask and dropout count within the sequence, and a
 * bottom-right diagonal is that of the sequence's own keys and queries. q_lengths and kv_lengths may be
 * given besides: how many of a sequence's rows are in use. Whatever the starts hold, nothing outside of
 * the tensors is read or written, and:
 *
 * - the first row is starts[b], clamped to 0..total, and the rows end before starts[b + 1], at the buffer's
 *   end or after seq rows, whichever comes first; a sequence that would end before its first row is empty;
 * - written are the rows of o and lse, backward of dq, dk and dv, that belong to a sequence, those not in
 *   use with 0 and -inf; other rows keep what they held. A row that belongs to several sequences receives elements of any of
 *   their results.
 *
 * The scores of packed batches are not handed out, and the bias has no gradient.
 *
 * Formula: A. Vaswani et al., "Attention Is All You Need" (2017); order of softcap, bias and mask
 * as in the ONNX operator Attention, opset 24; ALiBi: O. Press et al. (2022); sinks as in
 * gpt-oss (2025); backward by lse and dot(do, o): T. Dao et al., "FlashAttention" (2022); Philox:
 * J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); rotary embeddings: J. Su et
 * al., "RoFormer" (2021).
 */
#ifndef CLATTN_PROBLEM_H
#define CLATTN_PROBLEM_H

#include <clattn/export.h>
#include <clattn/status.h>
#include <stddef.h>
#include <stdint.h>

CLATTN_BEGIN

/** What is computed. */
typedef enum clattn_operation {
    CLATTN_FORWARD = 0,
    CLATTN_BACKWARD = 1,        /**< The gradients of forward; see "Backward" above. */
    CLATTN_PROJECTION = 2,      /**< See "Projection" above, and clattn/projection.h. */
    CLATTN_MERGE = 3,           /**< See "Merge" above, and clattn/merge.h. */
    CLATTN_APPEND = 4,          /**< See "Append" above, and clattn/append.h. */
    CLATTN_DOUBLE_BACKWARD = 5, /**< See "Double backward" above, and clattn/double_backward.h. */
    CLATTN_INDEXER = 6          /**< See "Indexer" above, and clattn/indexer.h. */
} clattn_operation;

/** How values are stored; sums are always f32 ("Precision" above). */
typedef enum clattn_dtype {
    CLATTN_F32 = 0,
    CLATTN_F16 = 1, /**< IEEE binary16. Needs no cl_khr_fp16. */
    CLATTN_BF16 = 2 /**< The upper half of an f32, rounded to nearest even when stored. */
} clattn_dtype;

/**
 * How k or v is stored in a cache: as values of the problem's dtype or of another, or quantized, as
 * blocks of 32 values that are neighbours along dim. Value n of a quantized tensor lies in block
 * n / 32. The blocks are those of ggml's formats of the same names, but the last three; clattn/quantize.h makes them.
 */
typedef enum clattn_cache {
    CLATTN_CACHE_PLAIN = 0, /**< Values of the problem's dtype. */
    CLATTN_CACHE_Q8_0 = 1,  /**< 34 bytes: a binary16 scale d, then 32 signed bytes; value n of the
                                block is d * byte n. */
    CLATTN_CACHE_Q4_0 = 2,  /**< 18 bytes: a binary16 scale d, then 16 bytes; value n < 16 is
                                d * ((byte n & 15) - 8), and value n >= 16 is
                                d * ((byte (n - 16) >> 4) - 8). */
    CLATTN_CACHE_F32 = 3, /**< These three: values of that dtype, whatever the problem's is. Of the
                                problem's own dtype they are CLATTN_CACHE_PLAIN by another name. */
    CLATTN_CACHE_F16 = 4,
    CLATTN_CACHE_BF16 = 5,
    CLATTN_CACHE_Q5_0 = 6,   /**< 22 bytes: a binary16 scale d, then 4 bytes h whose bit n, from the
                               lowest of the first on, is the fifth bit of value n, then 16 bytes.
                               Value n < 16 is d * ((byte n & 15) + 16 h[n] - 16), and value n >= 16
                               is d * ((byte (n - 16) >> 4) + 16 h[n] - 16). */
    CLATTN_CACHE_IQ4_NL = 7, /**< 18 bytes as in q4_0, but value n is d times the number of its four
                                 bits, the index into -127, -104, -83, -65, -49, -35, -22, -10, 1,
                                 13, 25, 38, 53, 69, 89, 113. */
    CLATTN_CACHE_Q4_1 =
        8, /**< 20 bytes: a binary16 scale d, a binary16 offset m, then 16 bytes as in
                                 q4_0. Value n < 16 is d * (byte n & 15) + m, and value n >= 16 is
                                 d * (byte (n - 16) >> 4) + m, rounded to f32. */
    CLATTN_CACHE_Q5_1 = 9,  /**< 24 bytes: a binary16 scale d, a binary16 offset m, then 4 bytes h
                                 and 16 bytes as in q5_0. Value n < 16 is
                                 d * ((byte n & 15) + 16 h[n]) + m, and value n >= 16 is
                                 d * ((byte (n - 16) >> 4) + 16 h[n]) + m, rounded to f32. */
    CLATTN_CACHE_E4M3 = 10, /**< 32 bytes, a value each, without a scale: floats of 8 bits as of the
                                 OCP's specification, which PyTorch calls float8_e4m3fn. The largest
                                 is 448; 127 and 255 are NaNs, and there is no infinity. */
    CLATTN_CACHE_E5M2 = 11, /**< Likewise the upper bytes of binary16, float8_e5m2 of PyTorch. */
    CLATTN_CACHE_INT8 =
        12 /**< Likewise signed bytes: numbers from -128 to 127, for k_scales and v_scales. */
} clattn_cache;

/** Which columns of k and q are rotated together, as x and y. */
typedef enum clattn_rotary {
    CLATTN_ROTARY_NONE = 0,
    CLATTN_ROTARY_PAIRS = 1, /**< 2 i and 2 i + 1, as GPT-J has them ("interleaved"). */
    CLATTN_ROTARY_HALVES = 2 /**< i and i + rotary_dim / 2, as GPT-NeoX and Llama have them. */
} clattn_rotary;

/** What an append does with q. */
typedef enum clattn_queries {
    CLATTN_QUERIES_NONE = 0,    /**< There are none. */
    CLATTN_QUERIES_ROTATED = 1, /**< q is rotated to q_out. */
    CLATTN_QUERIES_IN_PLACE = 2 /**< q_out is rotated where it lies. */
} clattn_queries;

/**
 * The diagonal d of causal masks, windows and ALiBi: a causal query i sees keys up to key i + d. Problems with a
 * window or ALiBi have a diagonal, too. Libraries differ if there are not as many keys as queries. flash-attn always
 * has the bottom-right diagonal, at which the last query sees all keys (its ALiBi is alibi_symmetric, its window_size
 * both sides of a window). PyTorch's is_causal and ONNX have the top-left diagonal.
 */
typedef enum clattn_diagonal {
    CLATTN_TOP_LEFT = 0, /**< d = 0. */
    CLATTN_BOTTOM_RIGHT =
        1,            /**< d = keys - queries, of the batch's lengths where they are given. */
    CLATTN_OFFSET = 2 /**< d = diagonal_offset, such as the number of cached keys. */
} clattn_diagonal;

/** At which point the score matrix is handed out (ONNX's qk_matmul_output_mode 0 to 3). */
typedef enum clattn_scores {
    CLATTN_SCORES_NONE = 0,
    CLATTN_SCORES_RAW = 1,     /**< scale * q k^T, of every pair, masked or not. */
    CLATTN_SCORES_SOFTCAP = 2, /**< After softcap, of every pair, masked or not. */
    CLATTN_SCORES_BIAS = 3,    /**< After bias, ALiBi and masks: -inf where masked. */
    CLATTN_SCORES_WEIGHTS = 4, /**< p, before dropout. */
    CLATTN_SCORES_MEAN = 5     /**< The mean of p over the query heads, (batch, seq_q, seq_kv). */
} clattn_scores;

/** Added to an entry of a block list: the boolean mask hides nothing in this block. */
#define CLATTN_BLOCK_FULL 0x40000000

/** The largest seq_q for which a plan of an invariant problem takes a family that splits the keys; dims over 256 may take one
 *  for any. */
#define CLATTN_INVARIANT_QUERIES 16

/** No limit on this side of a window. */
#define CLATTN_UNLIMITED (-1)

/**
 * Steps of a tensor along (batch, heads, seq, dim), or (batch, heads, seq_q, seq_kv) for bias and
 * mask, in elements. All four 0 in q, k, v, o and their gradients stand for the packed (batch,
 * heads, seq, dim). In inputs a stride of 0 broadcasts. In what is written no two elements may
 * share a place. It stands in other structs by value and does not grow.
 */
typedef struct clattn_layout {
    size_t stride[4]; /**< Along the four dimensions. */
} clattn_layout;

/** A projection: y = x w, see "Projection" above. */
typedef struct clattn_projection_problem {
    clattn_dtype dtype;      /**< Dtype of x, w and y. */
    clattn_dtype bias_dtype; /**< Dtype of the bias's elements. */
    size_t batch;            /**< 0 is allowed. */
    size_t x_heads;          /**< Heads of x; at least 1. */
    size_t y_heads;          /**< Heads of y; at least 1. */
    size_t rows;             /**< 0 is allowed. */
    size_t x_dim;            /**< Columns of a head of x; at least 1. */
    size_t y_dim;            /**< Columns of a head of y; at least 1. */
    clattn_layout x;         /**< (batch, x_heads, rows, x_dim) */
    clattn_layout w;         /**< (x_heads, x_dim, y_heads, y_dim) */
    clattn_layout y;         /**< (batch, y_heads, rows, y_dim) */
    int bias;                /**< Not 0: a bias is given, packed (y_heads, y_dim). */
    int accumulate;          /**< Not 0: y is added to. */
} clattn_projection_problem;

/** A merge of states, see "Merge" above. */
typedef struct clattn_merge_problem {
    clattn_dtype dtype;  /**< Dtype of parts and o. */
    size_t states;       /**< 0 is allowed: there is only what o and lse hold, or nothing. */
    size_t batch;        /**< 0 is allowed. */
    size_t heads;        /**< At least 1. */
    size_t seq_q;        /**< 0 is allowed. */
    size_t dim;          /**< At least 1. */
    clattn_layout parts; /**< (states * batch, heads, seq_q, dim) */
    clattn_layout o;     /**< (batch, heads, seq_q, dim) */
    int sinks;           /**< Not 0: sinks, heads floats. */
    int accumulate;      /**< Not 0: o and lse are merged with what they hold. */
} clattn_merge_problem;

/** The gradients of gradients of attention, see "Double backward" above. */
typedef struct clattn_double_backward_problem {
    clattn_dtype dtype;       /**< Dtype of all tensors but lengths. */
    clattn_diagonal diagonal; /**< As in clattn_problem. */
    size_t batch;             /**< 0 is allowed. */
    size_t heads;             /**< Query heads, a multiple of kv_heads; at least 1. */
    size_t kv_heads;          /**< At least 1. */
    size_t seq_q;             /**< 0 is allowed. */
    size_t seq_kv;            /**< 0 is allowed. */
    size_t dim_qk;            /**< At least 1. */
    size_t dim_v;             /**< At least 1. */
    int64_t diagonal_offset;  /**< Of CLATTN_OFFSET. */
    int64_t window_left;      /**< As in clattn_problem. */
    int64_t window_right;     /**< As in clattn_problem. */
    float scale;              /**< Finite, or NaN for 1 / sqrt(dim_qk). */
    int causal;               /**< Not 0: no query sees a key after the diagonal. */
    int q_lengths;            /**< Not 0: q_lengths, batch int32_t, each clamped to 0..seq_q. */
    int kv_lengths;           /**< Not 0: kv_lengths, batch int32_t, each clamped to 0..seq_kv. */
    int no_ggq;               /**< Not 0: there is no ggq, which counts as 0. Not all three. */
    int no_ggk;               /**< Likewise ggk. */
    int no_ggv;               /**< Likewise ggv. */
    clattn_layout q;          /**< (batch, heads, seq_q, dim_qk) */
    clattn_layout k;          /**< (batch, kv_heads, seq_kv, dim_qk) */
    clattn_layout v;          /**< (batch, kv_heads, seq_kv, dim_v) */
    clattn_layout d_o;        /**< (batch, heads, seq_q, dim_v) */
    clattn_layout ggq;        /**< Sizes as of q. */
    clattn_layout ggk;        /**< Sizes as of k. */
    clattn_layout ggv;        /**< Sizes as of v. */
    clattn_layout gq;         /**< Sizes as of q. */
    clattn_layout gk;         /**< Sizes as of k. */
    clattn_layout gv;         /**< Sizes as of v. */
    clattn_layout gdo;        /**< Sizes as of d_o. */
} clattn_double_backward_problem;

/** The choice of each query's keys by an indexer, see "Indexer" above. */
typedef struct clattn_indexer_problem {
    clattn_dtype dtype;       /**< Dtype of q and k. */
    clattn_diagonal diagonal; /**< As in clattn_problem, if causal; else CLATTN_TOP_LEFT. */
    size_t batch;             /**< 0 is allowed. */
    size_t heads;             /**< Index heads; at least 1. */
    size_t seq_q;             /**< 0 is allowed. */
    size_t seq_kv;            /**< Up to 2^31 - 1; 0 is allowed. */
    size_t dim;               /**< At least 1. */
    size_t topk;              /**< Entries of a list, 1 to 2^31 - 1. */
    size_t page_size;         /**< Keys in a page, any number from 1; 0: k is contiguous. */
    size_t pages;             /**< Pages in the pool, 1 to 2^31 - 1; 0 if page_size is 0. */
    size_t
        total_q; /**< Rows of q in which all sequences follow each other, up to 2^31 - 1; or 0. */
    size_t total_kv;         /**< Likewise of k; without page_size. */
    int64_t diagonal_offset; /**< Of CLATTN_OFFSET. */
    int causal;              /**< Not 0: query i sees no key after i + diagonal. */
    int q_lengths;           /**< Not 0: q_lengths, batch int32_t, each clamped to 0..seq_q. */
    int kv_lengths;          /**< Not 0: kv_lengths, batch int32_t, each clamped to 0..seq_kv. */
    int scores;              /**< Not 0: the scores of the chosen keys are written, too. */
    clattn_layout q;  /**< (batch, heads, seq_q, dim), packed batches (1, heads, total_q, dim) */
    clattn_layout k;  /**< (batch, 1, seq_kv, dim); paged: (pages, 1, page_size, dim); packed
                                   batches: (1, 1, total_kv, dim) */
    clattn_layout w;  /**< (batch, heads, seq_q, 1), packed batches (1, heads, total_q, 1) */
    int gradients;    /**< Not 0: lists are read, and dq, dk and dw written; without scores and
                                   page_size. */
    clattn_layout dq; /**< As q, if gradients. */
    clattn_layout dk; /**< As k, if gradients. */
    clattn_layout dw; /**< As w, if gradients. */
} clattn_indexer_problem;

/** An append of new keys and values to caches, see "Append" above. */
typedef struct clattn_append_problem {
    clattn_dtype dtype;       /**< Dtype of k, v, q and q_out. */
    clattn_dtype cache_dtype; /**< Dtype of the caches where they are not quantized. */
    size_t batch;             /**< 0 is allowed. */
    size_t heads;             /**< Query heads, a multiple of kv_heads; at least 1. */
    size_t kv_heads;          /**< At least 1. */
    size_t tokens;            /**< New tokens of each batch; 0 is allowed. */
    size_t capacity;     /**< Rows of the caches of each batch, the most keys that it may have; 0 is
                                   allowed. */
    size_t dim_qk;       /**< At least 1. */
    size_t dim_v;        /**< At least 1. */
    clattn_layout q;     /**< (batch, heads, tokens, dim_qk) */
    clattn_layout q_out; /**< (batch, heads, tokens, dim_qk) */
    clattn_layout k;     /**< (batch, kv_heads, tokens, dim_qk) */
    clattn_layout v;     /**< (batch, kv_heads, tokens, dim_v) */
    clattn_layout k_cache; /**< (batch, kv_heads, capacity, dim_qk); paged: (pages, kv_heads,
                                   page_size, dim_qk) */
    clattn_layout v_cache; /**< (batch, kv_heads, capacity, dim_v); paged: (pages, kv_heads,
                                   page_size, dim_v) */
    clattn_cache k_format; /**< How k_cache is stored: quantized, or CLATTN_CACHE_PLAIN, which is
                                   cache_dtype. */
    clattn_cache v_format; /**< How v_cache is stored, likewise. */
    size_t page_size;      /**< Keys in a page, any number from 1; 0: the caches are contiguous. See
                                   "Paged caches" above. */
    size_t pages;          /**< Pages in the pool, 1 to 2^31 - 1; 0 if page_size is 0. */
    clattn_rotary rotary;  /**< Whether and how k and q are rotated. */
    clattn_queries queries; /**< What is done with q; needs rotary. */
    size_t rotary_dim;      /**< Columns that are rotated, even, 2 to dim_qk and 4096; without
                                   rotary 0. */
    size_t rotary_length;   /**< Rows of the tables of cosines and sines; 0: there are none. */
    float rotary_base;      /**< Finite and at least 1, such as 10000; 0 with tables, or without
                                   rotary. */
    int kv_lengths;         /**< Not 0: batch int32_t, tokens that are cached; taken as they are. */
    int positions;          /**< Not 0: positions of the tokens, packed (batch, tokens) int32_t. */
    int slots;              /**< Not 0: slots of the tokens, packed (batch, tokens) int32_t. */
    int k_scaled; /**< Not 0: k_scales are given; k_format is one of bytes. See "Scales" above. */
    int v_scaled; /**< Likewise v_scales. */
    clattn_layout
        k_scales; /**< (batch, kv_heads, capacity, 1), paged (pages, kv_heads, page_size, 1). Zeros
                                 broadcast, as in k_scales_layout of attention. */
    clattn_layout v_scales; /**< Likewise. */
} clattn_append_problem;

/**
 * What is to be computed: an operation, and the members of that operation. Attention's, forward and backward,
 * are the struct's own; the others' are in a struct each. The members of other operations than the problem's
 * stay as an initialiser made them.
 *
 * Batch invariance. With `invariant` a query's row of o and its lse have the same bits in every call whose
 * inputs for that query are the same: q, the keys that it sees at the same key numbers, their values, and
 * what bias, masks, ALiBi and functions make of these pairs. The bits do not depend on
 *
 * - the batch, the other sequences of a batch or of a packed batch, and the query's place among them;
 * - seq_kv and lengths beyond the keys that the query sees: a cache's capacity, or keys that a mask hides;
 * - how many queries a call has, hence the pieces in which a prompt comes, within one of two kinds of calls:
 *   those with a seq_q of up to CLATTN_INVARIANT_QUERIES, and those with more. The kind follows from seq_q, of a
 *   packed batch the longest sequence, not from lengths: a larger seq_q with q_lengths or q_starts chooses the
 *   second kind for few queries;
 * - contiguous keys, pages, packed keys, layouts, and what was tuned.
 *
 * They do depend on the device, its driver, the version of the library, dtypes and formats, dims, the scale, softcap
 * and windows, heads and kv_heads, which options there are, and the family where plan options force one. Key numbers count from
 * the batch's first key: a prefix that leaves the cache changes bits. A table of pages may name other pages; a page that
 * it lacks before a window changes bits unless page_size is a multiple of 32, on GPUs of 128. Products of projections are not
 * covered, and neither are merges, several ranks, and results in which a NaN or an infinity stands. The option is for forward
 * without dropout, block lists, mask_keys, scores and key_sums. GPUs take fused_gpu, in f16 and bf16 by matrix instructions
 * (UNIT=mma), and up to CLATTN_INVARIANT_QUERIES queries split_gpu, by the unit that single queries take without the option.
 * A plan whose family fails to compile is refused, as another has other bits. The idea: H. He and Thinking Machines
 * Lab, "Defeating Nondeterminism in LLM Inference", 2025. Its cost: doc/guide/serving.md.
 *
 * Made by clattn_problem_init(), clattn_problem_init_operation() or clattn_problem_parse(), then changed as
 * needed.
 */
typedef struct clattn_problem {
    size_t struct_size; /**< Set by clattn_problem_init(). */
    clattn_operation
        operation; /**< Set by an initialiser; CLATTN_BACKWARD may replace CLATTN_FORWARD. */
    /** Dtype of q, k, v and o; but see k_cache, v_cache and o_f32. The members from here to strict are
     *  of attention, forward and backward. */
    clattn_dtype dtype;
    size_t batch;    /**< 0 is allowed: gradients that are sums over batches are 0. */
    size_t heads;    /**< Query heads, a multiple of kv_heads; at least 1. */
    size_t kv_heads; /**< At least 1. */
    size_t seq_q;    /**< 0 is allowed. */
    size_t seq_kv;   /**< 0 is allowed: no query sees a key. */
    size_t dim_qk;   /**< At least 1. */
    size_t dim_v;    /**< At least 1. */
    clattn_layout q; /**< (batch, heads, seq_q, dim_qk) */
    clattn_layout k; /**< (batch, kv_heads, seq_kv, dim_qk); paged: (pages, kv_heads, page_size,
                          dim_qk) */
    clattn_layout v; /**< (batch, kv_heads, seq_kv, dim_v); paged: (pages, kv_heads, page_size,
                          dim_v) */
    clattn_layout o; /**< (batch, heads, seq_q, dim_v) */
    float scale;     /**< Any finite value; NaN stands for 1 / sqrt(dim_qk). */
    float softcap;   /**< Finite and > 0, or 0 for none. */
    int causal;      /**< Not 0: query i sees no key after i + diagonal. */
    clattn_diagonal diagonal; /**< The diagonal of causality, windows and ALiBi. */
    int64_t diagonal_offset;  /**< The offset with CLATTN_OFFSET; any value, negative ones too. */
    int64_t window_left;      /**< Query i sees no key before i + diagonal - window_left. */
    int64_t window_right;     /**< Query i sees no key after i + diagonal + window_right. */
    int bias;                /**< Not 0: an additive bias (batch, heads, seq_q, seq_kv) is given. */
    clattn_dtype bias_dtype; /**< Dtype of the bias's elements. */
    clattn_layout bias_layout; /**< Zeros broadcast; see clattn_layout_broadcast(). */
    int mask; /**< Not 0: a boolean mask of bytes, not 0 = visible, of that shape is given. */
    clattn_layout mask_layout; /**< Zeros broadcast, as in bias_layout. Its columns: mask_keys. */
    int alibi;                 /**< Not 0: slopes, heads floats. */
    int alibi_symmetric; /**< Not 0, with alibi: keys after the diagonal lose as much as those before
                                    it, which a causal problem does not show. */
    int sinks;           /**< Not 0: sinks, heads floats. */
    int q_lengths;       /**< Not 0: batch int32_t, queries in use; clamped to 0..seq_q. */
    int kv_lengths;      /**< Not 0: batch int32_t, keys in use; clamped to 0..seq_kv. */
    int lse; /**< Not 0: lse is written, packed (batch, heads, seq_q) or (heads, total_q) floats; backward
                               always reads it. */
    clattn_scores
        scores; /**< Written packed, (batch, heads, seq_q, seq_kv) floats, of CLATTN_SCORES_MEAN without heads;
                            not backward. */
    float dropout;        /**< Probability that a weight is dropped: 0 for none, below 1. */
    clattn_layout d_o;    /**< Of do, as o; this and what follows to dsinks: backward only. */
    clattn_layout dq;     /**< As q, but nothing may broadcast. */
    clattn_layout dk;     /**< As k, but nothing may broadcast. */
    clattn_layout dv;     /**< As v, but nothing may broadcast. */
    int dbias;            /**< Not 0: the bias's gradient is written, in its dtype and layout; zeros
                                   where a problem without batches, queries or keys sums nothing. */
    int dslopes;          /**< Not 0: the slopes' gradient is written, heads floats. */
    int dsinks;           /**< Not 0: the sinks' gradient is written, heads floats. */
    clattn_cache k_cache; /**< How k is stored; this and v_cache, which need not be alike: forward
                               only, since a cache is read in inference, while training has
                               gradients of the same dtype as q. The dim of a quantized tensor is a
                               multiple of 32, its innermost stride 1, and its other strides, like
                               its offset in its buffer, are multiples of 32; all are counted in
                               values, as of other tensors. */
    clattn_cache v_cache; /**< How v is stored. */
    size_t
        mask_keys; /**< 0, or how many columns the mask has, at most seq_kv: of the last keys in use
                           (of the batch's length), all keys before which the mask lets through. A tree
                           of drafts behind a cached prefix has a mask of seq_q x seq_q; causal and
                           windows hide besides. */
    size_t page_size; /**< Keys in a page, any number from 1; 0: k and v are contiguous. Forward
                               only; see "Paged caches" above. */
    size_t pages;     /**< Pages in the pool, 1 to 2^31 - 1; 0 if page_size is 0. */
    int o_f32; /**< Not 0: o, which forward writes and backward reads, and dq, dk and dv are f32,
                    whatever the dtype. For partial results that are merged or added later, for
                    callers that go on in f32, and for gradients that no rounding of o spoils. An o
                    that was rounded to the dtype is one of f32 when it is converted: no bit is lost. */
    size_t block_q;  /**< Queries in a block of the block lists, or 0: there are no lists, and this
                               and what follows are 0. See "Block lists" above. */
    size_t block_kv; /**< Keys in a block: at least 1, and so many that there are at most 2^30
                               columns of blocks. */
    size_t max_blocks; /**< Entries that there is room for in a list, 1 to 2^31 - 1. */
    int block_batches; /**< Not 0: each batch has a list of its own; 0: they share one. */
    int block_heads;   /**< Not 0: each query head has a list of its own; 0: they share one. */
    size_t total_q;    /**< Rows of q and o in which all sequences follow each other, up to
                               2^31 - 1; 0: q and o have batch times seq_q rows. See
                               "Packed batches" above. */
    size_t total_kv;   /**< Likewise of k and v. */
    int strict; /**< Not 0: no weight is rounded to the dtype on the way; see "Precision" above.
                     f32 problems are strict without it. */
    /** NULL, or a function that makes scores of scores after softcap (clattn/function.h). */
    const struct clattn_function *score_function;
    /** NULL, or a function that says which pairs are visible; it is not called in blocks that are listed as full. */
    const struct clattn_function *mask_function;
    int dlse; /**< Not 0: the loss depends on lse as well, whose gradient is read, as packed as lse;
                   backward only. */
    int dfunction; /**< Not 0: the gradients of the score function's operands of type float, half and
                        bfloat are written (clattn_problem_function_gradient()); backward only. */
    int key_sums; /**< Not 0: each key's sum of weights is written, packed (batch, kv_heads, seq_kv) or (kv_heads,
                       total_kv) floats; see "Sums of weights". Needs lse; not backward. */
    int invariant; /**< Not 0: a query's results have the same bits whatever stands beside it; see "Batch
                        invariance". Forward only. */
    /** Keys in each query's list of chosen ones, up to 2^31 - 1; 0: a query may see all. See
     *  "Chosen keys". */
    size_t topk;
    int topk_heads; /**< Not 0: each kv head has lists of its own; 0: a query's heads share one. */
    /** 0, or the batches of the attention that this problem is a part of, whose operands its functions are given: see
     *  "Parts" in clattn/function.h. All four of these, or none. */
    size_t whole_batch;
    size_t
        whole_heads; /**< The heads of the whole: whole_heads / heads times kv_heads are those of keys. */
    size_t whole_q;  /**< Its seq_q. */
    size_t whole_kv; /**< Its seq_kv. */
    int k_scales; /**< Not 0: k, of a format of bytes, has scales of f32; see "Scales". Forward only. */
    int v_scales; /**< Likewise v. */
    clattn_layout
        k_scales_layout; /**< Of (batch, kv_heads, seq_kv, 1), paged (pages, kv_heads, page_size, 1),
                                        packed batches (1, kv_heads, total_kv, 1). Zeros broadcast. */
    clattn_layout v_scales_layout; /**< Likewise of v's scales. */
    int int8; /**< Not 0: q and k are rounded to int8 before they are multiplied; see "Products of int8". Forward only. */
    size_t
        reserved[12]; /**< Zeros: room for members of attention in later versions, of which 0 means
                              none. */
    union {
        clattn_projection_problem projection; /**< The problem of CLATTN_PROJECTION. */
        clattn_merge_problem merge;           /**< The problem of CLATTN_MERGE. */
        clattn_append_problem append;         /**< The problem of CLATTN_APPEND. */
        clattn_double_backward_problem
            double_backward;            /**< The problem of CLATTN_DOUBLE_BACKWARD. */
        clattn_indexer_problem indexer; /**< The problem of CLATTN_INDEXER. */
        size_t room[64]; /**< Zeros where no operation has members; room for these to grow. */
    };
} clattn_problem;

/**
 * A forward f32 problem of one batch, one head, one query and one key of dimension 1, with
 * packed layouts, the default scale, unlimited windows and no options.
 *
 * @param problem  Not null.
 */
CLATTN_API void clattn_problem_init(clattn_problem *problem);

/**
 * A problem of an operation with all sizes 1 and without options: in f32, with packed layouts. Of
 * CLATTN_FORWARD it is clattn_problem_init().
 *
 * @param problem    Not null.
 * @param operation  Any: clattn_problem_check() refuses what is none.
 */
CLATTN_API void clattn_problem_init_operation(clattn_problem *problem, clattn_operation operation);

/**
 * Checks a problem against every rule of this header and of 64-bit indexing, for any device.
 *
 * @param problem  Not null.
 * @param reason   NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Sound.
 * @retval CLATTN_INVALID_ARGUMENT  @p problem is null or its struct_size is of none of this
 *                                  library's versions.
 * @retval CLATTN_INVALID_PROBLEM   @p reason names the field and the limit: sizes, windows and
 *                                  offsets go to 2^48, tensors reach over at most 2^58 elements.
 */
CLATTN_API clattn_status clattn_problem_check(const clattn_problem *problem, char *reason,
                                              size_t reason_bytes);

/**
 * Where dfunction has the gradient of an operand: the gradients of the score function's operands of type float, half and
 * bfloat follow each other in the order of their declarations, as f32, each packed as its operand.
 *
 * @param problem  NULL, or need not pass clattn_problem_check().
 * @param n        The number of an operand of the score function, from 0.
 * @return The elements before the gradient of operand @p n, which has none if its elements are integers; of all
 *         gradients if there are not so many operands. SIZE_MAX if a size_t cannot hold it; 0 for NULL.
 */
CLATTN_API size_t clattn_problem_function_gradient(const clattn_problem *problem, size_t n);

/**
 * Strides of a packed bias or mask of the given shape, aligned at the right to (batch, heads,
 * seq_q, seq_kv) as in NumPy: missing and 1-sized dimensions broadcast.
 *
 * @param problem  Gives the four sizes; not null.
 * @param rank     0 to 4.
 * @param shape    @p rank sizes, each 1 or that of the problem, of a mask's columns mask_keys if not 0; NULL only if
 * @p rank is 0.
 * @param layout   Not null; receives the strides, zeros on failure.
 * @retval CLATTN_SUCCESS           Set.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a rank above 4, a size that does not broadcast, or
 *                                  sizes whose product (0 counts as 1) a size_t cannot hold.
 */
CLATTN_API clattn_status clattn_layout_broadcast(const clattn_problem *problem, size_t rank,
                                                 const size_t *shape, clattn_layout *layout);

/**
 * Strides of a packed tensor whose dimensions lie in memory in the given order.
 *
 * @param order   A permutation of "bhsd", outermost first: "bhsd", "bshd", "sbhd", ...
 * @param sizes   Sizes along (batch, heads, seq, dim); not null.
 * @param layout  Not null; receives the strides, zeros on failure.
 * @retval CLATTN_SUCCESS           Set.
 * @retval CLATTN_INVALID_ARGUMENT  A null, not a permutation, or sizes whose product (0 counts as 1)
 *                                  a size_t cannot hold.
 */
CLATTN_API clattn_status clattn_layout_packed(const char *order, const size_t sizes[4],
                                              clattn_layout *layout);

/**
 * Packs q, k, v and o, and in a backward problem their gradients, in memory order @p order; of a
 * projection x and y, of a merge parts and o, of an append all six. As "layout=" of the text form does. Sizes come first: the
 * strides follow from those that the problem has now.
 *
 * @param problem  Not null; unchanged on failure.
 * @param order    As for clattn_layout_packed(): "bshd" is (batch, seq, heads, dim).
 * @param reason   NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Set.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions, or not
 *                                  a permutation.
 * @retval CLATTN_INVALID_PROBLEM   The problem would fail clattn_problem_check().
 */
CLATTN_API clattn_status clattn_problem_set_layout(clattn_problem *problem, const char *order,
                                                   char *reason, size_t reason_bytes);

/**
 * The backward problem of a forward one: the same sizes and options, do in the layout of o, and dq,
 * dk and dv in those of q, k and v (packed where these broadcast). It asks for no dbias, dslopes,
 * dsinks and dfunction; set those that are wanted.
 *
 * @param forward   Of operation CLATTN_FORWARD; not null. Its lse, which backward reads, is asked for;
 *                  all else stays. Unchanged on failure.
 * @param backward  Not null; cleared to clattn_problem_init() on failure.
 * @param reason    NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Made, and it passes clattn_problem_check().
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 * @retval CLATTN_INVALID_PROBLEM   @p forward is not a sound forward problem, or stores k or v
 *                                  otherwise than q, which gradients do not.
 */
CLATTN_API clattn_status clattn_problem_backward(clattn_problem *forward, clattn_problem *backward,
                                                 char *reason, size_t reason_bytes);

/**
 * The text form, one line: "fwd f16 b1 h32/8 q1024 k4096 d128 causal=br". In this order:
 *
 *     fwd|bwd                operation (proj, merge, append, bwd2, indexer: below)
 *     f32|f16|bf16           dtype
 *     bN                     batch
 *     hN or hN/M             heads, kv_heads if different
 *     qN kN                  seq_q, seq_kv
 *     dN or dN/M             dim_qk, dim_v if different
 *     q=L k=L v=L o=L        layouts, where not packed "bhsd": an order such as bshd, or
 *                            four strides such as 4096.64.128.1
 *     kcache=C vcache=C      q8_0, q4_0, q5_0, iq4_nl, q4_1, q5_1, e4m3, e5m2 or int8, where k or
 *                            v is quantized; f32, f16 or bf16, where it is of
 *                            another dtype than the problem
 *     page=N pages=N         page_size and pages; when read, pages defaults to as many as b * k need
 *     scale=X softcap=X      X as printed by %.9g; scale where it is not NaN
 *     causal=A               A is tl, br or an offset such as 17 or -3
 *     diagonal=A             likewise, for a problem that is not causal: tl where it is not given
 *     window=L,R             each a number, or * for unlimited
 *     bias=T:L mask=L        T a dtype; L the dimensions that do not broadcast, packed, such as
 *                            bhqk, qk or bk, or four strides such as 0.0.64.1 (0.0.0.0: one value)
 *     blocks=RxC:N           block lists of blocks of R queries and C keys, with room for N entries,
 *                            one for all; blocks=RxC:N:h one for each head, :b for each batch, :bh for
 *                            each head of each batch
 *     alibi symmetric        alibi; alibi_symmetric
 *     sinks qlen klen invariant lse odtype=f32 strict
 *     precision=int8         int8
 *     maskkeys=N             mask_keys, where not 0
 *     totalq=N totalkv=N     total_q and total_kv, where not 0
 *     topk=N topkheads       topk, where not 0; topk_heads
 *     wholeb=N wholeh=N wholeq=N wholek=N    whole_batch, whole_heads, whole_q and whole_kv, where not 0
 *     kscales vscales        k_scales and v_scales: one of the tensor; kscales=L: L the dimensions that do not broadcast,
 *                            packed: h, bh, k or bhk (b: pages in a paged cache), or four strides
 *     scores=raw|softcap|bias|weights
 *     score=F visible=F      score_function and mask_function: one of the library, such as t5, a file, or "NAME:HASH" as
 *                            clattn_function_name() has it, of a function that this process has made or that
 *                            the file NAME holds
 *     dropout=X              X as above
 *     do=L dq=L dk=L dv=L    layouts, as q=L
 *     dbias dslopes dsinks dlse dfunction
 *
 * A projection is "proj f32 b2 h12/1 q2048 d768/64 w=oi bias=f32": operation, dtype, b, then as hN/M
 * y_heads and x_heads, as q rows, as dN/M x_dim and y_dim; then
 *
 *     x=L y=L                layouts of x and y, where not packed "bhsd"
 *     w=L                    of w, where not packed "io", which is (x_heads, x_dim, y_heads, y_dim):
 *                            "oi", its transpose (y_heads, y_dim, x_heads, x_dim), or four strides
 *                            along (x_heads, x_dim, y_heads, y_dim)
 *     bias=T                 packed (y_heads, y_dim) of dtype T
 *     accumulate
 *
 * A merge is "merge f32 b2 h32 q1 d128 n4": operation, dtype, b, h, q, d and n, the states; then
 *
 *     parts=L o=L            layouts of parts and o, where not packed "bhsd"
 *     sinks accumulate
 *
 * An append is "append f32 b4 h32/8 q1 k4096 d128 cache=f16 klen rope=halves:128:10000 queries": the
 * operation, dtype, b, h, q (tokens), k (capacity) and d; then
 *
 *     q=L k=L v=L o=L        layouts of what is read, and as o of q_out
 *     dk=L dv=L              layouts of k_cache and v_cache
 *     cache=T                cache_dtype, where it is not the dtype
 *     kcache=C vcache=C      k_format and v_format: q8_0, q4_0, q5_0, iq4_nl, q4_1, q5_1, e4m3, e5m2
 *                            or int8, where a cache is quantized
 *     klen pos slots         kv_lengths, positions and slots are given
 *     kscales vscales        k_scaled and v_scaled, with layouts as of attention
 *     rope=R:N:X             pairs or halves, rotary_dim, rotary_base printed by %.9g
 *     rope=R:N:tables:M      ... with tables of M rows instead
 *     queries queries=inplace
 *
 * A double backward is "bwd2 f32 b2 h8/2 q512 d64 causal=tl": operation, dtype, b, h, q, k and d as of attention;
 * then
 *
 *     q=L k=L v=L o=L        layouts of q, k, v, and as o of gdo
 *     do=L dq=L dk=L dv=L    layouts of d_o, and as dq, dk and dv of gq, gk and gv
 *     ggq=L ggk=L ggv=L      layouts of these; none: there is no such tensor
 *     scale=X causal=A diagonal=A window=L,R qlen klen
 *
 * An indexer is "indexer bf16 b2 h64 q1 k131072 d128 topk=2048 causal=br klen page=64": operation, dtype, b, h, q,
 * k, d; then
 *
 *     q=L k=L w=L            layouts; w=bshd is (batch, seq_q, heads)
 *     topk=N                 which must be there
 *     gradients              gradients, with layouts dq=, dk= and dw=
 *     page=N pages=N totalq=N totalkv=N causal=A qlen klen
 *     scores                 the scores are written, too
 *
 * When it is read, "layout=bshd", an order, stands for the layouts of all of q, k, v, o, do, dq, dk and
 * dv (of a projection x and y, of a merge parts and o) that have no word of their own: printed are those words.
 *
 * Parsing what was printed gives an equivalent problem: one with the same text and results.
 *
 * @param problem  Not null; need not pass clattn_problem_check().
 * @param text     NULL if @p text_bytes is 0; else receives the form, always terminated.
 * @param text_bytes  The size of @p text.
 * @param needed   NULL, or receives the bytes needed, the terminating 0 included.
 * @retval CLATTN_SUCCESS           Printed.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 * @retval CLATTN_BUFFER_TOO_SMALL  @p text holds as much as fits.
 */
CLATTN_API clattn_status clattn_problem_print(const clattn_problem *problem, char *text,
                                              size_t text_bytes, size_t *needed);

/**
 * Reads the text form. Words are separated by blanks, their order is free. The operation, a
 * dtype, q and d must be there, of a merge n, of an indexer topk; b and h default to 1, k to q, the options to none.
 *
 * @param text     Not null.
 * @param problem  Not null; cleared to clattn_problem_init() on failure.
 * @param reason   NULL, or receives one sentence ("" on success), cut to @p reason_bytes.
 * @param reason_bytes  The size of @p reason.
 * @retval CLATTN_SUCCESS           Read, and clattn_problem_check() passes.
 * @retval CLATTN_INVALID_ARGUMENT  A null.
 * @retval CLATTN_INVALID_PROBLEM   A word is unknown, given twice, missing or out of range.
 */
CLATTN_API clattn_status clattn_problem_parse(const char *text, clattn_problem *problem,
                                              char *reason, size_t reason_bytes);

/**
 * Floating-point operations of the products over the pairs that causality and windows leave
 * visible: 2 * (dim_qk + dim_v) per pair, backward 6 * dim_qk + 4 * dim_v; masks, biases and
 * lengths, which lie on the device, do not reduce it. With block lists it counts no more pairs than
 * max_blocks whole blocks have, of packed batches no more of the longest sequences than total_q and
 * total_kv rows hold. Of a projection: 2 * x_heads * x_dim per
 * element of y; of a merge 2 * states per element of o; of an indexer 2 * dim per head and visible pair; of an append 6 per
 * rotated pair. 0 for a problem that fails clattn_problem_check().
 */
CLATTN_API double clattn_problem_flops(const clattn_problem *problem);

/**
 * The class of problems that share tuning results, as the text form of its representative.
 *
 * Exact, because they shape the kernels: operation, dtype, dim_qk, dim_v, causality, which options
 * are there (scale aside), the bias's dtype, the kind of scores, unit strides along dim or not.
 * Rounded to the nearest power of two (by ratio), because speed varies slowly with them: batch *
 * heads (folded into heads, 1 to 128), heads / kv_heads, seq_q and seq_kv (1 to 65536) and the
 * sides of a window (no wider than the keys). All else is normal: packed layouts, full bias and
 * mask, default scale, one kind of diagonal.
 *
 * Of a projection are exact: operation, dtype, bias and its dtype, accumulate, and which axis of x,
 * w and y has a stride of 1. Rounded are its rows (batch * seq_q), the terms of a sum (kv_heads *
 * dim_qk), its columns (heads * dim_v), each from 1 to 65536, and dim_qk and dim_v, where strides
 * keep heads apart.
 *
 * @param problem  Not null; passes clattn_problem_check().
 * @param text     NULL if @p text_bytes is 0; else receives the class, always terminated.
 * @param text_bytes  The size of @p text.
 * @param needed   NULL, or receives the bytes needed, the terminating 0 included.
 * @retval CLATTN_SUCCESS           Printed.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 * @retval CLATTN_BUFFER_TOO_SMALL  @p text holds as much as fits.
 */
CLATTN_API clattn_status clattn_problem_class(const clattn_problem *problem, char *text,
                                              size_t text_bytes, size_t *needed);

CLATTN_END

#endif
