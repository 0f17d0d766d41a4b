/* api_timeline.c - timelines and trace points of ringup.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "engine/timeline.h"

/* A child of fork() may not record: the files and threads are the parent's. */
static int check_mine(const struct ringup *r, const char *call, struct err *e)
{
	if (!r)
		return fail(e, RINGUP_EINVAL, "%s: the handle is NULL", call);
	return engine_is_mine(&r->context.engine)
		       ? 0
		       : fail(e, RINGUP_ESHUTDOWN,
			      "%s: a forked child is not a rank of the job", call);
}

int ringup_timeline_start(struct ringup *r, const char *path, int flags)
{
	static const char call[] = "ringup_timeline_start";
	struct timeline_rank self;
	struct err e;
	int rc;

	fail_none(&e);
	rc = check_mine(r, call, &e);
	if (rc)
		return call_fail(&e);
	self = context_self(&r->context);
	if (timeline_start(&r->context.engine, &self, path, flags, &e))
		rc = fail_in(&e, "%s", call);
	return rc ? call_fail(&e) : 0;
}

int ringup_points_keep(struct ringup *r, const uint64_t **countp)
{
	static const char call[] = "ringup_points_keep";
	struct err e;
	int rc;

	fail_none(&e);
	rc = check_mine(r, call, &e);
	if (!rc && !countp)
		rc = fail(&e, RINGUP_EINVAL, "%s: the place for the count is NULL", call);
	if (!rc)
		rc = timeline_keep(&r->context.engine, &e);
	if (rc)
		return call_fail(&e);
	*countp = &r->context.engine.trace.numbers;
	return 0;
}

/* The first programs' entries end behind failed. */
static int check_each(const char *call, size_t each, struct err *e)
{
	size_t first = offsetof(struct ringup_points, failed) + sizeof(int);

	if (each >= first && each <= CALL_STRUCT_BYTES &&
	    each % _Alignof(struct ringup_points) == 0)
		return 0;
	return fail(e, RINGUP_EINVAL,
		    "%s: each=%zu is not the size of struct ringup_points; set it to sizeof",
		    call, each);
}

/* The caller's entries have another length: it was compiled for another version. */
static int points_of_length(const struct engine *g, uint64_t first, uint64_t count,
			    unsigned char *out, size_t each, struct err *e)
{
	struct ringup_points *room = calloc(count ? count : 1, sizeof(*room));
	size_t known = each < sizeof(*room) ? each : sizeof(*room);
	int rc = room ? timeline_points(g, first, count, room, e)
		      : fail(e, RINGUP_ENOMEM, "no memory for the points of %llu operations",
			     (unsigned long long)count);

	for (uint64_t i = 0; i < count && !rc; i++) {
		memset(out + i * each, 0, each);
		memcpy(out + i * each, &room[i], known);
	}
	free(room);
	return rc;
}

int ringup_points_get(struct ringup *r, uint64_t first, uint64_t count,
		      struct ringup_points *out, size_t each)
{
	static const char call[] = "ringup_points_get";
	struct err e;
	int rc;

	fail_none(&e);
	rc = check_mine(r, call, &e);
	if (!rc && !out)
		rc = fail(&e, RINGUP_EINVAL, "%s: the place for the points is NULL", call);
	if (!rc && (!first || count > UINT32_MAX))
		rc = fail(&e, RINGUP_EINVAL, "%s: %llu operations from number %llu on", call,
			  (unsigned long long)count, (unsigned long long)first);
	if (!rc)
		rc = check_each(call, each, &e);
	if (!rc && each == sizeof(*out))
		rc = timeline_points(&r->context.engine, first, count, out, &e);
	else if (!rc)
		rc = points_of_length(&r->context.engine, first, count, (unsigned char *)out,
				      each, &e);
	return rc ? call_fail(&e) : 0;
}

int ringup_timeline_stop(struct ringup *r)
{
	struct err e;
	int rc;

	fail_none(&e);
	rc = check_mine(r, "ringup_timeline_stop", &e);
	if (rc)
		return call_fail(&e);
	timeline_stop(&r->context.engine);
	return 0;
}

int ringup_alarm_fd(struct ringup *r)
{
	static const char call[] = "ringup_alarm_fd";
	struct err e;
	int rc;

	fail_none(&e);
	rc = check_mine(r, call, &e);
	if (!rc)
		rc = watch_alarm_fd(&r->context.watch, &e);
	return rc < 0 ? call_fail(&e) : rc;
}
