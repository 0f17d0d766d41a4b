/* say.c - puts a verdict into sentences for people, with advice on what to change or run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hang/look.h"
#include "hang/ruling.h"
#include "wire/ranks.h"

const char *say_time(int64_t ms, char out[SAY_TIME])
{
	int64_t s = ms / 1000;

	if (s < 10)
		snprintf(out, SAY_TIME, "%.1f s", (double)ms / 1e3);
	else if (s < 60)
		snprintf(out, SAY_TIME, "%d s", (int)s);
	else if (s < 3600)
		snprintf(out, SAY_TIME, "%d min %d s", (int)(s / 60), (int)(s % 60));
	else
		snprintf(out, SAY_TIME, "%lld h %d min", (long long)(s / 3600),
			 (int)(s / 60 % 60));
	return out;
}

struct text {
	char *out;
	size_t size, len;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->out + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < t->size - t->len ? (size_t)n : t->size - t->len - 1;
}

/* "rank 1 on node-b (process 4711)", "ranks 1, 2"; without " of N", as the head has that. */
static void put_ranks(struct text *t, const struct ruling *r, const struct look *now,
		      const bool *set)
{
	const struct row_rank *row = NULL;
	char many[RANKS_TEXT];
	int n = 0, one = 0;

	for (int i = 0; i < r->size; i++) {
		n += set[i];
		one = set[i] ? i : one;
	}
	if (n == 1)
		row = look_find(now, one);
	if (row && row->pid) {
		put(t, "rank %d on %s (process %d)", one, *row->host ? row->host : "this host",
		    row->pid);
		return;
	}
	ranks_text(many, set, r->size);
	if (strstr(many, " of "))
		*strstr(many, " of ") = 0;
	put(t, "%s", *many ? many : "ranks");
}

static int count(const bool *set, int size)
{
	int n = 0;

	for (int i = 0; i < size; i++)
		n += set[i];
	return n;
}

static void put_group(struct text *t, const struct ruling *r)
{
	if (*r->group)
		put(t, " of %s", r->group);
}

/* "; ranks 0, 2 have waited 4 min 10 s for it" */
static void put_waiting(struct text *t, const struct ruling *r, const struct look *now)
{
	int n = count(r->waiting, r->size);
	char many[RANKS_TEXT], time[SAY_TIME];

	(void)now;
	if (n) {
		ranks_text(many, r->waiting, r->size);
		if (strstr(many, " of "))
			*strstr(many, " of ") = 0;
	} else {
		snprintf(many, sizeof(many), "other ranks");
	}
	if (r->waited_ms >= 0)
		put(t, "; %s %s waited %s for it", many, n == 1 ? "has" : "have",
		    say_time(r->waited_ms, time));
	else
		put(t, "; %s wait%s for it", many, n == 1 ? "s" : "");
}

/* What each culprit does, where that is known. */
static void put_doing(struct text *t, const struct ruling *r, const struct look *now,
		      int64_t elapsed_ms)
{
	char time[SAY_TIME], who[24];
	int shown = 0;

	for (int i = 0; i < now->ranks && shown < 4; i++) {
		const struct row_rank *x = &now->rank[i];
		const char *how = x->state == ROW_STOPPED ? "stopped"
				  : x->state == ROW_DISK  ? "blocked"
				  : x->asleep             ? "asleep"
							  : "running";

		if (!r->culprit[x->rank] || x->state == ROW_GONE || x->state == ROW_UNSEEN)
			continue;
		shown++;
		snprintf(who, sizeof(who), r->culprits == 1 ? "It" : "Rank %d", x->rank);
		if (*x->where || *x->wchan) {
			put(t, "  %s is %s", who, how);
			if (*x->where)
				put(t, " in %s", x->where);
			if (*x->doing && strcmp(x->doing, x->frame) != 0)
				put(t, ", %s", x->doing);
			else if (!*x->where)
				put(t, " in the kernel (%s)", x->wchan);
			put(t, "; still there %s later.\n", say_time(elapsed_ms, time));
		}
		if (*x->last)
			put(t, "  %s last started %s.\n", who, x->last);
	}
}

/* Who is in which operation, for ranks that differ: one line for each rank, up to eight. */
static void put_apart(struct text *t, const struct ruling *r, const struct look *now)
{
	int shown = 0;

	for (int i = 0; i < now->ranks && shown < 8; i++) {
		const struct row_rank *x = &now->rank[i];
		const struct row_wait *oldest = NULL;

		for (int k = 0; k < now->waits; k++)
			if (now->wait[k].rank == x->rank && now->wait[k].blocked &&
			    (!oldest || now->wait[k].since_ms > oldest->since_ms))
				oldest = &now->wait[k];
		if (!oldest && !*x->call)
			continue;
		put(t, "  rank %d  %s", x->rank, oldest ? oldest->what : x->call);
		if (*x->where && strcmp(x->where, x->call) != 0)
			put(t, "  <- %s", x->where);
		if (r->culprits == 1 && r->culprit[x->rank])
			put(t, "  <- differs");
		put(t, "\n");
		shown++;
	}
}

/* Was a process of any culprit known? */
static bool any_process(const struct ruling *r, const struct look *now)
{
	for (int i = 0; i < now->ranks; i++)
		if (r->culprit[now->rank[i].rank] && now->rank[i].pid)
			return true;
	return false;
}

static void put_culprits(struct text *t, const struct ruling *r, const struct look *now)
{
	put(t, "  ");
	put_ranks(t, r, now, r->culprit);
}

void say_ruling(const struct ruling *r, const struct look *now, int64_t elapsed_ms, char *out,
		size_t size)
{
	struct text t = { out, size, 0 };
	char time[SAY_TIME];
	bool one = r->culprits == 1;

	*out = 0;
	switch (r->kind) {
	case RULING_MOVES:
		if (*r->why)
			put(&t, "  %s\n", r->why);
		else if (!elapsed_ms)
			put(&t, "  the job advanced between the two samples\n");
		else
			put(&t, "  the job advanced within %s\n", say_time(elapsed_ms, time));
		break;
	case RULING_SLOW:
	case RULING_UNSURE:
		put(&t, "  %s\n", r->why);
		break;
	case RULING_UNENDING:
		put(&t, "  all ranks have started %s", *r->what ? r->what : "an operation");
		put_group(&t, r);
		put(&t, ", but it has not finished");
		if (r->waited_ms >= 0)
			put(&t, " after %s", say_time(r->waited_ms, time));
		put(&t,
		    ": the network between the ranks, or the GPU of one, is down or slow, or "
		    "the operation is very large\n");
		break;
	case RULING_DEAD:
		put_culprits(&t, r, now);
		if (any_process(r, now))
			put(&t, " %s died", one ? "has" : "have");
		else
			put(&t, " %s no process on the sampled hosts", one ? "has" : "have");
		put(&t, "; the other ranks wait for %s\n", one ? "it" : "them");
		break;
	case RULING_STOPPED:
		put_culprits(&t, r, now);
		put(&t, " %s stopped by SIGSTOP or a debugger\n", one ? "is" : "are");
		break;
	case RULING_SILENT:
		put_culprits(&t, r, now);
		put(&t,
		    " %s not answer NCCL RAS: the process is stopped, or its host is down\n",
		    one ? "does" : "do");
		break;
	case RULING_DISK:
		put_culprits(&t, r, now);
		put(&t,
		    " %s blocked in the kernel (state D), usually on a disk or a network "
		    "file system\n",
		    one ? "is" : "are");
		break;
	case RULING_LATE:
		put_culprits(&t, r, now);
		put(&t, " %s not started %s", one ? "has" : "have",
		    *r->what ? r->what : "the operation");
		put_group(&t, r);
		put_waiting(&t, r, now);
		put(&t, "%s%s\n", *r->why ? "; " : "", r->why);
		break;
	case RULING_ODD:
		put_culprits(&t, r, now);
		put(&t, " differs: %s, while ", r->why);
		put_ranks(&t, r, now, r->waiting);
		put(&t, " wait in %s", r->what);
		put_group(&t, r);
		put(&t, "\n");
		put_apart(&t, r, now);
		break;
	case RULING_APART:
		put(&t, "  ranks wait in different operations, so none can finish\n");
		put_apart(&t, r, now);
		break;
	case RULING_CIRCLE:
		put(&t, "  ranks wait for each other's messages, in a cycle\n");
		put_apart(&t, r, now);
		break;
	case RULING_INIT:
		put_culprits(&t, r, now);
		put(&t, " %s not reached initialization", one ? "has" : "have");
		put_group(&t, r);
		put_waiting(&t, r, now);
		put(&t, "\n");
		break;
	case RULING_BEHIND:
		put_culprits(&t, r, now);
		put(&t, " %s not launched %s", one ? "has" : "have", r->what);
		if (*r->group)
			put(&t, " in communicator %s", r->group);
		put(&t, "; ");
		put_ranks(&t, r, now, r->waiting);
		put(&t, " %s, and no rank advances\n",
		    count(r->waiting, r->size) == 1 ? "has" : "have");
		break;
	}
	if (r->status == 1 && elapsed_ms && r->kind != RULING_ODD && r->kind != RULING_CIRCLE)
		put_doing(&t, r, now, elapsed_ms);
}

const char *say_head(const struct ruling *r)
{
	if (r->status == 1)
		return "HANGS";
	if (r->status)
		return "cannot tell";
	return r->kind == RULING_SLOW ? "no hang: slow or idle" : "no hang";
}

void say_run(const struct ruling *r, const struct look *now, char *out, size_t size)
{
	const struct row_rank *x = NULL;

	*out = 0;
	for (int i = 0; i < now->ranks && !x; i++)
		if (r->culprit[now->rank[i].rank])
			x = &now->rank[i];
	if (r->kind == RULING_STOPPED && x) {
		char here[ROWS_NAME] = "";

		gethostname(here, sizeof(here) - 1);
		if (*x->host && strcmp(x->host, here) != 0)
			snprintf(out, size, "ssh %s kill -CONT %d", x->host, x->pid);
		else
			snprintf(out, size, "kill -CONT %d", x->pid);
	} else if (r->kind == RULING_UNENDING)
		snprintf(out, size, "ringup net check");
	else if (r->status == 1)
		snprintf(out, size, "ringup hang --collect hang-1");
	else if (r->status)
		snprintf(out, size, "%s", now->run);
}

void say_fix(const struct ruling *r, const struct look *now, char *out, size_t size)
{
	*out = 0;
	if (r->kind == RULING_CIRCLE)
		snprintf(out, size,
			 "reorder sends and receives so that one of them can complete");
	else if (r->status == 3)
		snprintf(out, size, "%s", now->fix);
}
