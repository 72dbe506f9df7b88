/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the by-value arguments that kernels start with. Structs of them are compiled by the host and by the
 * device, so they have 8-byte members first and 4-byte ones last: no padding, one layout. */
#pragma once

#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
#define CA_LONG long
#define CA_INT int
#define CA_FLOAT float
#define CA_UINT uint
#define CA_ULONG ulong
#else
#include <clattn/export.h>
#define CA_LONG cl_long
#define CA_INT cl_int
#define CA_FLOAT cl_float
#define CA_UINT cl_uint
#define CA_ULONG cl_ulong
#endif
