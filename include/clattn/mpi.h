/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file mpi.h  Attention over the ranks of an MPI communicator. In a library of its own, libclattn_mpi.
 * @ingroup ranks
 * Each rank drives one device and holds a shard of the sequence: some of the queries, and some of the
 * keys and values. A plan, made by all ranks together for the whole problem, says which (@ref
 * clattn_mpi_plan_shard()), and an execution gives each rank the rows of o, or of the gradients, that
 * belong to its shard, as if the whole had been computed on one device. Results do not depend on the
 * number of ranks beyond rounding, what dropout drops not at all, and the same ranks with the same
 * shards give the same bits.
 *
 * What travels, by mode:
 *
 * - ring: keys and values go from rank to rank, a shard at a time; the next one travels while one is
 *   computed (H. Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context",
 *   2023). Backward the gradients of a shard's keys go from one rank that sees them to the next, in
 *   f32, and home. A rank holds two shards of others at a time. Steps in which nothing is visible are
 *   neither sent nor computed.
 * - heads: an all-to-all turns shards of the sequence into whole sequences of some heads, and back
 *   (S. A. Jacobs et al., "DeepSpeed Ulysses", 2023). Nothing is merged.
 * - heads and ring: groups of heads_ranks consecutive ranks exchange heads, and rings connect the ranks
 *   of all groups that have the same heads.
 * - split keys, for decoding: every rank has all queries, a range of the keys, and gets all of o. Partial
 *   o and lse go to all ranks, in f32, and are merged there (split-K, as T. Dao et al., "Flash-Decoding for
 *   long-context inference", 2023, does on one device).
 *
 * Causal problems are cut so that all ranks have the same work: with n places in the ring, 2 n chunks,
 * of which place r has chunk r and chunk 2 n - 1 - r, one behind the other in its tensors ("zigzag").
 * With options.speed chunks are as long as their rank is fast.
 *
 * CLATTN_MPI_AUTO takes the mode that a cost model (@ref clattn_mpi_predict()) finds fastest, from what each
 * mode computes, copies and sends, and from rates (@ref clattn_mpi_rates): those of the options, or measured
 * when the plan is made. Measured rates vary, and with them may the mode, and with the mode the rounding: give
 * the rates for the same bits from one plan to the next.
 *
 * All calls that are called collective are made by all ranks of the communicator, in the same order, from
 * one thread at a time, with arguments that agree; MPI must have been initialised (MPI_THREAD_FUNNELED is
 * enough if that thread is the main one). A rank that fails a check, that has no memory or whose device
 * fails makes all ranks return its status, and the log of each gets its sentence: nobody waits for a rank
 * that gave up. A rank that dies ends the job as MPI has it.
 */
#ifndef CLATTN_MPI_H
#define CLATTN_MPI_H

#include <clattn/attention.h>
#include <mpi.h>

CLATTN_BEGIN

/** How keys come to queries; see above. */
typedef enum clattn_mpi_mode {
    CLATTN_MPI_AUTO = 0, /**< The mode of the next three that is fastest by the rates. */
    CLATTN_MPI_RING = 1,
    CLATTN_MPI_HEADS = 2,      /**< kv_heads is a multiple of the ranks. */
    CLATTN_MPI_HEADS_RING = 3, /**< kv_heads and the ranks are multiples of heads_ranks. */
    CLATTN_MPI_SPLIT_KV = 4    /**< Forward only: every rank has all queries. */
} clattn_mpi_mode;

/**
 * How fast ranks compute, copy and send. Ranks are counted node by node: a node is a machine with
 * consecutive ranks, which reach each other faster than those of other nodes.
 */
typedef struct clattn_mpi_rates {
    size_t struct_size; /**< sizeof(clattn_mpi_rates). */
    double flops; /**< Operations a second of one rank's device, as clattn_problem_flops() counts
                                them; where options.speed differ, of the mean of them. Over 0. */
    double copy_bandwidth; /**< Bytes a second between a device and MPI's memory. Over 0. */
    double overhead;     /**< Seconds that an execution takes beside its operations. At least 0. */
    int node_ranks;      /**< Ranks of a node, at least 1. */
    double node_latency; /**< Seconds from one rank of a node to another, whatever the size. */
    double
        node_bandwidth; /**< Bytes a second that a rank sends there, while it receives as many. Over
                                0. */
    double latency;     /**< Seconds from node to node. */
    double
        bandwidth; /**< Bytes a second that all ranks of a node together send to other nodes, while
                                they receive as many. Over 0, whether there are other nodes or not. */
} clattn_mpi_rates;

/** What a plan is made with. All but struct_size may be 0. */
typedef struct clattn_mpi_options {
    size_t struct_size;   /**< sizeof(clattn_mpi_options). */
    clattn_mpi_mode mode; /**< The same on all ranks. */
    int heads_ranks; /**< For CLATTN_MPI_HEADS_RING: ranks that exchange heads, at least 1; else
                          0. The same on all ranks. */
    double speed;    /**< How fast this rank's device is, in any unit that all ranks share; may
                          differ between ranks. @ref clattn_mpi_measure_speed() measures it. 0 on
                          all ranks: equal shards. */
    const clattn_plan_options
        *plan; /**< NULL, or how each part's plan is chosen; borrowed until the
                                          plan is released. May differ between ranks. */
    const clattn_mpi_rates
        *rates; /**< NULL: measured if mode is CLATTN_MPI_AUTO and there are several
                                        ranks. Else given: the same on all ranks; read during the call
                                        only. */
} clattn_mpi_options;

/** A prepared distributed computation. Unlike clattn_plan it is used by one thread at a time. */
typedef struct clattn_mpi_plan clattn_mpi_plan;

/** Which rows of the sequence a rank has: up to two ranges, one behind the other in its tensors. */
typedef struct clattn_mpi_shard {
    size_t struct_size; /**< Set by the caller to sizeof(clattn_mpi_shard). */
    size_t q_first[2];  /**< First query of each range; in packed batches, of the total_q rows. */
    size_t q_count[2];  /**< Queries of each range; 0 for a range that is not there. */
    size_t kv_first[2]; /**< First key of each range, likewise. */
    size_t kv_count[2]; /**< Keys of each range. */
} clattn_mpi_shard;

/** What a plan does, and what its last execution took on this rank. */
typedef struct clattn_mpi_plan_info {
    size_t struct_size;   /**< Set by the caller to sizeof(clattn_mpi_plan_info). */
    clattn_mpi_mode mode; /**< Never CLATTN_MPI_AUTO. */
    int heads_ranks;      /**< Ranks that exchange heads; 1 if none do. */
    int places;           /**< Places in the ring: ranks / heads_ranks. */
    /** Duration of the last execution; 0 before the first. This and the next members are this
     *  rank's. */
    double seconds;
    double seconds_computing; /**< Seconds of waiting for the device. */
    /** Seconds of waiting for messages or other ranks while nothing was computed. */
    double seconds_waiting;
    /** Seconds of copying shards between the device and MPI's memory while nothing was computed. */
    double seconds_staging;
    size_t bytes_sent; /**< Bytes sent to other ranks. */
    size_t parts;      /**< Executions on the device: pairs of ranges of queries and of
                                    keys that see each other. */
    /** Duration of any execution by the cost model; 0 where there are no rates. */
    double seconds_predicted;
} clattn_mpi_plan_info;

/** What the cost model expects of an execution, of the rank that takes longest. */
typedef struct clattn_mpi_prediction {
    size_t struct_size;       /**< Set by the caller to sizeof(clattn_mpi_prediction). */
    clattn_mpi_mode mode;     /**< Never CLATTN_MPI_AUTO. */
    int heads_ranks;          /**< The same as in clattn_mpi_plan_info. */
    double seconds;           /**< Duration of an execution. */
    double seconds_computing; /**< Seconds of computing on the device. */
    double seconds_waiting;   /**< Seconds of waiting for messages while nothing is computed. */
    double seconds_staging;   /**< Seconds of copies between the device and MPI's memory. */
    double bytes_sent;        /**< Bytes that a rank sends. */
    double bytes_held; /**< Memory of a rank's device beside the caller's tensors, without what its
                                   kernels use as workspace. */
} clattn_mpi_prediction;

/**
 * Makes a plan; collective.
 *
 * @param communicator  Duplicated; freed by clattn_mpi_plan_release().
 * @param context       This rank's device; kept alive by the plan. Not null.
 * @param whole         The whole problem, forward or backward, the same on all ranks. Its layouts are of
 *                      whole tensors; those of a shard follow: strides that are longer than the one along
 *                      the sequence shrink as the rows do, so that "bshd", or q between k and v in one
 *                      buffer, stay what they are. Not null; copied.
 * @param options       NULL, or as above; read during the call only, but for options->plan.
 * @param plan          Not null; receives the plan (release it), or NULL on failure.
 * @retval CLATTN_SUCCESS           Made. Kernels are compiled by now, but those that only certain
 *                                  lengths need.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a struct_size of none of this library's versions, a mode that
 *                                  is none, heads_ranks, speed or rates that cannot be, ranks whose problems,
 *                                  options or library versions differ.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 * @retval CLATTN_UNSUPPORTED       An operation other than these two; paged or quantized caches, block
 *                                  lists, mask_keys, scores that are handed out, dbias; bias or mask
 *                                  where heads are exchanged or batches are packed; dropout of packed
 *                                  batches; an innermost stride that is not 1, or a longer one that
 *                                  the rows do not divide; kv_heads that CLATTN_MPI_HEADS cannot divide;
 *                                  or a device that has no family for it.
 * @retval CLATTN_OUT_OF_MEMORY     Host or device memory ran out.
 *
 * Other statuses as clattn_plan_create(). The status is the same on all ranks, but that of a null
 * communicator, which MPI has no part in.
 */
CLATTN_API clattn_status clattn_mpi_plan_create(MPI_Comm communicator, clattn_context *context,
                                                const clattn_problem *whole,
                                                const clattn_mpi_options *options,
                                                clattn_mpi_plan **plan);

/**
 * Measures the rates of the ranks' devices and of the network between them, by short executions and messages;
 * collective. Takes some hundred milliseconds beside the compilation of kernels. Several plans with the same
 * rates choose alike.
 *
 * @param communicator,context,whole  As for clattn_mpi_plan_create(); operation, dtype and dims of the
 *                                    problem say what is executed.
 * @param rates                       Not null, its struct_size set; receives the same on all ranks: the slowest
 *                                    device's and the slowest messages'. Zeros on failure.
 * @return                            As clattn_mpi_plan_create(), the same on all ranks.
 */
CLATTN_API clattn_status clattn_mpi_measure(MPI_Comm communicator, clattn_context *context,
                                            const clattn_problem *whole, clattn_mpi_rates *rates);

/**
 * Measures how fast this rank's device computes while the others compute as well, for options.speed: a shard is then as
 * long as its device is fast, so that unlike devices, or one that does something else as well, finish together; collective.
 * Takes a third of a second beside the compilation of kernels. Measured speeds vary, and with them where shards begin and
 * the rounding: give the same speeds to several plans for the same shards.
 *
 * @param communicator,context,whole  As for clattn_mpi_plan_create(). Operation, dtype, heads and dims of the problem say
 *                                    what is executed, without masks, by a plan like that of a part: what the tuner has
 *                                    found for the device counts.
 * @param plan_options                NULL, or as clattn_mpi_options.plan; read during the call only.
 * @param speed                       Not null; receives operations a second of this rank, as clattn_problem_flops() counts
 *                                    them. 0 on failure.
 * @return                            As clattn_mpi_plan_create(), the same on all ranks, but that of a null communicator.
 */
CLATTN_API clattn_status clattn_mpi_measure_speed(MPI_Comm communicator, clattn_context *context,
                                                  const clattn_problem *whole,
                                                  const clattn_plan_options *plan_options,
                                                  double *speed);

/**
 * What an execution would take: the cost model of CLATTN_MPI_AUTO. Pure: needs neither ranks nor devices,
 * and MPI need not be initialised.
 *
 * It adds up, step by step, the operations of the place that has most of them, by rates->flops, with
 * rates->overhead for each execution, or the messages of that step if these take longer; and all copies
 * between device and MPI's memory, during which neither goes on. Shards are equal. Lengths count as all
 * there is, packed sequences as alike in all places.
 *
 * @param whole       As for clattn_mpi_plan_create(). Not null.
 * @param ranks       At least 1.
 * @param options     As for clattn_mpi_plan_create(), with rates; speed is not looked at. With
 *                    CLATTN_MPI_AUTO the prediction is of the fastest mode. Not null.
 * @param prediction  Not null; its struct_size set. Receives the result; unchanged on failure.
 * @retval CLATTN_SUCCESS           Predicted.
 * @retval CLATTN_INVALID_ARGUMENT  As clattn_mpi_plan_create(), or no rates.
 * @retval CLATTN_INVALID_PROBLEM   As clattn_problem_check().
 * @retval CLATTN_UNSUPPORTED       As clattn_mpi_plan_create(), but for devices.
 * @retval CLATTN_OUT_OF_MEMORY     Host memory ran out.
 */
CLATTN_API clattn_status clattn_mpi_predict(const clattn_problem *whole, int ranks,
                                            const clattn_mpi_options *options,
                                            clattn_mpi_prediction *prediction);

/** Gives up the plan; NULL is allowed. Collective, since it frees a communicator. */
CLATTN_API void clattn_mpi_plan_release(clattn_mpi_plan *plan);

/**
 * Which rows a rank has. Not collective.
 *
 * @param plan   Not null.
 * @param rank   Of the communicator.
 * @param shard  Not null.
 * @retval CLATTN_SUCCESS           Filled.
 * @retval CLATTN_INVALID_ARGUMENT  A null, no such rank, or a struct_size of none of this library's
 *                                  versions.
 */
CLATTN_API clattn_status clattn_mpi_plan_shard(const clattn_mpi_plan *plan, int rank,
                                               clattn_mpi_shard *shard);

/**
 * The problem of this rank's tensors: that of the whole, with seq_q (or total_q) and seq_kv (or total_kv)
 * rows of this rank's shard and layouts for them; bias and mask have all columns of the whole. It tells how
 * large tensors are. Not collective.
 *
 * @param plan   Not null.
 * @param local  Not null; receives it.
 * @retval CLATTN_SUCCESS           Filled.
 * @retval CLATTN_INVALID_ARGUMENT  A null.
 */
CLATTN_API clattn_status clattn_mpi_plan_problem(const clattn_mpi_plan *plan,
                                                 clattn_problem *local);

/**
 * What the plan does. Not collective.
 *
 * @param plan,info  Not null.
 * @retval CLATTN_SUCCESS           Filled.
 * @retval CLATTN_INVALID_ARGUMENT  A null, or a struct_size of none of this library's versions.
 */
CLATTN_API clattn_status clattn_mpi_plan_describe(const clattn_mpi_plan *plan,
                                                  clattn_mpi_plan_info *info);

/**
 * Computes o, and lse if the problem asks for it, of this rank's queries; collective. Returns when they
 * are there.
 *
 * @param plan     Not null; of operation CLATTN_FORWARD.
 * @param queue    On the context's device; what it holds is finished first. Not null.
 * @param tensors  This rank's shards, as clattn_attention_forward() takes them, in buffers (pointers are
 *                 not taken). bias and mask have the rows of the shard's queries, one behind the other,
 *                 and all columns. slopes, sinks, q_lengths, kv_lengths, q_starts, kv_starts, operands
 *                 of functions, function_values, function_version, dropout_seed and dropout_offset are
 *                 of the whole and the same on all ranks, and lse is packed (batch, heads, shard's
 *                 queries). workspace and dropout_place are not given. Not null.
 * @retval CLATTN_SUCCESS           Computed on all ranks.
 * @retval CLATTN_INVALID_ARGUMENT  As clattn_attention_forward(), on any rank; or lengths, starts or seeds
 *                                  that differ between ranks.
 *
 * Other statuses as clattn_plan_create() and clattn_attention_forward(); the same on all ranks, but that of
 * a null plan, with which no other rank can be told. After a failure o and lse are undefined.
 */
CLATTN_API clattn_status clattn_mpi_forward(clattn_mpi_plan *plan, cl_command_queue queue,
                                            const clattn_forward_tensors *tensors);

/**
 * Computes dq, dk and dv, and dslopes, dsinks and dfunction if the problem asks for them, of this rank's shard;
 * collective. dslopes, dsinks and dfunction are the whole's, on every rank.
 *
 * Gradients with respect to a shard are sums over parts and ranks, in f32 whatever the dtype, and rounded to it
 * once.
 *
 * @param plan     Of operation CLATTN_BACKWARD.
 * @param queue,tensors  As for clattn_mpi_forward(); o, lse and do are of the shard's queries.
 * @return         As clattn_mpi_forward().
 */
CLATTN_API clattn_status clattn_mpi_backward(clattn_mpi_plan *plan, cl_command_queue queue,
                                             const clattn_backward_tensors *tensors);

CLATTN_END

#endif
