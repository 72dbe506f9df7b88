/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/archive.h"
#include "cli/message.h"

#include <math.h>
#include <stdint.h>

bool archive_put(struct archive *a, const char *key, json_t *value)
{
    return json_object_set_new(a->to, key, value) == 0;
}

static bool is_null(const struct archive *a, const char *key)
{
    return ca_json_is(ca_json_get(a->from->value, key), CA_JSON_NULL);
}

bool archive_lacks(const struct archive *a, const char *key)
{
    return a->from != NULL && ca_json_get(a->from->value, key) == NULL;
}

/* ---- objects --------------------------------------------------------------------------------- */

json_t *archive_json(archive_members *members, void *what)
{
    struct archive a = {.to = json_object()};

    if (members(&a, what))
        return a.to;
    json_decref(a.to);
    return NULL;
}

bool archive_object(struct archive *a, const char *key, archive_members *members, void *what)
{
    if (a->from == NULL)
        return archive_put(a, key, archive_json(members, what));
    const struct ca_json_place place = ca_place_child(a->from, key);
    return ca_place_object(&place) && members(&(struct archive){.from = &place}, what);
}

bool archive_object_or_null(struct archive *a, const char *key, bool there,
                            archive_members *members, void *what)
{
    if (a->from == NULL && !there)
        return archive_put(a, key, json_null());
    return (a->from != NULL && is_null(a, key)) || archive_object(a, key, members, what);
}

static bool put_list(struct archive *a, const char *key, size_t count, archive_item *item,
                     void *owner)
{
    json_t *list = json_array();
    bool ok = archive_put(a, key, list);

    for (size_t n = 0; ok && n < count; n++) {
        struct archive in = {.to = json_object()};
        ok = json_array_append_new(list, in.to) == 0 && item(&in, owner, n);
    }
    return ok;
}

bool archive_list(struct archive *a, const char *key, size_t least, size_t most, size_t *count,
                  bool (*room)(void *owner, size_t count), archive_item *item, void *owner)
{
    if (a->from == NULL)
        return put_list(a, key, *count, item, owner);
    const struct ca_json_place list = ca_place_child(a->from, key);
    if (!ca_place_array(&list, least, most))
        return false;
    const size_t size = ca_json_size(list.value);
    if (room != NULL && !room(owner, size))
        return ca_json_say(list.reader, "no memory for %zu %s", size, key);
    for (size_t n = 0; n < size; n++) {
        const struct ca_json_place place = ca_place_element(&list, n);
        *count = n + 1;
        if (!ca_place_object(&place) || !item(&(struct archive){.from = &place}, owner, n))
            return false;
    }
    return true;
}

static json_t *field_json(const struct ca_json_field *field, const void *member)
{
    switch (field->kind) {
    case CA_JSON_NAME:
        return message_json(member);
    case CA_JSON_FLAG:
        return json_boolean(*(const cl_bool *)member != CL_FALSE);
    case CA_JSON_UNSIGNED:
        return json_integer(*(const cl_uint *)member);
    case CA_JSON_SIZE:
        return json_integer((json_int_t) * (const size_t *)member);
    case CA_JSON_BYTES:
        return json_integer((json_int_t) * (const cl_ulong *)member);
    default:
        return NULL;
    }
}

bool archive_fields(struct archive *a, const struct ca_json_field *fields, size_t count, void *what)
{
    bool ok = true;

    if (a->from != NULL)
        return ca_place_fields(a->from, fields, count, what);
    for (size_t n = 0; ok && n < count; n++)
        ok = archive_put(a, fields[n].key, field_json(&fields[n], (char *)what + fields[n].offset));
    return ok;
}

/* ---- texts ----------------------------------------------------------------------------------- */

bool archive_chars(struct archive *a, const char *key, char *text, size_t bytes)
{
    return a->from == NULL ? archive_put(a, key, message_json(text))
                           : ca_place_text(a->from, key, text, bytes);
}

bool archive_chars_or_null(struct archive *a, const char *key, char *text, size_t bytes)
{
    return a->from == NULL ? archive_put(a, key, text[0] != '\0' ? message_json(text) : json_null())
                           : ca_place_text_or_null(a->from, key, text, bytes);
}

bool archive_text(struct archive *a, const char *key, char **text)
{
    return a->from == NULL ? archive_put(a, key, message_json(*text))
                           : ca_place_copy(a->from, key, false, text);
}

bool archive_text_or_null(struct archive *a, const char *key, char **text)
{
    return a->from == NULL ? archive_put(a, key, *text != NULL ? message_json(*text) : json_null())
                           : ca_place_copy(a->from, key, true, text);
}

bool archive_word(struct archive *a, const char *key, const char *const *words, size_t *position)
{
    return a->from == NULL ? archive_put(a, key, json_string(words[*position]))
                           : ca_place_word(a->from, key, words, position);
}

/* ---- numbers --------------------------------------------------------------------------------- */

json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

bool archive_flag(struct archive *a, const char *key, bool *flag)
{
    return a->from == NULL ? archive_put(a, key, json_boolean(*flag))
                           : ca_place_flag(a->from, key, flag);
}

bool archive_size(struct archive *a, const char *key, size_t least, size_t most, size_t *size)
{
    return a->from == NULL ? archive_put(a, key, json_integer((json_int_t)*size))
                           : ca_place_count(a->from, key, least, most, size);
}

bool archive_number(struct archive *a, const char *key, double unit, double *number)
{
    if (a->from == NULL)
        return archive_put(a, key, number_json(*number / unit));
    const bool ok = ca_place_number(a->from, key, 0.0, number);
    *number *= unit;
    return ok;
}

bool archive_number_or_null(struct archive *a, const char *key, double unit, double unknown,
                            double *number)
{
    if (a->from == NULL && *number == unknown)
        return archive_put(a, key, json_null());
    if (a->from == NULL || !is_null(a, key))
        return archive_number(a, key, unit, number);
    *number = unknown;
    return true;
}

bool archive_counted(struct archive *a, const char *key, double *number)
{
    const bool exact = fabs(*number) < 0x1p53 && *number == floor(*number);

    return a->from == NULL && exact ? archive_put(a, key, json_integer((json_int_t)*number))
                                    : archive_number(a, key, 1.0, number);
}

bool archive_derived(struct archive *a, const char *key, double number)
{
    return archive_number_or_null(a, key, 1.0, NAN, &number);
}

/* The n-th of numbers that are `step` bytes apart. */
static double *nth(const double *first, size_t step, size_t n)
{
    return (double *)((uintptr_t)first + n * step);
}

static json_t *numbers_json(const double *first, size_t step, size_t count, double unit)
{
    json_t *list = json_array();

    for (size_t n = 0; n < count; n++)
        json_array_append_new(list, number_json(*nth(first, step, n) / unit));
    return list;
}

bool archive_numbers(struct archive *a, const char *key, double unit, double *first, size_t step,
                     size_t count)
{
    if (a->from == NULL)
        return archive_put(a, key, numbers_json(first, step, count, unit));
    const struct ca_json_place list = ca_place_child(a->from, key);
    if (!ca_place_array(&list, count, count))
        return false;
    for (size_t n = 0; n < count; n++) {
        const struct ca_json_place place = ca_place_element(&list, n);
        if (!ca_place_number_here(&place, 0.0, nth(first, step, n)))
            return false;
        *nth(first, step, n) *= unit;
    }
    return true;
}

/* ---- what was measured ----------------------------------------------------------------------- */

/* A figure that follows from samples, which are what counts. */
static bool check_figure(const struct ca_json_place *in, const char *key, double want)
{
    const struct ca_json_place place = ca_place_child(in, key);
    double number = 0.0;

    return ca_place_number_here(&place, 0.0, &number) &&
           (fabs(number - want) <= 1e-6 * want ||
            ca_place_refuse(&place, "is %.9g, but its samples have %.9g", number, want));
}

static bool read_samples(const struct ca_json_place *place, double least, double unit,
                         struct samples *samples)
{
    const struct ca_json_place list = ca_place_child(place, "samples");

    if (!ca_place_object(place) || !ca_place_array(&list, 1, RECORD_MOST_SAMPLES))
        return false;
    for (size_t n = 0; n < ca_json_size(list.value); n++) {
        const struct ca_json_place sample = ca_place_element(&list, n);
        double value = 0.0;
        if (!ca_place_number_here(&sample, least, &value))
            return false;
        samples_add(samples, value * unit);
    }
    return check_figure(place, "median", samples_median(samples) / unit);
}

static json_t *samples_json(const struct samples *samples, double unit)
{
    return json_pack("{s:o, s:o}", "median", number_json(samples_median(samples) / unit), "samples",
                     numbers_json(samples->value, sizeof *samples->value, samples->count, unit));
}

json_t *times_json(const struct samples *samples, double unit)
{
    json_t *object = samples_json(samples, unit);

    json_object_set_new(object, "minimum", number_json(samples_minimum(samples) / unit));
    return object;
}

bool archive_samples(struct archive *a, const char *key, double least, double unit,
                     struct samples *samples)
{
    if (a->from == NULL)
        return archive_put(a, key, samples->count > 0 ? samples_json(samples, unit) : json_null());
    const struct ca_json_place place = ca_place_child(a->from, key);
    return ca_json_is(place.value, CA_JSON_NULL) || read_samples(&place, least, unit, samples);
}

bool archive_times(struct archive *a, const char *key, double unit, struct samples *samples)
{
    if (a->from == NULL)
        return archive_put(a, key, samples->count > 0 ? times_json(samples, unit) : json_null());
    const struct ca_json_place place = ca_place_child(a->from, key);
    return ca_json_is(place.value, CA_JSON_NULL) ||
           (read_samples(&place, CA_PLACE_POSITIVE, unit, samples) &&
            check_figure(&place, "minimum", samples_minimum(samples) / unit));
}

json_t *interval_json(const struct ca_interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "median", number_json(interval->middle), "low",
                     number_json(interval->low), "high", number_json(interval->high));
}

bool archive_interval(struct archive *a, const char *key, struct ca_interval *interval)
{
    const bool known = interval->low > 0.0 && isfinite(interval->high);

    if (a->from == NULL)
        return archive_put(a, key, known ? interval_json(interval) : json_null());
    const struct ca_json_place place = ca_place_child(a->from, key);
    if (ca_json_is(place.value, CA_JSON_NULL))
        return true;
    return ca_place_object(&place) &&
           ca_place_number(&place, "median", CA_PLACE_POSITIVE, &interval->middle) &&
           ca_place_number(&place, "low", CA_PLACE_POSITIVE, &interval->low) &&
           ca_place_number(&place, "high", CA_PLACE_POSITIVE, &interval->high) &&
           ((interval->low <= interval->middle && interval->middle <= interval->high) ||
            ca_place_refuse(&place, "is %g, which is not in its interval from %g to %g",
                            interval->middle, interval->low, interval->high));
}
