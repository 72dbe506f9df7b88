/* clattn-bench report: results of runs as one page to show around. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, fchmod, fdopen, umask */
#include "bench/commands/options.h"
#include "bench/report/report_page.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_TITLE "Attention on OpenCL devices"
#define MOST_PATH 4096

static const char help[] =
    "Usage: clattn-bench report FILE.json... -o PAGE.html [--title TEXT]\n"
    "Makes one page of what 'clattn-bench run --json' wrote: a summary in sentences, charts,\n"
    "tables that sort, and how to reproduce it. The page needs no network and no other file;\n"
    "a script in it shows the numbers, which it holds as one JSON document.\n"
    "  -o, --output PAGE.html  where the page goes; - for standard output\n"
    "  --title TEXT            the page's title (default: " DEFAULT_TITLE ")\n"
    "Exit status: 0 the page is there, 1 a file cannot be read or the page not written, 2 usage.\n";

/* 0 to go on, 1 if help was printed, else EXIT_USAGE. */
static int read_options(int argc, char **argv, struct page *page)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"title", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;

    while ((option = option_letter(argc, argv, "o:h", options)) != -1) {
        switch (option) {
        case 'o':
            page->path = optarg;
            break;
        case 't':
            page->title = optarg;
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_usage("report", "");
        }
    }
    if (optind == argc)
        return option_usage("report", "takes at least one file that 'run --json' wrote");
    if (page->path == NULL)
        return option_usage("report", "needs to know where the page goes: -o PAGE.html");
    return 0;
}

static bool read_files(char **paths, size_t count, struct run_results *files, struct message *why)
{
    for (size_t n = 0; n < count; n++)
        if (!results_read(paths[n], &files[n], why))
            return false;
    return true;
}

/* A file beside the page's place, which nobody sees before it is whole. */
static FILE *open_temporary(const char *path, char temporary[MOST_PATH], struct message *why)
{
    const mode_t mask = umask(0);
    const size_t length = strlen(path);

    umask(mask);
    if (length + sizeof ".XXXXXX" > MOST_PATH) {
        message_set(why, "%.200s...: the path is too long", path);
        return NULL;
    }
    snprintf(temporary, MOST_PATH, "%s.XXXXXX", path);
    const int file = mkstemp(temporary);
    FILE *out = file >= 0 && fchmod(file, 0666 & ~mask) == 0 ? fdopen(file, "w") : NULL;
    if (out == NULL) {
        message_set(why, "%.300s: the page cannot be written: %s", path, strerror(errno));
        if (file >= 0) {
            close(file);
            remove(temporary);
        }
    }
    return out;
}

static bool write_page(struct page *page, struct message *why)
{
    const bool printed = strcmp(page->path, "-") == 0;
    char temporary[MOST_PATH];

    FILE *out = printed ? stdout : open_temporary(page->path, temporary, why);
    if (out == NULL)
        return false;
    errno = ENOMEM; /* unless writing says otherwise */
    const bool written = report_page(page, out) && !ferror(out) && fflush(out) == 0;
    const bool ok =
        printed ? written : fclose(out) == 0 && written && rename(temporary, page->path) == 0;
    if (!ok) {
        message_set(why, "%.300s: the page cannot be written: %s", page->path, strerror(errno));
        if (!printed)
            remove(temporary);
    }
    return ok;
}

int report_command(int argc, char **argv)
{
    struct page page = {.title = DEFAULT_TITLE};
    struct report report = {.files = NULL};
    struct message why = {"no memory for the results"};

    const int stop = read_options(argc, argv, &page);
    if (stop != 0)
        return stop == 1 ? EXIT_SUCCESS : stop;
    const size_t count = (size_t)(argc - optind);
    struct run_results *files = calloc(count, sizeof *files);
    bool ok = files != NULL && read_files(argv + optind, count, files, &why);
    if (ok) {
        page.report = &report;
        ok = report_open(&report, files, count) && write_page(&page, &why);
        report_free(&report);
    }
    for (size_t n = 0; files != NULL && n < count; n++)
        results_free(&files[n]);
    free(files);
    if (!ok)
        fprintf(stderr, "clattn-bench report: %s\n", why.text);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}
