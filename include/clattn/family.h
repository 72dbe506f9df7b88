/* SPDX-License-Identifier: Apache-2.0 */
/** @file family.h  The families of kernels that a plan chooses from. @ingroup preparing */
#ifndef CLATTN_FAMILY_H
#define CLATTN_FAMILY_H

#include <clattn/export.h>
#include <clattn/problem.h>
#include <stddef.h>

CLATTN_BEGIN

/** The name of family @p index of those that compute @p operation, in no order that means anything;
 *  NULL past the last. */
CLATTN_API const char *clattn_family_name(clattn_operation operation, size_t index);

CLATTN_END

#endif
