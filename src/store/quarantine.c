/* SPDX-License-Identifier: Apache-2.0 */
#include "store/quarantine.h"
#include "base/log.h"
#include "program/verdict.h"

#include <string.h>

/* Indexed by enum ca_quarantine. Phrases behind these are those of earlier versions, which stores may hold. */
static const char *const phrases[] = {
    [CA_QUARANTINE_SOURCE] = "does not build",  [CA_QUARANTINE_WRONG] = "computes wrong results",
    [CA_QUARANTINE_CRASH] = "crashed twice",    [CA_QUARANTINE_HANG] = "took too long twice",
    [CA_NUM_QUARANTINES] = "it does not build", "it failed its self-check",
};

enum { NUM_PHRASES = sizeof phrases / sizeof *phrases };

void ca_quarantine_reason(enum ca_quarantine what, const char *how, char *reason,
                          size_t reason_bytes)
{
    ca_reason(reason, reason_bytes, "%s%s%s", phrases[what], *how ? ": " : "", how);
}

int ca_quarantine_lasts(const char *reason)
{
    size_t n = 0;

    while (n < NUM_PHRASES && strncmp(reason, phrases[n], strlen(phrases[n])) != 0)
        n++;
    if (n == NUM_PHRASES)
        return 0;
    const char *how = reason + strlen(phrases[n]);
    const int names_error = n == CA_QUARANTINE_SOURCE || n == CA_NUM_QUARANTINES;
    return !names_error || ca_verdict_blames_source(how + strspn(how, ": "));
}

void ca_quarantine_heal(struct ca_table *table)
{
    for (size_t d = 0; d < table->num_devices; d++) {
        struct ca_device_table *device = &table->devices[d];
        size_t kept = 0;
        for (size_t n = 0; n < device->num_banned; n++) {
            if (ca_quarantine_lasts(device->banned[n].reason))
                device->banned[kept++] = device->banned[n];
            else
                ca_banned_free(&device->banned[n]);
        }
        device->num_banned = kept;
    }
}
