/* clattn-bench report: what a page says, how it is written, and what goes wrong. */
#define _XOPEN_SOURCE 700 /* open_memstream, popen */
#include "bench/report/report_page.h"
#include "tests/bench/run_example.h"
#include "tests/report/sample.h"
#include "tests/support/programs/scratch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BERT "fwd f32 b1 h12 q512 k512 d64"
#define GPT2 "fwd f32 b1 h12 q1024 k1024 d64 causal=tl"

static void check_same(const char *got, const char *want)
{
    cr_expect(strcmp(got, want) == 0, "'%s' is not '%s'", got, want);
}

/* ---- documents in memory --------------------------------------------------------------------- */

/* What a reader sees, a line for each text and sentence; `between` stands around what is stressed,
 * or between lines of code. */
static void print_texts(FILE *out, const json_t *value, const char *between)
{
    const char *key;
    size_t n;
    json_t *inner;

    if (json_is_string(value))
        fprintf(out, "%s\n", json_string_value(value));
    json_object_foreach((json_t *)value, key, inner)
        print_texts(out, inner, strcmp(key, "code") == 0 ? "\n" : "*");
    json_array_foreach(value, n, inner)
    {
        if (json_is_string(inner))
            fprintf(out, "%s%s", n > 0 ? between : "", json_string_value(inner));
        else
            print_texts(out, inner, "*");
    }
    if (json_is_array(value))
        fputc('\n', out);
}

/* What the page of runs, which are freed, says; to be freed. */
static char *make_page(struct run_results *files, size_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    struct report report;
    struct page page = {.report = &report, .title = "A & B", .path = "my page.html"};

    cr_assert(report_open(&report, files, count));
    json_t *document = report_document(&page);
    cr_assert(document != NULL);
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(out != NULL);
    print_texts(out, document, "*");
    fclose(out);
    json_decref(document);
    report_free(&report);
    for (size_t n = 0; n < count; n++)
        results_free(&files[n]);
    return text;
}

static void check_says(const char *page, const char *sentence)
{
    cr_expect(strstr(page, sentence) != NULL, "the page does not say: %s", sentence);
}

static void check_hides(const char *page, const char *words)
{
    cr_expect(strstr(page, words) == NULL, "the page says: %s", words);
}

Test(bench_report, names_from_files_are_no_markup) {
    struct run_results results;
    struct report report;
    struct page page = {.report = &report, .title = "</script>", .path = "<!--.html"};
    char *text = NULL;
    size_t bytes = 0;

    sample_fill(&results);
    strcpy(results.processor, "</title><script>x");
    strcpy(results.devices[0].records[0].outcome[0].implementation, "clattn");
    strcpy(results.devices[0].records[0].outcome[1].implementation, "<img src=x>");
    strcpy(results.devices[0].peer[0].method, "\"><b onload=x>");
    cr_assert(report_open(&report, &results, 1));
    FILE *out = open_memstream(&text, &bytes);
    cr_assert(report_page(&page, out));
    fclose(out);
    char *begin = strstr(text, "id=\"document\">");
    cr_assert(begin != NULL);
    begin = strchr(begin, '>') + 1;
    char *end = strstr(begin, "</script>");
    cr_assert(memchr(begin, '<', (size_t)(end - begin)) == NULL, "nothing ends the element");
    json_t *document = json_loadb(begin, (size_t)(end - begin), 0, NULL);
    cr_assert(document != NULL, "what is in it is JSON");
    check_same(json_string_value(json_object_get(document, "title")), "</script>");
    end[0] = '\0';
    cr_assert(strstr(begin, "\\u003cscript>alert(1)\\u003c/script> & more") != NULL);
    cr_assert(strstr(begin, "-o '\\u003c!--.html'") != NULL);
    json_decref(document);
    free(text);
    report_free(&report);
    results_free(&results);
}

/* Two devices and two problems: clattn takes 1 and 2 ms on the first, 2 and 8 ms on the second. */
static void fill_two(struct run_results *results)
{
    static const double times[2][2] = {{1e-3, 2e-3}, {2e-3, 8e-3}};
    struct rng random = rng_seed(1);

    example_begin(results);
    example_device(results, "pthread-a processor", "Portable Computing Language");
    example_device(results, "llvmpipe (LLVM 15)", "rusticl");
    for (size_t d = 0; d < 2; d++) {
        for (size_t n = 0; n < 2; n++) {
            struct record *record = example_record(&results->devices[d], n == 0 ? "bert" : "gpt2",
                                                   n == 0 ? BERT : GPT2);
            example_outcome(record, "clattn", times[d][n], 0.0, 7, &random);
        }
    }
}

Test(bench_report, ranks_devices_and_libraries_in_sentences) {
    struct run_results results;
    struct rng random = rng_seed(1);

    fill_two(&results);
    struct record *records = results.devices[0].records;
    example_outcome(&records[0], "CLBlast", 3e-3, 0.0, 7, &random);
    example_outcome(&records[1], "CLBlast", 1e-3, 0.0, 7, &random)->state = OUTCOME_LOOSE;
    example_outcome(&records[0], "clattn untuned", 1.5e-3, 0.0, 7, &random);
    example_outcome(&records[0], "oneDNN", 0.0, 0.0, 0, &random)->state = OUTCOME_WRONG;
    records[0].outcome[0].cold_start_source = 1.2;
    records[0].outcome[0].cold_start_cache = 0.019;
    char *page = make_page(&results, 1);
    check_says(page, "2 attention problems on 2 OpenCL devices, computed by clattn and 2 other "
                     "libraries: 7 times, each one checked.");
    check_says(page, "The shortest of all times came from *clattn* on PoCL pthread for 1 of 2 "
                     "problems and *CLBlast* for 1 (in half precision for 1 of these).");
    check_says(page, "With clattn *PoCL pthread* is the fastest device. Over the 2 problems "
                     "that all 2 devices computed, by the geometric mean, it is *2.83 times* "
                     "as fast as llvmpipe (2.0 to 4.0). It was first for 2 of them.");
    check_says(page, "*1.22 times* as fast as CLBlast (0.50 to 3.0 times, problem by "
                     "problem): faster for 1, slower for 1 of 2 problems; 1 of its results are of "
                     "half precision only");
    check_says(page, "On llvmpipe no other library was timed beside clattn.");
    check_says(page, "(1 result), clattn is *1.50 times* as fast as untuned");
    check_says(page, "*1.2\u00a0s* (the median of 1 problem) if all must be compiled, and "
                     "*19\u00a0ms* if it was compiled before.");
    check_says(page, "oneDNN gave a wrong result, so its time is not shown in 1 case.");
    check_says(page, "the greatest error is 0.010 of its bound.\n");
    free(page);
}

Test(bench_report, devices_may_be_level) {
    struct run_results results;

    fill_two(&results);
    for (size_t r = 0; r < 2; r++)
        for (size_t n = 0; n < 7; n++)
            results.devices[1].records[r].outcome[0].seconds.value[n] =
                1.01 * results.devices[0].records[r].outcome[0].seconds.value[n];
    char *page = make_page(&results, 1);
    check_says(page, "With clattn *PoCL pthread* is level with the next device");
    check_hides(page, "is the fastest device");
    check_says(page, "it is *1.01 times* as fast as llvmpipe");
    free(page);
}

Test(bench_report, the_last_device_may_be_the_fastest) {
    struct run_results results;

    fill_two(&results);
    for (size_t n = 0; n < 7; n++)
        results.devices[1].records[1].outcome[0].seconds.value[n] = 5e-4;
    char *page = make_page(&results, 1);
    check_hides(page, "What the first call costs");
    check_says(page, "With clattn *llvmpipe* is the fastest device.");
    check_says(page, "it is *1.41 times* as fast as PoCL pthread (0.50 to 4.0). It was first "
                     "for 1 of them. PoCL pthread was first for 1.");
    free(page);
}

Test(bench_report, tells_what_the_numbers_are_worth) {
    struct run_results results;

    fill_two(&results);
    results.devices[0].load[0] = 7.5;
    results.devices[0].interrupted = true;
    results.devices[0].peaks.exceeded = true;
    for (size_t n = 0; n < 7; n++)
        results.devices[1].records[0].outcome[0].seconds.value[n] = 2e-3 * (1.0 + 0.1 * (double)n);
    message_set(&results.devices[1].failed, "was killed by signal 11");
    for (size_t d = 0; d < 2; d++) {
        struct peer_note *peer = &results.devices[d].peer[results.devices[d].num_peers++];
        strcpy(peer->name, "ONNX Runtime");
        message_set(&peer->missing, "is not installed: pip install onnxruntime");
    }
    char *page = make_page(&results, 1);
    check_says(page, "the load average at the end was 7.5 on 2 processors: *other work shared");
    check_says(page, "The run on PoCL pthread was *interrupted*: it has 2 problems");
    check_says(page, "*llvmpipe failed* after some results: was killed by signal 11");
    check_says(page, "On PoCL pthread a share is clearly over 100\u00a0%");
    check_says(page, "*the machine was noisy*");
    const char *missing = strstr(page, "ONNX Runtime took no part: is not installed: pip");
    cr_assert(missing != NULL);
    cr_assert(strstr(missing + 1, "ONNX Runtime took") == NULL, "said once for all devices");
    free(page);
}

Test(bench_report, with_one_device_compares_none) {
    struct run_results results;

    sample_fill_one(&results, 3);
    char *page = make_page(&results, 1);
    check_hides(page, "Which device");
    check_says(page, "The shortest of all times came from");
    check_hides(page, "* on PoCL pthread for");
    check_says(page, "What the first call costs");
    free(page);
}

Test(bench_report, has_a_page_for_nothing) {
    struct run_results results;

    example_begin(&results);
    char *page = make_page(&results, 1);
    check_says(page, "Nothing was timed");
    free(page);
    example_begin(&results);
    example_device(&results, "llvmpipe", "rusticl");
    page = make_page(&results, 1);
    check_says(page, "llvmpipe has no times.");
    check_hides(page, "\nnan");
    check_hides(page, "\ninf");
    free(page);
}

Test(bench_report, devices_of_several_files_keep_apart) {
    struct run_results files[2];

    fill_two(&files[0]);
    fill_two(&files[1]);
    strcpy(files[1].path, "second file.json");
    files[1].devices[0].records[0].outcome[0].seconds.value[3] = NAN;
    char *page = make_page(files, 2);
    check_says(page, "\nPoCL pthread\n");
    check_says(page, "\nPoCL pthread, file 2\n");
    check_says(page, "\nllvmpipe, file 2\n");
    check_says(page, "File 2: second file.json");
    check_says(page, "'second file.json' -o");
    check_hides(page, "\nnan");
    free(page);
}

Test(bench_report, lengths_of_one_kind_of_problem_make_a_figure) {
    static const char *const problems[][2] = {
        {"llama-prefill-8k", "fwd f16 b1 h32/8 q8192 k8192 d128 causal=tl"},
        {"llama-prefill-512", "fwd f16 b1 h32/8 q512 d128 causal=tl"},
        {"llama-prefill-2k", "fwd f16 b1 h32/8 q2048 k2048 d128 causal=tl"},
        {"llama-decode", "fwd f16 b1 h32/8 q1 k4096 d128 causal=tl"}};
    struct run_results results;
    struct rng random = rng_seed(1);

    example_begin(&results);
    struct device_run *run = example_device(&results, "llvmpipe", "rusticl");
    for (size_t n = 0; n < 4; n++)
        example_outcome(example_record(run, problems[n][0], problems[n][1]), "clattn",
                        1e-3 * (double)(n + 1), 0.0, 7, &random);
    char *page = make_page(&results, 1);
    check_says(page, "Throughput of llama-prefill (fwd f16 b1 h32/8 d128 causal=tl)");
    const char *shortest = strstr(page, "\n512\n");
    const char *longest = strstr(page, "\n8192\n");
    cr_assert(shortest != NULL && longest != NULL && shortest < longest, "the shortest first");
    cr_assert(strstr(page, "\n4096\n") == NULL, "one query is another kind");
    check_says(page, "\n512\nllvmpipe\n500\n");
    free(page);
}

/* Runs of 2 and of 4 ranks on devices of one name share a panel; rank 0 alone is 1. */
Test(bench_report, ranks_make_a_figure) {
    struct run_results files[2];
    struct rng random = rng_seed(1);

    for (size_t n = 0; n < 2; n++) {
        const size_t ranks = n == 0 ? 2 : 4;
        example_begin(&files[n]);
        struct device_run *run = example_device(&files[n], "llvmpipe", "rusticl");
        struct record *record = example_record(run, "gpt2", GPT2);
        example_outcome(record, "clattn", 1e-3, 0.0, 7, &random);
        example_ranks(example_outcome(record, "clattn ring", 6e-4, 0.0, 7, &random), "ring", ranks,
                      n == 0 ? 0.875 : 0.625);
        struct outcome *weak = example_outcome(record, "clattn weak ring", 1e-3, 0.0, 7, &random);
        example_ranks(weak, "ring", ranks, 0.5);
        weak->distributed->weak = true;
        struct outcome *failed = example_outcome(record, "clattn heads", 0.0, 0.0, 0, &random);
        example_ranks(failed, "heads", ranks, 0.0);
        failed->state = OUTCOME_FAILED;
    }
    char *page = make_page(files, 2);
    check_says(page, "\nSeveral ranks\n");
    check_says(page,
               "2 ranks computed gpt2 *1.75 times* as fast as rank 0 alone, by the mode ring: "
               "88\u00a0% of their number.");
    check_says(page, "\n2\ngpt2\n1.75\n1.0");
    check_says(page, "\n4\ngpt2\n2.50\n2.0");
    check_says(page, "\nring, weak\n");
    check_hides(page, "\nheads\n");
    free(page);
    fill_two(&files[0]);
    page = make_page(files, 1);
    check_hides(page, "Several ranks");
    free(page);
}

Test(bench_report, problems_of_one_name_are_told_apart_and_workloads_named_whole) {
    static const char *const bert[] = {
        "fwd f32 b1 h12 q128 k128 d64", "fwd f32 b1 h12 q512 k512 d64",
        "fwd f32 b8 h12 q128 k128 d64", "fwd f16 b8 h12 q512 k512 d64"};
    struct run_results results;
    struct rng random = rng_seed(1);

    example_begin(&results);
    struct device_run *run = example_device(&results, "llvmpipe", "rusticl");
    for (size_t n = 0; n < 4; n++)
        example_outcome(example_record(run, "bert-base", bert[n]), "clattn", 1e-3, 0.0, 7, &random);
    example_outcome(example_record(run, "", "fwd f32 q3 d5"), "clattn", 1e-3, 0.0, 7, &random);
    struct record *record = example_record(run, "a case", "fwd f32 q7 d5");
    example_outcome(record, "clattn", 1e-3, 0.0, 7, &random);
    record->against = "file";
    char *page = make_page(&results, 1);
    check_says(page, "bert-base f32 b1 q128\n");
    check_says(page, "bert-base f16 b8 q512\n");
    check_says(page, "\nf32 q3 d5\n");
    check_says(page, "clattn-bench run --device 0 --peers none --json results.json bert-base \\\n"
                     "    'fwd f32 q3 d5'\n");
    check_says(page, "1 problem came from files with tensors");
    free(page);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void save(const char *name, struct run_results *results)
{
    struct message why;

    cr_assert(results_write(scratch_path("%s", name), results, &why), "%s", why.text);
    results_free(results);
}

static void make_files(void)
{
    struct run_results results;

    scratch_open();
    sample_fill_one(&results, 10);
    save("a.json", &results);
    fill_two(&results);
    save("b.json", &results);
    scratch_write(scratch_path("old.json"), "{\"schema\": \"clattn-bench-run-1\"}");
    scratch_write(scratch_path("broken.json"), "{\"schema\": ");
    scratch_write(scratch_path("page.html"), "the old page");
}

TestSuite(bench_report_command, .init = make_files, .fini = scratch_close);

/* Runs it in the folder; both outputs into `text`. */
static int run_report(const char *arguments, char *text, size_t bytes)
{
    char command[512];

    snprintf(command, sizeof command, "cd %s && '%s' report %s 2>&1", scratch, BENCH_PROGRAM,
             arguments);
    FILE *pipe = popen(command, "r");
    const size_t length = fread(text, 1, bytes - 1, pipe);
    text[length] = '\0';
    while (fgetc(pipe) != EOF)
        continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(bench_report_command, exits_with) {
    static const struct {
        const char *arguments;
        int status;
        const char *says;
    } calls[] = {
        {"--help", 0, "Usage: clattn-bench report"},
        {"", 2, "takes at least one file"},
        {"-o page.html", 2, "takes at least one file"},
        {"a.json", 2, "-o PAGE.html"},
        {"a.json -o", 2, "--help"},
        {"a.json --wrong -o page.html", 2, "--help"},
        {"nonexistent.json -o page.html", 1, "nonexistent.json: cannot be read"},
        {"a.json old.json -o page.html", 1, "old.json: schema is 'clattn-bench-run-1'"},
        {"broken.json -o page.html", 1, "broken.json: line 1"},
        {"a.json -o /nonexistent/page.html", 1,
         "/nonexistent/page.html: the page cannot be written: No such file"},
        {"a.json -o .", 1, ".: the page cannot be written"},
    };
    const size_t files = scratch_entries(scratch);
    char text[4096];

    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        cr_expect(eq(int, run_report(calls[n].arguments, text, sizeof text), calls[n].status),
                  "%s: %s", calls[n].arguments, text);
        cr_expect(strstr(text, calls[n].says) != NULL, "%s says %s", calls[n].arguments, text);
    }
    char *page = scratch_read(scratch_path("page.html"), NULL);
    check_same(page, "the old page");
    cr_assert(eq(sz, scratch_entries(scratch), files), "nothing else is left");
    free(page);
}

Test(bench_report_command, makes_one_page_of_two_files) {
    const size_t files = scratch_entries(scratch);
    char text[4096];
    struct stat status;

    umask(022);
    cr_assert(eq(int,
                 run_report("a.json b.json -o page.html --title 'Mine & yours'", text, sizeof text),
                 0),
              "%s", text);
    check_same(text, "");
    char *page = scratch_read(scratch_path("page.html"), NULL);
    check_says(page, "\"title\":\"Mine & yours\"");
    check_says(page, "File 2: b.json");
    check_says(page, "</html>");
    check_says(page, "<noscript>");
    free(page);
    cr_assert(eq(int, stat(scratch_path("page.html"), &status), 0));
    cr_assert(eq(int, (int)(status.st_mode & 0777), 0644), "others may read it");
    cr_assert(eq(sz, scratch_entries(scratch), files), "nothing else is left");
}

Test(bench_report_command, prints_the_page) {
    char *text = malloc(1 << 20);

    cr_assert(eq(int, run_report("b.json -o -", text, 1 << 20), 0));
    cr_assert(strstr(text, "<!DOCTYPE html>") != NULL);
    cr_assert(strstr(text, "</html>") != NULL);
    free(text);
}
