/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include <errno.h>
#include <stdlib.h>

wchar_t *ca_windows_wide(const char *text)
{
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = length > 0 ? malloc((size_t)length * sizeof *wide) : NULL;

    if (length <= 0)
        errno = EILSEQ;
    else if (!wide)
        errno = ENOMEM;
    else
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, length);
    return wide;
}

char *ca_windows_narrow(const wchar_t *wide)
{
    const int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = bytes > 0 ? malloc((size_t)bytes) : NULL;

    if (text)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, bytes, NULL, NULL);
    else
        errno = bytes > 0 ? ENOMEM : EILSEQ;
    return text;
}

bool ca_windows_fail(void)
{
    static const struct {
        DWORD code;
        int error;
    } meanings[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_BAD_NET_NAME, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_DELETE_PENDING, EACCES},
        {ERROR_SHARING_VIOLATION, EBUSY},
        {ERROR_LOCK_VIOLATION, EBUSY},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_INVALID_PARAMETER, EINVAL},
        {ERROR_INVALID_HANDLE, EBADF},
        {ERROR_NOT_SUPPORTED, ENOSYS},
        {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS},
        {ERROR_BROKEN_PIPE, EPIPE},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_NO_MORE_FILES, ENOENT},
    };
    const DWORD code = GetLastError();

    errno = EIO;
    for (size_t n = 0; n < sizeof meanings / sizeof *meanings; n++)
        if (meanings[n].code == code)
            errno = meanings[n].error;
    return false;
}
