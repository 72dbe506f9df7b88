/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of JSON: what it takes, what it refuses and where, memory that fails. */
#include "base/json.h"
#include "tests/faults/faults.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ca_json *read_text(const char *text)
{
    struct ca_json_error error;
    struct ca_json *root = ca_json_read(text, strlen(text), &error);

    cr_assert(root != NULL, "'%s': line %d: %s", text, error.line, error.text);
    return root;
}

Test(json, values) {
    struct ca_json *root =
        read_text(" {\"a\" : [1, -20, 0.5, 1e3, -0, 9223372036854775807],\r\n\t\"b\":{},"
                  "\"c\":[ ],\"d\":null,\"e\":true,\"f\":false, \"\":\"\"} ");
    const struct ca_json *list = ca_json_get(root, "a");

    cr_expect(ca_json_size(root) == 7 && ca_json_size(list) == 6);
    cr_expect(ca_json_integer(ca_json_at(list, 1)) == -20 &&
              ca_json_real(ca_json_at(list, 1)) == -20.0);
    cr_expect(ca_json_real(ca_json_at(list, 2)) == 0.5 &&
              ca_json_integer(ca_json_at(list, 2)) == 0);
    cr_expect(ca_json_is(ca_json_at(list, 3), CA_JSON_REAL) &&
              ca_json_real(ca_json_at(list, 3)) == 1000.0);
    cr_expect(ca_json_integer(ca_json_at(list, 5)) == 9223372036854775807);
    cr_expect(ca_json_at(list, 6) == NULL && ca_json_get(list, "a") == NULL &&
              ca_json_at(root, 0) == NULL);
    cr_expect(ca_json_is(ca_json_get(root, "b"), CA_JSON_OBJECT) &&
              ca_json_size(ca_json_get(root, "b")) == 0);
    cr_expect(ca_json_is(ca_json_get(root, "c"), CA_JSON_ARRAY) &&
              ca_json_is(ca_json_get(root, "d"), CA_JSON_NULL));
    cr_expect(ca_json_is(ca_json_get(root, "e"), CA_JSON_TRUE) &&
              ca_json_is(ca_json_get(root, "f"), CA_JSON_FALSE));
    cr_expect_str_eq(ca_json_text(ca_json_get(root, "")), "");
    cr_expect(ca_json_text(list) == NULL && ca_json_get(root, "z") == NULL &&
              ca_json_size(NULL) == 0);
    ca_json_free(root);
}

Test(json, texts) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"\"plain\"", "plain"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\"", "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"",
         "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\x7f"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct ca_json *root = read_text(cases[n].text);
        cr_expect_str_eq(ca_json_text(root), cases[n].want);
        cr_expect(root->count == strlen(cases[n].want));
        ca_json_free(root);
    }
}

Test(json, what_is_refused) {
    static const struct {
        const char *text;
        int line;
        const char *words;
    } cases[] = {
        {"", 1, "too early"},
        {"\n\n{", 3, "too early"},
        {"[1,\n2", 2, "too early"},
        {"[1 2]", 1, "'2' is not expected"},
        {"[1,]", 1, "']'"},
        {"{\"a\" 1}", 1, "'1'"},
        {"{a:1}", 1, "'a'"},
        {"{\"a\":1,}", 1, "'}'"},
        {"{\"a\":1\n,\"b\":2,\"a\":3}", 2, "the member a is there twice"},
        {"[1]]", 1, "follows its end"},
        {"nul", 1, "'n'"},
        {"+1", 1, "'+'"},
        {"01", 1, "well formed"},
        {"1.", 1, "well formed"},
        {"-", 1, "well formed"},
        {"1e", 1, "well formed"},
        {"1e+", 1, "well formed"},
        {"1e999", 1, "overflow"},
        {"9223372036854775808", 1, "too big"},
        {"\"a", 1, "no end"},
        {"\"a\\", 1, "no end"},
        {"\"\\x\"", 1, "unknown"},
        {"\"\\u12g4\"", 1, "no character"},
        {"\"\\u0000\"", 1, "character 0"},
        {"\"\\ud83d\"", 1, "no character"},
        {"\"\\ud83d\\u0041\"", 1, "no character"},
        {"\"\\ude00\"", 1, "no character"},
        {"\"a\nb\"", 1, "control"},
        {"\"\xff\"", 1, "UTF-8"},
        {"\"\xc0\x80\"", 1, "UTF-8"},
        {"\"\xed\xa0\x80\"", 1, "UTF-8"},
        {"\"\xe2\x82\"", 1, "UTF-8"},
        {"\"\xf4\x90\x80\x80\"", 1, "UTF-8"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct ca_json_error error;
        cr_expect(ca_json_read(cases[n].text, strlen(cases[n].text), &error) == NULL,
                  "'%s' is taken", cases[n].text);
        cr_expect(!error.no_memory && error.line == cases[n].line &&
                      strstr(error.text, cases[n].words) != NULL,
                  "'%s': line %d: %s", cases[n].text, error.line, error.text);
    }
}

/* Each depth of brackets is a call: a text cannot make the stack overflow. */
Test(json, depth_has_a_limit) {
    static char deep[100001];
    struct ca_json_error error;

    memset(deep, '[', sizeof deep - 1);
    cr_expect(ca_json_read(deep, sizeof deep - 1, &error) == NULL &&
              strstr(error.text, "nested") != NULL);
    memset(deep, '[', 250);
    memset(deep + 250, ']', 250);
    struct ca_json *root = ca_json_read(deep, 500, &error);
    cr_expect(root != NULL, "%s", error.text);
    ca_json_free(root);
}

/* A text that ends anywhere is read no further. */
Test(json, a_text_that_is_cut) {
    static const char whole[] =
        "{\"a\": [1.5e-3, true, null, \"\\u00e4\\n\xc3\xa4\"], \"b\": {\"c\": -17}}";

    for (size_t bytes = 0; bytes < sizeof whole; bytes++) {
        struct ca_json_error error;
        char *text = malloc(bytes + 1); /* of its size, for sanitizers */
        memcpy(text, whole, bytes);
        struct ca_json *root = ca_json_read(text, bytes, &error);
        cr_expect((root != NULL) == (bytes == sizeof whole - 1), "%zu bytes", bytes);
        ca_json_free(root);
        free(text);
    }
}

Test(json, many_values) {
    char *text = malloc(1000000), *at = text;
    struct ca_json_error error;

    at += sprintf(at, "{\"k0\": 0");
    for (int n = 1; n < 30000; n++)
        at += sprintf(at, ",\n\"k%d\": [%d, \"%d\"]", n, n, n);
    strcpy(at, "}");
    struct ca_json *root = ca_json_read(text, strlen(text), &error);
    cr_assert(root != NULL && ca_json_size(root) == 30000, "%s", error.text);
    cr_expect(ca_json_integer(ca_json_at(ca_json_get(root, "k29999"), 0)) == 29999);
    ca_json_free(root);
    strcpy(at, ", \"k17\": 1}");
    cr_expect(ca_json_read(text, strlen(text), &error) == NULL &&
              strstr(error.text, "k17") != NULL);
    free(text);
}

Test(json, allocations_that_fail) {
    static const char text[] = "{\"a\": [1, 2, {\"b\": \"text\", \"c\": 0.5}], \"d\": \"more\"}";

    for (struct faults_rounds r = {0}; faults_next(&r);) {
        struct ca_json_error error;
        faults_begin(&r);
        struct ca_json *root = ca_json_read(text, strlen(text), &error);
        cr_assert(faults_failed(&r) ? root == NULL && error.no_memory : root != NULL);
        ca_json_free(root);
    }
}
