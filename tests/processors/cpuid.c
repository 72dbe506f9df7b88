/* SPDX-License-Identifier: Apache-2.0 */
/* LD_PRELOAD=libclattn_processor.so CLATTN_PROCESSOR=NAME PROGRAM: the program, with all that it loads, finds an older
 * x86-64 processor. PoCL compiles for that one, and clattn chooses for it; what runs is what the other would run, though not at
 * its speed. Linux lets each CPUID instruction fault (arch_prctl(2), ARCH_SET_CPUID, on processors with cpuid_fault), and what
 * the processor answers loses here what the other lacks. The processor's name stays, as /proc/cpuinfo has it.
 *
 * As the handler of SIGSEGV must remain, those that the program sets are kept beside it and called for other faults. */
#define _GNU_SOURCE /* RTLD_NEXT, REG_RIP */
#include <asm/prctl.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { A, B, C, D };
enum { LEAF_SIGNATURE = 1, LEAF_FEATURES = 7, LEAF_TILES = 0x1d, LEAF_TILE_PRODUCTS = 0x1e };

/* What leaves lack: bits of registers of CPUID (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2,
 * "CPUID"). */
struct lack {
    unsigned leaf, subleaf, reg, bits;
};

static const struct lack no_amx[] = {
    {LEAF_FEATURES, 0, D, 1u << 22 | 1u << 24 | 1u << 25}, /* AMX_BF16, AMX_TILE, AMX_INT8 */
    {LEAF_FEATURES, 1, A, 1u << 21},                       /* AMX_FP16 */
    {LEAF_TILES, 0, A, ~0u},
    {LEAF_TILES, 1, A, ~0u},
    {LEAF_TILE_PRODUCTS, 0, B, ~0u},
};

static const struct lack no_f16[] = {{LEAF_FEATURES, 0, D, 1u << 23}}; /* AVX512_FP16 */

/* AVX_VNNI and AVX_IFMA */
static const struct lack no_avx_vnni[] = {{LEAF_FEATURES, 1, A, 1u << 4 | 1u << 23}};

static const struct lack no_avx512[] = {
    /* F, DQ, IFMA, PF, ER, CD, BW, VL */
    {LEAF_FEATURES, 0, B, 1u << 16 | 1u << 17 | 1u << 21 | 0x7u << 26 | 0x3u << 30},
    /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
    {LEAF_FEATURES, 0, C, 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14},
    {LEAF_FEATURES, 0, D, 1u << 2 | 1u << 3 | 1u << 8 | 1u << 23},
    {LEAF_FEATURES, 1, A, 1u << 5}, /* BF16 */
};

static const struct lack no_avx2[] = {
    {LEAF_SIGNATURE, 0, C, 1u << 12},                    /* FMA */
    {LEAF_FEATURES, 0, B, 1u << 3 | 1u << 5 | 1u << 8},  /* BMI1, AVX2, BMI2 */
    {LEAF_FEATURES, 0, C, 1u << 8 | 1u << 9 | 1u << 10}, /* GFNI, VAES, VPCLMULQDQ */
};

static const struct lack no_avx[] = {{LEAF_SIGNATURE, 0, C, 1u << 28 | 1u << 29}}; /* AVX, F16C */

struct part {
    const struct lack *lacks;
    size_t count;
};

#define PART(list)                                                                                 \
    {                                                                                              \
        list, sizeof(list) / sizeof *(list)                                                        \
    }
enum { MOST_PARTS = 5 };

static const struct processor {
    const char *name,
        *vendor; /* vendor: the twelve letters of leaf 0, in the order of EBX, EDX, ECX */
    unsigned signature;
    struct part parts[MOST_PARTS];
} processors[] = {
    {"zen4", "AuthenticAMD", 0x00a10f11, {PART(no_amx), PART(no_f16), PART(no_avx_vnni)}},
    {"zen3", "AuthenticAMD", 0x00a00f11, {PART(no_amx), PART(no_avx_vnni), PART(no_avx512)}},
    {"haswell", "GenuineIntel", 0x000306f2, {PART(no_amx), PART(no_avx_vnni), PART(no_avx512)}},
    {"ivybridge",
     "GenuineIntel",
     0x000306a9,
     {PART(no_amx), PART(no_avx_vnni), PART(no_avx512), PART(no_avx2)}},
    {"nehalem",
     "GenuineIntel",
     0x000106a5,
     {PART(no_amx), PART(no_avx_vnni), PART(no_avx512), PART(no_avx2), PART(no_avx)}},
};

static const struct processor *other;
static struct sigaction programs_own; /* the program's handler of SIGSEGV */

static void let_cpuid_fault(int fault)
{
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, !fault);
}

/* Answers CPUID as the other processor. */
static void answer(unsigned leaf, unsigned subleaf, unsigned r[4])
{
    __cpuid_count(leaf, subleaf, r[A], r[B], r[C], r[D]);
    if (leaf == 0) {
        memcpy(&r[B], other->vendor, 4);
        memcpy(&r[D], other->vendor + 4, 4);
        memcpy(&r[C], other->vendor + 8, 4);
    }
    if (leaf == LEAF_SIGNATURE)
        r[A] = other->signature;
    for (size_t p = 0; p < MOST_PARTS; p++)
        for (size_t n = 0; n < other->parts[p].count; n++) {
            const struct lack *lack = &other->parts[p].lacks[n];
            /* Only leaf 7 and those of tiles have subleaves. */
            if (lack->leaf == leaf && (leaf < LEAF_FEATURES || lack->subleaf == subleaf))
                r[lack->reg] &= ~lack->bits;
        }
}

/* The C library's sigaction(). */
static int set_action(int number, const struct sigaction *action, struct sigaction *before)
{
    static int (*set)(int, const struct sigaction *, struct sigaction *);

    if (!set)
        *(void **)&set = dlsym(RTLD_NEXT, "sigaction");
    return set(number, action, before);
}

static void handle(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)registers[REG_RIP];

    /* The kernel itself sends it for CPUID; a fault of memory has an address. */
    if (info->si_code == SI_KERNEL && at && at[0] == 0x0f && at[1] == 0xa2) {
        unsigned r[4];
        let_cpuid_fault(0);
        answer((unsigned)registers[REG_RAX], (unsigned)registers[REG_RCX], r);
        let_cpuid_fault(1);
        registers[REG_RAX] = r[A];
        registers[REG_RBX] = r[B];
        registers[REG_RCX] = r[C];
        registers[REG_RDX] = r[D];
        registers[REG_RIP] += 2;
        return;
    }
    if (programs_own.sa_flags & SA_SIGINFO) {
        programs_own.sa_sigaction(number, info, context);
    } else if (programs_own.sa_handler != SIG_DFL && programs_own.sa_handler != SIG_IGN) {
        programs_own.sa_handler(number);
    } else {
        set_action(number, &programs_own, NULL); /* the fault comes again, and ends the process */
        if (info->si_code <= 0) /* ... unless it was a process that sent the signal */
            raise(number);
    }
}

/* ---- what would take the handler away ----------------------------------------------------------- */

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    if (number != SIGSEGV || !other)
        return set_action(number, action, before);
    if (before)
        *before = programs_own;
    if (action)
        programs_own = *action;
    return 0;
}

sighandler_t signal(int number, sighandler_t handler)
{
    struct sigaction action = {.sa_flags = SA_RESTART}, before;

    action.sa_handler = handler;
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

/* Passes a mask on, without the signal where it would be held back. */
static int without_faults(int (*set)(int, const sigset_t *, sigset_t *), int how,
                          const sigset_t *mask, sigset_t *before)
{
    sigset_t less;

    if (!mask || how == SIG_UNBLOCK || !other)
        return set(how, mask, before);
    less = *mask;
    sigdelset(&less, SIGSEGV);
    return set(how, &less, before);
}

int pthread_sigmask(int how, const sigset_t *mask, sigset_t *before)
{
    static int (*set)(int, const sigset_t *, sigset_t *);

    if (!set)
        *(void **)&set = dlsym(RTLD_NEXT, "pthread_sigmask");
    return without_faults(set, how, mask, before);
}

int sigprocmask(int how, const sigset_t *mask, sigset_t *before)
{
    static int (*set)(int, const sigset_t *, sigset_t *);

    if (!set)
        *(void **)&set = dlsym(RTLD_NEXT, "sigprocmask");
    return without_faults(set, how, mask, before);
}

/* ---- the beginning -------------------------------------------------------------------------------- */

/* Before all other libraries' constructors (-z initfirst), some of which read CPUID; the C library's too, so that there is
 * no getenv() yet. */
__attribute__((constructor)) static void begin(int count, char **arguments, char **environment)
{
    static const char variable[] = "CLATTN_PROCESSOR=";
    const char *name = NULL;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART};

    (void)count;
    (void)arguments;
    for (; *environment; environment++)
        if (strncmp(*environment, variable, strlen(variable)) == 0)
            name = *environment + strlen(variable);
    for (size_t n = 0; name && n < sizeof processors / sizeof *processors; n++)
        if (strcmp(processors[n].name, name) == 0) {
            action.sa_sigaction = handle;
            sigaction(SIGSEGV, &action, &programs_own);
            other = &processors[n];
            if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0)
                return;
            perror("CLATTN_PROCESSOR: CPUID cannot be made to fault");
            _exit(77);
        }
    if (name && name[0]) {
        fprintf(stderr, "CLATTN_PROCESSOR: '%s' is none of", name);
        for (size_t n = 0; n < sizeof processors / sizeof *processors; n++)
            fprintf(stderr, " %s", processors[n].name);
        fputc('\n', stderr);
        _exit(2);
    }
}
