/* gather.c - samples a job on this host: observation pages, /proc and stacks become rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/gather.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pidstat.h"
#include "hang/jobs.h"
#include "hang/ras.h"
#include "hang/stacks.h"
#include "ringup.h"
#include "wire/observe.h"

enum { MS = 1000000, WATCHED = 4, PAUSE_MS = 250 };

/* ---- /proc ---- */

static uint64_t number_behind(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	return at ? strtoull(at + strlen(label), NULL, 10) : 0;
}

/* CPU time, of the fields behind the name, which may have any bytes. */
static uint64_t cpu_ms(const char *stat)
{
	const char *at = strrchr(stat, ')');
	unsigned long long user = 0, system = 0;
	long hz = sysconf(_SC_CLK_TCK);

	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
			  &user, &system) != 2)
		return 0;
	return (user + system) * 1000 / (hz > 0 ? (uint64_t)hz : 100);
}

static void see_process(struct row_rank *r, pid_t pid, uint64_t start)
{
	struct pidstat p;
	char text[4096], name[48];

	if (pidstat_read(pid, &p) || (start && p.start != start) || p.state == 'Z' ||
	    p.state == 'X') {
		r->state = ROW_GONE;
		return;
	}
	r->state = p.state == 'T' || p.state == 't' ? ROW_STOPPED
		   : p.state == 'D'                 ? ROW_DISK
						    : ROW_ALIVE;
	r->asleep = p.state == 'S';
	if (pidstat_file(pid, "stat", text, sizeof(text)) > 0)
		r->cpu_ms = cpu_ms(text);
	if (pidstat_file(pid, "io", text, sizeof(text)) > 0)
		r->io_bytes = number_behind(text, "rchar: ") + number_behind(text, "\nwchar: ");
	snprintf(name, sizeof(name), "task/%d/status", (int)pid);
	if (pidstat_file(pid, name, text, sizeof(text)) > 0)
		r->switches = number_behind(text, "\nvoluntary_ctxt_switches:");
	if (pidstat_file(pid, "wchan", text, sizeof(text)) > 0 && strcmp(text, "0") != 0)
		snprintf(r->wchan, sizeof(r->wchan), "%.60s", text);
}

/* ---- observation pages ---- */

struct page_look {
	struct look *look;
	struct row_rank *row;
	pid_t pid;
	bool expects; /* other ranks may be on this host */
	char here[ROWS_NAME];
};

static int rank_as(const struct observed *x, int rank)
{
	return x->peers && rank >= 0 && rank < x->page.size ? x->peers[rank].as : rank;
}

static void take_wait(struct page_look *p, const struct observed *x,
		      const struct observe_wait *w, int64_t now)
{
	struct row_wait *row = look_wait(p->look, p->row->rank);

	if (!row)
		return;
	if (*x->page.part)
		snprintf(row->group, sizeof(row->group), "%s", x->page.part);
	else if (w->comm)
		snprintf(row->group, sizeof(row->group), "group %llu",
			 (unsigned long long)w->comm);
	snprintf(row->what, sizeof(row->what), "%s", w->what);
	row->number = w->number;
	row->since_ms = (now - w->since_ns) / MS;
	row->blocked = w->flags & OBSERVE_AWAITED;
	row->reported = w->flags & OBSERVE_OTHERS;
	row->message = w->flags & OBSERVE_MESSAGE;
	row->all_known = w->flags & OBSERVE_ALL;
	row->peer = w->peer < 0 ? -1 : rank_as(x, w->peer);
	row->size = w->size;
	row->waiting = w->waiting;
	row->missing = w->missing;
	for (int i = 0; i < w->missing && i < ROWS_MISSING; i++)
		row->who[i] = rank_as(x, w->who[i]);
}

/* A rank that this host's processes do not include, but the page does. */
static void take_peers(struct page_look *p, const struct observed *x)
{
	struct row_rank *r;

	for (int i = 0; x->peers && i < x->page.size; i++) {
		int rank = rank_as(x, i);

		if (look_find(p->look, rank))
			continue;
		r = look_rank(p->look, rank);
		if (!r)
			return;
		r->pid = x->peers[i].pid;
		snprintf(r->host, sizeof(r->host), "%s", x->peers[i].host);
		if (!strcmp(r->host, x->page.host) && x->page.pid == p->pid)
			see_process(r, r->pid, 0);
	}
}

static void take_page(void *arg, int fd)
{
	struct page_look *p = arg;
	struct row_rank *r = p->row;
	struct observed x;
	struct err e;
	int rc = observe_read(fd, &x, &e);
	int64_t now = clock_ns();
	bool blocked = false;

	if (rc == RINGUP_EMISMATCH)
		snprintf(p->look->unseen, sizeof(p->look->unseen), "%.120s", e.text);
	if (rc)
		return;
	p->look->has_page = true;
	r->counts = x.page.updated_ns != 0;
	r->progress += x.page.operations + x.page.messages;
	if (*x.page.host)
		snprintf(r->host, sizeof(r->host), "%s", x.page.host);
	for (int i = 0; i < x.page.waits; i++) {
		take_wait(p, &x, &x.page.wait[i], now);
		blocked |= (x.page.wait[i].flags & OBSERVE_AWAITED) != 0;
	}
	if (x.page.phase == OBSERVE_MEETING) {
		r->phase = ROW_MEETING;
		r->since_ms = (now - x.page.started_ns) / MS;
	} else if (r->phase == ROW_BLOCKED) {
		; /* in another of its jobs */
	} else if (x.page.phase == OBSERVE_LEFT) {
		r->phase = ROW_LEFT;
	} else if (x.page.updated_ns) {
		r->phase = blocked ? ROW_BLOCKED : x.page.waits ? ROW_FLYING : ROW_OUTSIDE;
		r->since_ms = (now - x.page.last_ns) / MS;
	}
	if (x.page.records) {
		const struct observe_record *last = &x.page.record[x.page.records - 1];

		snprintf(r->last, sizeof(r->last), "%s (number %u)", last->what, last->number);
	}
	take_peers(p, &x);
	observe_free(&x);
}

/* ---- a look ---- */

/* Ranks that are to be on this host, and are not. */
static void find_absent(struct look *l, const struct hang_job *j)
{
	struct row_rank *r;

	for (int rank = 0; j->here > 0 && j->here == j->size && rank < j->size; rank++)
		if (!look_find(l, rank) && (r = look_rank(l, rank)))
			r->state = ROW_GONE;
}

void gather_look(struct look *l, const struct hang_job *j)
{
	char host[ROWS_NAME] = "";
	int i;

	memset(l, 0, sizeof(*l));
	l->size = j->size;
	gethostname(host, sizeof(host) - 1);
	for (i = 0; i < j->ranks; i++) {
		struct row_rank *r = look_rank(l, j->rank[i].rank);

		if (!r)
			return;
		r->pid = j->rank[i].pid;
		snprintf(r->host, sizeof(r->host), "%s", host);
		see_process(r, r->pid, j->rank[i].start);
	}
	for (i = 0; i < j->ranks; i++) {
		struct page_look p = { .look = l, .pid = j->rank[i].pid };

		p.row = look_find(l, j->rank[i].rank);
		if (p.row)
			observe_find(j->rank[i].pid, take_page, &p);
	}
	find_absent(l, j);
	look_find_before(l);
}

/* ---- stacks ---- */

static bool is_waited_for(const struct look *l, int rank)
{
	for (int i = 0; i < l->waits; i++) {
		const struct row_wait *w = &l->wait[i];

		if (w->message && w->peer == rank)
			return true;
		for (int k = 0; k < w->missing && k < ROWS_MISSING; k++)
			if (w->who[k] == rank)
				return true;
	}
	return false;
}

static const struct job_rank *job_rank_of(const struct hang_job *j, int rank)
{
	for (int i = 0; i < j->ranks; i++)
		if (j->rank[i].rank == rank)
			return &j->rank[i];
	return NULL;
}

static bool take_stack(struct row_rank *r, const struct hang_job *j)
{
	const struct job_rank *x = job_rank_of(j, r->rank);
	struct stack s;

	if (!x || r->state == ROW_GONE || !stacks_read(&s, x->pid, x->is_python))
		return false;
	memcpy(r->call, s.call, sizeof(r->call));
	memcpy(r->frame, s.frame, sizeof(r->frame));
	memcpy(r->where, s.where, sizeof(r->where));
	memcpy(r->doing, s.doing, sizeof(r->doing));
	r->print = s.print >> 1;
	return true;
}

/* Ranks of another host may wait for one that does not wait itself. */
static bool may_be_waited_for(const struct look *l, const struct row_rank *r,
			      const struct hang_job *j)
{
	return is_waited_for(l, r->rank) || (r->phase != ROW_BLOCKED && j->ranks < j->size);
}

void gather_stacks(struct look *l, const struct hang_job *j)
{
	for (int i = 0; i < l->ranks; i++)
		if (!l->has_page || l->rank[i].phase == ROW_BEFORE ||
		    may_be_waited_for(l, &l->rank[i], j))
			l->has_stack |= take_stack(&l->rank[i], j);
}

void gather_moves(struct look *now, const struct hang_job *j, int64_t until_ns)
{
	int64_t next = clock_ns();

	while (!now->has_page && now->has_stack && !now->moved && clock_ns() < until_ns) {
		for (int i = 0; i < now->ranks && i < WATCHED && !now->moved; i++) {
			struct row_rank again = now->rank[i];

			if (!*again.where || !take_stack(&again, j))
				continue;
			now->moved = strcmp(again.call, now->rank[i].call) != 0 ||
				     strcmp(again.frame, now->rank[i].frame) != 0 ||
				     (again.print && now->rank[i].print &&
				      again.print != now->rank[i].print);
		}
		next += (int64_t)PAUSE_MS * MS;
		clock_sleep_ms(clock_left_ms(next < until_ns ? next : until_ns));
	}
	if (clock_ns() < until_ns)
		clock_sleep_ms(clock_left_ms(until_ns));
}

/* ---- NCCL RAS ---- */

/* RAS knows hosts by address, and numbers ranks as its communicators do; processes of this job
 * have their own numbers. */
static int rank_in_job(const struct look *l, const struct row_rank *x)
{
	for (int i = 0; i < l->ranks; i++)
		if (x->pid && l->rank[i].pid == x->pid)
			return l->rank[i].rank;
	return look_find(l, x->rank) ? -1 : x->rank;
}

static void merge(struct look *l, const struct look *ras)
{
	for (int i = 0; i < ras->ranks; i++) {
		const struct row_rank *x = &ras->rank[i];
		int rank = rank_in_job(l, x);
		struct row_rank *r = look_find(l, rank);

		if (!r && rank >= 0 && (r = look_rank(l, rank))) {
			r->pid = x->pid;
			memcpy(r->host, x->host, sizeof(r->host));
			r->state = x->state;
		} else if (r && x->state == ROW_SILENT && r->state == ROW_ALIVE) {
			r->state = ROW_SILENT;
		}
		for (int k = 0; k < ras->counts && rank >= 0; k++) {
			struct row_count *c =
				ras->count[k].rank == x->rank ? look_count(l, rank) : NULL;

			if (!c)
				continue;
			*c = ras->count[k];
			c->rank = rank;
		}
	}
}

void gather_ras(struct look *l, const struct hang_job *j, bool force)
{
	char version[RAS_VERSION] = "", where[128] = "", told[RAS_VERSION];
	struct look ras = { 0 };
	const char *hazard;
	struct err e;
	bool found = false;

	for (int i = 0; i < j->ranks && i < 8 && !found; i++)
		found = ras_of(j->rank[i].pid, version, where);
	hazard = found ? ras_hazard(version, j->size) : NULL;
	if (!found)
		return;
	if (!*where) {
		snprintf(l->unseen, sizeof(l->unseen), "NCCL RAS: NCCL_RAS_ENABLE=0 is set");
		snprintf(l->fix, sizeof(l->fix), "start the job without NCCL_RAS_ENABLE=0");
	} else if (hazard && !force) {
		snprintf(l->unseen, sizeof(l->unseen), "NCCL RAS: NCCL %.20s: %.80s",
			 *version ? version : "of unknown version", hazard);
		snprintf(l->run, sizeof(l->run), "ringup hang --force");
	} else if (ras_ask(&ras, where, told, &e)) {
		snprintf(l->unseen, sizeof(l->unseen), "NCCL RAS: %.110s", e.text);
		snprintf(l->run, sizeof(l->run), "ringup hang --ras HOST:PORT");
	} else {
		merge(l, &ras);
	}
	look_free(&ras);
}
