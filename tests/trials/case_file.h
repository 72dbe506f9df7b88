/* Reads the conformance cases: files that the tests trust. */
#ifndef TEST_CASE_FILE_H
#define TEST_CASE_FILE_H

#include <jansson.h>
#include <stddef.h>

struct case_file {
    unsigned char *bytes;      /* the whole file */
    const unsigned char *data; /* after the header */
    json_t *header;
};

struct case_tensor {
    const char *dtype; /* "F32", "F16", "I64", "BOOL" */
    size_t rank, shape[4];
    const unsigned char *data;
};

/* Fail the test if the file is not as it should be. */
void case_file_open(struct case_file *file, const char *path);
void case_file_close(struct case_file *file);

/* False if the file has no tensor of that name. */
int case_file_find(const struct case_file *file, const char *name, struct case_tensor *tensor);

/* A string of the metadata, or otherwise. */
const char *case_file_text(const struct case_file *file, const char *key, const char *otherwise);

#endif
