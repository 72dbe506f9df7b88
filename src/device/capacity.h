/* SPDX-License-Identifier: Apache-2.0 */
/* What a device's facts say of how much fits on it. */
#ifndef CA_CAPACITY_H
#define CA_CAPACITY_H

#include <clattn/device.h>

/* The private memory that a kernel may count on for a work-item. On CPUs it lies on a worker's
 * stack, 8 MiB in PoCL, of which half is used. On GPUs what AMD's have (131056 bytes: LLVM refuses
 * more of "scratch memory"), the least that is known of any; NVIDIA's have 512 KiB. */
size_t ca_private_limit(const clattn_device_info *dev);

/* Whether a work-item has well over 128 registers, as register tiles of 8 x 8 want: on GPUs of
 * NVIDIA and AMD. The architecture says whose it is; the vendor's name only where a GPU's driver
 * states none (Mesa's, and a device that claims to be another). */
int ca_has_many_registers(const clattn_device_info *dev);

/* Whether a device copies from global to local memory in the background: NVIDIA's from sm_80 on (cp.async). */
int ca_copies_in_background(const clattn_device_info *dev);

/* ... as the compiler option that kernels with cl/gpu/tile_copy.h are built with; "" where it does not. */
const char *ca_copy_options(const clattn_device_info *dev);

/* Local memory of a work-item, of a device that does, with which registers (255 of each), not local memory, limit how
 * many are resident: at most 100 KiB of a multiprocessor are counted on where the driver gives a group 48. */
size_t ca_resident_local_bytes(const clattn_device_info *dev);

/* Whether a device's vectors are for kernels to fill, as families of lanes do: a CPU's. Where the
 * driver states vectors of one float it puts a work-item into each lane itself (Mesa's llvmpipe),
 * and is served as a GPU is: it takes minutes to compile a family of lanes. */
int ca_fills_vectors(const clattn_device_info *dev);

/* Whether native_exp2() is known to be as good as 2 ulp: GPUs have an instruction for it, and PoCL calls
 * exp2(). OpenCL leaves it open, and that of Intel's runtime for CPUs moves results by some 4e-5. */
int ca_native_is_precise(const clattn_device_info *dev);

/* Whether an instruction is known to multiply pairs of bf16 and add both products in f32: x86's
 * VDPBF16PS, of vectors of 16. */
int ca_multiplies_bf16_pairs(const clattn_device_info *dev);

/* Whether there is a matrix unit for tiles of bf16 that the operating system lets processes use: x86's AMX,
 * TDPBF16PS. */
int ca_multiplies_bf16_tiles(const clattn_device_info *dev);

/* Whether VDPBF16PS does more than multiply-adds in f32. Processors with such a matrix unit, in use or not, have
 * the instruction at half the rate of those (measured on a Xeon), others at their rate, and each does the work
 * of two. */
int ca_bf16_pairs_are_fast(const clattn_device_info *dev);

/* What runs work-groups independently of another: the compute units, but under Intel's driver for
 * GPUs, which counts vector engines, the Xe-cores of 16 or (where the least sub-group is 16) of 8.
 * Only that driver states an architecture of Intel's; Mesa's counts Xe-cores. */
size_t ca_device_cores(const clattn_device_info *dev);

#endif
