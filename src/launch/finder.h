/* finder.h - host discovery: run the user's script periodically, and read its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_FINDER_H
#define LAUNCH_FINDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/hostlist.h"

struct err;
struct pollfd;

enum {
	FINDER_SOONEST_MS = 10,  /* least time between runs   */
	FINDER_LIMIT_MS = 10000, /* for one run of the script */
	FINDER_BYTES = 1 << 20,  /* of its output             */
};

/* Caller's storage; zeroed is closed. */
struct finder {
	const char *script; /* for a shell                            */
	int slots;          /* of a host that is printed without them */
	int64_t every_ms;   /* from one run to the next               */
	pid_t pid;          /* 0: it does not run now                 */
	int pidfd, fd;
	char *text;
	size_t len;
	int64_t next_ns, late_ns;
	struct hostlist hosts; /* as it printed them last               */
	bool failing;          /* its last run failed, which was reported  */
};

/* finder_open - finder_serve() runs @script at once, and then every @every_ms, at least
 * FINDER_SOONEST_MS. */
void finder_open(struct finder *f, const char *script, int slots, int64_t every_ms);

/* finder_poll - put the descriptors to wait for into @p, which has room for two; returns how
 * many.  finder_until - when to serve even if nothing happens. */
size_t finder_poll(const struct finder *f, struct pollfd *p);
int64_t finder_until(const struct finder *f);

/*
 * finder_serve - go on as far as possible without blocking.
 *
 * Returns 1 if the script has run and f->hosts are the hosts that it printed; 0 if there is
 * nothing new; or a negative code if it failed, took too long, printed something else, or
 * printed no host after it had printed some.  Of several failures in a row only the first is
 * an error.  f->hosts then stay as they are.
 */
int finder_serve(struct finder *f, struct err *e);

void finder_close(struct finder *f);

#endif
