/* test_alarm.c - the first sentence counts. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/alarm.h"

/* A rank that waits for a processor in the midst of raising the alarm. */
static void *finish_late(void *arg)
{
	struct alarm *a = arg;

	clock_sleep_ms(20);
	strcpy(a->why, "rank 4 died");
	__atomic_store_n(&a->word, 16 - RINGUP_EPEER, __ATOMIC_RELEASE);
	return NULL;
}

int main(void)
{
	struct alarm a = { 0 };
	struct err e = { 0 };
	pthread_t late;
	int64_t begun;

	ok(alarm_get(&a, &e) == 0, "silent at first");
	ok(alarm_culprit(&a) == -1, "and because of nobody");
	ok(alarm_raise(&a, 3, RINGUP_EPEER, "rank %d died", 3) == 1, "raised");
	ok(alarm_raise(&a, 5, RINGUP_EABORTED, "late") == 0, "only once");
	ok(alarm_get(&a, &e) == RINGUP_EPEER && !strcmp(e.text, "rank 3 died"), "%s", e.text);
	ok(alarm_culprit(&a) == 3, "because of the first that was named");
	memset(&a, 0, sizeof(a));
	a.word = ALARM_RAISING;
	begun = clock_ns();
	ok(alarm_get(&a, &e) == RINGUP_EPEER, "a raiser that died in between: %s", e.text);
	ok(clock_ns() - begun < 1500000000, "is not waited for any longer");
	ok(alarm_culprit(&a) == -1, "has named nobody");
	pthread_create(&late, NULL, finish_late, &a);
	ok(alarm_get(&a, &e) == RINGUP_EPEER && !strcmp(e.text, "rank 4 died"),
	   "one that is slow is waited for: %s", e.text);
	pthread_join(late, NULL);
	memset(a.why, 'x', sizeof(a.why));
	a.word = 16 - RINGUP_ESHUTDOWN;
	ok(alarm_get(&a, &e) == RINGUP_ESHUTDOWN, "a sentence without an end is cut");
	return tap_done();
}
