/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file version.h  The version of the headers (macros) and of the linked library (functions), and how structs grow.
 * @ingroup basics
 * A struct that begins with struct_size grows at its end from version to version. The caller sets struct_size to
 * the sizeof of its own headers' struct, so that library and headers of different versions work together:
 *
 * - Older headers: members that the caller's struct lacks are what clattn_..._init() sets, else 0, which is what
 *   the library did before it had them.
 * - Newer headers: all bytes behind those that the library knows must be 0, which asks for nothing new; else the call
 *   returns CLATTN_INVALID_ARGUMENT (as Linux's copy_struct_from_user() has E2BIG).
 * - A struct that the library fills in gets as much as the caller's has, and zeros behind what the library knows.
 *
 * "A struct_size of none of this library's versions" is shorter than that of the first version, no multiple of
 * sizeof(size_t), or more than 4096 bytes longer than the library's.
 *
 * clattn_problem and clattn_multihead, which the library makes and which stand in arrays and in each other, keep their size:
 * later members take room that is reserved. What is not 0 there asks for what the library does not know, and is refused.
 *
 * Structs without a struct_size do not grow: clattn_layout (four strides), clattn_buffer (a buffer or a pointer),
 * clattn_dropout_place (a place among weights). clattn_multihead_inputs and clattn_multihead_parameters do not either: what
 * later versions add to them comes at the end of the structs that hold them. Structs that the library passes to
 * callbacks may be longer than the caller's headers know.
 */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#include <clattn/export.h>

#define CLATTN_VERSION_MAJOR 0        /**< Major version of the headers. */
#define CLATTN_VERSION_MINOR 1        /**< Minor version of the headers. */
#define CLATTN_VERSION_PATCH 0        /**< Patch version of the headers. */
#define CLATTN_VERSION_STRING "0.1.0" /**< "major.minor.patch" of the headers. */

CLATTN_BEGIN

/** The version of the linked library as "major.minor.patch"; a static string. */
CLATTN_API const char *clattn_version_string(void);

/** The version of the linked library as 10000 * major + 100 * minor + patch. */
CLATTN_API unsigned clattn_version_number(void);

CLATTN_END

#endif
