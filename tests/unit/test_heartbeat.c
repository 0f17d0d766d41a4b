/* test_heartbeat.c - late, back, lost; and an observer that was away itself. */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "engine/heartbeat.h"
#include "tap.h"

#define MS 1000000ll

static struct heartbeats p;

/* Look each 500 ms up to @until_ms, with peer 0 heard as long as it beats. */
static enum heartbeat_change run(int64_t from_ms, int64_t until_ms, uint32_t *beat)
{
	enum heartbeat_change c = HEARTBEAT_STEADY, got;
	int64_t t;

	for (t = from_ms; t <= until_ms; t += 500) {
		heartbeats_look(&p, t * MS);
		if (beat)
			++*beat;
		heartbeat_see(&p, 0, beat ? *beat : p.of[0].beat, t * MS);
		got = heartbeat_judge(&p, 0, t * MS);
		c = got == HEARTBEAT_STEADY ? c : got;
	}
	return c;
}

static void silence(void)
{
	struct err e = { 0 };
	uint32_t beat = 0;

	ok(!heartbeats_open(&p, 2, 2000, 10000, &e), "two peers");
	ok(run(1000, 60000, NULL) == HEARTBEAT_STEADY, "who never began is not judged");
	ok(run(60500, 70000, &beat) == HEARTBEAT_STEADY, "who beats is alive");
	ok(run(70500, 71500, NULL) == HEARTBEAT_STEADY, "1.5 s are nothing");
	ok(run(72000, 72000, NULL) == HEARTBEAT_LATE, "2 s are late");
	ok(run(72500, 79500, NULL) == HEARTBEAT_STEADY, "said once");
	ok(run(79999, 79999, &beat) == HEARTBEAT_BACK, "and taken back");
	ok(run(80499, 82499, NULL) == HEARTBEAT_LATE, "late again");
	ok(run(82999, 89500, NULL) == HEARTBEAT_STEADY, "not lost at 9.5 s");
	ok(run(89999, 89999, NULL) == HEARTBEAT_LOST, "lost at 10 s");
	ok(run(90499, 200000, &beat) == HEARTBEAT_STEADY, "and that is final");
	heartbeats_close(&p);
}

/* A process that was stopped, a machine that slept. */
static void away(void)
{
	struct err e = { 0 };
	uint32_t beat = 0;

	ok(!heartbeats_open(&p, 1, 2000, 10000, &e), "one peer");
	run(1000, 5000, &beat);
	ok(run(65000, 65000, NULL) == HEARTBEAT_STEADY, "a minute's absence blames nobody");
	ok(run(65500, 66500, NULL) == HEARTBEAT_STEADY, "at first");
	ok(run(67000, 67000, NULL) == HEARTBEAT_LATE, "the peer is late all the same");
	heartbeats_close(&p);
	ok(!heartbeats_open(&p, 1, 0, 0, &e), "no limits");
	heartbeat_hear(&p, 0, 1);
	ok(heartbeat_judge(&p, 0, INT64_MAX - 1) == HEARTBEAT_STEADY, "nobody is ever late");
	heartbeats_close(&p);
	heartbeats_close(&p);
}

/* Connections notice later than others that a host is back. */
static void echoes(void)
{
	struct err e = { 0 };

	ok(!heartbeats_open(&p, 1, 2000, 60000, &e), "one peer");
	ok(!heartbeats_echo(&p, false, 5000 * MS, 10000 * MS), "no silence, no echo");
	ok(heartbeats_echo(&p, true, 5000 * MS, 20000 * MS), "silence, for 2 s already");
	ok(heartbeats_echo(&p, false, 5000 * MS, 21000 * MS), "is felt for as long again");
	ok(heartbeats_echo(&p, false, 5000 * MS, 23999 * MS), "for 3 s");
	ok(!heartbeats_echo(&p, false, 5000 * MS, 24000 * MS), "and no longer");
	heartbeats_echo(&p, true, 5000 * MS, 30000 * MS);
	heartbeats_echo(&p, true, 5000 * MS, 47500 * MS);
	ok(heartbeats_echo(&p, false, 5000 * MS, 48000 * MS) &&
		   heartbeats_echo(&p, false, 5000 * MS, 52999 * MS),
	   "a long one for the longest pause");
	heartbeats_echo(&p, true, 5000 * MS, 49000 * MS);
	heartbeats_echo(&p, false, 1000 * MS, 49500 * MS);
	ok(heartbeats_echo(&p, false, 1000 * MS, 52999 * MS),
	   "a short one behind it ends nothing");
	ok(!heartbeats_echo(&p, false, 1000 * MS, 53000 * MS), "over");
	heartbeats_close(&p);
}

static void rules(void)
{
	struct heartbeat_rules r;
	struct conf c = { .liveness = 1,
			  .freeze_warn_ms = 2000,
			  .freeze_ms = 10000,
			  .lost_warn_ms = 2000,
			  .lost_ms = 15000,
			  .stall_check = 1,
			  .stall_warn_ms = 30000 };

	heartbeat_rules_make(&r, &c);
	ok(r.tick_ms == 500 && r.freeze_ms == 10000 && r.lost_ms == 15000, "the defaults");
	c.freeze_warn_ms = 0;
	c.freeze_ms = 800;
	heartbeat_rules_make(&r, &c);
	ok(r.tick_ms == 100 && !r.freeze_warn_ms, "eight beats within a short limit");
	c.liveness = 0;
	heartbeat_rules_make(&r, &c);
	ok(r.tick_ms == 500 && !r.freeze_ms && !r.lost_ms && r.stall_warn_ms,
	   "without liveness stalls are looked for");
	c.stall_check = 0;
	c.stall_abort_ms = 5;
	heartbeat_rules_make(&r, &c);
	ok(!r.tick_ms && !r.stall_abort_ms, "without both nothing ticks");
	c.liveness = 1;
	c.freeze_ms = 1;
	c.lost_ms = INT64_MAX;
	heartbeat_rules_make(&r, &c);
	ok(r.tick_ms == 10 && r.lost_ms == INT_MAX, "limits of limits");
}

static void states(void)
{
	char text[64];
	pid_t pid = fork();
	int tries, status;

	if (!pid)
		for (;;)
			pause();
	kill(pid, SIGSTOP);
	for (tries = 0; tries < 6000; tries++) {
		heartbeat_state(pid, text, sizeof(text));
		if (!strcmp(text, "it is stopped (state T)"))
			break;
		clock_sleep_ms(10);
	}
	ok(!strcmp(text, "it is stopped (state T)"), "%s", text);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	heartbeat_state(pid, text, sizeof(text));
	ok(!strcmp(text, "it cannot be seen from here"), "%s", text);
}

/* Rank 0 itself reads it, too. */
static void tales(void)
{
	struct heartbeat_tale t = { .rank = 0,
				    .pid = 5,
				    .host = "a",
				    .verb = "has been silent",
				    .silence_ns = 15000 * MS,
				    .seen_by = 2,
				    .seen_on = "b",
				    .because = "its host stands still",
				    .nearend = "; eth0 is down" };
	char text[256];

	heartbeat_tell(&t, text, sizeof(text));
	ok(!strcmp(text,
		   "rank 0 (process 5 on a) has been silent for 15.0 s towards rank 2 on b; "
		   "eth0 is down: its host stands still"),
	   "%s", text);
	t.seen_by = -1;
	t.nearend = "";
	heartbeat_tell(&t, text, sizeof(text));
	ok(!strcmp(text, "rank 0 (process 5 on a) has been silent for 15.0 s: "
			 "its host stands still"),
	   "%s", text);
	ok((heartbeat_tell(&t, text, 12), !strcmp(text, "rank 0 (pro")),
	   "cut where there is no room");
}

int main(void)
{
	tales();
	silence();
	away();
	echoes();
	rules();
	states();
	return tap_done();
}
