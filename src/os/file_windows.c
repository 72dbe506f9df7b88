/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/clock.h"
#include "os/file.h"

#include <aclapi.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Virus scanners and readers hold files for moments, in which Windows neither replaces nor removes them. */
#define PATIENCE_SECONDS 2.0

/* The time of 1970 in units of 100 ns since 1601. */
#define UNIX_EPOCH 116444736000000000ull

enum { SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

/* A file that was removed while it is open keeps its name until it is closed (STATUS_DELETE_PENDING). */
static bool is_ending(void)
{
    typedef LONG(WINAPI * last_status)(void);
    const FARPROC found = GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetLastNtStatus");
    const last_status ask = (last_status)(void (*)(void))found;

    return ask && (ULONG)ask() == 0xC0000056u;
}

/* Returns whether what just failed is worth trying again, after a nap; *since is 0 at first. */
static bool may_try_again(double *since, bool also_denied)
{
    const DWORD code = GetLastError();
    const double now = ca_stopwatch_now();

    if (code != ERROR_SHARING_VIOLATION &&
        !(code == ERROR_ACCESS_DENIED && (also_denied || is_ending())))
        return false;
    if (*since == 0.0)
        *since = now;
    if (now - *since > PATIENCE_SECONDS) {
        SetLastError(code);
        return false;
    }
    ca_nap(0.001);
    return true;
}

/* The whole path of a name in a folder, which the caller frees; NULL on failure, and errno says why. */
static wchar_t *path_in(ca_file folder, const char *path)
{
    wchar_t *wide = ca_windows_wide(path), *whole = NULL;

    if (!wide || folder == CA_NO_FILE)
        return wide;
    const DWORD length = GetFinalPathNameByHandleW((HANDLE)folder, NULL, 0, FILE_NAME_NORMALIZED);
    if (length == 0)
        ca_windows_fail();
    else if (!(whole = malloc((length + wcslen(wide) + 2) * sizeof *whole)))
        errno = ENOMEM;
    else if (GetFinalPathNameByHandleW((HANDLE)folder, whole, length, FILE_NAME_NORMALIZED) >=
             length) {
        ca_windows_fail();
        free(whole);
        whole = NULL;
    } else {
        wcscat(wcscat(whole, L"\\"), wide);
    }
    free(wide);
    return whole;
}

static ca_file open_wide(const wchar_t *path, DWORD access, DWORD disposition, DWORD flags)
{
    double since = 0.0;
    HANDLE file;

    do
        file = CreateFileW(path, access, SHARE_ALL, NULL, disposition, flags, NULL);
    while (file == INVALID_HANDLE_VALUE && may_try_again(&since, false));
    if (file == INVALID_HANDLE_VALUE)
        ca_windows_fail();
    return file == INVALID_HANDLE_VALUE ? CA_NO_FILE : (ca_file)file;
}

/* ---- what a file is --------------------------------------------------------------------------- */

/* The values of struct ca_file_facts on Windows. owner is TRUSTED_OWNER if it is this user or the system. access has
 * OTHERS_WRITE if others may write. */
enum { TRUSTED_OWNER = 0, OTHER_OWNER = 1, OTHERS_WRITE = 1 };

static bool is_known(PSID sid, WELL_KNOWN_SID_TYPE kind)
{
    return IsWellKnownSid(sid, kind);
}

static bool is_this_user(PSID sid)
{
    union {
        TOKEN_USER user;
        unsigned char room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } found;
    HANDLE token;
    DWORD bytes;
    bool same = false;

    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return false;
    if (GetTokenInformation(token, TokenUser, &found, sizeof found, &bytes))
        same = EqualSid(sid, found.user.User.Sid);
    CloseHandle(token);
    return same;
}

/* Returns whether everybody, or every user, has a right to change the file. */
static bool others_write(PACL list)
{
    const DWORD writing = FILE_WRITE_DATA | FILE_APPEND_DATA | WRITE_DAC | WRITE_OWNER | DELETE |
                          GENERIC_WRITE | GENERIC_ALL;

    if (!list)
        return true; /* no list: everybody may do everything */
    for (DWORD n = 0; n < list->AceCount; n++) {
        ACCESS_ALLOWED_ACE *entry;
        if (!GetAce(list, n, (void **)&entry) || entry->Header.AceType != ACCESS_ALLOWED_ACE_TYPE ||
            (entry->Header.AceFlags & INHERIT_ONLY_ACE) || !(entry->Mask & writing))
            continue;
        PSID sid = (PSID)&entry->SidStart;
        if (is_known(sid, WinWorldSid) || is_known(sid, WinAuthenticatedUserSid) ||
            is_known(sid, WinBuiltinUsersSid) || is_known(sid, WinBuiltinGuestsSid) ||
            is_known(sid, WinAnonymousSid))
            return true;
    }
    return false;
}

static void find_rights(HANDLE file, struct ca_file_facts *facts)
{
    PSECURITY_DESCRIPTOR descriptor = NULL;
    PSID owner;
    PACL list;

    facts->owner = OTHER_OWNER;
    facts->access = OTHERS_WRITE;
    if (GetSecurityInfo(file, SE_FILE_OBJECT,
                        OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL, &list,
                        NULL, &descriptor) != ERROR_SUCCESS)
        return;
    if (is_known(owner, WinLocalSystemSid) || is_known(owner, WinBuiltinAdministratorsSid) ||
        is_this_user(owner))
        facts->owner = TRUSTED_OWNER;
    facts->access = others_write(list) ? OTHERS_WRITE : 0;
    LocalFree(descriptor);
}

bool ca_file_ask(ca_file file, struct ca_file_facts *facts)
{
    const HANDLE handle = (HANDLE)file;
    BY_HANDLE_FILE_INFORMATION found;
    FILE_STANDARD_INFO standard = {.DeletePending = FALSE};

    if (!GetFileInformationByHandle(handle, &found))
        return ca_windows_fail();
    GetFileInformationByHandleEx(handle, FileStandardInfo, &standard, sizeof standard);
    const unsigned long long written =
        ((unsigned long long)found.ftLastWriteTime.dwHighDateTime << 32 |
         found.ftLastWriteTime.dwLowDateTime) -
        UNIX_EPOCH;
    *facts = (struct ca_file_facts){
        .kind = found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT ? CA_FILE_LINK
                : found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY   ? CA_FILE_FOLDER
                : GetFileType(handle) == FILE_TYPE_DISK               ? CA_FILE_REGULAR
                                                                      : CA_FILE_OTHER,
        .removed = standard.DeletePending,
        .bytes = (unsigned long long)found.nFileSizeHigh << 32 | found.nFileSizeLow,
        .written = (time_t)(written / 10000000),
        .written_nanoseconds = (long)(written % 10000000) * 100,
        .volume = found.dwVolumeSerialNumber,
        .number = (unsigned long long)found.nFileIndexHigh << 32 | found.nFileIndexLow,
    };
    find_rights(handle, facts);
    return true;
}

static bool ask_of(ca_file folder, const char *path, DWORD flags, struct ca_file_facts *facts)
{
    wchar_t *wide = path_in(folder, path);
    const ca_file file = wide ? open_wide(wide, FILE_READ_ATTRIBUTES | READ_CONTROL, OPEN_EXISTING,
                                          FILE_FLAG_BACKUP_SEMANTICS | flags)
                              : CA_NO_FILE;
    const bool found = file != CA_NO_FILE && ca_file_ask(file, facts);

    if (file != CA_NO_FILE)
        ca_file_close(file);
    free(wide);
    return found;
}

bool ca_file_find(ca_file folder, const char *path, struct ca_file_facts *facts)
{
    return ask_of(folder, path, FILE_FLAG_OPEN_REPARSE_POINT, facts);
}

bool ca_file_follow(const char *path, struct ca_file_facts *facts)
{
    return ask_of(CA_NO_FILE, path, 0, facts);
}

bool ca_file_is_same(const struct ca_file_facts *a, const struct ca_file_facts *b)
{
    return a->volume == b->volume && a->number == b->number && a->bytes == b->bytes &&
           a->written == b->written && a->written_nanoseconds == b->written_nanoseconds;
}

bool ca_file_owner_is_trusted(const struct ca_file_facts *facts, char *why, size_t why_bytes)
{
    if (facts->owner != TRUSTED_OWNER)
        snprintf(why, why_bytes, "it belongs to another user");
    return facts->owner == TRUSTED_OWNER;
}

bool ca_file_is_trusted(const struct ca_file_facts *facts, char *why, size_t why_bytes)
{
    if (!ca_file_owner_is_trusted(facts, why, why_bytes))
        return false;
    if (facts->access & OTHERS_WRITE)
        snprintf(why, why_bytes, "every user may write to it");
    return !(facts->access & OTHERS_WRITE);
}

bool ca_file_is_writable(const char *path)
{
    wchar_t *wide = ca_windows_wide(path);
    const ca_file file = wide ? open_wide(wide, FILE_WRITE_DATA | FILE_APPEND_DATA, OPEN_EXISTING,
                                          FILE_FLAG_BACKUP_SEMANTICS)
                              : CA_NO_FILE;

    if (file != CA_NO_FILE)
        ca_file_close(file);
    free(wide);
    return file != CA_NO_FILE;
}

bool ca_file_share_as(ca_file file, const struct ca_file_facts *facts)
{
    (void)file;
    (void)facts; /* a new file has the rights of its folder */
    return true;
}

/* ---- open files ------------------------------------------------------------------------------- */

ca_file ca_file_open(ca_file folder, const char *path, enum ca_file_use use)
{
    static const DWORD access[] = {
        [CA_FILE_READ] = GENERIC_READ,
        [CA_FILE_CHANGE] = GENERIC_READ | GENERIC_WRITE,
        [CA_FILE_MAKE] = GENERIC_WRITE | READ_CONTROL | FILE_READ_ATTRIBUTES,
        [CA_FILE_MAKE_SHARED] = GENERIC_WRITE | READ_CONTROL | FILE_READ_ATTRIBUTES,
    };
    static const DWORD disposition[] = {
        [CA_FILE_READ] = OPEN_EXISTING,
        [CA_FILE_CHANGE] = OPEN_ALWAYS,
        [CA_FILE_MAKE] = CREATE_NEW,
        [CA_FILE_MAKE_SHARED] = CREATE_NEW,
    };
    wchar_t *wide = path_in(folder, path);
    ca_file file = CA_NO_FILE;
    BY_HANDLE_FILE_INFORMATION found;

    if (wide)
        file = open_wide(wide, access[use], disposition[use], FILE_FLAG_OPEN_REPARSE_POINT);
    free(wide);
    if (file != CA_NO_FILE && GetFileInformationByHandle((HANDLE)file, &found) &&
        found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) {
        ca_file_close(file);
        errno = ELOOP;
        return CA_NO_FILE;
    }
    return file;
}

ca_file ca_file_open_any(const char *path)
{
    wchar_t *wide = ca_windows_wide(path);
    const ca_file file = wide ? open_wide(wide, GENERIC_READ, OPEN_EXISTING, 0) : CA_NO_FILE;

    free(wide);
    return file;
}

bool ca_file_close(ca_file file)
{
    return CloseHandle((HANDLE)file) || ca_windows_fail();
}

static OVERLAPPED position(unsigned long long at)
{
    return (OVERLAPPED){.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
}

/* As much as one call of Windows takes. */
static DWORD piece(size_t bytes)
{
    return bytes < 1u << 30 ? (DWORD)bytes : 1u << 30;
}

ptrdiff_t ca_file_read(ca_file file, void *data, size_t bytes, unsigned long long at)
{
    size_t done = 0;
    DWORD more = 1;

    while (done < bytes && more > 0) {
        OVERLAPPED place = position(at + done);
        if (!ReadFile((HANDLE)file, (char *)data + done, piece(bytes - done), &more, &place)) {
            if (GetLastError() != ERROR_HANDLE_EOF && GetLastError() != ERROR_BROKEN_PIPE) {
                ca_windows_fail();
                return -1;
            }
            more = 0;
        }
        done += more;
    }
    return (ptrdiff_t)done;
}

bool ca_file_write(ca_file file, const void *data, size_t bytes, unsigned long long at)
{
    size_t done = 0;

    while (done < bytes) {
        OVERLAPPED place = position(at + done);
        DWORD more = 0;
        if (!WriteFile((HANDLE)file, (const char *)data + done, piece(bytes - done), &more, &place))
            return ca_windows_fail();
        if (more == 0) {
            errno = EIO;
            return false;
        }
        done += more;
    }
    return true;
}

bool ca_file_truncate(ca_file file)
{
    const LARGE_INTEGER begin = {.QuadPart = 0};

    return (SetFilePointerEx((HANDLE)file, begin, NULL, FILE_BEGIN) &&
            SetEndOfFile((HANDLE)file)) ||
           ca_windows_fail();
}

bool ca_file_touch(ca_file file)
{
    FILETIME now;

    GetSystemTimeAsFileTime(&now);
    return SetFileTime((HANDLE)file, NULL, NULL, &now) || ca_windows_fail();
}

/* Folders cannot be flushed: MOVEFILE_WRITE_THROUGH has done it. */
bool ca_file_make_durable(ca_file file)
{
    BY_HANDLE_FILE_INFORMATION found;

    if (GetFileInformationByHandle((HANDLE)file, &found) &&
        found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        return true;
    return FlushFileBuffers((HANDLE)file) || ca_windows_fail();
}

/* Always binary: a file has the same bytes on every system. */
FILE *ca_stream_open(const char *path, const char *mode)
{
    wchar_t *wide = ca_windows_wide(path), own[8] = L"";
    FILE *stream = NULL;

    if (wide) {
        for (size_t n = 0; n < 4 && mode[n]; n++)
            own[n] = (wchar_t)mode[n];
        wcscat(own, strchr(mode, 'b') ? L"N" : L"bN");
        stream = _wfopen(wide, own);
    }
    free(wide);
    return stream;
}

/* ---- folders ---------------------------------------------------------------------------------- */

ca_file ca_folder_open(const char *path, bool follow_link)
{
    wchar_t *wide = ca_windows_wide(path);
    const ca_file folder = wide ? open_wide(wide, GENERIC_READ, OPEN_EXISTING,
                                            FILE_FLAG_BACKUP_SEMANTICS |
                                                (follow_link ? 0 : FILE_FLAG_OPEN_REPARSE_POINT))
                                : CA_NO_FILE;
    BY_HANDLE_FILE_INFORMATION found = {0};

    free(wide);
    if (folder == CA_NO_FILE)
        return folder;
    GetFileInformationByHandle((HANDLE)folder, &found);
    const bool is_link = found.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT;
    if (!is_link && found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY)
        return folder;
    ca_file_close(folder);
    errno = is_link ? ELOOP : ENOTDIR;
    return CA_NO_FILE;
}

bool ca_folder_make(const char *path)
{
    wchar_t *wide = ca_windows_wide(path);
    bool made = false;

    if (wide && !(made = CreateDirectoryW(wide, NULL))) {
        ca_windows_fail();
        const DWORD attributes = GetFileAttributesW(wide); /* a drive, "C:", is there as well */
        if (attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY)
            errno = EEXIST;
    }
    free(wide);
    return made;
}

bool ca_file_remove(ca_file folder, const char *path)
{
    wchar_t *wide = path_in(folder, path);
    double since = 0.0;
    bool removed = false;

    while (wide && !(removed = DeleteFileW(wide)) && may_try_again(&since, false))
        continue;
    if (wide && !removed)
        ca_windows_fail();
    free(wide);
    return removed;
}

bool ca_file_rename(ca_file folder, const char *from, const char *to)
{
    wchar_t *old = path_in(folder, from), *new = path_in(folder, to);
    double since = 0.0;
    bool renamed = false;

    while (old && new &&
           !(renamed = MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) &&
           may_try_again(&since, true))
        continue;
    if (old && new && !renamed)
        ca_windows_fail();
    free(old);
    free(new);
    return renamed;
}

struct ca_listing {
    ca_file folder;
    HANDLE search; /* NULL before the first name */
    WIN32_FIND_DATAW entry;
    char name[4 * MAX_PATH];
};

struct ca_listing *ca_listing_open(ca_file folder)
{
    struct ca_listing *listing = folder != CA_NO_FILE ? malloc(sizeof *listing) : NULL;

    if (listing) {
        *listing = (struct ca_listing){.folder = folder};
    } else if (folder != CA_NO_FILE) {
        ca_file_close(folder);
        errno = ENOMEM;
    }
    return listing;
}

/* Finds the first entry, or the next one. */
static bool find_entry(struct ca_listing *listing)
{
    if (listing->search)
        return FindNextFileW(listing->search, &listing->entry) || ca_windows_fail();
    wchar_t *all = path_in(listing->folder, "*");
    if (!all)
        return false;
    const HANDLE search = FindFirstFileW(all, &listing->entry);
    if (search == INVALID_HANDLE_VALUE)
        ca_windows_fail();
    else
        listing->search = search;
    free(all);
    return listing->search != NULL;
}

const char *ca_listing_next(struct ca_listing *listing)
{
    if (!find_entry(listing)) {
        if (errno == ENOENT)
            errno = 0;
        return NULL;
    }
    WideCharToMultiByte(CP_UTF8, 0, listing->entry.cFileName, -1, listing->name,
                        sizeof listing->name, NULL, NULL);
    return listing->name;
}

ca_file ca_listing_folder(struct ca_listing *listing)
{
    return listing->folder;
}

void ca_listing_close(struct ca_listing *listing)
{
    if (!listing)
        return;
    if (listing->search)
        FindClose(listing->search);
    ca_file_close(listing->folder);
    free(listing);
}
