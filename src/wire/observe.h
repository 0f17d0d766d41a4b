/* observe.h - observation page: a rank's state, which other processes of its user can read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_OBSERVE_H
#define WIRE_OBSERVE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/*
 * Each rank has a page of its own: a memfd that stays open, so that `ringup hang` finds it
 * below /proc/PID/fd.  The kernel lets only the rank's user and root look there.  The rank
 * writes it twice a second; readers copy it.  A page for each rank, rather than one for each
 * host: a rank that waits in ringup_init() has no host's memory yet, and ranks of a host do not
 * always share memory.
 *
 * struct observe_page comes first, then a struct observe_peer of rank 0, rank 1 and so on.
 * A reader of another OBSERVE_VERSION refuses.  Times are CLOCK_MONOTONIC, in nanoseconds.
 */
enum {
	OBSERVE_VERSION = 2,
	OBSERVE_WAITS = 16,
	OBSERVE_MISSING = 24,
	OBSERVE_RECORDS = 16,
	OBSERVE_RANKS = 8192,
	OBSERVE_TEXT = 112,
	OBSERVE_HOST = 64,
};
#define OBSERVE_MAGIC "ringupob"

enum observe_phase { OBSERVE_MEETING, OBSERVE_RUNNING, OBSERVE_LEFT };

/* Flags of a wait. */
enum {
	OBSERVE_AWAITED = 1, /* a thread of this rank is blocked in it */
	OBSERVE_MESSAGE = 2, /* a send or a receive: peer is the other side */
	OBSERVE_ALL = 4,     /* the ranks of all hosts are known, not this host's alone */
	OBSERVE_OTHERS = 8,  /* reported by other hosts: this rank need not wait itself */
};

/* An operation in flight. */
struct observe_wait {
	uint64_t comm;          /* serial of the communicator; 0: the world            */
	int64_t since_ns;       /* up to half a second too late                        */
	uint32_t number, flags; /* number: how often this name was used, this time included */
	int32_t peer;           /* of a message, in the world; -1: any, or no message  */
	int32_t size;           /* of the communicator                                 */
	int32_t missing;        /* how many ranks have not started it                  */
	int32_t waiting;        /* how many ranks that this rank knows have started it */
	int32_t who[OBSERVE_MISSING]; /* the first of those that are missing, in the world */
	char what[OBSERVE_TEXT];      /* "allreduce grad/fc1" */
};

/* An operation that this rank has begun. */
struct observe_record {
	uint64_t comm; /* as in a wait */
	int64_t at_ns; /* up to half a second too late */
	uint32_t number, zero;
	char what[OBSERVE_TEXT];
};

struct observe_peer {
	int32_t pid, as;     /* as: its number in the larger job of which this one is a part */
	uint32_t waited_for; /* samples in which this rank waited for it */
	uint32_t zero;
	char host[OBSERVE_HOST];
};

struct observe_page {
	char magic[8];
	uint32_t version, bytes; /* bytes: of this struct                        */
	uint32_t seq;            /* odd while the rank writes; atomic            */
	uint32_t phase;          /* enum observe_phase; atomic                   */
	int32_t pid, rank, size, local_size, hosts;
	uint32_t generation; /* of an elastic job; else 0 */
	int64_t started_ns,
		updated_ns; /* updated_ns 0: the rank never looks: RINGUP_TICK_MS=0 */
	char host[OBSERVE_HOST], part[OBSERVE_HOST], backend[16], release[32];
	/* Counted since the start. */
	uint64_t operations, bytes_moved, messages;
	int64_t last_ns;          /* when the counts were last seen to grow */
	uint64_t samples, waited; /* looks, and those that found this rank waiting */
	int32_t waits, more;      /* operations in flight: listed, and not listed  */
	struct observe_wait wait[OBSERVE_WAITS]; /* the oldest */
	int32_t records, zero;
	struct observe_record record[OBSERVE_RECORDS]; /* the last, in order */
};

/* A rank's own. */
struct observe {
	int fd; /* 0: none */
	struct observe_page *page;
	struct observe_peer *peers; /* OBSERVE_RANKS of them */
};

/* observe_open - make this process's page; without memory there is none, which is no failure.
 * observe_close - take it away; @o may be all zero. */
void observe_open(struct observe *o);
void observe_close(struct observe *o);

/* observe_begin, observe_end - around each change of fields that are not atomic. */
static inline void observe_begin(struct observe *o)
{
	__atomic_store_n(&o->page->seq, o->page->seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void observe_end(struct observe *o)
{
	__atomic_store_n(&o->page->seq, o->page->seq + 1, __ATOMIC_RELEASE);
}

/* observe_enter - the rank is in phase @phase; does nothing without a page. */
static inline void observe_enter(struct observe *o, enum observe_phase phase)
{
	if (o->page)
		__atomic_store_n(&o->page->phase, (uint32_t)phase, __ATOMIC_RELEASE);
}

/* A reader's copy. */
struct observed {
	struct observe_page page;
	struct observe_peer *peers; /* page.size of them; NULL while the ranks have not met */
};

/*
 * observe_read - copy the page behind descriptor @fd, which anybody may have written.
 *
 * All numbers are checked and all texts end.  RINGUP_EINVAL: it is no page; RINGUP_EMISMATCH:
 * it is one of another version; RINGUP_EBUSY: the rank was writing for too long. Ownership:
 * observe_free().
 */
int observe_read(int fd, struct observed *x, struct err *e);
void observe_free(struct observed *x);

/* observe_find - the pages of process @pid: calls @see for each, with its descriptor.  Returns
 * how many there were, or -1: this user may not look. */
int observe_find(pid_t pid, void (*see)(void *arg, int fd), void *arg);

#endif
