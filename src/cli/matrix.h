/* matrix.h - print the paths of a check as a matrix: from each node to each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MATRIX_H
#define CLI_MATRIX_H

struct err;
struct probe_facts;

/*
 * matrix_print - print to stdout, rows from and columns to, at most @width columns wide.
 *
 * Numbers while they fit: round trips in microseconds, then bandwidth in MB/s, with outliers
 * marked.  Beyond 16 nodes, or on a narrow terminal, one mark for each pair; if even these do
 * not fit, nodes with findings come first and the rest is left out.
 */
int matrix_print(const struct probe_facts *f, int width, struct err *e);

/* matrix_width - the width of the terminal on stdout, or 80. */
int matrix_width(void);

#endif
