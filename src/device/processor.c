/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the processor's instructions by CPUID: an instruction that it lacks ends the process, so
 * no probe can try one, and drivers may take the processor for an older one.
 * __builtin_cpu_supports() also tests whether the operating system keeps the registers (XGETBV).
 * */
#include "device/processor.h"
#include "os/processor.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <stdio.h>
#include <string.h>

/* number of CPUID leaves, from 0x80000002 on, that hold the processor's name */
enum { BRAND_LEAVES = 3 };

/* The processor's name without the blanks around it; "" if it has none. */
static void read_name(char name[49])
{
    unsigned registers[4 * BRAND_LEAVES] = {0};

    name[0] = '\0';
    for (unsigned n = 0; n < BRAND_LEAVES; n++) {
        unsigned *r = registers + (size_t)4 * n;
        if (!__get_cpuid(0x80000002u + n, &r[0], &r[1], &r[2], &r[3]))
            return;
    }
    const char *text = (const char *)registers;
    size_t begin = 0, end = sizeof registers;
    while (begin < end && text[begin] == ' ')
        begin++;
    for (end = begin; end < sizeof registers && text[end];)
        end++;
    while (end > begin && text[end - 1] == ' ')
        end--;
    memcpy(name, text + begin, end - begin);
    name[end - begin] = '\0';
}

/* Returns whether it has AMX-BF16, and AMX-INT8, without which none was made. */
static int has_amx_bf16(void)
{
    enum {
        AMX_BF16 = 1 << 22,
        AMX_TILE = 1 << 24,
        AMX_INT8 = 1 << 25
    }; /* CPUID.(EAX=7, ECX=0):EDX */
    const unsigned all = AMX_BF16 | AMX_TILE | AMX_INT8;
    unsigned a, b, c, d = 0;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & all) == all;
}

static int has_avx_vnni(void)
{
    enum { AVX_VNNI = 1 << 4 }; /* CPUID.(EAX=7, ECX=1):EAX */
    unsigned a = 0, b, c, d;

    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & AVX_VNNI);
}

void ca_processor_architecture(const char *device_name, char *architecture, size_t bytes)
{
    char name[49];

    architecture[0] = '\0';
    read_name(name);
    if (!name[0] || !strstr(device_name, name))
        return;
    __builtin_cpu_init();
    const char *const tiles = !has_amx_bf16()              ? ""
                              : ca_processor_keeps_tiles() ? " amx_bf16"
                                                           : " amx_bf16_off";
    const int pairs = __builtin_cpu_supports("avx512bf16") != 0;
    snprintf(architecture, bytes, "%s%s%s", pairs ? " avx512_bf16" : "", pairs ? tiles : "",
             __builtin_cpu_supports("avx512vnni") ? " vnni"
             : has_avx_vnni()                     ? " avx_vnni"
                                                  : "");
    if (architecture[0])
        memmove(architecture, architecture + 1, strlen(architecture));
}
#else
void ca_processor_architecture(const char *device_name, char *architecture, size_t bytes)
{
    (void)device_name;
    (void)bytes;
    architecture[0] = '\0';
}
#endif
