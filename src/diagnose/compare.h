/* compare.h - find lines of a log whose form never occurs in the log of a good run. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_COMPARE_H
#define DIAGNOSE_COMPARE_H

#include <stddef.h>

struct err;
struct reader;

enum { COMPARE_TEXT = 240, COMPARE_SHOWN = 20 };

/* A new shape, by its first line. */
struct compare_line {
	int file;
	long line, count;
	char text[COMPARE_TEXT];
};

/* The shape of a line is its letters without digits, so that ranks, steps, times and addresses
 * do not matter.  Zero-initialise. */
struct compare {
	struct compare_shape *shape; /* a hash table */
	size_t room, used;
	struct compare_line first[COMPARE_SHOWN];
	int shown, shapes; /* new ones: kept, and all */
};

/* compare_learn - take all shapes of a good run's log. */
int compare_learn(struct compare *c, struct reader *r, struct err *e);

/* compare_scan - find the lines of log number @file with other shapes. */
int compare_scan(struct compare *c, struct reader *r, int file, struct err *e);
void compare_free(struct compare *c);

#endif
