/* api_timeline.c - timelines and trace points of ringup.h. */
/* SPDX-License-Identifier: Apache-2.0 */
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
	if (!rc && each != sizeof(*out))
		rc = fail(&e, RINGUP_EINVAL,
			  "%s: a struct of %zu bytes; install the ringup that the program was "
			  "compiled for",
			  call, each);
	if (!rc)
		rc = timeline_points(&r->context.engine, first, count, out, &e);
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
