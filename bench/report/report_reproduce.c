/* How to get these numbers again. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "bench/report/report.h"
#include "bench/report/report_text.h"
#include "cli/problems/workloads.h"

#include <stdlib.h>
#include <string.h>

/* Command lines, written raw and escaped at the end. */
struct lines {
    FILE *out;
    char *text;
    size_t bytes;
};

static void end_lines(const struct page *page, struct lines *lines)
{
    fputs("<pre tabindex=\"0\"><code>", page->out);
    if (fclose(lines->out) == 0) {
        for (char *line = lines->text; *line != '\0';) {
            const size_t length = strcspn(line, "\n");
            const bool last = line[length] == '\0';
            line[length] = '\0';
            text_html(page->out, line);
            fputc('\n', page->out);
            line += length + !last;
        }
    }
    fputs("</code></pre>\n", page->out);
    free(lines->text);
}

/* How many problems of a run a workload names that nothing else has named yet; 0 where the run
 * lacks one of it. */
static size_t covers(const struct workload *workload, const struct device_run *run,
                     const bool *named)
{
    size_t count = 0;

    for (size_t n = 0; workload->problems[n] != NULL; n++) {
        bool found = false;
        for (size_t r = 0; r < run->count; r++) {
            const bool same = strcmp(run->records[r].problem, workload->problems[n]) == 0;
            count += same && !named[r];
            found = found || same;
        }
        if (!found)
            return 0;
    }
    return count;
}

/* Names the workload that covers most; false if none covers anything. */
static bool write_workload(FILE *out, const struct device_run *run, bool *named)
{
    const struct workload *best = NULL;
    size_t most = 0;

    for (const struct workload *w = workloads; w->name != NULL; w++) {
        const size_t count = covers(w, run, named);
        best = count > most ? w : best;
        most = count > most ? count : most;
    }
    if (best == NULL)
        return false;
    fprintf(out, " %s", best->name);
    for (size_t r = 0; r < run->count; r++)
        for (size_t n = 0; best->problems[n] != NULL; n++)
            named[r] = named[r] || strcmp(run->records[r].problem, best->problems[n]) == 0;
    return true;
}

/* The arguments that name the run's problems, whole workloads by their names. */
static void write_problems(FILE *out, const struct device_run *run, size_t *from_files)
{
    bool *named = calloc(run->count + 1, sizeof *named);

    for (size_t r = 0; named != NULL && r < run->count; r++) {
        named[r] = strcmp(run->records[r].against, "file") == 0;
        *from_files += named[r];
    }
    while (named != NULL && write_workload(out, run, named))
        continue;
    for (size_t r = 0; named != NULL && r < run->count; r++) {
        if (named[r])
            continue;
        fputs(" \\\n    ", out);
        text_shell(out, run->records[r].problem);
    }
    free(named);
}

static void write_peers(FILE *out, const struct device_run *run)
{
    if (run->num_peers == 0)
        fputs(" --peers none", out);
}

static void write_file(const struct page *page, size_t f)
{
    const struct run_results *file = &page->report->files[f];
    size_t from_files = 0, most = 0;
    struct lines lines = {.text = NULL};

    for (size_t d = 1; d < file->count; d++) /* the one that got farthest stands for all */
        most = file->devices[d].count > file->devices[most].count ? d : most;
    fprintf(page->out, "<h3>File %zu: ", f + 1);
    text_html(page->out, file->path);
    fprintf(page->out, "</h3>\n<p>clattn %s on ", text_escaped(file->clattn).text);
    text_html(page->out, file->processor);
    fprintf(page->out, " (%s), ", text_count(file->processors, "processor").text);
    text_html(page->out, file->system);
    fprintf(page->out, ", %s.</p>\n", text_date(file->date).text);
    if (file->count == 0)
        return;
    lines.out = open_memstream(&lines.text, &lines.bytes);
    if (lines.out == NULL)
        return;
    fputs("clattn-bench run --device ", lines.out);
    for (size_t d = 0; d < file->count; d++)
        fprintf(lines.out, "%s%zu", d > 0 ? "," : "", file->devices[d].index);
    write_peers(lines.out, &file->devices[most]);
    fputs(" --json results.json", lines.out);
    write_problems(lines.out, &file->devices[most], &from_files);
    fputc('\n', lines.out);
    end_lines(page, &lines);
    if (from_files > 0)
        fprintf(page->out,
                "<p>%s came from files with tensors and stored answers, which are to be named "
                "besides.</p>\n",
                text_count(from_files, "problem").text);
}

void report_reproduce(struct page *page)
{
    const struct report *report = page->report;
    struct lines lines = {.text = NULL};

    fputs("<p>The numbers of the devices are those that <code>clattn-bench devices</code> lists. "
          "Times depend on the machine, its drivers and what else it does; ratios and shares "
          "depend less. Each configuration in the table above can be raced against others with "
          "<code>clattn-bench duel</code>.</p>\n",
          page->out);
    for (size_t f = 0; f < report->num_files; f++)
        write_file(page, f);
    lines.out = open_memstream(&lines.text, &lines.bytes);
    if (lines.out == NULL)
        return;
    fputs("clattn-bench report", lines.out);
    for (size_t f = 0; f < report->num_files; f++) {
        fputc(' ', lines.out);
        text_shell(lines.out, report->files[f].path);
    }
    fputs(" -o ", lines.out);
    text_shell(lines.out, page->path);
    fputc('\n', lines.out);
    fputs("<h3>This page</h3>\n", page->out);
    end_lines(page, &lines);
}
