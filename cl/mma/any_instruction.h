/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the matrix instruction that INSTRUCTION names; kernels of warpgroups include fragment_wgmma.h. */
#pragma once
#include "mma/fragment_options.h"

#define INSTRUCTION_MMA_SYNC 1
#define INSTRUCTION_WMMA 2
#define INSTRUCTION_MFMA_32 3
#define INSTRUCTION_MFMA_16 4
#define INSTRUCTION_DPAS_8 5
#define INSTRUCTION_DPAS_16 6

#define LEAVE_FIRST_ASSEMBLY() /* fragment_wgmma.h */

#if INSTRUCTION == INSTRUCTION_MMA_SYNC
#include "mma/fragment_mma_sync.h"
#elif INSTRUCTION == INSTRUCTION_WMMA
#include "mma/fragment_wmma.h"
#elif INSTRUCTION == INSTRUCTION_MFMA_32 || INSTRUCTION == INSTRUCTION_MFMA_16
#include "mma/fragment_mfma.h"
#elif INSTRUCTION == INSTRUCTION_DPAS_8 || INSTRUCTION == INSTRUCTION_DPAS_16
#include "mma/fragment_dpas.h"
#else
#error "INSTRUCTION must be one of those above"
#endif
