/* SPDX-License-Identifier: Apache-2.0 */
/* Unrolls a loop `times` times; if the tunable UNROLL is 0 or not defined, the compiler decides. */
#pragma once

#define PRAGMA_OF(text) _Pragma(#text)
#if UNROLL
#define UNROLLED(times) PRAGMA_OF(unroll times)
#else
#define UNROLLED(times)
#endif
