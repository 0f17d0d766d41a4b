/* nccl_thread.c - the thread of a job that calls NCCL and queues plans on the GPU. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "backend/nccl_state.h"
#include "base/clock.h"
#include "base/thread.h"
#include "device/driver.h"
#include "ringup.h"

enum {
	LANDS_NS = 50000, /* from one look to the next, while a rank waits for a flight's end */
	FLIES_NS = 20000000, /* the same, while flights are in the air                       */
	SPIN_NS = 100000,    /* how long a task that waits asks again at once                */
	LEAVE_MS = 2000,     /* for the thread to come back from a call of the driver        */
};

struct nccl_thread {
	pthread_t thread;
	const uint32_t *job; /* its alarm */
	int users;           /* groups    */
	int64_t since_ns; /* when its task last gave a sign of life; 0: it has none; atomic */
	int64_t look_ns;  /* a task that waits: when to look at flights again */
	struct nccl_thread *next;

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t posted, done;
	struct nccl *groups;
	struct nccl *at;    /* which the thread looks at, or works for               */
	struct nccl *works; /* which it works for: it may look at others meanwhile */
	unsigned int round;
	struct nccl *first, *last; /* posted tasks, in order */
	bool leaves;
};

static struct nccl_thread *threads; /* with driver_lock(), as their users */

/* ---- the thread ---- */

static struct nccl *take(struct nccl_thread *t)
{
	struct nccl *n = t->first;

	if (n) {
		t->first = n->waits;
		if (!t->first)
			t->last = NULL;
		n->waits = NULL;
	}
	return n;
}

static void work(struct nccl_thread *t, struct nccl *n)
{
	struct err e = { 0 };
	bool over;

	pthread_mutex_lock(&n->lock);
	over = n->plan && nccl_is_over(n);
	n->task = NCCL_AT_WORK;
	pthread_mutex_unlock(&n->lock);
	__atomic_store_n(&t->since_ns, clock_ns(), __ATOMIC_RELAXED);
	if (over)
		fail(&e, RINGUP_EABORTED, "%s ends", n->group);
	else if (n->plan)
		(void)n->work->carry_out(n, &e);
	else
		n->work->end(n);
	__atomic_store_n(&t->since_ns, 0, __ATOMIC_RELAXED);
	pthread_mutex_lock(&n->lock);
	n->failed = e;
	n->task = NCCL_DONE;
	pthread_mutex_unlock(&n->lock);
}

/* The first group that has not been looked at in this round. */
static struct nccl *next_to_look_at(const struct nccl_thread *t, unsigned int round)
{
	struct nccl *n;

	for (n = t->groups; n && n->looked == round; n = n->next)
		;
	return n;
}

/* Looks at the flights of all groups, with the lock, but not while it asks the driver: when to
 * look again, INT64_MAX if none is in the air. */
static int64_t look_at_all(struct nccl_thread *t, struct nccl *works_for)
{
	unsigned int round = ++t->round;
	int64_t next = INT64_MAX;
	struct nccl *n;
	bool flies;

	while ((works_for || !t->first) && (n = next_to_look_at(t, round))) {
		n->looked = round;
		t->at = n;
		pthread_mutex_unlock(&t->lock);
		__atomic_store_n(&t->since_ns, clock_ns(), __ATOMIC_RELAXED);
		flies = n->work->look(n);
		__atomic_store_n(&t->since_ns, works_for ? clock_ns() : 0, __ATOMIC_RELAXED);
		pthread_mutex_lock(&t->lock);
		t->at = t->works;
		pthread_cond_broadcast(&t->done);
		if (flies)
			clock_sooner(&next,
				     clock_ns() + (__atomic_load_n(&n->lands, __ATOMIC_RELAXED)
							   ? LANDS_NS
							   : FLIES_NS));
	}
	return next;
}

void nccl_thread_pause(struct nccl *n, int64_t since_ns)
{
	struct nccl_thread *t = n->thread;
	int64_t now = clock_ns();

	__atomic_store_n(&t->since_ns, now, __ATOMIC_RELAXED);
	if (now - since_ns < SPIN_NS) {
		sched_yield();
		return;
	}
	clock_sleep_ms(1);
	if (now < t->look_ns)
		return;
	t->look_ns = now + FLIES_NS;
	pthread_mutex_lock(&t->lock);
	(void)look_at_all(t, n);
	pthread_mutex_unlock(&t->lock);
}

static void wait_for_news(struct nccl_thread *t, int64_t until_ns)
{
	struct timespec at = { .tv_sec = until_ns / 1000000000,
			       .tv_nsec = until_ns % 1000000000 };

	while (!t->first && !t->leaves) {
		if (until_ns == INT64_MAX)
			pthread_cond_wait(&t->posted, &t->lock);
		else if (pthread_cond_timedwait(&t->posted, &t->lock, &at) == ETIMEDOUT)
			break;
	}
}

static void *thread_main(void *arg)
{
	struct nccl_thread *t = arg;
	struct nccl *n;

	pthread_mutex_lock(&t->lock);
	while (!t->leaves) {
		while ((n = take(t))) {
			t->at = t->works = n;
			pthread_mutex_unlock(&t->lock);
			work(t, n);
			pthread_mutex_lock(&t->lock);
			t->at = t->works = NULL;
			pthread_cond_broadcast(&t->done);
		}
		wait_for_news(t, look_at_all(t, NULL));
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* ---- its groups ---- */

static void conds_open(struct nccl_thread *t)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->posted, &attr);
	pthread_cond_init(&t->done, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&t->lock, NULL);
}

static void thread_free(struct nccl_thread *t)
{
	pthread_cond_destroy(&t->posted);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* With the lock of the list. */
static struct nccl_thread *thread_new(const uint32_t *job, struct err *e)
{
	struct nccl_thread *t = calloc(1, sizeof(*t));

	if (t) {
		t->job = job;
		conds_open(t);
		if (!thread_start(&t->thread, thread_main, t)) {
			t->next = threads;
			threads = t;
			return t;
		}
		thread_free(t);
	}
	fail(e, RINGUP_ENOMEM, "no thread for NCCL");
	return NULL;
}

/* The world is the first group. */
static int place_in_world(struct nccl_thread *t, const struct nccl *n, int local_rank)
{
	struct nccl *other = t->groups;

	while (other && other->next)
		other = other->next;
	return other && other != n ? other->place : local_rank;
}

int nccl_thread_join(struct nccl *n, const struct nccl_work *w, int local_rank, struct err *e)
{
	struct nccl_thread *t;

	driver_lock();
	for (t = threads; t && t->job != n->alarm; t = t->next)
		;
	if (!t)
		t = thread_new(n->alarm, e);
	if (t)
		t->users++;
	driver_unlock();
	n->thread = t;
	n->work = w;
	if (!t)
		return e->code;
	pthread_mutex_lock(&t->lock);
	n->place = place_in_world(t, n, local_rank);
	n->looked = t->round;
	n->next = t->groups;
	t->groups = n;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

/* Takes a task back that has not begun. */
static void task_drop(struct nccl_thread *t, const struct nccl *n)
{
	struct nccl **at = &t->first, *before = NULL;

	for (; *at && *at != n; at = &(*at)->waits)
		before = *at;
	if (!*at)
		return;
	*at = n->waits;
	if (t->last == n)
		t->last = before;
}

/* With the lock. */
static bool thread_has(const struct nccl_thread *t, const struct nccl *n)
{
	return t->at == n || t->works == n;
}

/* Takes @n off the list: false if the thread has not come back from it in time. */
static bool unlist(struct nccl_thread *t, struct nccl *n)
{
	int64_t until_ns = clock_deadline(LEAVE_MS);
	struct timespec at = { .tv_sec = until_ns / 1000000000,
			       .tv_nsec = until_ns % 1000000000 };
	struct nccl **in;
	bool back;

	pthread_mutex_lock(&t->lock);
	for (in = &t->groups; *in && *in != n; in = &(*in)->next)
		;
	if (*in)
		*in = n->next;
	task_drop(t, n);
	while (thread_has(t, n) && pthread_cond_timedwait(&t->done, &t->lock, &at) != ETIMEDOUT)
		;
	back = !thread_has(t, n);
	pthread_mutex_unlock(&t->lock);
	return back;
}

bool nccl_thread_leave(struct nccl *n)
{
	struct nccl_thread *t = n->thread, **in = &threads;
	bool back = unlist(t, n), last;

	driver_lock();
	last = back && !--t->users;
	if (last) {
		while (*in != t)
			in = &(*in)->next;
		*in = t->next;
	}
	driver_unlock();
	if (last) {
		pthread_mutex_lock(&t->lock);
		t->leaves = true;
		pthread_cond_signal(&t->posted);
		pthread_mutex_unlock(&t->lock);
		pthread_join(t->thread, NULL);
		thread_free(t);
	}
	return back;
}

/* ---- tasks ---- */

void nccl_thread_post(struct nccl *n, const struct plan *p)
{
	struct nccl_thread *t = n->thread;

	pthread_mutex_lock(&n->lock);
	n->task = NCCL_POSTED;
	n->plan = p;
	pthread_mutex_unlock(&n->lock);
	pthread_mutex_lock(&t->lock);
	if (t->last)
		t->last->waits = n;
	else
		t->first = n;
	t->last = n;
	pthread_cond_signal(&t->posted);
	pthread_mutex_unlock(&t->lock);
}

enum nccl_task nccl_thread_task(struct nccl *n)
{
	enum nccl_task task;

	pthread_mutex_lock(&n->lock);
	task = n->task;
	pthread_mutex_unlock(&n->lock);
	return task;
}

void nccl_thread_visit(struct nccl *n, void (*f)(struct nccl *))
{
	struct nccl_thread *t = n->thread;

	pthread_mutex_lock(&t->lock);
	for (struct nccl *other = t->groups; other; other = other->next)
		f(other);
	pthread_mutex_unlock(&t->lock);
}

bool nccl_thread_is_at(const struct nccl *n)
{
	bool is;

	pthread_mutex_lock(&n->thread->lock);
	is = thread_has(n->thread, n);
	pthread_mutex_unlock(&n->thread->lock);
	return is;
}

int nccl_thread_device(const struct nccl *n)
{
	struct nccl_thread *t = n->thread;
	int device = -1;

	pthread_mutex_lock(&t->lock);
	for (struct nccl *other = t->groups; other && device < 0; other = other->next)
		device = __atomic_load_n(&other->device, __ATOMIC_ACQUIRE);
	pthread_mutex_unlock(&t->lock);
	return device;
}

void nccl_thread_rest(struct nccl *n, bool rests)
{
	__atomic_store_n(&n->thread->since_ns, rests ? 0 : clock_ns(), __ATOMIC_RELAXED);
}

int64_t nccl_thread_late(const struct nccl *n)
{
	int64_t since = __atomic_load_n(&n->thread->since_ns, __ATOMIC_RELAXED);

	return since ? (clock_ns() - since) / 1000000 : 0;
}
