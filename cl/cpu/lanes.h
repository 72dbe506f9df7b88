/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of SIMD_WIDTH (4, 8 or 16) elements that kernels for CPUs compute with; cpu/simd.h shuffles and sums
 * them. */
#pragma once

#if SIMD_WIDTH == 16
#define VECTOR(name) name##16
#define VECTOR_RTE(name) name##16_rte
#define COUNT_UP (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif SIMD_WIDTH == 8
#define VECTOR(name) name##8
#define VECTOR_RTE(name) name##8_rte
#define COUNT_UP (float8)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define VECTOR(name) name##4
#define VECTOR_RTE(name) name##4_rte
#define COUNT_UP (float4)(0, 1, 2, 3)
#endif
/* 1 if clang has this intrinsic of the processor that it compiles for. */
#if defined(__has_builtin) && !defined(__SPIR__)
#define HAS_INTRINSIC(name) __has_builtin(name)
#else
#define HAS_INTRINSIC(name) 0
#endif

typedef VECTOR(float) lanes;
typedef VECTOR(int) ints;
typedef VECTOR(ushort) ushorts;

/* Halves as floats, by an instruction of the processor where clang names one (CONVERTS_HALVES). */
#if SIMD_WIDTH == 16 && HAS_INTRINSIC(__builtin_ia32_vcvtph2ps512_mask) && defined(__AVX512F__)
enum { CONVERTS_HALVES = 1 };
static inline lanes lanes_of_halves(const ushorts halves)
{
    enum { ALL = 0xffff, CURRENT = 4 }; /* immediates of the instruction */

    return __builtin_ia32_vcvtph2ps512_mask(as_short16(halves), (lanes)(0.0f), ALL, CURRENT);
}
#elif SIMD_WIDTH >= 8 && HAS_INTRINSIC(__builtin_ia32_vcvtph2ps256) && defined(__F16C__)
enum { CONVERTS_HALVES = 1 };
static inline lanes lanes_of_halves(const ushorts halves)
{
#if SIMD_WIDTH == 16
    return (lanes)(__builtin_ia32_vcvtph2ps256(as_short8(halves.lo)),
                   __builtin_ia32_vcvtph2ps256(as_short8(halves.hi)));
#else
    return __builtin_ia32_vcvtph2ps256(as_short8(halves));
#endif
}
#else
enum { CONVERTS_HALVES = 0 };
static inline lanes lanes_of_halves(const ushorts halves)
{
    return VECTOR(vload_half)(0, (const half *)&halves);
}
#endif

#if HAS_INTRINSIC(__builtin_ia32_pshufb256)
typedef char char32 __attribute__((ext_vector_type(32)));
#endif

/* 1 if vectors are those of AVX2. Assembly without an instruction then keeps LLVM from splitting or moving operators. */
#if SIMD_WIDTH == 8 && HAS_INTRINSIC(__builtin_ia32_pshufb256) && defined(__AVX2__)
#define HAS_AVX2_LANES 1
#define KEEP_IN_REGISTER(x) __asm__("" : "+x"(x))
#else
#define HAS_AVX2_LANES 0
#define KEEP_IN_REGISTER(x) ((void)0)
#endif

/* The half bytes of values n .. n + SIMD_WIDTH - 1 of a format block: those of the last 16 are the high ones. LLVM would
 * take half bytes before it widens them, which AVX2 does in one step for bytes in memory, in three for others. */
static inline ints half_bytes(const __global uchar *codes, const int n)
{
    ints both = VECTOR(convert_int)(VECTOR(vload)(0, codes + (n & 15)));

    KEEP_IN_REGISTER(both);
    return n < 16 ? both & 15 : both >> 4;
}

/* 1 if an instruction looks up a number for each lane in a table of 16, by the lane's last four bits. */
#if SIMD_WIDTH == 16 && HAS_INTRINSIC(__builtin_ia32_permvarsf512) && defined(__AVX512F__)
#define HAS_LOOKUP 1
#else
#define HAS_LOOKUP 0
#endif

/* The numbers of half bytes in a table: which half bytes, half_bytes() says. */
static inline lanes look_up_half_bytes(const float16 table, const __global uchar *codes,
                                       const int n)
{
#if HAS_LOOKUP
    const ints both = convert_int16(vload16(0, codes));

    return __builtin_ia32_permvarsf512(table, n < 16 ? both : both >> 4);
#else
    return shuffle(table, VECTOR(as_uint)(half_bytes(codes, n)));
#endif
}

/* half_bytes() less a constant, as floats. */
static inline lanes four_bit_numbers(const __global uchar *codes, const int n, const float less)
{
#if HAS_LOOKUP
    return look_up_half_bytes(COUNT_UP - less, codes, n);
#else
    const lanes x = VECTOR(convert_float)(half_bytes(codes, n));

    return less == 0.0f ? x : x - less;
#endif
}

/* The same with 16 added where a value's bit in `fifth`, which has those of a format block, is set. */
static inline lanes five_bit_numbers(const __global uchar *codes, const int n, const uint fifth,
                                     const float less)
{
#if HAS_LOOKUP /* Assembly keeps a mask beside its sum: LLVM would load all of a loop's first, and spill them. */
    lanes x = four_bit_numbers(codes, n, less);

    __asm__("kmovw %k1, %%k1\n\tvaddps %2, %0, %0 %{%%k1%}"
            : "+v"(x)
            : "r"((uint)(ushort)(fifth >> n)), "v"((lanes)(16.0f))
            : "k1");
    return x;
#else
    const lanes set = 16.0f - less, clear = -less;
    const ints count = VECTOR(convert_int)(COUNT_UP) + n;
#if HAS_AVX2_LANES /* signs choose */
    return four_bit_numbers(codes, n, 0.0f) +
           __builtin_ia32_blendvps256(clear, set,
                                      VECTOR(as_float)((ints)((int)fifth) << ((ints)(31) - count)));
#else
    return four_bit_numbers(codes, n, 0.0f) +
           (((ints)((int)fifth) & (ints)(1) << count) != 0 ? set : clear);
#endif
#endif
}

/* Words of 16 bits that fill a register, for which half as many instructions are run as for SIMD_WIDTH of them. */
#if SIMD_WIDTH == 16 && HAS_INTRINSIC(__builtin_ia32_pternlogd512_mask) && defined(__AVX512BW__)
#define HAS_WIDE_WORDS 1
typedef ushort wide_ushorts __attribute__((ext_vector_type(32)));
struct __attribute__((packed)) unaligned_chars {
    char32 x;
};

/* Signed bytes times 128. */
static inline wide_ushorts wide_words(const __global uchar *bytes)
{
    return __builtin_convertvector(((const __global struct unaligned_chars *)bytes)->x,
                                   wide_ushorts)
           << (wide_ushorts)(7);
}

/* x ^ (y & bits) by VPTERNLOG: where halves of the result are read in turn, LLVM splits plain operators into halves, too. */
static inline wide_ushorts wide_where(const wide_ushorts x, const wide_ushorts y, const int bits)
{
    enum { X_XOR_Y_AND_BITS = 0x78, ALL = 0xffff }; /* immediates of the instruction */

    return __builtin_astype(
        __builtin_ia32_pternlogd512_mask(__builtin_astype(x, int16), __builtin_astype(y, int16),
                                         (int16)(bits << 16 | bits), X_XOR_Y_AND_BITS, ALL),
        wide_ushorts);
}
#elif HAS_AVX2_LANES
#define HAS_WIDE_WORDS 1
typedef ushort16 wide_ushorts;

/* Signed bytes times 128. */
static inline wide_ushorts wide_words(const __global uchar *bytes)
{
    return convert_ushort16(as_char16(vload16(0, bytes))) << (wide_ushorts)(7);
}

/* x ^ (y & bits). */
static inline wide_ushorts wide_where(const wide_ushorts x, const wide_ushorts y, const int bits)
{
    wide_ushorts z = x ^ (y & (wide_ushorts)(bits));

    KEEP_IN_REGISTER(z);
    return z;
}
#else
#define HAS_WIDE_WORDS 0
#endif
