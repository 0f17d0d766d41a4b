/* events.h - read the events of a Chrome trace, one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_EVENTS_H
#define TRACE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* A file may be larger than memory, and written by any program; an event has at most
 * EVENTS_BYTES. */
enum { EVENTS_BYTES = 1 << 16 };

struct events {
	const char *path; /* the caller's */
	int fd;           /* -1: all is in text */
	char *text;
	size_t at, len, size;
	uint64_t count;  /* events so far                                 */
	bool begun, cut; /* the bracket has been seen; the end is missing */
};

/* events_open - of a file; events_of - of @len bytes, which are copied. */
int events_open(struct events *v, const char *path, struct err *e);
int events_of(struct events *v, const void *text, size_t len, struct err *e);

/*
 * events_next - the next event, an object: the caller's reference in *@event.
 *
 * The array may lack its end, and the last event too, as in a file whose writer was killed:
 * then v->cut is set.  Returns 1; 0 after the last event; or RINGUP_EINVAL, RINGUP_ESYSTEM.
 */
int events_next(struct events *v, json_t **event, struct err *e);

/* events_close - safe on a zeroed one. */
void events_close(struct events *v);

#endif
