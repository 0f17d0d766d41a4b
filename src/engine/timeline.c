/* timeline.c - start and stop the recording of a rank's operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/timeline.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/engine_state.h"
#include "engine/ledger.h"
#include "host/identity.h"
#include "ringup.h"

/* Held by the thread that starts or stops a timeline or adds a group; rarely, and for as long
 * as the file takes to write. */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

/* Other ranks of this host publish arrival times only while one of its ranks asks for them. */
static void ask_comm(struct comm *c, void *ask)
{
	if (!c->ledger || c->asks == (ask != NULL))
		return;
	c->asks = ask != NULL;
	ledger_ask(c->ledger, c->asks);
}

/* Puts this rank's number into @path: in place of "%r", or behind it. */
static int name_file(char *out, size_t size, const char *path, int rank, struct err *e)
{
	const char *p = strstr(path, "%r");
	int n;

	if (p)
		n = snprintf(out, size, "%.*s%d%s", (int)(p - path), path, rank, p + 2);
	else
		n = snprintf(out, size, "%s.%d", path, rank);
	return n >= 0 && (size_t)n < size
		       ? 0
		       : fail(e, RINGUP_EINVAL, "the timeline's path is too long: %zu bytes",
			      strlen(path));
}

/* The options of a timeline. */
struct asked {
	const char *path;
	int flags;    /* RINGUP_TIMELINE_ */
	bool resumes; /* see tracefile_open() */
};

static int timeline_start_at(struct engine *g, const struct timeline_rank *self,
			     const struct asked *how, bool all, struct err *e)
{
	uint32_t on = TRACE_ON | (how->flags & RINGUP_TIMELINE_CYCLES ? TRACE_CYCLES : 0);
	const char *path = how->path;
	char file[PATH_MAX], clock[2 * IDENTITY_BYTES + 1];
	struct trace_origin from = { .rank = self->rank,
				     .size = self->size,
				     .merges = all,
				     .host = self->host,
				     .clock = clock,
				     .part = self->part,
				     .resumes = how->resumes };
	unsigned char id[IDENTITY_BYTES];
	int rc;

	if (all) {
		rc = name_file(file, sizeof(file), path, trace_rank(&g->trace, self->rank), e);
		if (rc)
			return rc;
		path = file;
	}
	identity_get(id, "");
	for (int i = 0; i < IDENTITY_BYTES; i++)
		snprintf(clock + (size_t)i * 2, 3, "%02x", id[i]);
	rc = trace_start(&g->trace, path, on, &from, e);
	if (!rc)
		comms_visit(g, ask_comm, g);
	return rc;
}

static int start_asked(struct engine *g, const struct timeline_rank *self,
		       const struct asked *how, struct err *e)
{
	const char *path = how->path;
	int flags = how->flags, rc;
	bool all = flags & RINGUP_TIMELINE_ALL || (path && strstr(path, "%r"));

	if (!path || !*path)
		return fail(e, RINGUP_EINVAL, "a timeline needs the path of a file");
	if (flags & ~(RINGUP_TIMELINE_CYCLES | RINGUP_TIMELINE_ALL))
		return fail(e, RINGUP_EINVAL, "flags=%d: not valid for a timeline", flags);
	if (trace_rank(&g->trace, self->rank) && !all)
		return 0;
	pthread_mutex_lock(&control);
	rc = timeline_start_at(g, self, how, all, e);
	pthread_mutex_unlock(&control);
	return rc;
}

int timeline_start(struct engine *g, const struct timeline_rank *self, const char *path,
		   int flags, struct err *e)
{
	return start_asked(g, self, &(struct asked){ path, flags, false }, e);
}

void timeline_stop(struct engine *g)
{
	pthread_mutex_lock(&control);
	trace_stop(&g->trace);
	comms_visit(g, ask_comm, NULL);
	pthread_mutex_unlock(&control);
}

int timeline_keep(struct engine *g, struct err *e)
{
	int rc;

	pthread_mutex_lock(&control);
	rc = trace_keep(&g->trace, e);
	pthread_mutex_unlock(&control);
	return rc;
}

int timeline_points(const struct engine *g, uint64_t first, uint64_t count,
		    struct ringup_points *out, struct err *e)
{
	int rc;

	pthread_mutex_lock(&control);
	rc = trace_points(&g->trace, first, count, out, e);
	pthread_mutex_unlock(&control);
	return rc;
}

void timeline_begin(struct engine *g, const struct timeline_rank *self, const struct conf *c)
{
	struct asked how = {
		.path = c->timeline,
		.flags = (c->timeline_mark_cycles ? RINGUP_TIMELINE_CYCLES : 0) |
			 (c->timeline_all ? RINGUP_TIMELINE_ALL : 0),
		/* The setting is about all jobs of the process, also one after the other. */
		.resumes = true,
	};
	struct err e;

	/* Horovod needs DYNAMIC to allow start_timeline(), which is always allowed here. */
	if (!c->timeline || !*c->timeline || !strcmp(c->timeline, "DYNAMIC"))
		return;
	if (start_asked(g, self, &how, &e))
		log_warn("%s; the job continues without a timeline", e.text);
}

void timeline_join(struct comm *c)
{
	pthread_mutex_lock(&control);
	ask_comm(c, trace_writes(&c->engine->trace) ? c : NULL);
	pthread_mutex_unlock(&control);
}

void timeline_close(struct engine *g)
{
	pthread_mutex_lock(&control);
	trace_close(&g->trace);
	pthread_mutex_unlock(&control);
}
