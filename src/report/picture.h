/* picture.h - pictures: what all share, and those of a check. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PICTURE_H
#define REPORT_PICTURE_H

#include <stdio.h>

#include "probe/facts.h"
#include "probe/pairs.h"

struct err;

/* What a heat map shows. */
enum picture_map { PICTURE_REACH, PICTURE_LATENCY, PICTURE_BANDWIDTH, PICTURE_MAPS };

enum { PICTURE_NODES = 96 }; /* are shown at most */

/* Pixels: the widest picture, and what a title takes. */
enum { PICTURE_WIDTH = 1120, PICTURE_TITLE = 30 };

/* picture_file_begin - the head of a file that is one SVG, with styles and background;
 * "</svg>" ends it. */
int picture_file_begin(FILE *out, int width, int height, struct err *e);

/*
 * picture_begin - an <svg> element with a size of its own; "</svg>" ends it.
 *
 * It is fit for a page and for a place at (@x, @y) in another <svg>.  @title is shown, and is
 * the name that a screen reader tells; @about is what it tells of the picture.
 */
void picture_begin(FILE *out, int x, int y, int width, int height, const char *title,
		   const char *about);

/*
 * picture_topology - which node is on which network, and what does not connect; its height.
 * picture_heat     - a cell for each pair of nodes.
 */
int picture_topology(FILE *out, const struct probe_facts *f, const struct pairs *p, int x,
		     int y);
void picture_heat(FILE *out, const struct probe_facts *f, const struct pairs *p,
		  enum picture_map map, int x, int y);
void picture_heat_size(const struct probe_facts *f, const struct pairs *p, int *width,
		       int *height);

/* picture_heat_has - is there anything to show? */
bool picture_heat_has(const struct pairs *p, enum picture_map map);

#endif
