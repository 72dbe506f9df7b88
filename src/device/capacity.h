/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a device that say how much fits on it. */
#ifndef CA_CAPACITY_H
#define CA_CAPACITY_H

#include <clattn/device.h>

/* The private memory that a kernel may count on for a work-item. On CPUs it lies on a worker's
 * stack, 8 MiB in PoCL, of which half is used. On GPUs it is that of AMD's (131056 bytes: LLVM
 * refuses more "scratch memory"), the smallest known; NVIDIA's have 512 KiB. */
size_t ca_private_limit(const clattn_device_info *dev);

/* Returns whether a work-item has well over 128 registers, which register tiles of 8 x 8 need.
 * GPUs of NVIDIA and AMD have. These are known by the architecture, or by the vendor's name
 * where a driver states no architecture (Mesa's, and profiles). */
int ca_has_many_registers(const clattn_device_info *dev);

/* Returns whether a device copies from global to local memory in the background: NVIDIA's from
 * sm_80 on (cp.async). */
int ca_copies_in_background(const clattn_device_info *dev);

/* The compiler option for such copies in kernels with cl/gpu/tile_copy.h; "" elsewhere. */
const char *ca_copy_options(const clattn_device_info *dev);

/* Local memory that a work-item may use, on a device that copies so, before local memory rather than registers (255 of each
 * item) limits how many are resident. Where the driver gives a group 48 KiB, 100 KiB of a multiprocessor are counted on. */
size_t ca_resident_local_bytes(const clattn_device_info *dev);

/* Returns whether a kernel should compute with a device's vectors itself, as families for CPUs do.
 * A driver that states vectors of one float puts a work-item into each lane (Mesa's llvmpipe). It
 * gets the families of GPUs, since families for CPUs take it minutes to compile. */
int ca_fills_vectors(const clattn_device_info *dev);

/* Returns the floats of such a vector: 16, 8 or 4. */
size_t ca_vector_lanes(const clattn_device_info *dev);

/* Returns whether native_exp2() is known to be as good as 2 ulp. GPUs have an instruction for
 * it, and PoCL calls exp2(). OpenCL leaves it open, and that of Intel's runtime for CPUs moves
 * results by some 4e-5. */
int ca_native_is_precise(const clattn_device_info *dev);

/* Returns whether an instruction is known to multiply pairs of bf16 and add both products in f32:
 * x86's VDPBF16PS, of vectors of 16. */
int ca_multiplies_bf16_pairs(const clattn_device_info *dev);

/* Returns whether there is a matrix unit for tiles of bf16 that the operating system lets processes
 * use: x86's AMX, TDPBF16PS. */
int ca_multiplies_bf16_tiles(const clattn_device_info *dev);

/* Returns whether an instruction is known to add four products of bytes to a sum of 32 bits in each lane: x86's VPDPBUSD,
 * of vectors of 16 with AVX512-VNNI, of 8 with AVX-VNNI. */
int ca_multiplies_bytes(const clattn_device_info *dev);

/* Returns whether an instruction of a GPU's work-items is known to do so: NVIDIA's dp4a, from sm_61 on, AMD's v_dot4_i32 of
 * most processors from gfx906 on, cl_khr_integer_dot_product, or Arm's extension before that. */
int ca_items_multiply_bytes(const clattn_device_info *dev);

/* Returns whether VDPBF16PS does more than multiply-adds in f32. Processors with such a matrix
 * unit, in use or not, have the instruction at half the rate of those (measured on a Xeon), others
 * at their rate, and each does the work of two. */
int ca_bf16_pairs_are_fast(const clattn_device_info *dev);

/* Returns the number of cores that run work-groups independently of each other. These are the
 * compute units, except under Intel's driver for GPUs. That driver counts vector engines; a core
 * is an Xe-core of 16 of them, or of 8 where the least sub-group is 16. It is the only driver
 * that states an architecture of Intel's; Mesa's counts Xe-cores. */
size_t ca_device_cores(const clattn_device_info *dev);

#endif
