/* SPDX-License-Identifier: Apache-2.0 */
#include "base/writer.h"

#include <stdarg.h>
#include <stdio.h>

void ca_put(struct ca_writer *writer, const char *format, ...)
{
    const size_t at = writer->length < writer->bytes ? writer->length : writer->bytes;
    va_list list;

    va_start(list, format);
    const int more =
        vsnprintf(writer->bytes ? writer->text + at : NULL, writer->bytes - at, format, list);
    va_end(list);
    writer->length += more > 0 ? (size_t)more : 0;
}

void ca_put_item(struct ca_writer *writer, const char *item)
{
    ca_put(writer, "%s%s", writer->length ? ", " : "", item);
}
