/* plot.h - times over sizes as a picture that any browser shows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <stdint.h>

struct err;

enum { PLOT_CURVES = 24, PLOT_POINTS = 512, PLOT_NAME = 64 };

/* Zero-initialise. */
struct plot {
	char title[160];
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

/* plot_try - can a file be written there?  To be asked before hours of measuring; leaves
 * everything as it is. */
int plot_try(const char *path, struct err *e);

/*
 * plot_write - an SVG file: both axes logarithmic, a curve a contender, a legend.
 *
 * It refers to nothing outside itself and reads well on white and on dark.  Into a FIFO it
 * waits for who reads it.
 */
int plot_write(const struct plot *p, const char *path, struct err *e);

#endif
