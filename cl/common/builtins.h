/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in functions that the kernels use, declared as in Clang's opencl-c.h: PoCL takes
 * longer to read its 18 000 lines than many a kernel.
 *
 * The host puts them before a kernel's source, and defines CLATTN_DECLARES_BUILTINS and _OPENCL_H_, that header's guard,
 * so that it is skipped (src/program/program_build.c). Types and constants come before it, and PoCL
 * has renamed functions. A function is declared for all scalar types: a call that is ambiguous
 * elsewhere must not pass here. Vector types never convert to each other, so only those are
 * declared that kernels use: reading declarations takes time as well. */
#ifdef CLATTN_DECLARES_BUILTINS

#define OVERLOADED __attribute__((overloadable))
#define FUNCTION OVERLOADED __attribute__((const))
#define READER OVERLOADED __attribute__((pure))

/* m(width, ...) of vectors; m(type, signed and unsigned integer of its size). */
#define EACH_WIDTH(m, ...) m(2, __VA_ARGS__) m(4, __VA_ARGS__) m(8, __VA_ARGS__) m(16, __VA_ARGS__)
#define EACH_INTEGER(m)                                                                            \
    m(char, char, uchar) m(uchar, char, uchar) m(short, short, ushort) m(ushort, short, ushort)    \
        m(int, int, uint) m(uint, int, uint) m(long, long, ulong) m(ulong, long, ulong)
#define EACH_TYPE(m) EACH_INTEGER(m) m(float, int, uint)
/* Declares the same for vectors of numbers, and for vectors of elements in memory. */
#define EACH_VECTOR(m) m(int, int, uint) m(uint, int, uint) m(float, int, uint)
#define EACH_STORED_VECTOR(m)                                                                      \
    EACH_VECTOR(m) m(char, char, uchar) m(uchar, char, uchar) m(ushort, short, ushort)

/* ---- work-items ----------------------------------------------------------------------------- */

size_t FUNCTION get_global_id(uint);
size_t FUNCTION get_global_size(uint);
size_t FUNCTION get_group_id(uint);
size_t FUNCTION get_local_id(uint);
size_t FUNCTION get_local_size(uint);
size_t FUNCTION get_num_groups(uint);
void OVERLOADED __attribute__((convergent)) barrier(cl_mem_fence_flags);
int OVERLOADED atomic_inc(volatile __local int *);
int OVERLOADED atomic_or(volatile __global int *, int);
int OVERLOADED atomic_or(volatile __local int *, int);

/* ---- arithmetic ----------------------------------------------------------------------------- */

#define UNARY(name)                                                                                \
    float FUNCTION name(float);                                                                    \
    EACH_WIDTH(UNARY_OF, name)
#define UNARY_OF(n, name) float##n FUNCTION name(float##n);
UNARY(exp)
UNARY(exp2)
UNARY(fabs)
UNARY(log)
UNARY(native_exp2)
UNARY(round)
UNARY(tanh)

/* What functions of callers may call besides (clattn/function.h). Without a declaration here all of the header is read. */
#define SCALAR(name) float FUNCTION name(float);
SCALAR(ceil)
SCALAR(cos)
SCALAR(erf)
SCALAR(expm1)
SCALAR(floor)
SCALAR(log1p)
SCALAR(log2)
SCALAR(log10)
SCALAR(native_cos)
SCALAR(native_exp)
SCALAR(native_log)
SCALAR(native_log2)
SCALAR(native_recip)
SCALAR(native_rsqrt)
SCALAR(native_sin)
SCALAR(native_sqrt)
SCALAR(rint)
SCALAR(rsqrt)
SCALAR(sign)
SCALAR(sin)
SCALAR(sqrt)
SCALAR(trunc)
float FUNCTION fmod(float, float);
float FUNCTION mix(float, float, float);
float FUNCTION native_divide(float, float);
float FUNCTION pow(float, float);
float FUNCTION step(float, float);
#define ABS(type, signed_type, unsigned_type) unsigned_type FUNCTION abs(type);
EACH_INTEGER(ABS)

#define TERNARY(name)                                                                              \
    float FUNCTION name(float, float, float);                                                      \
    EACH_WIDTH(TERNARY_OF, name)
#define TERNARY_OF(n, name) float##n FUNCTION name(float##n, float##n, float##n);
TERNARY(fma)
TERNARY(mad)

float FUNCTION fmin(float, float);
float FUNCTION fmax(float, float);
#define FMAX_OF(n, unused)                                                                         \
    float##n FUNCTION fmax(float##n, float##n);                                                    \
    float##n FUNCTION fmax(float##n, float);
EACH_WIDTH(FMAX_OF, )

#define ORDER(type, signed_type, unsigned_type)                                                    \
    type FUNCTION min(type, type);                                                                 \
    type FUNCTION max(type, type);                                                                 \
    type FUNCTION clamp(type, type, type);
EACH_TYPE(ORDER)
#define ORDERS(type, signed_type, unsigned_type) EACH_WIDTH(ORDER_OF, type)
#define ORDER_OF(n, type)                                                                          \
    type##n FUNCTION min(type##n, type##n);                                                        \
    type##n FUNCTION min(type##n, type);                                                           \
    type##n FUNCTION max(type##n, type##n);                                                        \
    type##n FUNCTION max(type##n, type);                                                           \
    type##n FUNCTION clamp(type##n, type##n, type##n);                                             \
    type##n FUNCTION clamp(type##n, type, type);
EACH_VECTOR(ORDERS)

#define CLZ(type, signed_type, unsigned_type) type FUNCTION clz(type);
EACH_INTEGER(CLZ)
#define POPCOUNT(type, signed_type, unsigned_type) type FUNCTION popcount(type);
EACH_INTEGER(POPCOUNT)

#define MUL_HI(type, signed_type, unsigned_type) type FUNCTION mul_hi(type, type);
EACH_INTEGER(MUL_HI)
#define MUL_HI_OF(n, type) type##n FUNCTION mul_hi(type##n, type##n);
EACH_WIDTH(MUL_HI_OF, uint)

/* ---- choices -------------------------------------------------------------------------------- */

#define SELECT(type, signed_type, unsigned_type)                                                   \
    type FUNCTION select(type, type, signed_type);                                                 \
    type FUNCTION select(type, type, unsigned_type);
EACH_TYPE(SELECT)
#define SELECTS(type, signed_type, unsigned_type)                                                  \
    EACH_WIDTH(SELECT_OF, type, signed_type, unsigned_type)
#define SELECT_OF(n, type, signed_type, unsigned_type)                                             \
    type##n FUNCTION select(type##n, type##n, signed_type##n);                                     \
    type##n FUNCTION select(type##n, type##n, unsigned_type##n);
EACH_VECTOR(SELECTS)

#define ANY(type)                                                                                  \
    int FUNCTION any(type);                                                                        \
    EACH_WIDTH(ANY_OF, type)
#define ANY_OF(n, type) int FUNCTION any(type##n);
ANY(char)
ANY(short)
ANY(int)
ANY(long)

#define TABLE_OF_16(n, type) type##n FUNCTION shuffle(type##16, uint##n);
EACH_WIDTH(TABLE_OF_16, float)

/* ---- conversions ---------------------------------------------------------------------------- */

#define CONVERT(from, signed_type, unsigned_type) EACH_WIDTH(CONVERT_OF, from)
#define CONVERT_OF(n, from)                                                                        \
    ushort##n FUNCTION convert_ushort##n(from##n);                                                 \
    int##n FUNCTION convert_int##n(from##n);                                                       \
    uint##n FUNCTION convert_uint##n(from##n);                                                     \
    float##n FUNCTION convert_float##n(from##n);
EACH_STORED_VECTOR(CONVERT)
#define CONVERT_TO_BYTES(n, from) uchar##n FUNCTION convert_uchar##n(from##n);
EACH_WIDTH(CONVERT_TO_BYTES, int)

/* ---- vectors in memory ---------------------------------------------------------------------- */

#define MEMORY(type, signed_type, unsigned_type) EACH_WIDTH(MEMORY_OF, type)
#define MEMORY_OF(n, type)                                                                         \
    MEMORY_IN(n, type, __global)                                                                   \
    MEMORY_IN(n, type, __local)                                                                    \
    MEMORY_IN(n, type, __private)
#define MEMORY_IN(n, type, space)                                                                  \
    type##n READER vload##n(size_t, const space type *);                                           \
    void OVERLOADED vstore##n(type##n, size_t, space type *);
EACH_STORED_VECTOR(MEMORY)

#define HALVES_OF(n, unused)                                                                       \
    HALVES_IN(n, __global)                                                                         \
    HALVES_IN(n, __local)                                                                          \
    HALVES_IN(n, __private)
#define HALVES_IN(n, space)                                                                        \
    float##n READER vload_half##n(size_t, const space half *);                                     \
    float##n READER vloada_half##n(size_t, const space half *);                                    \
    void OVERLOADED vstore_half##n##_rte(float##n, size_t, space half *);
EACH_WIDTH(HALVES_OF, )
HALVES_IN(, __global)
HALVES_IN(, __local)
HALVES_IN(, __private)
#endif
