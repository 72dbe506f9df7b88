/* A family: one way to compute attention. Its .cl file holds the kernels, its .def file the
 * tunables, and its C file a struct ca_family that says when it applies and how it is launched.
 * Nothing here enqueues: forward.c does that the same way for every family. */
#ifndef CA_FAMILY_H
#define CA_FAMILY_H

#include "tunables.h"
#include <clattn/context.h>
#include <clattn/device.h>
#include <clattn/problem.h>

enum { CA_MAX_STAGES = 5, CA_REASON_BYTES = 256, CA_ONLY_IF_FORCED = -1 };

/* The private memory that a family may count on for a work-item. On CPUs it lies on a worker's
 * stack, 8 MiB in PoCL, of which half is used. On GPUs what AMD's have (131056 bytes: LLVM refuses
 * more of "scratch memory"), the least that is known of any; NVIDIA's have 512 KiB. */
size_t ca_private_limit(const clattn_device_info *dev);

/* Whether a work-item has well over 128 registers, as register tiles of 8 x 8 want: on GPUs of
 * NVIDIA and AMD. The architecture says whose it is; the vendor's name only where a GPU's driver
 * states none (Mesa's, and a device that claims to be another). */
int ca_has_many_registers(const clattn_device_info *dev);

/* Whether a device's vectors are for kernels to fill, as families of lanes do: a CPU's. Where the
 * driver states vectors of one float it puts a work-item into each lane itself (Mesa's llvmpipe),
 * and is served as a GPU is: it takes minutes to compile a family of lanes. */
int ca_fills_vectors(const clattn_device_info *dev);

/* Whether kernels for GPUs keep more for each row of an item than scores and sums: places in a mask
 * or a bias, or what dropout keeps. */
int ca_keeps_more(const clattn_problem *p);

/* What runs work-groups independently of another: the compute units, but under Intel's driver for
 * GPUs, which counts vector engines, the Xe-cores of 16 or (where the least sub-group is 16) of 8.
 * Only that driver states an architecture of Intel's; Mesa's counts Xe-cores. */
size_t ca_device_cores(const clattn_device_info *dev);

/* Buffers a kernel may take, in the order of its parameters (after shape and offsets). Those of
 * options that the problem has not are left out, on both sides. */
enum ca_argument {
    CA_Q,
    CA_K,
    CA_V,
    CA_O,
    CA_BIAS,
    CA_MASK,
    CA_SLOPES,
    CA_SINKS,
    CA_Q_LENGTHS,
    CA_KV_LENGTHS,
    CA_LSE,
    CA_SCORES,
    CA_DO, /* this and what follows: backward */
    CA_DQ,
    CA_DK,
    CA_DV,
    CA_DBIAS,
    CA_DSLOPES,
    CA_DSINKS,
    CA_WORKSPACE,
    CA_NUM_ARGUMENTS
};
#define CA_BIT(argument) (1u << (argument))

struct ca_ndrange {
    size_t global[3], local[3];
};

/* One kernel of a family; stages run one after the other. */
struct ca_stage {
    const char *kernel; /* its name in the .cl file */
    unsigned arguments; /* CA_BIT()s */
    /* Sizes for a problem that is not empty; one of them 0 if the stage has nothing to do. */
    void (*ndrange)(const clattn_problem *p, const size_t *values, const clattn_device_info *dev,
                    struct ca_ndrange *range);
};

struct ca_family {
    const char *name;
    clattn_operation operation;
    const char *source; /* embedded, includes resolved */
    const struct ca_tunable *tunables;
    size_t num_tunables;
    struct ca_stage stages[CA_MAX_STAGES];
    size_t num_stages;
    /* NULL if the family can compute p on dev, else why not. */
    const char *(*unsupported)(const clattn_problem *p, const clattn_device_info *dev);
    /* values holds the .def's defaults; adjusts them to the problem and the device. */
    void (*adapt)(const clattn_problem *p, const clattn_device_info *dev, size_t *values);
    /* NULL if the values fit, else why not. Candidate lists were checked before. */
    const char *(*reject)(const clattn_problem *p, const clattn_device_info *dev,
                          const size_t *values);
    size_t (*workspace_bytes)(const clattn_problem *p, const size_t *values,
                              const clattn_device_info *dev); /* NULL: none */
    /* Local memory of a work-group, at most; NULL: none. */
    size_t (*local_bytes)(const clattn_problem *p, const size_t *values);
    /* What a work-item keeps in registers or private memory throughout; NULL: little. */
    size_t (*private_bytes)(const clattn_problem *p, const size_t *values);
    /* What the compiler is told besides, with a blank before each; NULL: nothing. */
    const char *(*options)(const size_t *values);
    /* How well it suits, 0 (only when forced or nothing else can) to 100, from facts alone; or
     * CA_ONLY_IF_FORCED, so that neither a choice nor a tuning takes it up. */
    int (*preference)(const clattn_problem *p, const clattn_device_info *dev);
    /* NULL: src/trust/trust.c checks its programs; statuses as there. */
    clattn_status (*check)(clattn_context *ctx, cl_program program, char why[CA_REASON_BYTES]);
};

extern const struct ca_family ca_unfused, ca_fused_lanes, ca_fused_tiles, ca_backward_lanes,
    ca_backward_tiles, ca_projection_lanes, ca_projection_tiles, ca_split_lanes, ca_unfused_lanes,
    ca_fused_mma, ca_split_tiles;

/* All families; NULL past the last. */
const struct ca_family *ca_family_at(size_t index);

/* NULL if there is none of this name. */
const struct ca_family *ca_family_find(const char *name);

/* 1 shifted by its ca_family_at() index, for sets of families. */
unsigned ca_family_bit(const struct ca_family *family);

/* NULL if the family with these values can compute p on dev, else why not: candidate lists,
 * unsupported(), reject() and what no kernel can exceed (src/device/device_limits.h), in that order.
 * reason is used for texts that are made. p is normal. */
const char *ca_family_refusal(const struct ca_family *family, const clattn_problem *p,
                              const clattn_device_info *dev, const size_t *values, char *reason,
                              size_t reason_bytes);

/* The values that suit a problem and a device without any measurement. */
void ca_family_suggest(const struct ca_family *family, const clattn_problem *p,
                       const clattn_device_info *dev, size_t *values);

/* Hashes, in 16 hexadecimal digits, of the kernel source and of the declaration of the tunables
 * (names and candidates): measurements made with others are stale. */
enum { CA_HASH_TEXT = 17 };
void ca_family_source_hash(const struct ca_family *family, char text[CA_HASH_TEXT]);
void ca_family_declaration_hash(const struct ca_family *family, char text[CA_HASH_TEXT]);

#endif
