/* The page: its frame, and its sections in order. */
#include "bench/report/report.h"
#include "bench/report/report_text.h"

/* Made from report.css and report.js by cl/embed.cmake, and of the latter the hash that lets a
 * browser run it and nothing else. */
extern const char bench_report_style[], bench_report_script[], bench_report_script_hash[];

static const struct section {
    const char *id, *title;
    void (*write)(struct page *page);
} sections[] = {
    {"summary", "Summary", report_summary},
    {"trust", "How far to trust the numbers", report_trust},
    {"speedup", "Speed-up over alternatives", report_speedup},
    {"throughput", "Throughput by sequence length", report_throughput},
    {"share", "Share of the peak", report_share},
    {"roofline", "Roofline", report_roofline},
    {"results", "All results", report_results},
    {"devices", "Devices", report_devices},
    {"configurations", "Configurations", report_choices},
    {"libraries", "Libraries", report_peers},
    {"reproduce", "How to reproduce this", report_reproduce},
};

static void write_head(const struct page *page)
{
    fprintf(page->out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "style-src 'unsafe-inline'; script-src '%s'; base-uri 'none'; form-action 'none'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light\">\n<title>",
            bench_report_script_hash);
    text_html(page->out, page->title);
    fprintf(page->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", bench_report_style);
}

static void write_header(const struct page *page)
{
    fputs("<header>\n<h1>", page->out);
    text_html(page->out, page->title);
    fputs("</h1>\n", page->out);
    for (size_t f = 0; f < page->report->num_files; f++) {
        const struct run_results *file = &page->report->files[f];
        fprintf(page->out, "<p class=\"source\">Measured %s on ", text_date(file->date).text);
        text_html(page->out, file->processor);
        fprintf(page->out, " (%s), clattn %s</p>\n", text_count(file->processors, "processor").text,
                text_escaped(file->clattn).text);
    }
    fputs("<nav aria-label=\"Sections\"><ul>\n", page->out);
    for (size_t n = 0; n < sizeof sections / sizeof *sections; n++)
        fprintf(page->out, "<li><a href=\"#%s\">%s</a></li>\n", sections[n].id, sections[n].title);
    fputs("</ul></nav>\n</header>\n<main>\n", page->out);
}

void report_page(struct page *page)
{
    write_head(page);
    write_header(page);
    if (!page->drawing) {
        fputs("<p class=\"missing\" role=\"note\">", page->out);
        text_html(page->out, page->no_chart.text);
        fputs(". Their numbers are here, as tables.</p>\n", page->out);
    }
    for (size_t n = 0; n < sizeof sections / sizeof *sections; n++) {
        fprintf(page->out, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n",
                sections[n].id, sections[n].id, sections[n].title);
        sections[n].write(page);
        fputs("</section>\n", page->out);
    }
    fprintf(page->out,
            "</main>\n<footer><p>Made by clattn-bench; charts by gnuplot.</p></footer>\n"
            "<script>%s</script>\n</body>\n</html>\n",
            bench_report_script);
}
