/* libFuzzer target: whatever the bytes are, reading them as a Kernel Tuner cache file ends in a
 * sentence or in a recording that is written and read back. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "tuner/recording/recording.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* The recording written in one of the formats; NULL if it cannot be, for want of a success. */
static char *written(const struct ca_recording *recording, size_t *bytes,
                     bool (*write)(const struct ca_recording *, FILE *, struct message *))
{
    struct message why;
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);

    require(file != NULL);
    const bool whole = write(recording, file, &why);
    require(fclose(file) == 0);
    if (!whole) {
        require(why.text[0] != '\0');
        free(text);
        return NULL;
    }
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct message why = {""};
    size_t length;
    struct ca_recording *recording = ca_recording_parse("fuzz", (const char *)bytes, size, &why),
                        *again;

    if (!recording) {
        require(why.text[0] != '\0');
        return 0;
    }
    free(written(recording, &length, ca_recording_write_t4));
    char *text = written(recording, &length, ca_recording_write);
    if (text) {
        again = ca_recording_parse("again", text, length, &why);
        /* the values 1 and "1" make the same key, and so one of two entries */
        require(again && again->num_attempts > 0 && again->num_attempts <= recording->num_attempts);
        ca_recording_destroy(again);
        free(text);
    }
    ca_recording_destroy(recording);
    return 0;
}
