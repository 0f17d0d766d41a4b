/* nccl_queue.c - carries out a plan: connects ranks, queues it on the GPU, looks at it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "backend/nccl_state.h"
#include "base/clock.h"
#include "base/err.h"

/* How long ranks whose GPU has begun leave the word to one whose has not. */
enum { GRACE_MS = 100 };

/* ---- waiting for NCCL ---- */

int nccl_fail_apart(const struct nccl *n, struct err *e)
{
	return fail(
		e, RINGUP_EABORTED,
		"%s: NCCL has not connected %d ranks in %d s; NCCL_DEBUG=INFO shows what it "
		"waits for, and RINGUP_START_TIMEOUT_MS gives it longer",
		n->group, n->size, n->start_ms / 1000);
}

/* The time limit is that of the connection, since NCCL from 2.22 on connects the ranks when
 * they first use an algorithm. */
int nccl_settled(struct nccl *n, int64_t deadline_ns, const char *what, struct err *e)
{
	nccl_comm comm = nccl_comm_of(n);
	int64_t since = clock_ns();
	int state, rc;

	for (;;) {
		state = NCCL_OK;
		if (!nccl_enter(n))
			return nccl_fail_over(n, e);
		rc = n->lib->state(comm, &state);
		nccl_leave(n);
		if (nccl_failed(n, rc ? rc : state, what, e))
			return e->code;
		if (state != NCCL_BUSY)
			break;
		if (clock_ns() > deadline_ns)
			return nccl_fail_apart(n, e);
		nccl_thread_pause(n, since);
	}
	/* Before 2.27, NCCL puts away what it has done in the next call of the communicator. */
	if (n->lib->number < NCCL_KEEPS_NO_JOB && nccl_enter(n)) {
		(void)n->lib->count(comm, &(int){ 0 });
		nccl_leave(n);
	}
	return 0;
}

/* ---- connecting ---- */

int nccl_use_gpu(struct nccl *n, int device, struct gpu **gp, struct err *e)
{
	bool first;
	int rc;

	*gp = __atomic_load_n(&n->gpu, __ATOMIC_ACQUIRE);
	if (*gp)
		return 0;
	rc = gpu_get(device, n->alarm, gp, e);
	if (rc)
		return rc;
	/* It is written once, so that a thread that has seen it may read it as it likes. */
	pthread_mutex_lock(&n->lock);
	first = !n->gpu;
	if (first)
		__atomic_store_n(&n->gpu, *gp, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&n->lock);
	if (!first) /* another thread's is the same */
		gpu_put(*gp);
	return 0;
}

/* The GPU of the tensors.  A rank that only joins in has that of its other groups, or the one
 * that its place on the host suggests. */
static int find_gpu(struct nccl *n, struct err *e)
{
	int device = __atomic_load_n(&n->device, __ATOMIC_ACQUIRE), none = -1, count;
	struct gpu *g;

	if (device < 0)
		device = nccl_thread_device(n);
	if (device < 0) {
		count = gpu_count();
		device = count > 0 ? n->place % count : 0;
	}
	if (!__atomic_compare_exchange_n(&n->device, &none, device, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		device = none;
	return nccl_use_gpu(n, device, &g, e);
}

static int begin_to_connect(struct nccl *n, struct err *e)
{
	bool named = n->lib->number >= NCCL_HAS_NAME;
	struct nccl_config how = {
		.size = named ? NCCL_CONFIG_NAMED : NCCL_CONFIG_BYTES,
		.magic = 0xcafebeef,
		.version = named ? NCCL_HAS_NAME : NCCL_LEAST,
		.blocking = 0,
		.cga_cluster_size = NCCL_UNDEFINED,
		.min_ctas = NCCL_UNDEFINED,
		.max_ctas = NCCL_UNDEFINED,
		.split_share = NCCL_UNDEFINED,
		.traffic_class = NCCL_UNDEFINED,
		.comm_name = n->group,
		.collnet_enable = NCCL_UNDEFINED,
		.cta_policy = NCCL_UNDEFINED,
		.shrink_share = NCCL_UNDEFINED,
		.nvls_ctas = NCCL_UNDEFINED,
	};
	nccl_comm comm = NULL;
	int rc = n->lib->init(&comm, n->size, n->id, n->rank, &how);

	__atomic_store_n(&n->comm, comm, __ATOMIC_RELEASE);
	return nccl_failed(n, rc, "ncclCommInitRankConfig", e);
}

static int connect_ranks(struct nccl *n, struct err *e)
{
	int64_t deadline = clock_deadline(n->start_ms);
	int rc = nccl_move_room(n, e);

	rc = rc ? rc : begin_to_connect(n, e);
	rc = rc ? rc : nccl_settled(n, deadline, "to connect its ranks", e);
	if (!rc)
		__atomic_store_n(&n->connected, true, __ATOMIC_RELEASE);
	return rc;
}

/* ---- flights ---- */

static bool is_in_the_air(const struct nccl *n)
{
	return n->landed != n->flown;
}

/* The event of the oldest flight has been reached.  The flight has landed, unless the end has
 * begun: the event of a collective that NCCL gives up is reached, too. */
static bool land(struct nccl *n, struct nccl_flight *f)
{
	if (nccl_is_over(n))
		return false;
	gpu_moves(n->gpu);
	/* No stream is told to wait for it from here on. */
	pthread_mutex_lock(&n->holds);
	pthread_mutex_lock(&n->lock);
	__atomic_store_n(&n->landed, n->landed + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&n->lock);
	pthread_mutex_unlock(&n->holds);
	gpu_unmark(n->gpu, f->event);
	if (f->begun)
		gpu_unmark(n->gpu, f->begun);
	return true;
}

/* Takes note of flights that have landed: 1 if others are in the air, 0 if not, or an error. */
static int land_some(struct nccl *n, struct err *e)
{
	while (is_in_the_air(n)) {
		struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];
		int rc = gpu_reached(n->gpu, f->event, e);

		if (rc < 0) {
			fail_in(e, "%s '%s' of %s", collective_word(f->kind), f->name,
				n->group);
			return rc;
		}
		if (!rc)
			return 1;
		if (!land(n, f))
			return nccl_fail_over(n, e);
	}
	return 0;
}

static void take_off(struct nccl *n, const struct plan *p, void *begun, void *event)
{
	struct nccl_flight *f = &n->flight[n->flown % NCCL_FLIGHTS];

	f->begun = begun;
	f->event = event;
	f->since_ns = clock_ns();
	f->kind = p->kind;
	snprintf(f->name, sizeof(f->name), "%s", p->name ? p->name : "");
	pthread_mutex_lock(&n->lock);
	n->flown_by = n->flown;
	__atomic_store_n(&n->flown, n->flown + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&n->lock);
}

/* Waits until one flight more may be in the air. */
static int wait_for_place(struct nccl *n, struct err *e)
{
	int64_t since = clock_ns();
	int rc;

	while ((rc = land_some(n, e)) > 0 && n->flown - n->landed == NCCL_FLIGHTS) {
		if (nccl_is_over(n))
			return nccl_fail_over(n, e);
		nccl_thread_pause(n, since);
	}
	return rc < 0 ? rc : 0;
}

/* ---- a plan ---- */

/* What is queued on the GPU waits for what its pieces wait for; *@some: is there any? */
static int queue_behind(struct nccl *n, const struct plan *p, bool *some, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < p->pieces && !rc; i++) {
		if (!p->piece[i].ready)
			continue;
		*some = true;
		rc = gpu_hold(n->gpu, gpu_stream(n->gpu), p->piece[i].ready, e);
	}
	return rc;
}

/* Puts the plan's collective in front of an error; land_some() names the one that has failed.
 */
static int name_plan(const struct plan *p, int rc, struct err *e)
{
	if (rc < 0 && p->name)
		fail_in(e, "%s '%.60s'", collective_word(p->kind), p->name);
	return rc;
}

static int queue_between(struct nccl *n, const struct plan *p, void **begun, void **event,
			 struct err *e)
{
	void *stream = gpu_stream(n->gpu);
	bool waits = false;
	int rc = queue_behind(n, p, &waits, e);

	if (!rc && waits)
		rc = gpu_mark(n->gpu, stream, begun, e);
	nccl_move_first(n);
	while (!rc) {
		rc = nccl_move_begin(n, p, e);
		rc = rc ? rc
			: nccl_settled(n, clock_deadline(n->start_ms), collective_word(p->kind),
				       e);
		rc = rc ? rc : nccl_move_end(n, p, e);
		if (!rc)
			return gpu_mark(n->gpu, stream, event, e);
		rc = rc > 0 ? 0 : rc;
	}
	return rc;
}

static int queue(struct nccl *n, const struct plan *p, struct err *e)
{
	void *begun = NULL, *event = NULL;
	int rc = n->connected ? 0 : name_plan(p, connect_ranks(n, e), e);

	rc = rc ? rc : wait_for_place(n, e);
	if (rc)
		return rc;
	rc = name_plan(p, queue_between(n, p, &begun, &event, e), e);
	if (!rc)
		take_off(n, p, begun, event);
	else if (begun)
		gpu_unmark(n->gpu, begun);
	return rc;
}

int nccl_queue(struct nccl *n, struct err *e)
{
	const struct plan *p = n->plan;
	struct gpu_visit v;
	int rc;

	/* To open a GPU may take long: kernels are compiled. */
	nccl_thread_rest(n, true);
	rc = find_gpu(n, e);
	nccl_thread_rest(n, false);
	nccl_forget(n);
	rc = rc ? rc : gpu_enter(n->gpu, &v, e);
	if (rc)
		return name_plan(p, rc, e);
	rc = queue(n, p, e);
	gpu_leave(n->gpu, &v);
	return rc;
}

/* ---- looking ---- */

/* An error of NCCL's waits for the watch thread, which may know better what has happened. */
void nccl_note_trouble(struct nccl *n, const struct err *e)
{
	pthread_mutex_lock(&n->lock);
	if (!n->trouble.code) {
		n->trouble = *e;
		n->trouble_ns = clock_ns();
	}
	pthread_mutex_unlock(&n->lock);
}

bool nccl_is_in_trouble(struct nccl *n)
{
	bool is;

	pthread_mutex_lock(&n->lock);
	is = n->trouble.code || n->verdict.code;
	pthread_mutex_unlock(&n->lock);
	return is;
}

/* NCCL's own word about its communicator, which it gives to one thread at a time. */
static void look_for_trouble(struct nccl *n)
{
	const struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];
	char what[NCCL_NAME + 32];
	int state = NCCL_OK, rc;
	struct err e = { 0 };

	if (nccl_is_in_trouble(n) || !nccl_enter(n))
		return;
	rc = n->lib->state(nccl_comm_of(n), &state);
	nccl_leave(n);
	if (rc)
		return;
	snprintf(what, sizeof(what), "%s '%s'", collective_word(f->kind), f->name);
	if (nccl_failed(n, state, what, &e))
		nccl_note_trouble(n, &e);
}

/* Has the oldest flight begun?  If not, what stands still is on this rank. */
static bool has_begun(struct nccl *n, const struct nccl_flight *f)
{
	struct err e;

	return !f->begun || gpu_reached(n->gpu, f->begun, &e);
}

/* Until the flight before it, of any group, had landed, this one waited for its turn. */
static void look_for_late(struct nccl *n)
{
	const struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];
	int64_t moved = gpu_moved(n->gpu);
	int64_t ms = (clock_ns() - (moved > f->since_ns ? moved : f->since_ns)) / 1000000;
	struct err e = { 0 };
	bool begun;

	if (!n->device_ms || ms < n->device_ms || nccl_is_in_trouble(n))
		return;
	begun = has_begun(n, f);
	if (begun && ms < n->device_ms + GRACE_MS)
		return;
	fail(&e, RINGUP_EABORTED,
	     "%s '%s' of %s has been on GPU %d for %.1f s (RINGUP_DEVICE_MS): %s",
	     collective_word(f->kind), f->name, n->group, gpu_number(n->gpu), (double)ms / 1000,
	     begun ? "it has begun here, so another rank's GPU or NCCL's network stands still"
		   : "it has not begun, because the work before it on its stream has not "
		     "ended");
	pthread_mutex_lock(&n->lock);
	n->verdict = e;
	pthread_mutex_unlock(&n->lock);
}

bool nccl_look(struct nccl *n)
{
	struct gpu_visit v;
	struct err e = { 0 };
	bool over;
	int rc;

	if (!is_in_the_air(n) || nccl_is_over(n) || n->verdict.code)
		return false;
	if (gpu_enter(n->gpu, &v, &e))
		return false;
	rc = land_some(n, &e);
	/* Its communicator may be gone meanwhile. */
	over = nccl_is_over(n);
	if (rc > 0 && !over)
		look_for_trouble(n);
	if (rc > 0 && !over)
		look_for_late(n);
	gpu_leave(n->gpu, &v);
	if (rc >= 0 || over || gpu_is_over())
		return rc > 0 && !over;
	pthread_mutex_lock(&n->lock);
	n->verdict = e;
	pthread_mutex_unlock(&n->lock);
	return false;
}
