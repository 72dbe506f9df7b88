#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "tests/tuner/test_tuner_fixture.h"
#include "tuner/replay/portfolio.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define HEAD                                                                                       \
    "{\"device_name\": \"d\", \"kernel_name\": \"k\", \"problem_size\": 7, "                       \
    "\"tune_params_keys\": [\"x\", \"y\"], "                                                       \
    "\"tune_params\": {\"x\": [1, 2.5], \"y\": [true, \"s\"]},"
#define ENTRY "\"1,True\": {\"x\": 1, \"y\": true, \"time\": 3.5, \"times\": [3, 4]}"
#define OLD_FAILURE "\"2.5,True\": {\"x\": 2.5, \"y\": true, \"time\": \"RuntimeFailedConfig\"}"
#define NEW_FAILURE "\"1,s\": {\"x\": 1, \"y\": \"s\", \"__error__\": \"InvalidConfig\"}"

static struct ca_recording *parse(const char *text, struct message *why)
{
    *why = (struct message){""};
    return ca_recording_parse("file", text, strlen(text), why);
}

Test(tuner_recording, reads_closed_and_open_files) {
    static const char *const texts[] = {
        HEAD "\"cache\": {" ENTRY ",\n" OLD_FAILURE ",\n" NEW_FAILURE "}}",
        HEAD "\"cache\": {\n" ENTRY ",\n" OLD_FAILURE ",\n" NEW_FAILURE ",\n",
    };
    struct message why;

    for (size_t n = 0; n < 2; n++) {
        struct ca_recording *recording = parse(texts[n], &why);
        cr_assert(recording, "%s", why.text);
        cr_assert(recording->num_attempts == 3 && recording->space->count == 3);
        cr_assert_str_eq(recording->problem_size, "7");
        const struct ca_attempt *attempts = recording->attempts;
        cr_assert(attempts[0].time == 3.5 && attempts[0].num_runtimes == 2);
        cr_assert(attempts[0].runtimes[1] == 4.0 && attempts[0].outcome == CA_CORRECT);
        cr_assert(attempts[1].outcome == CA_RUNTIME_FAILED && attempts[1].time == INFINITY);
        cr_assert(attempts[2].outcome == CA_CONSTRAINT_FAILED);
        cr_assert_str_eq(ca_space_value(recording->space, 2, 1)->text, "s");
        ca_recording_destroy(recording);
    }
    struct ca_recording *empty = parse(HEAD "\"cache\": {", &why);
    cr_assert(empty && empty->num_attempts == 0, "only the head was written so far");
    ca_recording_destroy(empty);
}

Test(tuner_recording, refuses_in_one_sentence) {
    static const struct {
        const char *text, *reason;
    } files[] = {
        {"", "not JSON"},
        {"[]", "no cache"},
        {"7", "not JSON"},
        {"{\"cache\": []}", "no cache"},
        {"{\"cache\": {}}", "no tune_params_keys"},
        {"{\"tune_params_keys\": [1], \"tune_params\": {}, \"cache\": {}}", "not a text"},
        {"{\"tune_params_keys\": [\"x\"], \"tune_params\": {}, \"cache\": {}}", "values of x"},
        {"{\"tune_params_keys\": [\"x\"], \"tune_params\": {\"x\": [1, 1.0]}, \"cache\": {}}",
         "different"},
        {"{\"tune_params_keys\": [\"x\"], \"tune_params\": {\"x\": [0, -0.0]}, \"cache\": {}}",
         "different"},
        {"{\"tune_params_keys\": [\"time\"], \"tune_params\": {}, \"cache\": {}}", "named time"},
        {"{\"tune_params_keys\": [\"x\"], \"tune_params\": {\"x\": [[]]}, \"cache\": {}}",
         "values of x"},
        {"{\"tune_params_keys\": [\"x\", \"x\"], \"tune_params\": {\"x\": [1]}, \"cache\": {}}",
         "twice"},
        {HEAD "\"cache\": {" ENTRY ", "
              "\"2\": 5}}",
         "lacks"},
        {HEAD "\"cache\": {" ENTRY ", "
              "\"2\": {\"x\": 1}}}",
         "lacks"},
        {HEAD "\"cache\": {\"\": {\"x\": 9, \"y\": true, \"time\": 1}}}", "not in tune_params"},
        {HEAD "\"cache\": {\"\": {\"x\": \"1\", \"y\": true, \"time\": 1}}}", "not in tune_params"},
        {HEAD "\"cache\": {\"\": {\"x\": null, \"y\": true, \"time\": 1}}}", "another kind"},
        {HEAD "\"cache\": {\"\": {\"x\": 1, \"y\": true, \"time\": -1}}}", "neither a time"},
        {HEAD "\"cache\": {\"\": {\"x\": 1, \"y\": true}}}", "neither a time"},
        {HEAD "\"cache\": {\"\": {\"x\": 1, \"y\": true, \"time\": \"Odd\"}}}", "unknown error"},
        {HEAD "\"cache\": {\"a\": {\"x\": 1, \"y\": true, \"time\": 1}, "
              "\"b\": {\"x\": 1, \"y\": true, \"time\": 2}}}",
         "there before"},
        {HEAD "\"cache\": {\"\": {\"x\": 1, \"y\": true, \"time\": 1e999}}}", "not JSON"},
        {HEAD "\"cache\": {\"\x1b[31m\\u001b\": 5}}", "not JSON"},
        {HEAD "\"cache\": {\"\\u001b[31m\": 5}}", "entry ?[31m lacks"},
    };
    struct message why;

    for (size_t n = 0; n < sizeof files / sizeof *files; n++) {
        cr_assert(!parse(files[n].text, &why), "%s", files[n].text);
        cr_assert(strncmp(why.text, "file: ", 6) == 0 && strstr(why.text, files[n].reason),
                  "%s: %s", files[n].text, why.text);
        cr_assert(!strchr(why.text, '\n') && !strchr(why.text, '\x1b'));
    }
}

/* The file that the recording is written to, as text. */
static char *written(const struct ca_recording *recording,
                     bool (*write)(const struct ca_recording *, FILE *, struct message *))
{
    FILE *file = tmpfile();
    struct message why;
    char *text = calloc(1, 1 << 20);

    cr_assert(file && text && write(recording, file, &why), "%s", why.text);
    rewind(file);
    cr_assert(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

Test(tuner_recording, a_file_cut_anywhere_is_refused_or_holds_whole_entries) {
    struct ca_recording *recording = made_up_recording();
    char *text = written(recording, ca_recording_write);
    const size_t bytes = strlen(text);
    struct message why;
    size_t readable = 0;

    for (size_t length = 0; length < bytes; length += length + 3000 < bytes ? 7 : 1) {
        char *copy = malloc(length + 1); /* its end is the end of an allocation */
        memcpy(copy, text, length);
        why.text[0] = '\0';
        struct ca_recording *part = ca_recording_parse("cut", copy, length, &why);
        cr_assert((part != NULL) == (why.text[0] == '\0'));
        readable += part != NULL;
        ca_recording_destroy(part);
        free(copy);
    }
    cr_assert(readable > 0, "a file that ends with a comma can be read");
    free(text);
    ca_recording_destroy(recording);
}

static void expect_same(const struct ca_recording *a, const struct ca_recording *b)
{
    cr_assert_str_eq(a->device_name, b->device_name);
    cr_assert_str_eq(a->kernel_name, b->kernel_name);
    cr_assert_str_eq(a->problem_size, b->problem_size);
    cr_assert(b->num_facts == 1 && strcmp(a->facts[0].key, b->facts[0].key) == 0);
    cr_assert_str_eq(a->facts[0].text, b->facts[0].text);
    cr_assert(a->num_attempts == b->num_attempts && a->space->count == b->space->count);
    for (size_t n = 0, m = 0; n < a->num_attempts; n++) {
        for (m = 0; m < b->num_attempts; m++) /* the first success went to the front */
            if (memcmp(ca_space_choices(a->space, a->attempts[n].config),
                       ca_space_choices(b->space, b->attempts[m].config), 4 * 2) == 0)
                break;
        cr_assert(m < b->num_attempts);
        const struct ca_attempt *x = &a->attempts[n], *y = &b->attempts[m];
        /* The format has one word for what failed at run time, a crash or not. */
        cr_assert_str_eq(ca_outcome_invalidity(x->outcome), ca_outcome_invalidity(y->outcome));
        cr_assert(x->time == y->time);
        cr_assert(x->num_runtimes == y->num_runtimes && x->compile_time == y->compile_time);
        for (size_t k = 0; k < x->num_runtimes; k++)
            cr_assert(x->runtimes[k] == y->runtimes[k]);
        cr_assert_str_eq(x->timestamp, y->timestamp);
    }
}

Test(tuner_recording, what_is_written_is_read_back) {
    struct ca_recording *recording = made_up_recording();
    char *text = written(recording, ca_recording_write);
    struct message why;

    cr_assert(recording->attempts[0].outcome != CA_CORRECT, "the test wants it so");
    struct ca_recording *copy = parse(text, &why);
    cr_assert(copy, "%s", why.text);
    cr_assert(copy->attempts[0].outcome == CA_CORRECT, "the dashboard wants a success first");
    cr_assert_str_eq(text + strlen(text) - 3, "}\n}", "Kernel Tuner reopens only this ending");
    expect_same(recording, copy);
    ca_recording_destroy(copy);
    free(text);
    ca_recording_destroy(recording);
}

Test(tuner_recording, a_cache_file_says_what_kernel_tuner_expects) {
    struct ca_recording *recording = made_up_recording();
    char *text = written(recording, ca_recording_write);
    json_t *root = json_loads(text, 0, NULL), *entry;
    const char *key;

    cr_assert_str_eq(json_string_value(json_object_get(root, "objective")), "time");
    cr_assert_str_eq(json_string_value(json_object_get(root, "driver")), "3.1 \n \"x\"");
    json_object_foreach(json_object_get(root, "cache"), key, entry)
    {
        const json_t *error = json_object_get(entry, "__error__");
        const json_t *time = json_object_get(entry, "time");
        cr_assert(error ? json_equal(error, time) : json_number_value(time) > 0.0);
        cr_assert(strncmp(key, error ? "32,8," : "", error ? 5 : 0) == 0, "%s", key);
    }
    cr_assert(json_object_get(json_object_get(root, "cache"), "16,4,b,\"b\",False"));
    json_decref(root);
    free(text);
    ca_recording_destroy(recording);
}

Test(tuner_recording, t4_results_have_what_the_schema_requires) {
    static const char *const words[] = {"timeout",     "compile",     "runtime",
                                        "correctness", "constraints", "correct"};
    struct ca_recording *recording = made_up_recording();
    char *text = written(recording, ca_recording_write_t4);
    json_t *root = json_loads(text, 0, NULL);
    const json_t *results = json_object_get(root, "results");

    cr_assert_str_eq(json_string_value(json_object_get(root, "schema_version")), "1.0.0");
    cr_assert(json_array_size(results) == recording->num_attempts);
    for (size_t n = 0; n < json_array_size(results); n++) {
        const json_t *result = json_array_get(results, n);
        const json_t *times = json_object_get(result, "times");
        const char *word = json_string_value(json_object_get(result, "invalidity"));
        size_t known = 0;
        for (size_t k = 0; k < 6; k++)
            known += strcmp(words[k], word) == 0;
        cr_assert(known == 1, "%s", word);
        cr_assert(json_object_size(json_object_get(result, "configuration")) == 4);
        cr_assert(json_number_value(json_object_get(times, "compilation_time")) == 1000.5);
        cr_assert(json_is_array(json_object_get(times, "runtimes")));
        cr_assert(json_is_number(json_object_get(result, "correctness")));
        cr_assert(json_array_size(json_object_get(result, "measurements")) ==
                  (strcmp(word, "correct") == 0));
    }
    json_decref(root);
    free(text);
    ca_recording_destroy(recording);
}

Test(tuner_recording, without_a_success_nothing_is_written) {
    struct ca_recording *recording = ca_recording_create("d", "k", "1");
    struct message why;
    FILE *file = tmpfile();

    cr_assert(!ca_recording_write(recording, file, &why) && ftell(file) == 0);
    fclose(file);
    ca_recording_destroy(recording);
}

Test(tuner_recording, a_full_disk_is_reported) {
    struct ca_recording *recording = made_up_recording();
    struct message why;
    FILE *file = fopen("/dev/full", "w");

    if (file) {
        cr_assert(!ca_recording_write(recording, file, &why) && strstr(why.text, "cannot write"));
        fclose(file);
    }
    ca_recording_destroy(recording);
}

Test(tuner_recording, packed_files_are_read_and_cut_ones_refused) {
    struct ca_recording *recording = made_up_recording();
    char *text = written(recording, ca_recording_write), path[] = "/tmp/clattn_tuner_XXXXXX";
    struct message why;
    unsigned char packed[1 << 16];
    const int descriptor = mkstemp(path);
    gzFile out = gzdopen(descriptor, "wb");

    cr_assert(gzwrite(out, text, (unsigned)strlen(text)) > 0 && gzclose(out) == Z_OK);
    struct ca_recording *copy = ca_recording_read(path, &why);
    cr_assert(copy, "%s", why.text);
    expect_same(recording, copy);
    ca_recording_destroy(copy);

    FILE *file = fopen(path, "rb");
    const size_t bytes = fread(packed, 1, sizeof packed, file);
    fclose(file);
    for (size_t length = 12; length < bytes; length += bytes / 9) {
        file = fopen(path, "wb");
        cr_assert(fwrite(packed, 1, length, file) == length && fclose(file) == 0);
        cr_assert(!ca_recording_read(path, &why) && strstr(why.text, "cannot read"),
                  "%zu of %zu: %s", length, bytes, why.text);
    }
    remove(path);
    cr_assert(!ca_recording_read(path, &why) && strstr(why.text, "cannot open"));
    free(text);
    ca_recording_destroy(recording);
}

Test(tuner_recording, a_portfolio_begins_with_what_is_good_on_all_others) {
    struct ca_recording *target = made_up_recording(),
                        *others[2] = {made_up_recording(), made_up_recording()};
    const struct ca_recording *const list[] = {others[0], others[1]};
    size_t seeds[8];

    /* Attempt n is of configuration 107 - n. Each has a favourite that fails on the other. */
    others[0]->attempts[10].time = 0.1;
    others[1]->attempts[10].time = INFINITY;
    others[1]->attempts[20].time = 0.1;
    others[0]->attempts[20].time = INFINITY;
    others[0]->attempts[30].time = others[1]->attempts[30].time = 0.2;
    others[0]->attempts[40].time = others[1]->attempts[40].time = 0.25; /* covered by that one */
    cr_assert(ca_portfolio_choose(target, list, 2, seeds, 3) == 3);
    cr_assert(seeds[0] == 107 - 30);
    cr_assert((seeds[1] == 107 - 10 && seeds[2] == 107 - 20) ||
              (seeds[1] == 107 - 20 && seeds[2] == 107 - 10));
    others[0]->kernel_name[0] = 'x';
    cr_assert(!ca_recordings_comparable(target, others[0]));
    cr_assert(ca_portfolio_choose(target, list, 2, seeds, 1) == 1 && seeds[0] == 107 - 20);
    cr_assert(ca_portfolio_choose(target, list, 1, seeds, 3) == 0);
    ca_recording_destroy(target);
    ca_recording_destroy(others[0]);
    ca_recording_destroy(others[1]);
}
