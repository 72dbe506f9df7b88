/* SPDX-License-Identifier: Apache-2.0 */
/* PTX for one architecture alone.
 *
 * Instructions that only one architecture of NVIDIA's has, such as wgmma of sm_90a, are refused by the assembler under
 * the name of the architecture itself, sm_90, which is the target that NVIDIA's compiler of OpenCL C makes PTX for, and no
 * option changes it. Kernels that use them write each as a comment in inline assembler,
 *
 *     //sm_90a wgmma.fence.sync.aligned;
 *
 * in which the compiler puts registers as in any other, and a directive of the kernel's own ("Performance-Tuning
 * Directives" of the PTX ISA), which has its place before the body, as
 *
 *     //sm_90a.entry .minnctapersm 3
 *
 * The driver hands out the PTX as the program's binary, which it has assembled for nothing, and assembles what is made of
 * it here. Kernels return at once in that first assembly, by LEAVE_FIRST_ASSEMBLY() of cl/mma/fragment_wgmma.h, so that
 * it has hardly anything to do. */
#ifndef CA_PTX_H
#define CA_PTX_H

#include "base/log.h"

#include <clattn/status.h>
#include <stddef.h>

/* Makes PTX for `target`, such as "sm_90a": what comments hold for it becomes part of the text, *made of *made_bytes bytes,
 * which the caller frees. CLATTN_BUILD_FAILED, and why says so, if it is no PTX for the architecture ("sm_90") or has no such
 * comment; CLATTN_OUT_OF_MEMORY. */
clattn_status ca_ptx_retarget(const char *ptx, size_t bytes, const char *target, char **made,
                              size_t *made_bytes, char why[CA_REASON_BYTES]);

#endif
