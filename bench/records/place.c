#define _POSIX_C_SOURCE 200809L /* strdup */
#include "bench/records/place.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct place place_child(const struct place *in, const char *key)
{
    return (struct place){in, key, 0, json_object_get(in->value, key), in->file, in->why};
}

struct place place_element(const struct place *in, size_t index)
{
    return (struct place){in, NULL, index, json_array_get(in->value, index), in->file, in->why};
}

/* Appends "devices[0].results[3].problem" to the text of `length`; its new length. */
static size_t print_place(const struct place *place, char *text, size_t length, size_t bytes)
{
    int more;

    if (place->in == NULL)
        return length;
    length = print_place(place->in, text, length, bytes);
    if (place->key == NULL)
        more = snprintf(text + length, bytes - length, "[%zu]", place->index);
    else
        more = snprintf(text + length, bytes - length, "%s%s", length > 0 ? "." : "", place->key);
    return length + (size_t)more < bytes ? length + (size_t)more : bytes - 1;
}

/* "FILE: PLACE REASON" */
bool place_refuse(const struct place *place, const char *format, ...)
{
    char path[192] = "", reason[192];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (place->in == NULL)
        snprintf(path, sizeof path, "the document");
    print_place(place, path, 0, sizeof path);
    return message_set(place->why, "%.120s%s%s %s", place->file, place->file[0] != '\0' ? ": " : "",
                       path, place->value == NULL ? "is missing" : reason);
}

bool place_object(const struct place *place)
{
    return json_is_object(place->value) || place_refuse(place, "is not an object");
}

bool place_array(const struct place *place, size_t least, size_t most)
{
    if (!json_is_array(place->value))
        return place_refuse(place, "is not an array");
    const size_t size = json_array_size(place->value);
    return (size >= least && size <= most) ||
           place_refuse(place, "has %zu elements, but there may be %zu to %zu", size, least, most);
}

bool place_text(const struct place *in, const char *key, char *text, size_t bytes)
{
    const struct place place = place_child(in, key);

    if (!json_is_string(place.value))
        return place_refuse(&place, "is not a text");
    if (json_string_length(place.value) >= bytes)
        return place_refuse(&place, "is longer than %zu bytes", bytes - 1);
    strcpy(text, json_string_value(place.value));
    message_sanitize(text);
    return true;
}

/* null becomes "". */
bool place_text_or_null(const struct place *in, const char *key, char *text, size_t bytes)
{
    text[0] = '\0';
    if (json_is_null(json_object_get(in->value, key)))
        return true;
    return place_text(in, key, text, bytes);
}

/* Of any length, owned by the caller; null becomes NULL where that is allowed. */
bool place_copy(const struct place *in, const char *key, bool may_be_null, char **text)
{
    const struct place place = place_child(in, key);

    if (may_be_null && json_is_null(place.value))
        return true;
    if (!json_is_string(place.value))
        return place_refuse(&place, "is not a text");
    if (json_string_length(place.value) == 0)
        return place_refuse(&place, "is empty");
    *text = strdup(json_string_value(place.value));
    if (*text == NULL)
        return message_set(place.why, "%.120s: no memory for the results", place.file);
    message_sanitize(*text);
    return true;
}

/* The position in `words`, which ends with NULL. */
bool place_word(const struct place *in, const char *key, const char *const *words, size_t *position)
{
    const struct place place = place_child(in, key);

    if (!json_is_string(place.value))
        return place_refuse(&place, "is not a text");
    for (*position = 0; words[*position] != NULL; ++*position)
        if (strcmp(words[*position], json_string_value(place.value)) == 0)
            return true;
    return place_refuse(&place, "is '%.40s', which is unknown", json_string_value(place.value));
}

bool place_flag(const struct place *in, const char *key, bool *flag)
{
    const struct place place = place_child(in, key);

    *flag = json_is_true(place.value);
    return json_is_boolean(place.value) || place_refuse(&place, "is neither true nor false");
}

bool place_number_here(const struct place *place, double least, double *number)
{
    if (!json_is_number(place->value))
        return place_refuse(place, "is not a number");
    *number = json_number_value(place->value);
    if (*number > PLACE_LARGE)
        return place_refuse(place, "is %g, but must be at most %g", *number, PLACE_LARGE);
    return *number >= least || place_refuse(place, "is %g, but must be %s", *number,
                                            least > 0.0 ? "positive" : "at least 0");
}

bool place_number(const struct place *in, const char *key, double least, double *number)
{
    const struct place place = place_child(in, key);

    return place_number_here(&place, least, number);
}

bool place_number_or_null(const struct place *in, const char *key, double least, double otherwise,
                          double *number)
{
    *number = otherwise;
    if (json_is_null(json_object_get(in->value, key)))
        return true;
    return place_number(in, key, least, number);
}

bool place_count(const struct place *in, const char *key, size_t least, size_t most, size_t *count)
{
    const struct place place = place_child(in, key);

    if (!json_is_integer(place.value))
        return place_refuse(&place, "is not a whole number");
    const json_int_t value = json_integer_value(place.value);
    if (value < (json_int_t)least || (unsigned long long)value > most)
        return place_refuse(&place, "is %lld, but must be from %zu to %zu", (long long)value, least,
                            most);
    *count = (size_t)value;
    return true;
}

bool place_unsigned(const struct place *in, const char *key, unsigned *number)
{
    size_t count = 0;
    const bool ok = place_count(in, key, 0, 1000000000, &count);

    *number = (unsigned)count;
    return ok;
}

bool place_bytes(const struct place *in, const char *key, cl_ulong *bytes)
{
    size_t count = 0;
    const bool ok = place_count(in, key, 0, INT64_MAX, &count);

    *bytes = count;
    return ok;
}

/* A figure that follows from others in the file, which are what counts. */
bool place_derived(const struct place *in, const char *key, double want)
{
    const struct place place = place_child(in, key);
    double number = 0.0;

    return place_number_here(&place, 0.0, &number) &&
           (fabs(number - want) <= 1e-6 * want ||
            place_refuse(&place, "is %.9g, but its samples have %.9g", number, want));
}

/* An object with samples, each at least `least`, and their median, all of them in `unit`; null
 * where nothing was measured. */
bool place_samples(const struct place *in, const char *key, double least, double unit,
                   struct samples *samples)
{
    const struct place place = place_child(in, key);

    if (json_is_null(place.value))
        return true;
    const struct place list = place_child(&place, "samples");
    if (!place_object(&place) || !place_array(&list, 1, RECORD_MOST_SAMPLES))
        return false;
    for (size_t n = 0; n < json_array_size(list.value); n++) {
        const struct place sample = place_element(&list, n);
        double value = 0.0;
        if (!place_number_here(&sample, least, &value))
            return false;
        samples_add(samples, value * unit);
    }
    return place_derived(&place, "median", samples_median(samples) / unit);
}
