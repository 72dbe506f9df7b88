/* SPDX-License-Identifier: Apache-2.0 */
/* The mean of a kv head's keys in the workspace (cl/cpu/key_bytes.h), for kernels and, with DIM_QK, for the host. */
#pragma once
#include "families/sizes.h"

/* The floats of a mean: whole vectors. */
#define MEAN_FLOATS ROUND_UP(DIM_QK, 16)
