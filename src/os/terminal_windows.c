/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/terminal.h"

#include <io.h>

static HANDLE handle_of(FILE *stream)
{
    return (HANDLE)_get_osfhandle(_fileno(stream));
}

/* Programs draw with the control sequences of terminals, which consoles follow when asked to. */
bool ca_stream_is_terminal(FILE *stream)
{
    DWORD mode;

    if (!GetConsoleMode(handle_of(stream), &mode))
        return false;
    SetConsoleMode(handle_of(stream), mode | 0x0004 /* ENABLE_VIRTUAL_TERMINAL_PROCESSING */);
    SetConsoleOutputCP(CP_UTF8);
    return true;
}

size_t ca_stream_columns(FILE *stream)
{
    CONSOLE_SCREEN_BUFFER_INFO facts;

    if (!GetConsoleScreenBufferInfo(handle_of(stream), &facts))
        return 0;
    return (size_t)(facts.srWindow.Right - facts.srWindow.Left + 1);
}
