/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a rank on its device: memory, parts of attention, and copies of rows. Nothing here
 * talks to other ranks. No call does anything once the plan has a fault. */
#ifndef MPI_DEVICE_H
#define MPI_DEVICE_H

#include "mpi/internal.h"

/* Makes the plan's queue, and compiles cl/elementwise/shards.cl for its dtype. Closing releases all memory and
 * the plans of parts as well. */
void device_open(clattn_mpi_plan *plan);
void device_close(clattn_mpi_plan *plan);

/* Waits until the commands that the caller has enqueued are done. */
void device_wait_for(clattn_mpi_plan *plan, cl_command_queue queue);

/* ---- memory ----------------------------------------------------------------------------------- */

/* Sets a fault unless a buffer of the caller's has that many elements. */
void buffer_check(clattn_mpi_plan *plan, const char *name, const clattn_buffer *buffer,
                  size_t elements, size_t element_bytes);

/* Memory of at least so many bytes; NULL with a fault. Its contents are lost if it has to grow. */
cl_mem pool_take(clattn_mpi_plan *plan, enum pool_id id, size_t bytes);
unsigned char *staging_take(clattn_mpi_plan *plan, enum staging_id id, size_t bytes);

/* A packed (batch, heads, rows, dim) tensor in a pool, from an element on. */
struct tensor tensor_packed_at(cl_mem buffer, size_t offset, size_t heads, size_t rows, size_t dim);

/* The rows of a tensor from one on; its heads from one on. */
struct tensor tensor_rows(struct tensor tensor, size_t row);
struct tensor tensor_heads(struct tensor tensor, size_t head);
struct tensor tensor_batches(struct tensor tensor, size_t batch);

/* A clattn_buffer of a plan; it has no memory if there is none, or no element. */
clattn_buffer buffer_of(struct tensor tensor);

/* Bytes of an element of the problem's dtype. */
size_t element_bytes(const clattn_mpi_plan *plan);

/* Blocking copies between device memory, from an element on, and the host's; timed as staging. */
void device_read(clattn_mpi_plan *plan, cl_mem from, size_t first_byte, void *to, size_t bytes);
void device_write(clattn_mpi_plan *plan, cl_mem to, size_t first_byte, const void *from,
                  size_t bytes);
/* Fills floats. */
void device_fill(clattn_mpi_plan *plan, cl_mem buffer, size_t floats, float value);

/* Returns host memory from which messages send the first bytes of a buffer, or into which they receive them. It is the mapped
 * buffer if the device uses the host's memory, else a copy. Flags: CL_MAP_READ to send, CL_MAP_WRITE_INVALIDATE_REGION to
 * receive. Until staging_close() no kernel may write these bytes, nor read them if they are received. Waits for what was
 * enqueued. After a fault it returns memory all the same, since other ranks wait for messages. */
unsigned char *staging_open(clattn_mpi_plan *plan, enum staging_id id, cl_mem buffer, size_t bytes,
                            cl_map_flags flags);
/* Reads the bytes to be sent from the buffer into the copy, if there is one. */
void staging_fetch(clattn_mpi_plan *plan, enum staging_id id);
/* Closes a staging that is open. keep: received bytes are written to the buffer; else they are dropped. */
void staging_close(clattn_mpi_plan *plan, enum staging_id id, bool keep);

/* Messages that travel while the device computes. to: the staging into which a message is received, or NO_STAGING. Once it has
 * arrived, a staging's copy is written to the device while the device still computes. */
#define MOST_REQUESTS 4
#define NO_STAGING STAGINGS
struct messages {
    MPI_Request request[MOST_REQUESTS];
    enum staging_id to[MOST_REQUESTS];
};
struct messages no_messages(void);

/* Waits until the device has done all that was enqueued, and lets messages make progress meanwhile (NULL: there are none).
 * Timed as computing. */
void device_finish(clattn_mpi_plan *plan, struct messages *messages);

/* ---- rows ------------------------------------------------------------------------------------- */

/* Rows that move; size: batch, heads, rows, dim. */
struct move {
    size_t size[4];
    struct tensor from, to;
};

/* KERNEL_COPY_ROWS, KERNEL_COPY_FLOATS, KERNEL_ADD_FLOATS, KERNEL_STORE_ROWS or KERNEL_WIDEN_ROWS, of k and v at once; the
 * second one may be empty, and is if the first one is. */
void device_move_both(clattn_mpi_plan *plan, enum kernel kernel, const struct move moves[2]);
void device_move(clattn_mpi_plan *plan, enum kernel kernel, const size_t size[4],
                 struct tensor from, struct tensor to);

/* ---- attention -------------------------------------------------------------------------------- */

/* A block of keys: rows of k and v from key `keys.first` of the whole on. */
struct block {
    struct tensor k, v;
    const struct part
        *joined; /* the one part that holds all keys visible to the queries, or NULL (parts_of()) */
    struct span keys;
    struct tensor dk, dv; /* backward: f32 sums that are added to */
    /* a part has added to dk and dv; before, they are zero, or the first part writes all of them */
    bool begun;
};

/* Begins the place's queries with the state of rows that have seen no key. */
void forward_begin(clattn_mpi_plan *plan, const struct forward_task *task);
/* Computes the place's queries against the block and merges the result: queries of chunk `chunk`,
 * or of the joined part that begins there. */
void forward_block(clattn_mpi_plan *plan, const struct forward_task *task, int chunk,
                   const struct block *block);
void forward_end(clattn_mpi_plan *plan, const struct forward_task *task);

/* The f32 state of the place's queries is o, then lse. state_bytes() returns its size, and state_read() copies it to the
 * host. */
size_t state_bytes(const clattn_mpi_plan *plan);
void state_read(clattn_mpi_plan *plan, void *state);
/* Merges another rank's state into the present one, or replaces it if `first`. */
void state_merge(clattn_mpi_plan *plan, const void *state, bool first);

/* Stores dk and dv of some rows of the place's keys from their f32 sums; in packed batches, only
 * rows that belong to a sequence. */
void store_key_gradients(clattn_mpi_plan *plan, const struct backward_task *task, struct span rows,
                         const struct tensor sums[2]);

/* Gradients, like forward_begin() and the next two. The sums in plan->list_sums are this rank's, and must be added over the
 * ranks. */
void backward_begin(clattn_mpi_plan *plan, const struct backward_task *task);
void backward_block(clattn_mpi_plan *plan, const struct backward_task *task, int chunk,
                    struct block *block);
void backward_end(clattn_mpi_plan *plan, const struct backward_task *task);

/* How many elements dfunction has, of the whole; 0 if it is not wanted. */
size_t function_gradients(const clattn_mpi_plan *plan);

#endif
