/* picture.h - SVG pictures of a check: topology and heat maps, with their shared parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PICTURE_H
#define REPORT_PICTURE_H

#include <stdio.h>

#include "probe/facts.h"
#include "probe/pairs.h"

struct err;

/* The quantity of a heat map. */
enum picture_map { PICTURE_REACH, PICTURE_LATENCY, PICTURE_BANDWIDTH, PICTURE_MAPS };

enum { PICTURE_NODES = 96 }; /* shown at most */

/* Pixels: the widest picture, and the height of a title. */
enum { PICTURE_WIDTH = 1120, PICTURE_TITLE = 30 };

/* picture_file_begin - write the head of a file that is one SVG, with styles and background;
 * "</svg>" ends it. */
int picture_file_begin(FILE *out, int width, int height, struct err *e);

/*
 * picture_begin - write an <svg> element with its own size; "</svg>" ends it.
 *
 * It fits a page, or a place at (@x, @y) in another <svg>.  @title is shown, and is the name
 * for screen readers; @about is their description of the picture.
 */
void picture_begin(FILE *out, int x, int y, int width, int height, const char *title,
		   const char *about);

/*
 * picture_topology - which node is on which network, and pairs that fail; returns its height.
 * picture_heat     - a cell for each pair of nodes.
 */
int picture_topology(FILE *out, const struct probe_facts *f, const struct pairs *p, int x,
		     int y);
void picture_heat(FILE *out, const struct probe_facts *f, const struct pairs *p,
		  enum picture_map map, int x, int y);
void picture_heat_size(const struct probe_facts *f, const struct pairs *p, int *width,
		       int *height);

/* picture_heat_has - are there values to show? */
bool picture_heat_has(const struct pairs *p, enum picture_map map);

#endif
