/* SPDX-License-Identifier: Apache-2.0 */
/* Data between this program and a peer: a problem as JSON, tensors as files. The subject of each
 * sentence in *why is the peer. */
#ifndef CLATTN_BENCH_PEER_DATA_H
#define CLATTN_BENCH_PEER_DATA_H

#include "bench/verify/check.h"

#define PEER_DATA_PATH 512
/* The prefix of files' names, before this process's number. */
#define PEER_DATA_PREFIX "clattn-peer-"

struct json_t;

/* The job in numbers and words: `fields` of peers/README.md. A new object, NULL without memory. */
struct json_t *peer_data_fields(const struct job *job);

/* The bytes of the case's tensors, packed, without the header. They may exceed a size_t where
 * strides of 0 repeat the same elements again and again. */
double peer_data_bytes(const struct job *job);

/* The bytes of the results that peers return, packed, one after the other: o, or dq, dk and dv, or
 * y, or a layer's gradients. */
size_t peer_data_result_bytes(const struct job *job);

/* Makes an empty file that only this user reads, for so many bytes: in /dev/shm if that is a small
 * part of its room, else in $TMPDIR or /tmp. The caller removes it. On failure *path is "". */
bool peer_data_file(char path[PEER_DATA_PATH], double bytes, struct message *why);

/* Fills the file with the case's tensors, packed, as safetensors. */
bool peer_data_write(const char *path, const struct attention_case *attention, struct message *why);

/* Reads what is asked of peers into new memory in the job's layouts, which may have gaps that hold
 * anything; for results_release(). */
bool peer_data_read(const char *path, const struct job *job, struct results *results,
                    struct message *why);

#endif
