#define _POSIX_C_SOURCE 200809L /* open_memstream, fileno */
#include "bench/report/charts/report_plot.h"
#include "bench/report/report_text.h"
#include "cli/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSTALL "apt-get install gnuplot-nox"

/* ---- the child process ----------------------------------------------------------------------- */

/* All that it prints, to be freed; NULL if it could not be started or failed. */
static char *output_of(const char *const *argv, int input, struct message *why)
{
    char *text = NULL, part[4096];
    size_t bytes = 0;
    int ends[2], status = -1;
    pid_t pid;

    if (!ca_child_pipe(ends)) {
        message_set(why, "no pipe for gnuplot: %s", strerror(errno));
        return NULL;
    }
    FILE *memory = open_memstream(&text, &bytes);
    const struct ca_child_files files = {
        .input = input, .output = ends[1], .errors = CA_CHILD_NOTHING};
    const int error = memory != NULL ? ca_child_start(&pid, argv, &files, NULL) : ENOMEM;
    close(ends[1]);
    for (ssize_t count; error == 0;) {
        count = read(ends[0], part, sizeof part);
        if (count == 0 || (count < 0 && errno != EINTR))
            break;
        if (count > 0)
            fwrite(part, 1, (size_t)count, memory);
    }
    close(ends[0]);
    while (error == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    const bool whole = memory != NULL && fclose(memory) == 0;
    if (whole && error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return text;
    free(text);
    if (error == ENOENT || (error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127))
        message_set(why, "gnuplot is not installed, so there are no charts; %s", INSTALL);
    else if (error != 0)
        message_set(why, "gnuplot cannot be started: %s", strerror(error));
    else
        message_set(why, "gnuplot failed; version 5.2 or later is needed: %s", INSTALL);
    return NULL;
}

bool plot_present(struct message *why)
{
    static const char *const argv[] = {"gnuplot", "--version", NULL};
    char *version = output_of(argv, CA_CHILD_NOTHING, why);

    free(version);
    return version != NULL;
}

/* ---- making its output fit ------------------------------------------------------------------- */

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* After the element that begins here, which has no other of its name inside. */
static const char *skip_element(const char *text, const char *end_tag)
{
    const char *end = strstr(text, end_tag);

    return end != NULL ? end + strlen(end_tag) : text + strlen(text);
}

/* Blanks at the beginnings of lines say nothing, and there are many. */
static const char *skip_indentation(const char *text)
{
    return *text == '\n' ? text + strspn(text, "\n\t ") : text;
}

static void write_fitted(const char *svg, const char *id, const char *title,
                         const char *description, FILE *out)
{
    static const char *const names[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
    bool named = false;

    fprintf(out, "<svg role=\"img\" aria-labelledby=\"%s-t %s-d\"", id, id);
    for (const char *at = svg + strlen("<svg"); *at != '\0';) {
        const char *next = at;
        if (begins(at, "<title>"))
            next = skip_element(at, "</title>");
        else if (begins(at, "<desc>"))
            next = skip_element(at, "</desc>");
        else if (begins(at, "<script"))
            next = skip_element(at, "</script>");
        for (size_t n = 0; next == at && n < sizeof names / sizeof *names; n++) {
            if (!begins(at, names[n]))
                continue;
            fprintf(out, "%s%s-", names[n], id);
            next = at + strlen(names[n]);
        }
        if (next != at) {
            at = next;
            continue;
        }
        fputc(*at, out);
        if (*at == '>' && !named) {
            named = true;
            fprintf(out, "<title id=\"%s-t\">", id);
            text_html(out, title);
            fprintf(out, "</title><desc id=\"%s-d\">", id);
            text_html(out, description);
            fputs("</desc>", out);
        }
        next = skip_indentation(at);
        at = next != at ? next : at + 1;
    }
}

bool plot_svg(FILE *script, const char *id, const char *title, const char *description, FILE *out,
              struct message *why)
{
    static const char *const argv[] = {"gnuplot", "-d", "-", NULL}; /* nobody's own settings */

    if (script == NULL || fflush(script) != 0 || ferror(script))
        return message_set(why, "there is no room for a chart's script: %s", strerror(errno));
    rewind(script);
    char *drawn = output_of(argv, fileno(script), why);
    const char *svg = drawn != NULL ? strstr(drawn, "<svg") : NULL;
    const bool whole = svg != NULL && strstr(svg, "</svg>") != NULL;
    if (whole)
        write_fitted(svg, id, title, description, out);
    else if (drawn != NULL)
        message_set(why, "gnuplot drew nothing; its svg terminal is needed: %s", INSTALL);
    free(drawn);
    return whole;
}
