/* What is sent to peers, in files; texts that come back. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "message.h"
#include "peer_data.h"
#include "safetensors.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void is_text(const char *got, const char *want)
{
    cr_assert(strcmp(got, want) == 0, "'%s', not '%s'", got, want);
}

static void make_case(struct attention_case *attention, const char *text)
{
    clattn_problem problem;
    struct message why;
    char reason[200];

    cr_assert(eq(int, clattn_problem_parse(text, &problem, reason, sizeof reason), CLATTN_SUCCESS),
              "%s", reason);
    cr_assert(case_random(attention, &(struct job){.problem = problem}, 1, &why), "%s", why.text);
}

static void has_shape(const struct safetensors *file, const char *name, const char *dtype, size_t b,
                      size_t h, size_t q, size_t k)
{
    const struct safetensor *t = safetensors_find(file, name);
    const size_t shape[4] = {b, h, q, k};

    cr_assert(t != NULL && t->rank == 4, "%s", name);
    is_text(t->dtype, dtype);
    cr_assert(memcmp(t->shape, shape, sizeof shape) == 0, "%s: %zu %zu %zu %zu", name, t->shape[0],
              t->shape[1], t->shape[2], t->shape[3]);
    const size_t element = strcmp(dtype, "BOOL") == 0 ? 1 : strcmp(dtype, "F32") == 0 ? 4 : 2;
    cr_assert(eq(sz, (uintptr_t)t->data % element, 0), "%s lies crooked", name);
}

Test(bench_peer_data, what_broadcasts_is_sent_once) {
    struct attention_case attention;
    struct safetensors file;
    struct message why;
    char path[PEER_DATA_PATH];

    make_case(&attention, "fwd f16 b2 h3/1 q5 k7 d3 v=0.0.3.1 bias=f32:qk mask=bk sinks");
    cr_assert(peer_data_file(path, 1.0, &why), "%s", why.text);
    cr_assert(peer_data_write(path, &attention, &why), "%s", why.text);
    cr_assert(safetensors_read(&file, path, &why), "%s", why.text);
    unlink(path);
    cr_assert(eq(sz, file.count, 6));
    has_shape(&file, "q", "F16", 2, 3, 5, 3);
    has_shape(&file, "k", "F16", 2, 1, 7, 3);
    has_shape(&file, "v", "F16", 2, 1, 7, 3); /* the peer knows no layouts */
    has_shape(&file, "bias", "F32", 1, 1, 5, 7);
    has_shape(&file, "mask", "BOOL", 2, 1, 1, 7);
    safetensors_free(&file);
    case_free(&attention);
}

Test(bench_peer_data, a_folder_without_room_or_of_no_use_is_named) {
    char path[PEER_DATA_PATH];
    struct message why;

    setenv("TMPDIR", "/nowhere", 1);
    cr_assert(not(peer_data_file(path, 1e18, &why)));
    is_text(why.text,
            "got no file: /nowhere has no room for 1e+12 MB; TMPDIR may name another folder");
    is_text(path, "");
    setenv("TMPDIR", "", 1);
    cr_assert(not(peer_data_file(path, 1e18, &why)));
    cr_assert(strncmp(why.text, "got no file: /tmp has no room", 29) == 0, "%s", why.text);
}

Test(bench_peer_data, a_full_disk_is_said) {
    struct attention_case attention;
    struct message why;

    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("no /dev/full");
    make_case(&attention, "fwd f32 b1 h2 q50 k50 d64");
    cr_assert(not(peer_data_write("/dev/full", &attention, &why)));
    is_text(why.text, "got no tensors: /dev/full cannot be filled: No space left on device");
    case_free(&attention);
}

Test(bench_peer_data, what_is_no_text_becomes_question_marks) {
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"plain", "plain"},
        {"a\nb\x1b\x7f", "a?b??"},
        {"\u03b1 \u20ac \U0001f600", "\u03b1 \u20ac \U0001f600"},
        {"\xc2\x9b"
         "1m",
         "??1m"}, /* a control character in two bytes */
        {"cut \xe2\x82", "cut ??"},
        {"\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80", "?? ??? ????"},
        {"\xff\x80", "??"},
    };
    char text[64];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        snprintf(text, sizeof text, "%s", cases[n].text);
        message_sanitize(text);
        is_text(text, cases[n].clean);
    }
}
