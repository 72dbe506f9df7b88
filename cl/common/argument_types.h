/* SPDX-License-Identifier: Apache-2.0 */
/* Types of the by-value arguments that kernels start with. Structs of them are compiled by the host and by the
 * device, so they have 8-byte members first and 4-byte ones last: no padding, one layout. */
#pragma once

#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
typedef long ca_long;
typedef int ca_int;
typedef float ca_float;
typedef uint ca_uint;
typedef ulong ca_ulong;
#else
#include <clattn/export.h>
typedef cl_long ca_long;
typedef cl_int ca_int;
typedef cl_float ca_float;
typedef cl_uint ca_uint;
typedef cl_ulong ca_ulong;
#endif
