#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ca_text_join(const char *a, const char *b, const char *c)
{
    const size_t bytes = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = malloc(bytes);

    if (text)
        snprintf(text, bytes, "%s%s%s", a, b, c);
    return text;
}

char *ca_text_copy(const char *text)
{
    return ca_text_join(text, "", "");
}
