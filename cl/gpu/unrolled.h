/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that is unrolled so many times; if the tunable UNROLL is 0 or not there, as the compiler likes. */
#ifndef CLATTN_UNROLLED_H
#define CLATTN_UNROLLED_H

#define PRAGMA_OF(text) _Pragma(#text)
#if UNROLL
#define UNROLLED(times) PRAGMA_OF(unroll times)
#else
#define UNROLLED(times)
#endif

#endif
