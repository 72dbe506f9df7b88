/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning document: it comes back as it was, merging obeys its laws, hostile text is refused. */
#include "tests/faults/faults.h"
#include "tests/support/tables.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(tuning_table, .timeout = 60);

enum { RUNS = 40 };

static void same_texts(const struct ca_table *a, const struct ca_table *b, const char *law, int run)
{
    char *left = table_text(a), *right = table_text(b);

    cr_assert(strcmp(left, right) == 0, "%s, run %d:\n%s\nis not\n%s", law, run, left, right);
    free(left);
    free(right);
}

static struct ca_table merged(const struct ca_table *a, const struct ca_table *b, size_t *added)
{
    struct ca_table both = {NULL, 0};

    cr_assert(ca_table_merge(&both, a, NULL) && ca_table_merge(&both, b, added));
    return both;
}

/* ---- printing and parsing -------------------------------------------------------------------- */

Test(tuning_table, comes_back_as_it_was) {
    struct rng rng = rng_seed(1);

    for (int run = 0; run < RUNS; run++) {
        struct ca_table table = table_random(&rng);
        char *text = table_text(&table);
        struct ca_table again = table_parse(text);
        same_texts(&table, &again, "round trip", run);
        for (size_t d = 0; d < table.num_devices; d++)
            for (size_t c = 0; c < table.devices[d].num_classes; c++)
                for (size_t e = 0; e < table.devices[d].classes[c].num_entries; e++)
                    cr_assert(ca_entry_order(&table.devices[d].classes[c].entries[e],
                                             &again.devices[d].classes[c].entries[e]) == 0);
        free(text);
        ca_table_free(&again);
        ca_table_free(&table);
    }
}

static const char document[] =
    "{\"format\": \"clattn-tuning\", \"version\": 1, \"devices\": [\n"
    "{\"platform\": \"P\", \"platform_version\": \"1\", \"vendor\": \"V\", \"device\": \"D\",\n"
    "\"device_version\": \"2\", \"driver\": \"3\", \"classes\": [\n"
    "{\"class\": \"fwd f32 b1 h8 q128 k128 d64\", \"entries\": [\n"
    "{\"family\": \"unfused\", \"tunables\": \"TILE_Q=8 TILE_KV=16\", \"seconds\": 0.5,\n"
    "\"low\": 0.4, \"high\": 0.625, \"error\": 0.125, \"samples\": [0.5, 0.75],\n"
    "\"when\": \"2026-11-21T09:30:00Z\", \"policy\": \"p\", \"source\": \"0123456789abcdef\",\n"
    "\"declaration\": \"fedcba9876543210\"}]}],\n"
    "\"quarantine\": [{\"class\": \"fwd f16 q1 k7 d8\", \"family\": \"fused_cpu\",\n"
    "\"tunables\": \"\", \"reason\": \"it hung\", \"when\": \"2026-01-02T03:04:05Z\",\n"
    "\"source\": \"0000000000000000\", \"declaration\": \"ffffffffffffffff\"}]}]}\n";

/* The form that files have; a change of it is a change of the version. */
static const char printed[] = "{\n"
                              " \"format\": \"clattn-tuning\",\n"
                              " \"version\": 1,\n"
                              " \"devices\": [\n"
                              "  {\n"
                              "   \"platform\": \"P\",\n"
                              "   \"platform_version\": \"1\",\n"
                              "   \"vendor\": \"V\",\n";

Test(tuning_table, prints_as_agreed) {
    struct ca_table table = table_parse(document);
    char *text = table_text(&table);

    cr_expect(table.num_devices == 1 && table.devices[0].num_classes == 1);
    const struct ca_entry *entry = &table.devices[0].classes[0].entries[0];
    cr_expect(entry->seconds == 0.5 && entry->high == 0.625 && entry->num_samples == 2);
    cr_expect(entry->samples[1] == 0.75 && entry->error == 0.125);
    cr_expect_str_eq(table.devices[0].banned[0].reason, "it hung");
    cr_expect(strncmp(text, printed, strlen(printed)) == 0, "%s", text);
    cr_expect(strstr(text, "\n       \"samples\": [0.5, 0.75],\n") != NULL, "%s", text);
    free(text);
    ca_table_free(&table);
}

/* Lists may be given in any order and come out sorted. */
Test(tuning_table, equal_tables_print_equal_texts) {
    struct rng rng = rng_seed(2);

    for (int run = 0; run < RUNS; run++) {
        struct ca_table table = table_random(&rng), shuffled = {NULL, 0};
        char *text = table_text(&table);
        for (size_t n = table.num_devices; n-- > 0;) { /* back to front, one at a time */
            const struct ca_table one = {&table.devices[n], 1};
            struct ca_table more = merged(&one, &shuffled, NULL);
            ca_table_free(&shuffled);
            shuffled = more;
        }
        same_texts(&table, &shuffled, "order", run);
        free(text);
        ca_table_free(&shuffled);
        ca_table_free(&table);
    }
    static const char swapped[] =
        "{\"devices\": [], \"version\": 1, \"format\": \"clattn-tuning\"}";
    struct ca_table empty = {NULL, 0}, other = table_parse(swapped);
    same_texts(&empty, &other, "members", 0);
    char *text = table_text(&empty);
    cr_expect_str_eq(text, "{\n \"format\": \"clattn-tuning\",\n \"version\": 1,\n"
                           " \"devices\": []\n}\n");
    free(text);
    ca_table_free(&other);
}

/* Some locales write 0,5. */
Test(tuning_table, the_locale_does_not_matter) {
    struct ca_table table = table_parse(document);
    char *text = table_text(&table);

    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        cr_log_info("there is no locale with a comma here");
    struct ca_table again = table_parse(text);
    same_texts(&table, &again, "locale", 0);
    char *other = table_text(&again);
    cr_expect_str_eq(text, other);
    setlocale(LC_ALL, "C");
    free(other);
    free(text);
    ca_table_free(&again);
    ca_table_free(&table);
}

/* Drivers put anything into their names; what is found under a name must be found again. */
Test(tuning_table, odd_names_of_devices) {
    clattn_device_info dev = table_device_info(1, "\x01\xff\n1.0 \"x\"\\");
    struct ca_table table = {NULL, 0};

    memset(dev.vendor, 0x80, sizeof dev.vendor - 1);
    snprintf(dev.name, sizeof dev.name, "GeForce\xe2\x84\xa2\x1b[31m");
    struct ca_device_table *made = ca_table_device(&table, &dev, 1);
    cr_assert(made != NULL && ca_table_device(&table, &dev, 0) == made);
    cr_expect(ca_device_table_is(made, &dev));
    char *text = table_text(&table);
    struct ca_table again = table_parse(text);
    cr_expect(ca_table_device(&again, &dev, 0) == &again.devices[0]);
    dev.driver_version[3]++;
    cr_expect(ca_table_device(&again, &dev, 0) == NULL);
    cr_expect(ca_device_table_is(&again.devices[0], &dev), "another driver is no other device");
    dev.name[0]++;
    cr_expect(!ca_device_table_is(&again.devices[0], &dev));
    free(text);
    ca_table_free(&again);
    ca_table_free(&table);
}

/* ---- the laws of merging --------------------------------------------------------------------- */

Test(tuning_table, merging_obeys_its_laws) {
    struct rng rng = rng_seed(3);

    for (int run = 0; run < RUNS; run++) {
        struct ca_table a = table_random(&rng), b = table_random(&rng), c = table_random(&rng);
        size_t added, again;
        struct ca_table ab = merged(&a, &b, &added), ba = merged(&b, &a, NULL);
        struct ca_table bc = merged(&b, &c, NULL);
        struct ca_table ab_c = merged(&ab, &c, NULL), a_bc = merged(&a, &bc, NULL);
        struct ca_table aa = merged(&a, &a, &again);
        same_texts(&ab, &ba, "commutative", run);
        same_texts(&ab_c, &a_bc, "associative", run);
        same_texts(&aa, &a, "idempotent", run);
        cr_assert(again == 0);
        struct ca_table *const all[] = {&a, &b, &c, &ab, &ba, &bc, &ab_c, &a_bc, &aa};
        for (size_t n = 0; n < sizeof all / sizeof *all; n++)
            ca_table_free(all[n]);
    }
}

/* Checks that the winner beats the same configuration of the loser, whichever comes first. */
static void wins(struct ca_entry winner, struct ca_entry loser)
{
    static char class[] = "fwd f32 q1 d8", text[] = "x";
    struct ca_class classes[2] = {{class, &winner, 1}, {class, &loser, 1}};
    struct ca_device_table devices[2];
    struct ca_table tables[2] = {{&devices[0], 1}, {&devices[1], 1}};

    for (int n = 0; n < 2; n++)
        devices[n] =
            (struct ca_device_table){text, text, text, text, text, text, &classes[n], 1, NULL, 0};
    for (int n = 0; n < 2; n++) {
        size_t added;
        struct ca_table both = merged(&tables[n], &tables[1 - n], &added);
        cr_expect(added == 0 && both.devices[0].classes[0].num_entries == 1);
        cr_expect(ca_entry_order(&both.devices[0].classes[0].entries[0], &winner) == 0);
        ca_table_free(&both);
    }
}

Test(tuning_table, the_better_measured_entry_stays) {
    static char later[] = "2027-01-01T00:00:00Z";
    struct made_entry made;
    const struct ca_entry entry = *table_entry(&made, 1, 0.5);
    struct ca_entry other = entry;

    other.num_samples = 2;
    other.when = later;
    other.seconds = 0.1;
    wins(entry, other); /* more samples */
    other.num_samples = 3;
    wins(other, entry); /* newer */
    other.when = entry.when;
    wins(other, entry); /* smaller */
}

/* Entries that differ in the family, its tunables, the kernel source or the declaration of tunables are kept beside each
 * other. */
Test(tuning_table, what_tells_entries_apart) {
    static char something[] = "0000000000000000";
    struct made_entry made;
    const struct ca_entry entry = *table_entry(&made, 1, 0.5);

    for (int n = 0; n < 4; n++) {
        struct ca_entry other = entry;
        struct ca_class class = {.entries = &other, .num_entries = 1};
        *(n == 0   ? &other.family
          : n == 1 ? &other.tunables
          : n == 2 ? &other.source
                   : &other.declaration) = something;
        cr_expect(ca_class_find(&class, &entry) == 1);
    }
    struct ca_entry other = entry;
    const struct ca_class class = {.entries = &other, .num_entries = 1};
    other.when = other.policy = something;
    other.seconds = 1.0;
    cr_expect(ca_class_find(&class, &entry) == 0);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* The document with the first `from` in it replaced. */
static char *changed(const char *from, const char *to)
{
    const char *at = strstr(document, from);
    const size_t bytes = sizeof document + strlen(to);
    char *text = malloc(bytes);

    cr_assert(at && text, "%s", from);
    snprintf(text, bytes, "%.*s%s%s", (int)(at - document), document, to, at + strlen(from));
    return text;
}

static void refused(const char *text, size_t bytes, const char *because, const char *what)
{
    struct ca_table table = {(struct ca_device_table *)(void *)&table, 7};
    char reason[256] = "";

    cr_expect(ca_table_read(text, bytes, &table, reason, sizeof reason) == CLATTN_FILE_ERROR,
              "%s is accepted", what);
    cr_expect(strstr(reason, because) != NULL, "%s: '%s', not '%s'", what, reason, because);
    cr_expect(table.devices == NULL && table.num_devices == 0);
    for (const char *c = reason; *c; c++)
        cr_expect(*c >= 0x20 && *c <= 0x7e, "%s: the reason holds what a terminal would obey",
                  what);
}

/* Classes of functions that other processes have made are kept, and do not make a document of none; else such a class is as
 * any other. */
Test(tuning_table, functions_that_are_not_known) {
    static const struct {
        const char *class;
        int right;
    } cases[] = {
        {"fwd f32 b1 h8 q128 k128 d64 score=mine:0123456789abcdef", 1},
        {"bwd f32 b1 h8 q128 k128 d64 score=a:0123456789abcdef visible=b/c.cl:fedcba9876543210 "
         "dfunction",
         1},
        {"fwd f32 b1 h8 q128 k128 d64 score=mine:0123456789abcde", 0},
        {"fwd f32 b1 h8 q128 k128 d64 score=mine:0123456789abcdef0", 0},
        {"fwd f32 b1 h8 q128 k128 d64 score=mine", 0},
        {"fwd f32 b1 h8 q-1 k128 d64 score=mine:0123456789abcdef", 0},
        {"fwd f32 b1 h8 q128 k128 d64 causal=mine:0123456789abcdef", 0},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char *text = changed("fwd f32 b1 h8 q128 k128 d64", cases[n].class), reason[256] = "";
        struct ca_table table = {NULL, 0};
        const clattn_status status =
            ca_table_read(text, strlen(text), &table, reason, sizeof reason);
        cr_expect_eq(status == CLATTN_SUCCESS, cases[n].right, "%s: %s", cases[n].class, reason);
        ca_table_free(&table);
        free(text);
    }
}

Test(tuning_table, refuses_what_is_not_right) {
    static const struct {
        const char *from, *to, *because;
    } cases[] = {
        {"clattn-tuning", "clattn-tuning2", "format"},
        {"\"clattn-tuning\"", "7", "format"},
        {"\"format\"", "\"Format\"", "format"},
        {"\"version\": 1", "\"version\": 2", "version"},
        {"\"version\": 1", "\"version\": 1.0", "version"},
        {"\"version\": 1", "\"version\": \"1\"", "version"},
        {"\"version\": 1", "\"version\": 99999999999999999999", "not JSON"},
        {"\"version\": 1", "\"version\": 1, \"more\": 1", "members"},
        {"\"vendor\": \"V\"", "\"vendor\": \"V\", \"owner\": 1", "members"},
        {"\"vendor\": \"V\",", "", "members"},
        {"\"vendor\": \"V\"", "\"vender\": \"V\"", "not a text"},
        {"\"vendor\": \"V\"", "\"vendor\": null", "not a text"},
        {"\"vendor\": \"V\"", "\"vendor\": [\"V\"]", "not a text"},
        {"\"vendor\": \"V\"", "\"vendor\": \"V\", \"vendor\": \"V\"", "not JSON"},
        {"\"vendor\": \"V\"", "\"vendor\": \"\\u001b[31m\"", "printable"},
        {"\"vendor\": \"V\"", "\"vendor\": \"\\u0000\"", "not JSON"},
        {"\"vendor\": \"V\"", "\"vendor\": \"\\u2028\"", "printable"},
        {"\"vendor\": \"V\"", "\"vendor\": \"\xff\"", "not JSON"},
        {"\"vendor\": \"V\"", "\"vendor\": \"a\nb\"", "not JSON"},
        {"\"devices\": [", "\"devices\": [1, ", "members"},
        {"\"devices\": [", "\"devices\": [[], ", "members"},
        {"\"entries\": [", "\"entries\": [null, ", "members"},
        {"\"quarantine\": [", "\"quarantine\": [\"\", ", "members"},
        {"fwd f32 b1 h8 q128 k128 d64", "../../etc/passwd", "text form of a problem"},
        {"fwd f32 b1 h8 q128 k128 d64", "", "text form of a problem"},
        {"fwd f32 b1 h8 q128 k128 d64", "fwd f32 b1 h8 q-1 k128 d64", "text form of a problem"},
        {"fwd f16 q1 k7 d8", "fwd f16 q1 k7", "text form of a problem"},
        {"\"unfused\"", "\"../unfused\"", "family"},
        {"\"unfused\"", "\"Unfused\"", "family"},
        {"\"unfused\"", "\"\"", "family"},
        {"\"fused_cpu\"", "\"fused lanes\"", "family"},
        {"TILE_Q=8 TILE", "TILE_Q=8  TILE", "tunables"},
        {"TILE_Q=8 TILE", " TILE_Q=8 TILE", "tunables"},
        {"TILE_KV=16\"", "TILE_KV=16 \"", "tunables"},
        {"TILE_Q=8", "TILE_Q=-8", "tunables"},
        {"TILE_Q=8", "TILE_Q=08", "tunables"},
        {"TILE_Q=8", "TILE_Q=", "tunables"},
        {"TILE_Q=8", "=8", "tunables"},
        {"TILE_Q=8", "tile=8", "tunables"},
        {"TILE_Q=8", "TILE_Q=8 -D X=1", "tunables"},
        {"TILE_Q=8", "TILE_Q=9999999999999999999", "tunables"},
        {"\"seconds\": 0.5", "\"seconds\": 0", "finite number above 0"},
        {"\"seconds\": 0.5", "\"seconds\": -1", "finite number above 0"},
        {"\"seconds\": 0.5", "\"seconds\": \"0.5\"", "not a number"},
        {"\"seconds\": 0.5", "\"seconds\": NaN", "not JSON"},
        {"\"seconds\": 0.5", "\"seconds\": Infinity", "not JSON"},
        {"\"seconds\": 0.5", "\"seconds\": 1e999", "not JSON"},
        {"\"low\": 0.4", "\"low\": 0.0", "finite number above 0"},
        {"\"high\": 0.625", "\"high\": true", "not a number"},
        {"\"error\": 0.125", "\"error\": 1.5", "0 to 1"},
        {"\"error\": 0.125", "\"error\": -0.5", "0 to 1"},
        {"[0.5, 0.75]", "[]", "samples"},
        {"[0.5, 0.75]", "[0.5, 0]", "sample"},
        {"[0.5, 0.75]", "[0.5, null]", "not a number"},
        {"[0.5, 0.75]", "{}", "not a list"},
        {"2026-11-21T09:30:00Z", "2026-11-21 09:30:00", "form"},
        {"2026-11-21T09:30:00Z", "2026-11-21T09:30:00Zx", "form"},
        {"2026-01-02T03:04:05Z", "yesterday", "form"},
        {"0123456789abcdef", "0123456789ABCDEF", "hash"},
        {"0123456789abcdef", "0123456789abcde", "hash"},
        {"fedcba9876543210", "fedcba98765432100", "hash"},
        {"it hung", "it \\u0007hung", "reason"},
        {"\"policy\": \"p\"", "\"policy\": \"\\n\"", "policy"},
        {"]}]}\n", "]}]}}\n", "not JSON"},
        {"]}]}\n", "]}]}\n{}", "not JSON"},
        {"{\"format\"", "\xef\xbb\xbf{\"format\"", "not JSON"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        char *text = changed(cases[n].from, cases[n].to);
        refused(text, strlen(text), cases[n].because, cases[n].to);
        free(text);
    }
}

/* The text `times` over, between two others. */
static char *repeated(const char *before, const char *text, size_t times, const char *after)
{
    const size_t bytes = strlen(text);
    char *all = malloc(strlen(before) + times * bytes + strlen(after) + 1), *at = all;

    cr_assert(all != NULL);
    at += sprintf(at, "%s", before);
    for (size_t n = 0; n < times; n++, at += bytes)
        memcpy(at, text, bytes);
    strcpy(at, after);
    return all;
}

Test(tuning_table, refuses_what_is_too_much) {
    static const struct {
        const char *from, *before, *text, *after, *because;
        size_t fits; /* how many times the text fits; more is refused */
    } cases[] = {
        {"[0.5, 0.75]", "[0.5", ", 0.75", "]", "not a list", 63},
        {"\"V\"", "\"", "V", "\"", "name or version", 255},
        {"it hung", "", "x", "", "too long", 1023},
        {"TILE_Q=8 ", "", "X=1 ", "", "tunables", 125},
        {"\"unfused\"", "\"", "u", "\"", "family", 63},
        {"\"entries\": [", "\"entries\": [", "{}, ", "", "not a list", 0},
        {"\"vendor\": \"V\"", "\"vendor\": ", "[", "", "not JSON", 0},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        for (size_t more = cases[n].fits == 0; more < 2; more++) {
            const size_t times = cases[n].fits ? cases[n].fits + more : 100000;
            char *long_text = repeated(cases[n].before, cases[n].text, times, cases[n].after);
            char *text = changed(cases[n].from, long_text);
            if (more) {
                refused(text, strlen(text), cases[n].because, cases[n].from);
            } else {
                struct ca_table table = table_parse(text);
                ca_table_free(&table);
            }
            free(text);
            free(long_text);
        }
    }
    char *huge = repeated("", " ", CA_TABLE_BYTES + 1, "");
    refused(huge, CA_TABLE_BYTES + 1, "larger", "32 MiB of spaces");
    free(huge);
}

Test(tuning_table, refuses_twins) {
    struct ca_table table = table_parse(document);
    char *text = table_text(&table), *class = strstr(text, "    {\n     \"class\""), twice[8192];
    char *end = strstr(class, "\n    }") + 6, *entry = strstr(class, "      {\n"),
         *entry_end = strstr(entry, "\n      }") + 8;
    const struct {
        const char *begin, *end;
    } parts[] = {{class, end}, {entry, entry_end}};

    for (size_t n = 0; n < 2; n++) {
        const int length = (int)(parts[n].end - parts[n].begin);
        snprintf(twice, sizeof twice, "%.*s%.*s,\n%s", (int)(parts[n].begin - text), text, length,
                 parts[n].begin, parts[n].begin);
        refused(twice, strlen(twice), "twice", "a twin");
    }
    const char *devices = strstr(text, "  {\n");
    const char *last = strstr(text, "\n ]\n}"); /* of the devices */
    snprintf(twice, sizeof twice, "%.*s,%s", (int)(last - text), text, devices);
    refused(twice, strlen(twice), "twice", "a twin device");
    free(text);
    ca_table_free(&table);
}

/* Cut anywhere, or with any byte changed: refused, or a document that comes back as it is. */
Test(tuning_table, damaged_anywhere) {
    struct rng rng = rng_seed(4);
    size_t accepted = 0;

    for (size_t n = 0; n < sizeof document - 2; n++) {
        char *copy = malloc(n + 1); /* its end is the end of an allocation */
        memcpy(copy, document, n);
        refused(copy, n, "", "a part");
        free(copy);
    }
    for (int run = 0; run < 3000; run++) {
        char copy[sizeof document], reason[256];
        struct ca_table table;
        memcpy(copy, document, sizeof copy);
        copy[rng_below(&rng, sizeof copy - 1)] = (char)rng_next(&rng);
        if (ca_table_read(copy, sizeof copy - 1, &table, reason, sizeof reason) != CLATTN_SUCCESS) {
            cr_assert(reason[0] != '\0');
            continue;
        }
        char *text = table_text(&table);
        struct ca_table again = table_parse(text);
        same_texts(&table, &again, "damaged", run);
        accepted++;
        free(text);
        ca_table_free(&again);
        ca_table_free(&table);
    }
    cr_expect(accepted > 0 && accepted < 1500, "%zu", accepted);
}

/* ---- without memory -------------------------------------------------------------------------- */

Test(tuning_table, allocations_that_fail) {
    struct rng rng = rng_seed(5);
    struct ca_table a = table_random(&rng), b = table_random(&rng);
    char *text = table_text(&a);
    struct ca_table sum = merged(&a, &b, NULL);

    for (struct faults_rounds r = {0}; faults_next(&r);) {
        char reason[256];
        struct ca_table table = {NULL, 0};
        faults_begin(&r);
        const clattn_status status =
            ca_table_read(text, strlen(text), &table, reason, sizeof reason);
        cr_assert(status == (faults_failed(&r) ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS), "%s",
                  reason);
        ca_table_free(&table);
    }
    for (struct faults_rounds r = {0}; faults_next(&r);) {
        struct ca_table table = {NULL, 0};
        faults_begin(&r);
        const int whole = ca_table_merge(&table, &a, NULL) && ca_table_merge(&table, &b, NULL);
        cr_assert(whole == !faults_failed(&r));
        char *part = table_text(&table); /* what is there is a table, and can be completed */
        struct ca_table again = table_parse(part);
        cr_assert(ca_table_merge(&again, &a, NULL) && ca_table_merge(&again, &b, NULL));
        same_texts(&again, &sum, "completed", (int)r.n);
        free(part);
        ca_table_free(&again);
        ca_table_free(&table);
    }
    for (struct faults_rounds r = {0}; faults_next(&r);) {
        faults_begin(&r);
        char *again = ca_table_print(&a);
        cr_assert((again == NULL) == faults_failed(&r));
        free(again);
    }
    free(text);
    ca_table_free(&a);
    ca_table_free(&b);
    ca_table_free(&sum);
}
