#include "bench/report/charts/report_figure.h"
#include "bench/report/charts/report_plot.h"
#include "bench/report/report_text.h"

#include <string.h>

static void draw(struct page *page, const struct figure *figure, bool narrow)
{
    FILE *script = tmpfile();
    struct message why = {""};
    char id[32];

    snprintf(id, sizeof id, "f%zu%c", page->figures, narrow ? 'n' : 'w');
    fprintf(page->out, "<div class=\"chart %s\">", narrow ? "narrow" : "wide");
    if (script != NULL) {
        struct canvas canvas = canvas_new(script, narrow);
        figure->draw(figure->what, &canvas);
    }
    if (!plot_svg(script, id, figure->title, figure->description, page->out, &why)) {
        page->no_chart = why;
        fputs("<p class=\"missing\">This chart is missing: ", page->out);
        text_html(page->out, why.text);
        fputs(".</p>", page->out);
    }
    fputs("</div>\n", page->out);
    if (script != NULL)
        fclose(script);
}

void figure_write(struct page *page, const struct figure *figure)
{
    page->figures++;
    fprintf(page->out, "<figure id=\"figure-%zu\">\n<figcaption><b>Figure %zu. ", page->figures,
            page->figures);
    text_html(page->out, figure->title);
    fputs(".</b> ", page->out);
    text_html(page->out, figure->caption);
    fputs("</figcaption>\n", page->out);
    if (page->drawing) {
        draw(page, figure, false);
        draw(page, figure, true);
    }
    fputs("</figure>\n", page->out);
}

void figure_table(const struct page *page, const char *caption, const char *first)
{
    fprintf(page->out, "<details%s><summary>The numbers of figure %zu</summary>\n",
            page->drawing ? "" : " open", page->figures);
    fprintf(page->out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
            "aria-label=\"Numbers of figure %zu\"><table><caption>",
            page->figures);
    text_html(page->out, caption);
    fprintf(page->out, "</caption>\n<thead><tr><th scope=\"col\">%s</th>", first);
}

void figure_table_end(const struct page *page)
{
    fputs("</tbody></table></div></details>\n", page->out);
}
