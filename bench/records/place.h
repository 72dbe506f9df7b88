/* Values in a JSON document and the ways to them, so that a complaint about what somebody wrote
 * says where. What is wrong ends in "FILE: devices[0].results[3].problem is empty" and false. */
#ifndef CLATTN_BENCH_PLACE_H
#define CLATTN_BENCH_PLACE_H

#include "bench/records/record.h"

#include <clattn/device.h>
#include <jansson.h>

/* What is in `in`: by key, or by index if there is none. */
struct place {
    const struct place *in; /* NULL: this is the whole document. */
    const char *key;
    size_t index;
    const json_t *value; /* NULL if nothing is there. */
    const char *file;    /* "" if it is none. */
    struct message *why;
};

struct place place_child(const struct place *in, const char *key);
struct place place_element(const struct place *in, size_t index);

/* Says that the value is missing, or formats like printf what is the matter with it. */
bool place_refuse(const struct place *place, const char *format, ...);

bool place_object(const struct place *place);
bool place_array(const struct place *place, size_t least, size_t most);

/* The others read what is in an object. Control characters in texts are replaced. */

bool place_text(const struct place *in, const char *key, char *text, size_t bytes);

/* null becomes "". */
bool place_text_or_null(const struct place *in, const char *key, char *text, size_t bytes);

/* Not empty, of any length, owned by the caller; null becomes NULL where that is allowed. */
bool place_copy(const struct place *in, const char *key, bool may_be_null, char **text);

/* The position in `words`, which ends with NULL. */
bool place_word(const struct place *in, const char *key, const char *const *words,
                size_t *position);

bool place_flag(const struct place *in, const char *key, bool *flag);

/* Within these, numbers can be multiplied and divided without a second thought. */
#define PLACE_LARGE 1e30
#define PLACE_POSITIVE 1e-30

/* At least `least`: 0 or PLACE_POSITIVE. place_number_here() reads the value itself. */
bool place_number_here(const struct place *place, double least, double *number);
bool place_number(const struct place *in, const char *key, double least, double *number);
bool place_number_or_null(const struct place *in, const char *key, double least, double otherwise,
                          double *number);

/* Whole numbers. */
bool place_count(const struct place *in, const char *key, size_t least, size_t most, size_t *count);
bool place_unsigned(const struct place *in, const char *key, unsigned *number);
bool place_bytes(const struct place *in, const char *key, cl_ulong *bytes);

/* A figure that follows from others in the file, which are what counts. */
bool place_derived(const struct place *in, const char *key, double want);

/* An object with samples, each at least `least`, and their median, all of them in `unit`; null
 * where nothing was measured. */
bool place_samples(const struct place *in, const char *key, double least, double unit,
                   struct samples *samples);

#endif
