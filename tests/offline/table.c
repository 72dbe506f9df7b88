/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what compilers made of the programs that offline_cases listed:
 *
 *   offline_table FOLDER [OLD]
 *
 * FOLDER/N.s is AMD's assembly of case N; FOLDER/N.sass NVIDIA's machine code as text, N.ptx what it
 * was made of, N.ptxas what ptxas said; FOLDER/N.xe Intel's machine code as text. Prints a table, a line for each kernel, and what breaks a
 * rule; fails if something does. Of OLD, a table of before, it says which families have changed. */
#include "assembly.h"
#include "cases.h"
#include "families/family.h"
#include "families/registry.h"
#include "targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 16384,
    TEXT_BYTES = 256,
    LEAST_SHARE = 75,
    LEAST_SHARE_XE_LP = 72,
    LEAST_GROUPS = 2,
    SOURCE_BYTES = 9, /* the beginning of a hash */
    MOST_FAMILIES = 32
};

/* A case and one of its kernels. */
struct row {
    char *const *fields;
    const struct target *target;
    const struct kernel *kernel;
    size_t items;
    struct occupancy occupancy;
};

struct totals {
    size_t programs, kernels, spilling_samples, spilling_intel, broken;
};

/* ---- what is printed -------------------------------------------------------------------------- */

/* "16x4 4x2": loads of 16 bytes in four places, of 4 in two. */
static void print_loads(const unsigned loads[WIDTHS], char text[TEXT_BYTES])
{
    size_t length = 0;

    text[0] = '\0';
    for (size_t n = WIDTHS; n-- > 0;)
        if (loads[n])
            length += (size_t)snprintf(text + length, TEXT_BYTES - length, "%s%ux%u",
                                       length ? "," : "", 1u << n, loads[n]);
    if (!length)
        strcpy(text, "-");
}

static unsigned share(const struct counts *loop)
{
    return 100 * (loop->fma + loop->matrix) / loop->all;
}

/* Shares of arithmetic in the loops that multiply, and their loads of local memory. */
static void print_loops(const struct kernel *k, char shares[TEXT_BYTES], char loads[TEXT_BYTES])
{
    unsigned all[WIDTHS] = {0};
    size_t length = 0;

    strcpy(shares, "-");
    for (size_t n = 0; n < k->num_products; n++) {
        if (length + 8 > TEXT_BYTES)
            break;
        length += (size_t)snprintf(shares + length, TEXT_BYTES - length, "%s%u", length ? "," : "",
                                   share(&k->products[n]));
        for (size_t w = 0; w < WIDTHS; w++)
            all[w] += k->products[n].local_loads[w];
    }
    print_loads(all, loads);
}

static void print_number(long number)
{
    if (number == NOT_KNOWN)
        printf(" %7s", "-");
    else
        printf(" %7ld", number);
}

/* Which source the family's kernels have here; "" if there is no such family. */
static void source_of(const char *name, char text[SOURCE_BYTES])
{
    const char *unit = strchr(name, '.'); /* as cases.c prints a full name */
    char full_name[64];

    snprintf(full_name, sizeof full_name, "%.*s%s%s", (int)strcspn(name, "."), name,
             unit ? " UNIT=" : "", unit ? unit + 1 : "");
    const struct ca_family *family = ca_family_find(full_name);
    char hash[CA_HASH_TEXT] = "";

    if (family)
        ca_family_source_hash(family, hash);
    snprintf(text, SOURCE_BYTES, "%.8s", hash);
}

static void print_row(const struct row *r)
{
    const struct kernel *k = r->kernel;
    char source[SOURCE_BYTES], shares[TEXT_BYTES], local[TEXT_BYTES], global[TEXT_BYTES];

    print_loops(k, shares, local);
    print_loads(k->counts.global_loads, global);
    source_of(r->fields[CASE_FAMILY], source);
    printf("%-16s %-8s %-16s %-8s %-7s %5zu", r->fields[CASE_FAMILY], source, k->name,
           r->target->name, r->fields[CASE_KIND], r->items);
    print_number(k->registers);
    print_number(k->spills);
    print_number(k->local_bytes);
    if (k->registers == NOT_KNOWN)
        printf(" %6s %5s", "-", "-");
    else
        printf(" %6u %5.1f", r->occupancy.groups, r->occupancy.waves);
    printf("  %-12s %-18s %-24s %s | %s\n", shares, local, global, r->fields[CASE_PROBLEM],
           r->fields[CASE_TUNABLES]);
}

static void print_heading(void)
{
    printf("%-16s %-8s %-16s %-8s %-7s %5s %7s %7s %7s %6s %5s  %-12s %-18s %-24s %s\n", "family",
           "source", "kernel", "target", "values", "items", "regs", "spills", "local", "groups",
           "waves", "share", "local loads", "global loads", "problem | tunables");
}

/* ---- rules ------------------------------------------------------------------------------------ */

static void broken(struct totals *totals, const struct row *r, const char *rule)
{
    fprintf(stderr, "BROKEN %s: case %s, %s of %s on %s: %s | %s\n", rule, r->fields[CASE_NUMBER],
            r->kernel->name, r->fields[CASE_FAMILY], r->target->name, r->fields[CASE_PROBLEM],
            r->fields[CASE_TUNABLES]);
    totals->broken++;
}

/* Two products whose loops are nearly all arithmetic, with loads of 16 bytes; ptxas makes wide loads
 * of narrow ones that lie beside each other, so PTX does not tell. Xe-LP adds up every address. */
static void check_products(struct totals *totals, const struct row *r)
{
    const struct kernel *k = r->kernel;

    for (size_t n = 0; n < k->num_products; n++) {
        const struct counts *loop = &k->products[n];
        if (share(loop) < (strcmp(r->target->name, "tgllp") == 0 ? LEAST_SHARE_XE_LP : LEAST_SHARE))
            broken(totals, r, "too little of a product's loop is arithmetic");
        if (k->dialect != DIALECT_PTX && loop->local_loads[0] + loop->local_loads[1] +
                                             loop->local_loads[2] + loop->local_loads[3])
            broken(totals, r, "a product's loop has narrow loads of local memory");
    }
    if (k->num_products < 2)
        broken(totals, r, "the loops of the two products were not found");
    if (k->counts.global_loads[4] == 0)
        broken(totals, r, "no loads of 16 bytes of global memory");
}

/* Few queries against many keys: four keys and their values, by wide loads; tiles of them are filled by
 * loops, which need not be unrolled. */
static void check_decoding(struct totals *totals, const struct row *r)
{
    const unsigned *loads = r->kernel->counts.global_loads;
    const unsigned least = strcmp(r->fields[CASE_FAMILY], "split_gpu.mma") == 0 ? 2 : 8;

    if (r->target->vendor != INTEL && loads[3] + loads[4] < least)
        broken(totals, r, "keys or values come by loads of less than 8 bytes");
    if (r->kernel->registers != NOT_KNOWN && r->occupancy.groups < LEAST_GROUPS)
        broken(totals, r, "fewer than two groups are resident");
}

/* Spilled registers that a default may have: one, of fused_gpu UNIT=mma with 256 dims on gfx1100, its least block; where all
 * sums of dk and dv meet products of 64 streamed rows, as many as were spilled while an H100 took 0.80 of the time of 32;
 * a few of LLVM's code for NVIDIA with two fragments of queries, of which NVIDIA's own compiler spills none (an H200's
 * said so of dim 128), and where quantized keys arrive as bytes; of backward_gpu UNIT=item on NVIDIA's with two stages six,
 * outside of the products, while an H200 took 0.82 of the time of one. */
static long most_spills(const struct row *r)
{
    const int nvidia = r->target->vendor == NVIDIA;

    if (nvidia && (strstr(r->fields[CASE_TUNABLES], "M_FRAGMENTS=2 BLOCK_N=64 Q_RESIDENT=0") ||
                   strstr(r->fields[CASE_TUNABLES], "BYTES=1")))
        return 40;
    if (strcmp(r->kernel->name, "backward_keys") != 0)
        return 1;
    if (strcmp(r->fields[CASE_FAMILY], "backward_gpu.warpgroup") == 0)
        return 40;
    return nvidia && strstr(r->fields[CASE_TUNABLES], " STAGES=2 ") ? 6 : 1;
}

static void check_row(struct totals *totals, const struct row *r)
{
    const struct kernel *k = r->kernel;
    const int is_default = strcmp(r->fields[CASE_KIND], "default") == 0;
    const long counted = strtol(r->fields[CASE_LOCAL], NULL, 10);
    /* AMD's compiler moves arrays of a work-item to local memory where there is room. */
    const int may_move = r->target->vendor == AMD && !is_default;

    if (k->local_bytes > counted && !may_move)
        broken(totals, r, "more local memory than the family counts on");
    if (k->registers != NOT_KNOWN && r->occupancy.groups == 0)
        broken(totals, r, "no group is resident");
    if (k->spills > 0 && r->target->vendor == INTEL)
        totals->spilling_intel++;
    else if (is_default && k->spills > most_spills(r))
        broken(totals, r, "registers are spilled");
    else if (k->spills > 0 && !is_default)
        totals->spilling_samples++;
    if (strcmp(k->name, "split") == 0 && is_default &&
        strstr(r->fields[CASE_PROBLEM], " q1 k32768 d128"))
        check_decoding(totals, r);
    if (strcmp(r->fields[CASE_FAMILY], "fused_gpu.item") != 0 || !is_default ||
        (strcmp(r->fields[CASE_PROBLEM], "fwd f32 b1 h16 q2048 k2048 d64") != 0 &&
         strcmp(r->fields[CASE_PROBLEM], "fwd f32 b1 h16 q2048 k2048 d128") != 0))
        return;
    check_products(totals, r);
    if (k->registers != NOT_KNOWN && r->occupancy.groups < LEAST_GROUPS)
        broken(totals, r, "fewer than two groups are resident");
}

/* ---- cases ------------------------------------------------------------------------------------ */

static size_t read_kernels(const char *folder, const char *number, const struct target *t,
                           struct kernel kernels[MAX_KERNELS])
{
    static const struct {
        const char *ending;
        enum dialect dialect;
    } forms[] = {[AMD] = {"s", DIALECT_AMD},
                 [NVIDIA] = {"sass", DIALECT_SASS},
                 [INTEL] = {"xe", DIALECT_XE}};
    char path[4096];
    size_t count;

    snprintf(path, sizeof path, "%s/%s.%s", folder, number, forms[t->vendor].ending);
    count = assembly_read(path, forms[t->vendor].dialect, kernels);
    if (t->vendor != NVIDIA)
        return count;
    if (!count) {
        snprintf(path, sizeof path, "%s/%s.ptx", folder, number);
        count = assembly_read(path, DIALECT_PTX, kernels);
    }
    snprintf(path, sizeof path, "%s/%s.ptxas", folder, number);
    assembly_read_ptxas(path, kernels, count);
    return count;
}

/* The work-items of a group from "NAME=items ...", 0 if the problem does not need the kernel. */
static size_t items_of(const char *kernels, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = kernels; (at = strstr(at, name)) != NULL; at += length)
        if ((at == kernels || at[-1] == ' ') && at[length] == '=')
            return strtoul(at + length + 1, NULL, 10);
    return 0;
}

static void read_case(const char *folder, char *const *fields, struct totals *totals)
{
    static struct kernel kernels[MAX_KERNELS];
    const struct target *t = target_find(fields[CASE_TARGET]);
    const size_t count = t ? read_kernels(folder, fields[CASE_NUMBER], t, kernels) : 0;

    totals->programs++;
    if (!count) {
        fprintf(stderr, "BROKEN it does not compile: case %s, %s on %s: %s | %s\n",
                fields[CASE_NUMBER], fields[CASE_FAMILY], fields[CASE_TARGET], fields[CASE_PROBLEM],
                fields[CASE_TUNABLES]);
        totals->broken++;
    }
    for (size_t n = 0; n < count; n++) {
        struct row r = {.fields = fields, .target = t, .kernel = &kernels[n]};
        r.items = items_of(fields[CASE_KERNELS], kernels[n].name);
        if (!r.items)
            continue;
        if (kernels[n].local_bytes == NOT_KNOWN && t->vendor == INTEL) /* it does not say */
            kernels[n].local_bytes = strtol(fields[CASE_LOCAL], NULL, 10);
        if (kernels[n].registers != NOT_KNOWN)
            r.occupancy =
                target_occupancy(t, (unsigned)kernels[n].registers, (size_t)kernels[n].local_bytes,
                                 r.items, kernels[n].lanes);
        totals->kernels++;
        print_row(&r);
        check_row(totals, &r);
    }
}

/* ---- tables of before ------------------------------------------------------------------------- */

/* Says of which families the table's kernels are others than those here. */
static void compare_sources(const char *path)
{
    static char line[LINE_BYTES];
    char changed[MOST_FAMILIES][32], name[32], there[32], here[SOURCE_BYTES];
    size_t count = 0;
    FILE *file = fopen(path, "r");

    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s %31s", name, there) != 2)
            continue;
        source_of(name, here);
        size_t n = 0;
        while (n < count && strcmp(changed[n], name) != 0)
            n++;
        if (here[0] && strcmp(here, there) != 0 && n == count && count < MOST_FAMILIES)
            snprintf(changed[count++], sizeof changed[0], "%s", name);
    }
    fclose(file);
    printf("%s is %s", path, count ? "of other sources of" : "of these sources");
    for (size_t n = 0; n < count; n++)
        printf(" %s", changed[n]);
    putchar('\n');
}

int main(int argc, char **argv)
{
    static char line[LINE_BYTES];
    struct totals totals = {0, 0, 0, 0, 0};
    char path[4096];

    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: offline_table FOLDER [OLD]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/cases", argv[1]);
    FILE *cases = fopen(path, "r");
    if (!cases) {
        perror(path);
        return 2;
    }
    print_heading();
    while (fgets(line, sizeof line, cases)) {
        char *fields[CASE_FIELDS], *at = line;
        size_t n = 0;
        line[strcspn(line, "\n")] = '\0';
        for (; n < CASE_FIELDS && at; n++) {
            fields[n] = at;
            at = strchr(at, '\t');
            if (at)
                *at++ = '\0';
        }
        if (n == CASE_FIELDS)
            read_case(argv[1], fields, &totals);
    }
    fclose(cases);
    printf("%zu programs, %zu kernels; %zu with tunables at random spill, and %zu of Intel's; "
           "%zu rules broken\n",
           totals.programs, totals.kernels, totals.spilling_samples, totals.spilling_intel,
           totals.broken);
    if (argc == 3)
        compare_sources(argv[2]);
    return totals.broken || !totals.programs;
}
