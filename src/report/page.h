/* page.h - an HTML page of pictures, and of JSON that its script turns into text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <jansson.h>
#include <stdio.h>

struct err;

struct page {
	const char *title;    /* any text                                     */
	const char *pictures; /* <svg> elements in panels, copied unchanged   */
	const json_t *data;   /* "schema" in it selects the template's code   */
};

/*
 * page_put - write the template page.html, filled with @p.
 *
 * The page refers to no external resource.  Its policy admits only the template's script, by
 * its hash; that turns the JSON into text and never into markup.
 */
int page_put(FILE *out, const struct page *p, struct err *e);

/* page_panel - begin and end the box around one picture. */
void page_panel_begin(FILE *out);
void page_panel_end(FILE *out);

#endif
