/** @file version.h  The version of the headers (macros) and of the linked library (functions). */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#include <clattn/export.h>

#define CLATTN_VERSION_MAJOR 0        /**< Of the headers. */
#define CLATTN_VERSION_MINOR 1        /**< Of the headers. */
#define CLATTN_VERSION_PATCH 0        /**< Of the headers. */
#define CLATTN_VERSION_STRING "0.1.0" /**< "major.minor.patch" of the headers. */

CLATTN_BEGIN

/** The version of the linked library as "major.minor.patch"; a static string. */
CLATTN_API const char *clattn_version_string(void);

/** The version of the linked library as 10000 * major + 100 * minor + patch. */
CLATTN_API unsigned clattn_version_number(void);

CLATTN_END

#endif
