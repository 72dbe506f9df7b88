/* clattn-bench compare as a program: its exit status, table, colours, JSON and CSV. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw, popen, posix_openpt */
#include "bench/records/comparison.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BERT "fwd f32 b1 h12 q512 d64"
#define LLAMA "fwd f16 b1 h32/8 q512 d128 causal=br"

static struct rng random_numbers = {5};

static struct outcome *add(struct device_run *run, const char *name, const char *problem,
                           double seconds)
{
    return example_outcome(example_record(run, name, problem), "clattn", seconds, 0.01, 9,
                           &random_numbers);
}

static char folder[64];

static int remove_entry(const char *entry, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(entry);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/clattn_compare_XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void)
{
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(bench_compare_command, .init = make_folder, .fini = remove_folder);

/* Puts the run, which is freed, into a file of the folder. */
static void save(const char *name, struct run_results *results)
{
    struct message why;
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert(results_write(path, results, &why), "%s", why.text);
    results_free(results);
}

/* a, same (as a), slow (BERT is), less (LLAMA is wrong, a device interrupted, another missing),
 * old, broken; the files lie in the folder. */
static void save_all(void)
{
    static const char *const names[] = {"a.json", "same.json", "slow.json", "less.json"};
    struct run_results results;
    char path[128];

    for (size_t f = 0; f < 4; f++) {
        example_begin(&results);
        struct device_run *run = example_device(&results, "A device", "A platform");
        run->interrupted = f == 3;
        add(run, "bert-base", BERT, f == 2 ? 1.15e-3 : 1e-3);
        struct outcome *outcome = add(run, "llama", LLAMA, 5e-3);
        if (f == 3)
            outcome_give_up(outcome, OUTCOME_WRONG, "for a reason");
        else
            add(run, "",
                "fwd bf16 b12 h128/8 q100000 k100000 d128 causal=br window=4095,0 bias=f32:bh "
                "softcap=50",
                12.0);
        if (f != 3)
            add(example_device(&results, "Another \033[31mdevice", "A platform"), "bert-base", BERT,
                2e-3);
        if (f == 2)
            add(&results.devices[1], "new", "fwd f32 q3 d3", 1e-5);
        save(names[f], &results);
    }
    snprintf(path, sizeof path, "%s/old.json", folder);
    FILE *stream = fopen(path, "w");
    fputs("{\"schema\": \"clattn-bench-run-1\"}", stream);
    fclose(stream);
    snprintf(path, sizeof path, "%s/broken.json", folder);
    stream = fopen(path, "w");
    fputs("{\"schema\": ", stream);
    fclose(stream);
}

/* Runs it in the folder, both outputs into `text`. */
static int run_compare(const char *arguments, char *text, size_t bytes)
{
    char command[512];

    snprintf(command, sizeof command, "cd %s && '%s' compare %s 2>&1", folder, BENCH_PROGRAM,
             arguments);
    FILE *pipe = popen(command, "r");
    const size_t length = fread(text, 1, bytes - 1, pipe);
    text[length] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(bench_compare_command, exits_with) {
    static const struct {
        const char *arguments;
        int status;
        const char *says;
    } calls[] = {
        {"--help", 0, "Usage: clattn-bench compare"},
        {"", 2, "takes 2 to 26 files"},
        {"a.json", 2, "takes 2 to 26 files"},
        {"--threshold much a.json same.json", 2, "--threshold takes a number from 0 to 1000"},
        {"--by weight a.json same.json", 2, "--by takes time or share, not 'weight'"},
        {"--wrong a.json same.json", 2, "--help"},
        {"--json - --csv - a.json same.json", 2, "cannot both go to standard output"},
        {"a.json nonexistent.json", 1, "nonexistent.json: cannot be read: No such file"},
        {"a.json old.json", 1, "old.json: schema is 'clattn-bench-run-1', which is too old"},
        {"broken.json a.json", 1, "broken.json: line 1 is not JSON"},
        {"--filter nothing a.json same.json", 1, "no problem contains 'nothing'"},
        {"--implementation x a.json same.json", 1, "a.json has no times of 'x' to compare with"},
        {"--filter llama less.json a.json", 1,
         "less.json has no times of 'clattn' among these problems"},
        {"--csv /nonexistent/x a.json same.json", 1, "/nonexistent/x: the comparison cannot be"},
        {"a.json same.json", 0, "no regression at a threshold of 5 %; faster: 0"},
        {"same.json a.json --by share", 0, "clattn, share"},
        {"slow.json a.json --filter bert", 0, "no regression at a threshold of 5 %; faster: 1"},
        {"a.json slow.json", 1, "! slower"},
        {"a.json slow.json", 1, "1 regression at a threshold of 5 %; faster: 0"},
        {"a.json slow.json --threshold 30", 0, "no regression at a threshold of 30 %"},
        {"a.json slow.json --filter llama", 0, "no regression"},
        {"a.json less.json", 1, "interrupted: what was measured until then is here"},
        {"a.json less.json", 1, "wrong, for a reason"},
        {"a.json less.json", 1, "! B  A device was interrupted: 1 missing"},
        {"a.json less.json", 1, "! B  Another ?[31mdevice is not there: 1 missing"},
        {"a.json less.json", 1, "3 regressions at a threshold of 5 %"},
        {"less.json a.json", 0, "no regression"}, /* what is new is only listed */
        {"a.json same.json slow.json less.json", 1, "geometric mean of all: B C"},
    };
    char text[16384];

    save_all();
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        cr_assert(eq(int, run_compare(calls[n].arguments, text, sizeof text), calls[n].status),
                  "%s: %s", calls[n].arguments, text);
        cr_assert(strstr(text, calls[n].says) != NULL, "%s: got '%s', want '%s'",
                  calls[n].arguments, text, calls[n].says);
    }
}

Test(bench_compare_command, quiet_says_regressions_only) {
    char text[4096];

    save_all();
    cr_assert(eq(int, run_compare("--quiet a.json same.json", text, sizeof text), 0));
    cr_assert(eq(str, text, (char *)""));
    cr_assert(eq(int, run_compare("--quiet a.json slow.json", text, sizeof text), 1));
    cr_assert(strncmp(text, "! B  " BERT " (bert-base) on A device: ", 51) == 0, "%s", text);
    cr_assert(eq(ptr, strchr(text, '\n'), text + strlen(text) - 1));
}

Test(bench_compare_command, tables_fit_a_hundred_columns_and_obey_nobody) {
    static const char *const calls[] = {
        "a.json less.json", "a.json slow.json same.json", "a.json a.json a.json a.json a.json",
        "a.json slow.json --by share", "a.json less.json slow.json less.json --by share"};
    char text[32768];

    save_all();
    for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
        run_compare(calls[n], text, sizeof text);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
            cr_assert(le(sz, strcspn(line, "\n"), 100), "%s: %.*s", calls[n],
                      (int)strcspn(line, "\n"), line);
        cr_assert(eq(ptr, strchr(text, '\033'), NULL), "%s", text);
    }
}

/* What it prints to a terminal. */
static void run_on_terminal(const char *environment, char *text, size_t bytes)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    size_t length = 0;

    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const char *name = ptsname(terminal);
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s && env -u NO_COLOR TERM=xterm %s '%s' compare a.json slow.json >%s 2>&1",
             folder, environment, BENCH_PROGRAM, name);
    const int held = open(name, O_RDWR | O_NOCTTY); /* or what was read last is lost */
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (length + 1 < bytes && strstr(text, "at a threshold") == NULL) {
        const ssize_t more = read(terminal, text + length, bytes - 1 - length);
        cr_assert(more > 0);
        length += (size_t)more;
        text[length] = '\0';
    }
    waitpid(child, NULL, 0);
    close(held);
    close(terminal);
}

Test(bench_compare_command, colours_are_for_terminals_that_want_them) {
    char text[16384] = "";

    save_all();
    run_on_terminal("", text, sizeof text);
    cr_assert(strstr(text, "\033[31m") != NULL, "%s", text);
    text[0] = '\0';
    run_on_terminal("NO_COLOR=1", text, sizeof text);
    cr_assert(eq(ptr, strchr(text, '\033'), NULL), "%s", text);
}

Test(bench_compare_command, json_and_csv_say_the_same) {
    char text[32768], path[128];
    size_t lines = 0;

    save_all();
    cr_assert(
        eq(int,
           run_compare("--json c.json --csv c.csv --quiet a.json slow.json", text, sizeof text), 1),
        "%s", text);
    snprintf(path, sizeof path, "%s/c.json", folder);
    json_t *document = json_load_file(path, 0, NULL);
    const char *schema = NULL, *state = NULL, *verdict = NULL;
    double low = 0.0, mean = 0.0;
    json_int_t regressions = 0;
    cr_assert(eq(int,
                 json_unpack(document,
                             "{s:s, s:I, s:[*], s:[{s:[n, F], s:[{s:[{s:s}, {s:s, s:{s:F}}]}]}]}",
                             "schema", &schema, "regressions", &regressions, "geometric_mean",
                             "devices", "geometric_mean", &mean, "results", "files", "state",
                             &state, "verdict", &verdict, "ratio", "low", &low),
                 0));
    cr_assert(eq(str, (char *)schema, (char *)"clattn-bench-compare-1"));
    cr_assert(eq(str, (char *)state, (char *)"measured"));
    cr_assert(eq(str, (char *)verdict, (char *)"slower"));
    cr_assert(eq(int, (int)regressions, 1));
    cr_assert(gt(dbl, low, 1.1));
    cr_assert(gt(dbl, mean, 1.02));
    json_decref(document);

    snprintf(path, sizeof path, "%s/c.csv", folder);
    FILE *stream = fopen(path, "r");
    while (fgets(text, sizeof text, stream) != NULL)
        if (lines++ == 2)
            cr_assert(strstr(text, ",slower\r\n") != NULL, "%s", text);
    fclose(stream);
    cr_assert(eq(sz, lines, 1 + 5 * 2));
    cr_assert(eq(int, run_compare("--json - a.json same.json", text, sizeof text), 0));
    document = json_loads(text, 0, NULL);
    cr_assert(document != NULL, "%s", text);
    json_decref(document);
    cr_assert(eq(int, run_compare("--csv - a.json same.json", text, sizeof text), 0));
    cr_assert(strncmp(text, "workload,problem,", 17) == 0, "%s", text);
}
