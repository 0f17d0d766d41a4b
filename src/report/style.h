/* style.h - style sheets of this program's data, in the colours of its one palette. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_STYLE_H
#define REPORT_STYLE_H

#include <stdio.h>

struct err;

enum { STYLE_COLOURS = 64 };

/* As palette.tsv has them: each has a name, a colour on light and a colour on dark. */
struct style_palette {
	char *text;
	int n;
	struct {
		const char *name, *light, *dark;
	} colour[STYLE_COLOURS];
};

/* style_load - palette.tsv; the caller frees it with style_free(), also on failure. */
int style_load(struct style_palette *p, struct err *e);
void style_free(struct style_palette *p);

/*
 * style_put - write the rules of the data file report/@sheet, for light, then for dark.
 *
 * The colours stand in the rules themselves: many programs that show SVG know no variables
 * of CSS.  A browser that prefers dark applies the second set.
 */
int style_put(FILE *out, const char *sheet, struct err *e);

#endif
