/* heartbeat.h - when each peer was last heard from, and which are late or lost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_HEARTBEAT_H
#define ENGINE_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conf;
struct err;

/* The rules of all ranks of a job, in milliseconds: the first rank's settings.
 * 0 turns a limit off. */
struct heartbeat_rules {
	uint32_t tick_ms; /* how often to beat and to look; 0: never */
	uint32_t freeze_warn_ms, freeze_ms;
	uint32_t lost_warn_ms, lost_ms;
	uint32_t stall_warn_ms, stall_abort_ms;
	uint32_t deadlock_ms;
};

/* heartbeat_rules_make - rules from the settings: at least four beats before a warning, which
 * comes after at least 40 ms, and at least two checks before a stall is reported. */
void heartbeat_rules_make(struct heartbeat_rules *r, const struct conf *c);

/*
 * A set of peers, each with the time when it was last heard.  The caller detects signs of life
 * (a counter in shared memory, bytes on a connection), and acts on late and lost peers.  Time
 * comes from outside, so tests need none.
 *
 * After a pause of its own (a stopped process, a machine that slept) the observer cannot judge
 * its peers, so it counts that time for none of them.  A peer counts from the first time that
 * it was heard.
 *
 * One thread.
 */
struct heartbeat {
	int64_t heard_ns; /* 0: never yet */
	uint32_t beat;    /* its counter at that time */
	bool late, lost;
};

struct heartbeats {
	struct heartbeat *of;
	int count;
	int64_t warn_ns, fail_ns; /* INT64_MAX: never */
	int64_t looked_ns;
	int64_t silent_ns, calm_ns; /* heartbeats_echo(): since when; when it is over */
};

enum heartbeat_change {
	HEARTBEAT_STEADY,
	HEARTBEAT_LATE, /* silent for warn_ns: reported once */
	HEARTBEAT_BACK, /* was late, and is heard again  */
	HEARTBEAT_LOST, /* silent for fail_ns: reported once */
};

/* heartbeats_open - for @count peers; heartbeats_close() is safe on a zeroed struct. */
int heartbeats_open(struct heartbeats *h, int count, uint32_t warn_ms, uint32_t fail_ms,
		    struct err *e);
void heartbeats_close(struct heartbeats *h);

/* heartbeats_look - the observer looks, at @now_ns.  Comes first in each round of calls. */
void heartbeats_look(struct heartbeats *h, int64_t now_ns);

/* heartbeat_hear - peer @who has been heard; heartbeat_see - its counter is @beat; 0: the peer
 * has not begun to beat. */
void heartbeat_hear(struct heartbeats *h, int who, int64_t now_ns);
void heartbeat_see(struct heartbeats *h, int who, uint32_t beat, int64_t now_ns);

/* heartbeat_judge - the change of peer @who since the last call. */
enum heartbeat_change heartbeat_judge(struct heartbeats *h, int who, int64_t now_ns);

/* heartbeat_silence_ns - how long peer @who has been silent. */
int64_t heartbeat_silence_ns(const struct heartbeats *h, int who, int64_t now_ns);

/*
 * heartbeats_echo - is a silence still felt?  While a peer is @late, it is.  When all are back,
 * connections that have retried in vain still wait for their retry pauses, which have grown to
 * the length of the silence, at most @pause_ns; so the silence is felt for that long, too.
 */
bool heartbeats_echo(struct heartbeats *h, bool late, int64_t pause_ns, int64_t now_ns);

enum { HEARTBEAT_HOST_BYTES = 64 };

/* Another rank, as named in a sentence about its end. */
struct heartbeat_peer {
	int pid;
	char host[HEARTBEAT_HOST_BYTES];
};

/* The parts of a sentence about a peer that is late or lost. */
struct heartbeat_tale {
	int rank, pid;
	const char *host, *verb; /* "has been silent" */
	int64_t silence_ns;
	int seen_by;                   /* the rank of another host that reports it, or -1 */
	const char *seen_on;           /* the host of that rank */
	const char *because, *nearend; /* nearend: text of nearend_look(), or "" */
};

/* heartbeat_tell - the sentence for the log and for errors.  Every rank of the job reads an
 * error, also the rank that it is about, which knows that it has not been silent. */
void heartbeat_tell(const struct heartbeat_tale *t, char *out, size_t size);

/* heartbeat_state - why process @pid of this host may not move, as a clause to @out:
 * "it is stopped (state T)". */
void heartbeat_state(int pid, char *out, size_t size);

#endif
