/* SPDX-License-Identifier: Apache-2.0 */
/* To be included first by the files of this folder that are for Windows, 8 and newer. Texts are UTF-8 on clattn's side. */
#ifndef CA_WINDOWS_H
#define CA_WINDOWS_H

#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0602
#endif
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <stdbool.h>
#include <stddef.h>

/* The text in UTF-16, which the caller frees; NULL on failure, and errno says why. */
wchar_t *ca_windows_wide(const char *text);

/* The text in UTF-8, which the caller frees; NULL on failure. */
char *ca_windows_narrow(const wchar_t *wide);

/* Sets errno to what GetLastError() means. Returns false. */
bool ca_windows_fail(void);

#endif
