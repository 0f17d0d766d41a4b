/* page.h - one page for a browser: pictures, and the JSON that its text is made of. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <jansson.h>
#include <stdio.h>

struct err;

struct page {
	const char *title;    /* any text                                     */
	const char *pictures; /* <svg> elements in panels, as they are        */
	const json_t *data;   /* with "schema", which the template goes by    */
};

/*
 * page_put - write the template page.html with all that @p holds.
 *
 * The page refers to nothing outside itself.  Its policy admits the script of the template
 * alone, by its hash; that turns the JSON into text and never into markup.
 */
int page_put(FILE *out, const struct page *p, struct err *e);

/* page_panel - begin and end what one picture stands in. */
void page_panel_begin(FILE *out);
void page_panel_end(FILE *out);

#endif
