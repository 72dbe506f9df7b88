/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of operands of the operations besides attention, and the structs of their kernels: of each of
 * CA_OWN_OPERATIONS() (src/problem/operations.def). */
#ifndef CA_OPERANDS_H
#define CA_OPERANDS_H

#include "cl/common/double_backward_arguments.h"
#include "cl/common/indexer_arguments.h"
#include "cl/common/projection_arguments.h"
#include "cl/elementwise/append_arguments.h"
#include "cl/elementwise/merge_arguments.h"

#endif
