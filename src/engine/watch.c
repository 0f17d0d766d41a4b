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

#include "base/err.h"
#include "engine/star.h"
#include "ringup.h"
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

/* ---- the thread ---- */

static void look_at_process(struct watch *w, int rank)
{
	const struct seat *s = &w->engine->row->seats[rank];

	if (!__atomic_load_n(&s->left, __ATOMIC_ACQUIRE))
		died(w, rank, "died");
	close(w->pidfd[rank]);
	w->pidfd[rank] = -1;
}

static void look_at_connection(struct watch *w, int rank)
{
	struct err e = { 0 };

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
	int size = w->engine->team.size, r, n;
	struct pollfd *p = w->polls;
	int *who = w->who;

	for (;;) {
		n = 0;
		p[n] = (struct pollfd){ w->wake, POLLIN, 0 };
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
		if (poll(p, (nfds_t)n, -1) < 0 && errno != EINTR)
			return NULL;
		if (__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE))
			return NULL;
		while (--n > 0) {
			if (!p[n].revents)
				continue;
			if (w->star)
				look_at_connection(w, who[n]);
			else
				look_at_process(w, who[n]);
		}
		if (p[0].revents) {
			uint64_t count;

			if (read(w->wake, &count, sizeof(count)) < 0)
				continue;
		}
	}
}

static int watch_process(struct watch *w, int rank, struct err *e)
{
	int pid = w->peer[rank].pid;

	if (rank == w->engine->team.rank || pid == getpid())
		return 0;
	w->pidfd[rank] = (int)syscall(SYS_pidfd_open, pid, 0);
	if (w->pidfd[rank] < 0 && errno == ESRCH)
		return fail(e, RINGUP_EPEER, "rank %d (process %d) died", rank, pid);
	if (w->pidfd[rank] < 0)
		return fail_os(e, "watch process %d of rank %d", pid, rank);
	fcntl(w->pidfd[rank], F_SETFD, FD_CLOEXEC);
	return 0;
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

int watch_start(struct watch *w, struct engine *g, struct star *s, struct mesh *m,
		const struct watch_peer *peer, struct err *e)
{
	size_t size = (size_t)g->team.size;
	int r, rc = 0;

	w->engine = g;
	w->star = s;
	w->mesh = m;
	w->peer = peer;
	w->pidfd = malloc(size * sizeof(*w->pidfd));
	for (r = 0; w->pidfd && r < g->team.size; r++)
		w->pidfd[r] = -1;
	w->lost = calloc(size, sizeof(*w->lost));
	w->polls = calloc(size + 1, sizeof(*w->polls));
	w->who = calloc(size + 1, sizeof(*w->who));
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->pidfd || !w->lost || !w->polls || !w->who)
		return fail(e, RINGUP_ENOMEM, "no memory to watch %zu ranks", size);
	if (w->wake < 0)
		return fail_os(e, "eventfd");
	for (r = 0; !s && !rc && r < g->team.size; r++)
		rc = watch_process(w, r, e);
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
	for (r = 0; w->pidfd && r < w->engine->team.size; r++)
		if (w->pidfd[r] >= 0)
			close(w->pidfd[r]);
	if (w->wake > 0)
		close(w->wake);
	free(w->pidfd);
	free(w->gone);
	free(w->lost);
	free(w->polls);
	free(w->who);
	memset(w, 0, sizeof(*w));
}
