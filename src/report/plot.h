/* plot.h - times over sizes as a picture, or as a page that has it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <jansson.h>

struct err;

enum { PLOT_CURVES = 24, PLOT_POINTS = 512, PLOT_NAME = 64 };

/* Zero-initialise; plot_free() ends it. */
struct plot {
	char title[160];
	json_t *rows; /* what `ringup bench --json` prints, a row each; NULL: none yet */
	int curves;
	struct plot_curve {
		char name[PLOT_NAME];
		int points;
		struct plot_point {
			double bytes, us;
		} point[PLOT_POINTS];
	} curve[PLOT_CURVES];
};

/* plot_add - a point of the curve called @name, which begins with its first point;
 * points and curves beyond what there is room for are left out. */
void plot_add(struct plot *p, const char *name, double bytes, double us);

/* plot_add_row - what a page tells of the same measurement; takes the reference @row. */
void plot_add_row(struct plot *p, json_t *row);

/* plot_try - can a file be written there, and drawn?  To be asked before hours of measuring;
 * leaves everything as it is. */
int plot_try(const char *path, struct err *e);

/*
 * plot_write - both axes logarithmic, a curve a contender, a legend.
 *
 * The file is a page with a table of all rows if its name ends in ".html", else an SVG.  It
 * refers to nothing outside itself and reads well on white and on dark.  Writing into a FIFO
 * waits for its reader.
 */
int plot_write(const struct plot *p, const char *path, struct err *e);

void plot_free(struct plot *p);

#endif
