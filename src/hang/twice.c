/* twice.c - takes two samples of each job on this host, some seconds apart. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/twice.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "hang/gather.h"
#include "hang/jobs.h"
#include "hang/stacks.h"

/* Pages are written twice a second. */
enum { MS = 1000000, PEEK_MS = 1000 };

/* Where pages show that the job advances, no stack tells more, and none is taken: that would
 * cost the job time. */
static void look_all(struct twice *t, int n, const struct twice_how *how, bool second)
{
	for (int i = 0; i < n; i++) {
		struct look *l = second ? &t[i].now : &t[i].before;
		bool needed;

		gather_look(l, t[i].job);
		gather_ras(l, t[i].job, how->force);
		needed = second ? !look_advances(&t[i].before, l)
				: !l->has_page || how->wait_ms < PEEK_MS;
		if (!how->no_stacks && needed)
			gather_stacks(l, t[i].job);
	}
}

/* Looks at pages once more, and takes the first stacks of jobs that have not advanced. */
static void peek_all(struct twice *t, int n)
{
	struct look l;

	for (int i = 0; i < n; i++) {
		if (!t[i].before.has_page)
			continue;
		gather_look(&l, t[i].job);
		if (!look_advances(&t[i].before, &l))
			gather_stacks(&t[i].before, t[i].job);
		look_free(&l);
	}
}

static bool any_has_page(const struct twice *t, int n)
{
	for (int i = 0; i < n; i++)
		if (t[i].before.has_page)
			return true;
	return false;
}

/* What could not be seen, and what would show it: rights come first, then tools. */
struct unseen {
	char what[ROWS_TEXT], fix[ROWS_TEXT], run[ROWS_TEXT];
};

static void find_forbidden(struct unseen *u, bool root)
{
	snprintf(u->what, sizeof(u->what),
		 "stacks: this %s may not attach to processes (ptrace)",
		 root ? "container" : "user or container");
	if (root)
		snprintf(u->fix, sizeof(u->fix),
			 "start the container with --cap-add SYS_PTRACE");
	else
		snprintf(u->run, sizeof(u->run), "sudo ringup hang");
}

static void find_unseen(const struct twice *t, const struct twice_how *how, struct unseen *u)
{
	const struct hang_job *j = t->job;
	const struct job_rank *hidden = NULL;
	bool python = false, root = !geteuid();
	int n = 0;

	for (int i = 0; i < j->ranks; i++) {
		python |= j->rank[i].is_python;
		hidden = j->rank[i].unreadable ? &j->rank[i] : hidden;
		n += j->rank[i].unreadable;
	}
	if (hidden) {
		snprintf(u->what, sizeof(u->what),
			 "no permission to inspect %d process%s, such as %d", n,
			 n == 1 ? "" : "es", (int)hidden->pid);
		if (root)
			snprintf(u->fix, sizeof(u->fix), TWICE_OUTSIDE);
		else
			snprintf(u->run, sizeof(u->run), "sudo ringup hang");
	} else if (how->no_stacks) {
		snprintf(u->run, sizeof(u->run), "ringup hang");
	} else if (j->ranks && stacks_are_forbidden(j->rank[0].pid)) {
		find_forbidden(u, root);
	} else if (!stacks_has(python)) {
		snprintf(u->what, sizeof(u->what), "stacks: %s is not installed",
			 python ? "py-spy" : "eu-stack");
		snprintf(u->run, sizeof(u->run), "%s", stacks_advice(python));
	} else if (!t->now.has_page && !(t->before.has_stack && t->now.has_stack)) {
		snprintf(u->what, sizeof(u->what),
			 "stacks: %s did not answer within %d s on this busy host",
			 python ? "py-spy" : "eu-stack", STACKS_MS / 1000);
		snprintf(u->run, sizeof(u->run), "ringup hang");
	}
}

void twice_hint(struct twice *t, const struct twice_how *how)
{
	const struct hang_job *j = t->job;
	struct unseen u = { "", "", "" };

	find_unseen(t, how, &u);
	snprintf(t->unseen, sizeof(t->unseen), "%s%s%s", t->now.unseen,
		 *t->now.unseen && *u.what ? "; " : "", u.what);
	if (*t->now.fix || *t->now.run)
		return;
	if (!*u.fix && !*u.run && !t->hosts && j->size && j->ranks < j->size) {
		if (!*t->unseen)
			snprintf(t->unseen, sizeof(t->unseen), "%d of %d ranks, on other hosts",
				 j->size - j->ranks, j->size);
		snprintf(u.run, sizeof(u.run), "ringup hang --hostfile FILE");
	}
	memcpy(t->now.fix, u.fix, sizeof(u.fix));
	memcpy(t->now.run, u.run, sizeof(u.run));
}

/* The time between the looks is used to see whether stacks move. */
void twice_look(struct twice *t, int n, const struct twice_how *how)
{
	int64_t start = clock_ns(), until = start + how->wait_ms * MS;

	look_all(t, n, how, false);
	if (!how->no_stacks && how->wait_ms >= PEEK_MS && any_has_page(t, n)) {
		clock_sleep_ms(how->wait_ms >= 3 * PEEK_MS ? PEEK_MS : (int)how->wait_ms / 3);
		peek_all(t, n);
	}
	for (int i = 0; i < n && !how->no_stacks; i++)
		gather_moves(&t[i].before, t[i].job,
			     n == 1 ? until : clock_ns() + (until - clock_ns()) / (n - i));
	if (clock_ns() < until)
		clock_sleep_ms(clock_left_ms(until));
	look_all(t, n, how, true);
	for (int i = 0; i < n; i++) {
		t[i].now.moved = t[i].before.moved;
		t[i].elapsed_ms = (clock_ns() - start) / MS;
	}
}

void twice_free(struct twice *t)
{
	look_free(&t->before);
	look_free(&t->now);
}
