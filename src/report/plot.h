/* plot.h - a plot of times over sizes, as an SVG or an HTML page. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <jansson.h>

struct err;

enum { PLOT_CURVES = 24, PLOT_POINTS = 512, PLOT_NAME = 64 };

/* Zero-initialise; free with plot_free(). */
struct plot {
	char title[160];
	json_t *rows; /* rows of `ringup bench --json`; NULL: none yet */
	int curves;
	struct plot_curve {
		char name[PLOT_NAME];
		int points;
		struct plot_point {
			double bytes, us;
		} point[PLOT_POINTS];
	} curve[PLOT_CURVES];
};

/* plot_add - add a point to the curve @name, which begins with its first point; points and
 * curves beyond the limits are left out. */
void plot_add(struct plot *p, const char *name, double bytes, double us);

/* plot_add_row - add the page's row of the same measurement; takes the reference @row. */
void plot_add_row(struct plot *p, json_t *row);

/* plot_try - can the file be written, and the plot drawn?  For use before hours of measuring;
 * changes nothing. */
int plot_try(const char *path, struct err *e);

/*
 * plot_write - draw both axes logarithmic, a curve for each contender, a legend.
 *
 * The file is a page with a table of all rows if its name ends in ".html", else an SVG.  It
 * refers to no external resource and is legible on white and on dark.  Writing into a FIFO
 * waits for its reader.
 */
int plot_write(const struct plot *p, const char *path, struct err *e);

void plot_free(struct plot *p);

#endif
