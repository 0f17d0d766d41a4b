/* watch.c - the thread that notices when a rank dies, leaves or speaks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/pidstat.h"
#include "engine/star.h"
#include "ringup.h"
#include "wire/ancestor.h"
#include "wire/chan.h"
#include "wire/mesh.h"

static void died(struct watch *w, int rank, const char *how)
{
	const struct watch_peer *p = &w->peer[rank];
	char why[256];

	snprintf(why, sizeof(why), "rank %d (process %d on %s) %s", rank, p->pid, p->host, how);
	engine_alarm(w->engine, RINGUP_EPEER, why);
}

/* ---- what the star tells ---- */

static void on_news(void *ctx)
{
	engine_news(((struct watch *)ctx)->engine);
}

static void on_left(void *ctx, int rank)
{
	struct watch *w = ctx;

	w->gone[rank] = true;
	__atomic_store_n(w->engine->left, (uint32_t)rank + 1, __ATOMIC_RELEASE);
	engine_news(w->engine);
}

/* Rank 0 has told the others already, or does when this returns. */
static void on_alarm(void *ctx, int code, const char *why)
{
	struct watch *w = ctx;

	alarm_raise(w->engine->alarm, code, "%s", why);
	engine_news(w->engine);
}

int watch_events(struct watch *w, struct engine *g, int size, struct star_events *ev,
		 struct err *e)
{
	w->engine = g;
	w->gone = calloc((size_t)size, sizeof(*w->gone));
	if (!w->gone)
		return fail(e, RINGUP_ENOMEM, "no memory to watch %d ranks", size);
	*ev = (struct star_events){ on_news, on_left, on_alarm, w };
	return 0;
}

/* ---- the tick ---- */

enum { MS = 1000000 };

/* Of those who notice that @rank is late, the first of the host speaks for all. */
static bool speaks(const struct watch *w, int rank)
{
	const struct row *row = w->engine->row;
	int i;

	for (i = 0; !w->star && i < row->me; i++)
		if (i != rank && w->pidfd[i] >= 0 && !w->local.of[i].late &&
		    !__atomic_load_n(&seat_at(row, i)->left, __ATOMIC_RELAXED))
			return false;
	return true;
}

/* How long @rank has not been heard, and what becomes of it. */
static void judge(struct watch *w, struct pulses *p, int rank, const char *verb,
		  const char *because, int64_t now)
{
	const struct watch_peer *x = &w->peer[rank];
	double silence = (double)pulse_silence_ns(p, rank, now) / 1e9;
	char how[160];

	switch (pulse_judge(p, rank, now)) {
	case PULSE_STEADY:
		break;
	case PULSE_LATE:
		if (!speaks(w, rank))
			break;
		log_warn("rank %d (process %d on %s) %s for %.1f s: %s", rank, x->pid, x->host,
			 verb, silence, because);
		break;
	case PULSE_BACK:
		if (speaks(w, rank))
			log_warn("rank %d (process %d on %s) is back", rank, x->pid, x->host);
		break;
	case PULSE_LOST:
		snprintf(how, sizeof(how), "%s for %.1f s: %s", verb, silence, because);
		died(w, rank, how);
		break;
	}
}

/* Ranks that share memory with us: does their counter move? */
static void look_at_seats(struct watch *w, int64_t now)
{
	struct row *row = w->engine->row;
	char why[64];
	int i;

	pulses_look(&w->local, now);
	for (i = 0; i < row->count; i++) {
		const struct seat *s = seat_at(row, i);

		if (w->pidfd[i] < 0 || __atomic_load_n(&s->left, __ATOMIC_ACQUIRE))
			continue;
		pulse_see(&w->local, i, __atomic_load_n(&s->beat, __ATOMIC_RELAXED), now);
		why[0] = 0;
		if (pulse_silence_ns(&w->local, i, now) >= w->local.warn_ns)
			pulse_state(w->peer[i].pid, why, sizeof(why));
		judge(w, &w->local, i, "has not moved", why, now);
	}
}

static void look_at_silence(struct watch *w, int64_t now)
{
	int r;

	pulses_look(&w->remote, now);
	for (r = 0; r < w->team->size; r++)
		if (w->mesh->control[r] && !w->lost[r] && !w->gone[r])
			judge(w, &w->remote, r, "has been silent",
			      "its process, its host or the network between stands still", now);
}

static bool is_over(const struct watch *w)
{
	return __atomic_load_n(&w->engine->alarm->word, __ATOMIC_RELAXED);
}

static void tick(struct watch *w, int64_t now)
{
	struct row *row = w->engine->row;

	w->tick_ns = now + (int64_t)w->rules.tick_ms * MS;
	if (w->rules.freeze_ms || w->rules.freeze_warn_ms)
		__atomic_fetch_add(&seat_at(row, row->me)->beat, 1, __ATOMIC_RELAXED);
	if (w->star && (w->rules.lost_ms || w->rules.lost_warn_ms))
		star_ping(w->star);
	if (is_over(w))
		return;
	if (w->star)
		look_at_silence(w, now);
	else
		look_at_seats(w, now);
	stall_look(&w->stall, w->engine, now);
}

/* ---- the thread ---- */

static void look_at_process(struct watch *w, int rank)
{
	const struct seat *s = seat_at(w->engine->row, rank);

	if (!__atomic_load_n(&s->left, __ATOMIC_ACQUIRE))
		died(w, rank, "died");
	close(w->pidfd[rank]);
	w->pidfd[rank] = -1;
}

/* Nobody is left to end this job in order, or to hear what it says. */
static void look_at_launcher(struct watch *w)
{
	char why[64];

	snprintf(why, sizeof(why), "%s, which had started this job, died", w->launcher_name);
	engine_alarm(w->engine, RINGUP_EABORTED, why);
	close(w->launcher);
	w->launcher = -1;
}

static void look_at_connection(struct watch *w, int rank)
{
	struct err e = { 0 };

	pulse_hear(&w->remote, rank, clock_ns());
	if (!star_poll(w->star, rank, &e))
		return;
	if (!w->gone[rank] && e.code == RINGUP_EPEER)
		died(w, rank, "died or was cut off");
	else if (!w->gone[rank])
		engine_alarm(w->engine, e.code, e.text);
	w->lost[rank] = true;
}

static void *watch(void *arg)
{
	struct watch *w = arg;
	int size = w->team->size, r, n;
	struct pollfd *p = w->polls;
	int *who = w->who;

	for (;;) {
		n = 0;
		p[n] = (struct pollfd){ w->wake, POLLIN, 0 };
		who[n++] = -1;
		p[n] = (struct pollfd){ w->launcher, POLLIN, 0 };
		who[n++] = -1;
		for (r = 0; r < size; r++) {
			struct chan *c = w->star ? w->mesh->control[r] : NULL;

			who[n] = r;
			if (w->pidfd[r] >= 0)
				p[n++] = (struct pollfd){ w->pidfd[r], POLLIN, 0 };
			else if (c && !w->lost[r])
				p[n++] = (struct pollfd){
					chan_fd(c),
					POLLIN | (star_unsent(w->star, r) ? POLLOUT : 0), 0
				};
		}
		if (poll(p, (nfds_t)n, clock_left_ms(w->tick_ns)) < 0 && errno != EINTR)
			return NULL;
		if (__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE))
			return NULL;
		if (p[1].revents)
			look_at_launcher(w);
		while (--n > 1) {
			if (!p[n].revents)
				continue;
			if (w->star)
				look_at_connection(w, who[n]);
			else
				look_at_process(w, who[n]);
		}
		if (p[0].revents) {
			uint64_t count;

			/* What it says is only that there is something to send. */
			(void)!read(w->wake, &count, sizeof(count));
		}
		if (w->tick_ns != INT64_MAX && clock_ns() >= w->tick_ns)
			tick(w, clock_ns());
	}
}

static int watch_process(struct watch *w, int rank, struct err *e)
{
	int pid = w->peer[rank].pid;

	if (rank == w->team->rank || pid == getpid())
		return 0;
	w->pidfd[rank] = (int)syscall(SYS_pidfd_open, pid, 0);
	if (w->pidfd[rank] < 0 && errno == ESRCH)
		return fail(e, RINGUP_EPEER, "rank %d (process %d) died", rank, pid);
	if (w->pidfd[rank] < 0)
		return fail_os(e, "watch process %d of rank %d", pid, rank);
	fcntl(w->pidfd[rank], F_SETFD, FD_CLOEXEC);
	return 0;
}

/* A launcher that is not there, or may not be watched, is no reason to fail. */
static void watch_launcher(struct watch *w)
{
	struct pidstat p;
	pid_t pid = w->rules.freeze_ms || w->rules.lost_ms ? ancestor_launcher(&p) : 0;

	w->launcher = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (w->launcher < 0)
		return;
	fcntl(w->launcher, F_SETFD, FD_CLOEXEC);
	snprintf(w->launcher_name, sizeof(w->launcher_name), "%s", p.name);
}

static int spawn(struct watch *w, struct err *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&w->thread, NULL, watch, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return fail(e, RINGUP_ESYSTEM, "watch thread: %s", strerror(rc));
	w->has_thread = true;
	return 0;
}

/* A little longer than our own, which can say more. */
static int kernel_patience_ms(const struct pulse_rules *r)
{
	return r->lost_ms ? (int)(r->lost_ms + 2 * r->tick_ms) : 0;
}

int watch_start(struct watch *w, const struct team *t, struct star *s, struct mesh *m,
		const struct watch_peer *peer, const struct pulse_rules *rules, struct err *e)
{
	size_t size = (size_t)t->size;
	int r, rc;

	w->team = t;
	w->star = s;
	w->mesh = m;
	w->peer = peer;
	w->rules = *rules;
	watch_launcher(w);
	stall_init(&w->stall, rules, peer, t->size);
	rc = pulses_open(&w->local, t->size, rules->freeze_warn_ms, rules->freeze_ms, e);
	if (!rc)
		rc = pulses_open(&w->remote, t->size, rules->lost_warn_ms, rules->lost_ms, e);
	if (rc)
		return rc;
	w->pidfd = malloc(size * sizeof(*w->pidfd));
	for (r = 0; w->pidfd && r < t->size; r++)
		w->pidfd[r] = -1;
	w->lost = calloc(size, sizeof(*w->lost));
	w->polls = calloc(size + 2, sizeof(*w->polls));
	w->who = calloc(size + 2, sizeof(*w->who));
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->pidfd || !w->lost || !w->polls || !w->who)
		return fail(e, RINGUP_ENOMEM, "no memory to watch %zu ranks", size);
	if (w->wake < 0)
		return fail_os(e, "eventfd");
	for (r = 0; !rc && r < t->size; r++) {
		if (!s)
			rc = watch_process(w, r, e);
		else if (m->control[r])
			chan_watch(m->control[r], kernel_patience_ms(rules));
		/* A connection stands; a counter has to move once. */
		pulse_hear(&w->remote, r, clock_ns());
	}
	w->tick_ns = INT64_MAX;
	if (rules->tick_ms)
		tick(w, clock_ns());
	return rc ? rc : spawn(w, e);
}

void watch_stir(struct watch *w)
{
	uint64_t one = 1;

	if (w->wake > 0 && write(w->wake, &one, sizeof(one)) < 0) {
		/* It is full of earlier wakes already. */
	}
}

void watch_stop(struct watch *w)
{
	int r;

	if (w->has_thread) {
		__atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
		watch_stir(w);
		pthread_join(w->thread, NULL);
	}
	for (r = 0; w->pidfd && r < w->team->size; r++)
		if (w->pidfd[r] >= 0)
			close(w->pidfd[r]);
	if (w->wake > 0)
		close(w->wake);
	if (w->launcher > 0)
		close(w->launcher);
	pulses_close(&w->local);
	pulses_close(&w->remote);
	free(w->pidfd);
	free(w->gone);
	free(w->lost);
	free(w->polls);
	free(w->who);
	memset(w, 0, sizeof(*w));
}
