/* How to get these numbers again. */
#include "bench/report/report_page.h"
#include "cli/problems/workloads.h"

#include <stdlib.h>
#include <string.h>

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
static bool write_workload(struct page *page, const struct device_run *run, bool *named)
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
    page_say(page, " %s", best->name);
    for (size_t r = 0; r < run->count; r++)
        for (size_t n = 0; best->problems[n] != NULL; n++)
            named[r] = named[r] || strcmp(run->records[r].problem, best->problems[n]) == 0;
    return true;
}

/* The arguments that name the run's problems, whole workloads by their names. */
static void write_problems(struct page *page, const struct device_run *run, size_t *from_files)
{
    bool *named = calloc(run->count + 1, sizeof *named);

    for (size_t r = 0; named != NULL && r < run->count; r++) {
        named[r] = strcmp(run->records[r].against, "file") == 0;
        *from_files += named[r];
    }
    while (named != NULL && write_workload(page, run, named))
        continue;
    for (size_t r = 0; named != NULL && r < run->count; r++) {
        if (named[r])
            continue;
        page_say(page, " \\\n    ");
        sentence_add_word(&page->s, run->records[r].problem);
    }
    free(named);
}

static void write_peers(struct page *page, const struct device_run *run)
{
    if (run->num_peers == 0)
        page_say(page, " --peers none");
}

static void write_file(struct page *page, size_t f)
{
    const struct run_results *file = &page->report->files[f];
    size_t from_files = 0, most = 0;

    for (size_t d = 1; d < file->count; d++) /* the one that got farthest stands for all */
        most = file->devices[d].count > file->devices[most].count ? d : most;
    page_heading(page, "File %zu: %s", f + 1, file->path);
    page_paragraph(page, "text", "clattn %s on %s (%s), %s, %s.", file->clattn, file->processor,
                   text_count(file->processors, "processor").text, file->system,
                   text_date(file->date).text);
    if (file->count == 0)
        return;
    page_say(page, "clattn-bench run --device ");
    for (size_t d = 0; d < file->count; d++)
        page_say(page, "%s%zu", d > 0 ? "," : "", file->devices[d].index);
    write_peers(page, &file->devices[most]);
    page_say(page, " --json results.json");
    write_problems(page, &file->devices[most], &from_files);
    page_code(page);
    if (from_files > 0)
        page_paragraph(page, "text",
                       "%s came from files with tensors and stored answers, which are to be named "
                       "besides.",
                       text_count(from_files, "problem").text);
}

void report_reproduce(struct page *page)
{
    const struct report *report = page->report;

    page_paragraph(
        page, "text",
        "The numbers of the devices are those that 'clattn-bench devices' lists. "
        "Times depend on the machine, its drivers and what else it does; ratios and shares "
        "depend less. Each configuration in the table above can be raced against others with "
        "'clattn-bench duel'.");
    for (size_t f = 0; f < report->num_files; f++)
        write_file(page, f);
    page_heading(page, "This page");
    page_say(page, "clattn-bench report");
    for (size_t f = 0; f < report->num_files; f++) {
        page_say(page, " ");
        sentence_add_word(&page->s, report->files[f].path);
    }
    page_say(page, " -o ");
    sentence_add_word(&page->s, page->path);
    page_code(page);
}
