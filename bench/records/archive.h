/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects of structs. One function describes a struct's members, and serves to read as well as to write. It calls
 * archive_NAME() for each member, with its key. These return false if the value that is read is refused, which the
 * reader reports, or if there is no memory to write. Writing does not change the struct. */
#ifndef CLATTN_BENCH_ARCHIVE_H
#define CLATTN_BENCH_ARCHIVE_H

#include "bench/records/samples.h"
#include "internal.h"
#include <jansson.h>

struct archive {
    const struct ca_json_place *from; /* The JSON value that is read; NULL when writing. */
    json_t *to;                       /* The object that is written. */
};

/* Reads or writes all members of a struct. */
typedef bool archive_members(struct archive *archive, void *what);

/* Writes a struct as a new object; NULL without memory. */
json_t *archive_json(archive_members *members, void *what);

/* Returns whether the file that is read has no such key, as older files may; false when writing. */
bool archive_lacks(const struct archive *archive, const char *key);

bool archive_object(struct archive *archive, const char *key, archive_members *members, void *what);

/* A struct, or null where `there` is false. */
bool archive_object_or_null(struct archive *archive, const char *key, bool there,
                            archive_members *members, void *what);

/* An array: `item` reads or writes its n-th object. When reading, `room`, unless it is NULL, first allocates room for all. */
typedef bool archive_item(struct archive *archive, void *owner, size_t n);
bool archive_list(struct archive *archive, const char *key, size_t least, size_t most,
                  size_t *count, bool (*room)(void *owner, size_t count), archive_item *item,
                  void *owner);

bool archive_fields(struct archive *archive, const struct ca_json_field *fields, size_t count,
                    void *what);

/* A text in an array of chars. The second function writes null for "", and reads it so. */
bool archive_chars(struct archive *archive, const char *key, char *text, size_t bytes);
bool archive_chars_or_null(struct archive *archive, const char *key, char *text, size_t bytes);

/* An owned text, not empty. The second function writes null for NULL, and reads it so. */
bool archive_text(struct archive *archive, const char *key, char **text);
bool archive_text_or_null(struct archive *archive, const char *key, char **text);

/* One of several words, the last of which is NULL, by its position. */
bool archive_word(struct archive *archive, const char *key, const char *const *words,
                  size_t *position);

bool archive_flag(struct archive *archive, const char *key, bool *flag);
bool archive_size(struct archive *archive, const char *key, size_t least, size_t most,
                  size_t *size);

/* A number from 0 up, where 1 in the file is `unit`. The second: null stands for `unknown` and for whatever is
 * not finite. The third loses no digit. */
bool archive_number(struct archive *archive, const char *key, double unit, double *number);
bool archive_number_or_null(struct archive *archive, const char *key, double unit, double unknown,
                            double *number);
bool archive_counted(struct archive *archive, const char *key, double *number);

/* An array of so many numbers that are `step` bytes apart, from 0 up. */
bool archive_numbers(struct archive *archive, const char *key, double unit, double *first,
                     size_t step, size_t count);

/* A number that follows from other members: written; on reading, a number or null is skipped. */
bool archive_derived(struct archive *archive, const char *key, double number);

/* Samples from `least` up with their median, the second with the minimum, too; null without any. */
bool archive_samples(struct archive *archive, const char *key, double least, double unit,
                     struct samples *samples);
bool archive_times(struct archive *archive, const char *key, double unit, struct samples *samples);

/* All positive; null where it is not known. */
bool archive_interval(struct archive *archive, const char *key, struct ca_interval *interval);

/* Writes a value, which it takes. */
bool archive_put(struct archive *archive, const char *key, json_t *value);

/* ---- values that are written alone ------------------------------------------------------------ */

/* null where JSON has no such number. */
json_t *number_json(double value);
json_t *interval_json(const struct ca_interval *interval);
json_t *times_json(const struct samples *samples, double unit);

#endif
