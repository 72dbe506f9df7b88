/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the matrix instruction that INSTRUCTION names; kernels of warpgroups include fragment_wgmma.h. */
#pragma once
#include "mma/fragment_options.h"

enum { INSTRUCTION_MFMA_32 = 3, INSTRUCTION_DPAS_8 = 5 };

#define LEAVE_FIRST_ASSEMBLY() /* fragment_wgmma.h */

#if INSTRUCTION == 1 /* mma.sync */
#include "mma/fragment_mma_sync.h"
#elif INSTRUCTION == 2 /* WMMA */
#include "mma/fragment_wmma.h"
#elif INSTRUCTION == 3 || INSTRUCTION == 4 /* MFMA, 32 or 16 */
#include "mma/fragment_mfma.h"
#elif INSTRUCTION == 5 || INSTRUCTION == 6 /* DPAS, 8 or 16 */
#include "mma/fragment_dpas.h"
#else
#error "INSTRUCTION must be one of enum ca_instruction in src/families/fragments.h"
#endif
