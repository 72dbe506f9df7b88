/* An instruction that a processor lacks ends the process, so that no probe can try it. Compilers in
 * drivers may take a processor for an older one, and tell less than there is. So the processor is asked
 * itself, by CPUID; __builtin_cpu_supports() also looks whether the operating system keeps the
 * registers (XGETBV). */
#include "device/processor.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <string.h>

enum { BRAND_LEAVES = 3 }; /* of CPUID that hold the name, from 0x80000002 on */

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

const char *ca_processor_architecture(const char *device_name)
{
    char name[49];

    read_name(name);
    if (!name[0] || !strstr(device_name, name))
        return "";
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") ? "avx512_bf16" : "";
}
#else
const char *ca_processor_architecture(const char *device_name)
{
    (void)device_name;
    return "";
}
#endif
