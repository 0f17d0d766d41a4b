/* picture.h - a check as pictures: who is on which network, and heat maps. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PICTURE_H
#define REPORT_PICTURE_H

#include <stdio.h>

#include "probe/facts.h"
#include "probe/pairs.h"

/* What a heat map shows. */
enum picture_map { PICTURE_REACH, PICTURE_LATENCY, PICTURE_BANDWIDTH, PICTURE_MAPS };

enum { PICTURE_NODES = 96 }; /* are shown at most */

/* Pixels: the widest picture, and what a title takes. */
enum { PICTURE_WIDTH = 1120, PICTURE_TITLE = 30 };

/*
 * Each picture is one <svg> element with a size of its own, fit for an HTML page and for
 * a place at (@x, @y) in another <svg>; picture_style() is the CSS that all share, light
 * and dark.  They return, or tell, their height.
 */
void picture_style(FILE *out);
int picture_topology(FILE *out, const struct probe_facts *f, const struct pairs *p, int x,
		     int y);
void picture_heat(FILE *out, const struct probe_facts *f, const struct pairs *p,
		  enum picture_map map, int x, int y);
void picture_heat_size(const struct probe_facts *f, const struct pairs *p, int *width,
		       int *height);

/* picture_begin - for pictures: the element and its title; "</svg>" ends it. */
void picture_begin(FILE *out, int x, int y, int width, int height, const char *title);

/* picture_heat_has - is there anything to show? */
bool picture_heat_has(const struct pairs *p, enum picture_map map);

#endif
