/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/place.h"

#include <math.h>

bool place_derived(const struct ca_json_place *in, const char *key, double want)
{
    const struct ca_json_place place = ca_place_child(in, key);
    double number = 0.0;

    return ca_place_number_here(&place, 0.0, &number) &&
           (fabs(number - want) <= 1e-6 * want ||
            ca_place_refuse(&place, "is %.9g, but its samples have %.9g", number, want));
}

bool place_samples(const struct ca_json_place *in, const char *key, double least, double unit,
                   struct samples *samples)
{
    const struct ca_json_place place = ca_place_child(in, key);

    if (json_is_null(place.value))
        return true;
    const struct ca_json_place list = ca_place_child(&place, "samples");
    if (!ca_place_object(&place) || !ca_place_array(&list, 1, RECORD_MOST_SAMPLES))
        return false;
    for (size_t n = 0; n < json_array_size(list.value); n++) {
        const struct ca_json_place sample = ca_place_element(&list, n);
        double value = 0.0;
        if (!ca_place_number_here(&sample, least, &value))
            return false;
        samples_add(samples, value * unit);
    }
    return place_derived(&place, "median", samples_median(samples) / unit);
}

bool place_interval(const struct ca_json_place *in, const char *key, struct ca_interval *interval)
{
    const struct ca_json_place place = ca_place_child(in, key);

    if (json_is_null(place.value))
        return true;
    return ca_place_object(&place) &&
           ca_place_number(&place, "median", CA_PLACE_POSITIVE, &interval->middle) &&
           ca_place_number(&place, "low", CA_PLACE_POSITIVE, &interval->low) &&
           ca_place_number(&place, "high", CA_PLACE_POSITIVE, &interval->high) &&
           ((interval->low <= interval->middle && interval->middle <= interval->high) ||
            ca_place_refuse(&place, "is %g, which is not in its interval from %g to %g",
                            interval->middle, interval->low, interval->high));
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *place_interval_json(const struct ca_interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "median", number(interval->middle), "low",
                     number(interval->low), "high", number(interval->high));
}
