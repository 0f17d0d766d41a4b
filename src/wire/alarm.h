/* alarm.h - the abort flag of a job in shared memory: its error code, culprit and reason. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_ALARM_H
#define WIRE_ALARM_H

#include <stdint.h>

struct err;

/*
 * Zeroed memory is a silent alarm.  It is raised once: the first call names
 * the culprit, later calls change nothing.  It may lie in shared memory.
 */
enum { ALARM_RAISING = 1, ALARM_TEXT = 500 };

/* How certain it is that the culprit does not end by itself. */
enum alarm_stillness {
	ALARM_MOVES,  /* it has died, or ends, or nothing is known */
	ALARM_SILENT, /* it has not been heard of                  */
	ALARM_FROZEN, /* its process does not move                 */
};

struct alarm {
	uint32_t word;      /* 0; ALARM_RAISING; then 16 - code.  Every wait looks at it */
	uint32_t culprit;   /* 1 + the rank that caused it; 0: no single rank did         */
	uint32_t stillness; /* enum alarm_stillness */
	char why[ALARM_TEXT];
};

/* alarm_raise - rank @culprit caused it; -1: no single rank did.  Returns 1 if this call was
 * the first, else 0.  alarm_raise_still - likewise for a culprit that does not end by itself.
 */
int alarm_raise(struct alarm *a, int culprit, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int alarm_raise_still(struct alarm *a, int culprit, enum alarm_stillness stillness, int code,
		      const char *why);

/* alarm_get - 0 while it is silent; else its code, with the sentence in @e. */
int alarm_get(const struct alarm *a, struct err *e);

/* alarm_culprit - the rank that caused the alarm; -1: no single rank did, or it is silent. */
int alarm_culprit(const struct alarm *a);
enum alarm_stillness alarm_stillness(const struct alarm *a);

#endif
