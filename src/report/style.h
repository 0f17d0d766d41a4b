/* style.h - style sheets from data files, in the colours of the program's palette. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_STYLE_H
#define REPORT_STYLE_H

#include <stdio.h>

struct err;

enum { STYLE_COLOURS = 64 };

/* The contents of palette.tsv: each entry has a name, a colour on light and one on dark. */
struct style_palette {
	char *text;
	int n;
	struct {
		const char *name, *light, *dark;
	} colour[STYLE_COLOURS];
};

/* style_load - read palette.tsv; the caller frees it with style_free(), also on failure. */
int style_load(struct style_palette *p, struct err *e);
void style_free(struct style_palette *p);

/*
 * style_put - write the rules of the data file report/@sheet, for light, then for dark.
 *
 * The rules contain the colours themselves, since many SVG viewers do not support CSS
 * variables.  A browser that prefers dark applies the second set.
 */
int style_put(FILE *out, const char *sheet, struct err *e);

#endif
