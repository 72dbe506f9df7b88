/* SPDX-License-Identifier: Apache-2.0 */
/* function_values: the kernel of cl/score/function_values.h alone, for answers without a program of attention. */
#include "score/function.h"
