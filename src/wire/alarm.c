/* alarm.c - the abort flag of a job in shared memory: its error code, culprit and reason. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/alarm.h"

#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"

enum {
	YIELDS = 1000,    /* while another rank raises the alarm */
	RAISING_MS = 200, /* after them, until that rank counts as dead */
};

int alarm_raise_still(struct alarm *a, int culprit, enum alarm_stillness stillness, int code,
		      const char *why)
{
	uint32_t silent = 0;

	if (!__atomic_compare_exchange_n(&a->word, &silent, ALARM_RAISING, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return 0;
	snprintf(a->why, sizeof(a->why), "%s", why);
	a->culprit = culprit < 0 ? 0 : (uint32_t)culprit + 1;
	a->stillness = stillness;
	__atomic_store_n(&a->word, (uint32_t)(16 - code), __ATOMIC_RELEASE);
	return 1;
}

int alarm_raise(struct alarm *a, int culprit, int code, const char *fmt, ...)
{
	char why[ALARM_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return alarm_raise_still(a, culprit, ALARM_MOVES, code, why);
}

int alarm_get(const struct alarm *a, struct err *e)
{
	uint32_t word = __atomic_load_n(&a->word, __ATOMIC_ACQUIRE);

	if (!word)
		return 0;
	/* The rank that raises it is writing the sentence.  It may wait for a processor
	 * meanwhile, or have died. */
	for (int tries = 0; word == ALARM_RAISING && tries < YIELDS + RAISING_MS; tries++) {
		if (tries < YIELDS)
			sched_yield();
		else
			clock_sleep_ms(1);
		word = __atomic_load_n(&a->word, __ATOMIC_ACQUIRE);
	}
	if (word == ALARM_RAISING)
		return fail(e, RINGUP_EPEER, "a rank died");
	return fail(e, 16 - (int)word, "%.*s", (int)sizeof(a->why) - 1, a->why);
}

int alarm_culprit(const struct alarm *a)
{
	uint32_t word = __atomic_load_n(&a->word, __ATOMIC_ACQUIRE);

	return word && word != ALARM_RAISING ? (int)a->culprit - 1 : -1;
}

enum alarm_stillness alarm_stillness(const struct alarm *a)
{
	return alarm_culprit(a) < 0 ? ALARM_MOVES : (enum alarm_stillness)a->stillness;
}
