/* nccl_run.c - the back end nccl: NCCL moves and reduces tensors in GPU memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nccl_state.h"
#include "backend/wait.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "device/driver.h"
#include "wire/segment.h"

enum {
	LOOKS = 50,       /* that follow each other at once                       */
	LOOK_NS = 50000,  /* from one look at the GPU or at NCCL to the next      */
	DRAIN_MS = 2000,  /* for what is queued when a group is closed            */
	VERDICT_MS = 300, /* how long an error of NCCL's waits for its reason     */
};

/* ---- opening ---- */

/* What the ranks tell each other before NCCL, whose own check comes too late. */
struct hello {
	int32_t code, version;
	struct nccl_id id; /* rank 0's counts */
	char why[160];
};

/* Loads the libraries on this rank, and says how that went.  Nothing here starts CUDA, which
 * the program may still want to configure, or to leave to children of fork(). */
static void hello_make(struct nccl *n, const struct topo *t, struct hello *mine)
{
	struct err e = { 0 };

	memset(mine, 0, sizeof(*mine));
	if (driver_open(&e) || !(n->lib = nccl_lib_get(t->nccl ? t->nccl : "", &e)))
		goto out;
	mine->version = n->lib->number;
	if (!t->rank)
		nccl_failed(n, n->lib->make_id(&mine->id), "ncclGetUniqueId", &e);
out:
	mine->code = e.code;
	snprintf(mine->why, sizeof(mine->why), "%.150s", e.text);
}

/* All ranks come to the same conclusion. */
static int compare(struct nccl *n, const struct hello *all, struct err *e)
{
	char first[NCCL_NUMBER], other[NCCL_NUMBER];

	for (int r = 0; r < n->size; r++)
		if (all[r].code)
			return fail(e, RINGUP_ENOBACKEND, "rank %d cannot use NCCL: %.150s", r,
				    all[r].why);
	for (int r = 1; r < n->size; r++) {
		if (all[r].version == all[0].version)
			continue;
		nccl_lib_number(all[0].version, first);
		nccl_lib_number(all[r].version, other);
		return fail(e, RINGUP_ENOBACKEND,
			    "rank 0 has NCCL %s, rank %d has %s; all ranks need one version, "
			    "so install the same framework on all hosts",
			    first, r, other);
	}
	n->id = all[0].id;
	return 0;
}

static int hello_exchange(struct nccl *n, const struct topo *t, struct err *e)
{
	struct hello mine, *all;
	int rc = 0;

	hello_make(n, t, &mine);
	if (t->size == 1)
		return compare(n, &mine, e);
	if (!t->exchange)
		return fail(e, RINGUP_ENOBACKEND,
			    "nccl: the ranks cannot tell each other where "
			    "they are");
	all = calloc((size_t)t->size, sizeof(*all));
	if (!all)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks of NCCL", t->size);
	if (t->exchange(t->exchange_ctx, &mine, sizeof(mine), all))
		rc = fail(e, RINGUP_EPEER, "nccl: the ranks cannot exchange their versions");
	rc = rc ? rc : compare(n, all, e);
	free(all);
	return rc;
}

static int nccl_open(void *self, const struct topo *t, struct err *e)
{
	struct nccl *n = self;
	char number[NCCL_NUMBER];
	int rc;

	*n = (struct nccl){ .alarm = t->abort,
			    .left = t->segment ? &t->segment->head->left : NULL,
			    .rank = t->rank,
			    .size = t->size,
			    .local_rank = t->local_rank,
			    .start_ms = t->start_ms,
			    .device_ms = t->device_ms,
			    .device = -1 };
	if (t->serial)
		snprintf(n->group, sizeof(n->group), "ringup group %llu",
			 (unsigned long long)t->serial);
	else
		snprintf(n->group, sizeof(n->group), "ringup world");
	rc = hello_exchange(n, t, e);
	if (rc)
		return rc;
	pthread_mutex_init(&n->lock, NULL);
	n->has_lock = true;
	nccl_end_list(n);
	if (!t->rank && !t->serial) {
		nccl_lib_number(n->lib->number, number);
		log_info("NCCL %s, %s, takes tensors in the memory of GPUs", number,
			 n->lib->path);
	}
	return 0;
}

static bool nccl_can(const void *self, const struct plan *p)
{
	(void)self;
	return p->kind != PLAN_BARRIER && p->redop != RINGUP_ADASUM;
}

/* ---- what is queued ---- */

/* Takes note of flights that have landed: 1 if others are in the air, 0 if not, or an error.
 * With the lock. */
static int look_at_flights(struct nccl *n, struct err *e)
{
	int rc = 1;

	while (n->landed != n->flown && rc > 0) {
		struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];

		rc = gpu_reached(n->gpu, f->event, e);
		if (rc < 0) {
			fail_in(e, "%s '%s' of %s", collective_word(f->kind), f->name,
				n->group);
			return rc;
		}
		if (!rc)
			return 1;
		gpu_unmark(n->gpu, f->event);
		n->landed++;
	}
	return 0;
}

static int look(struct nccl *n, struct err *e)
{
	int rc;

	pthread_mutex_lock(&n->lock);
	rc = look_at_flights(n, e);
	pthread_mutex_unlock(&n->lock);
	return rc;
}

static bool is_full(struct nccl *n)
{
	bool full;

	pthread_mutex_lock(&n->lock);
	full = n->flown - n->landed == NCCL_FLIGHTS;
	pthread_mutex_unlock(&n->lock);
	return full;
}

static void take_off(struct nccl *n, const struct plan *p)
{
	struct nccl_flight *f;

	pthread_mutex_lock(&n->lock);
	f = &n->flight[n->flown++ % NCCL_FLIGHTS];
	f->event = n->event;
	f->since_ns = clock_ns();
	f->kind = p->kind;
	snprintf(f->name, sizeof(f->name), "%s", p->name ? p->name : "");
	pthread_mutex_unlock(&n->lock);
}

/* ---- a plan ---- */

/* The GPU @device of this rank, which the first thread that needs it opens. */
static int use_gpu(struct nccl *n, int device, struct gpu **gp, struct err *e)
{
	struct gpu *none = NULL;
	int rc;

	*gp = __atomic_load_n(&n->gpu, __ATOMIC_ACQUIRE);
	if (*gp)
		return 0;
	rc = gpu_get(device, n->alarm, gp, e);
	/* Another thread's is the same. */
	if (!rc && !__atomic_compare_exchange_n(&n->gpu, &none, *gp, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
		gpu_put(*gp);
	return rc;
}

/* The GPU of the tensors; that of a rank that only joins in is any that is near. */
static int find_gpu(struct nccl *n, struct err *e)
{
	int device = __atomic_load_n(&n->device, __ATOMIC_ACQUIRE), count;
	struct gpu *g;

	if (device < 0) {
		count = gpu_count();
		device = count > 0 ? n->local_rank % count : 0;
		__atomic_store_n(&n->device, device, __ATOMIC_RELEASE);
	}
	return use_gpu(n, device, &g, e);
}

static int connect_ranks(struct nccl *n, struct err *e)
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

	n->deadline_ns = clock_deadline(n->start_ms);
	return nccl_failed(n, n->lib->init(&n->comm, n->size, n->id, n->rank, &how),
			   "ncclCommInitRankConfig", e);
}

/* What is queued on the GPU waits for what its pieces wait for. */
static int queue_behind(struct nccl *n, const struct plan *p, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < p->pieces && !rc; i++)
		if (p->piece[i].ready)
			rc = gpu_hold(n->gpu, gpu_stream(n->gpu), p->piece[i].ready, e);
	return rc;
}

static int nccl_start(void *self, const struct plan *p, struct err *e)
{
	struct nccl *n = self;
	struct gpu_visit v;
	int rc = find_gpu(n, e);

	(void)p;
	n->looks = 0;
	n->stage = n->connected ? STAGE_QUEUE : STAGE_CONNECT;
	if (rc || n->comm)
		return rc;
	rc = gpu_enter(n->gpu, &v, e);
	if (rc)
		return rc;
	rc = connect_ranks(n, e);
	gpu_leave(n->gpu, &v);
	return rc;
}

/* What NCCL was asked last: 1 when it is done, 0 while it is at it. */
static int settled(struct nccl *n, const char *what, struct err *e)
{
	int state = NCCL_OK, rc = n->lib->state(n->comm, &state);

	if (nccl_failed(n, rc ? rc : state, what, e))
		return e->code;
	return state != NCCL_BUSY;
}

static int is_connected(struct nccl *n, struct err *e)
{
	int rc = settled(n, "to connect its ranks", e);

	if (!rc && clock_ns() > n->deadline_ns)
		return fail(
			e, RINGUP_EABORTED,
			"%s: NCCL has not connected %d ranks in %d s; NCCL_DEBUG=INFO shows "
			"what it waits for, and RINGUP_START_TIMEOUT_MS gives it longer",
			n->group, n->size, n->start_ms / 1000);
	n->connected = rc > 0;
	return rc;
}

/* Puts the plan's collective in front of an error; look() names the one that has failed. */
static int name_plan(const struct plan *p, int rc, struct err *e)
{
	if (rc < 0 && p->name)
		fail_in(e, "%s '%.60s'", collective_word(p->kind), p->name);
	return rc;
}

static int queue(struct nccl *n, const struct plan *p, struct err *e)
{
	int rc = look(n, e);

	if (rc < 0)
		return rc;
	if (is_full(n))
		return 0;
	rc = queue_behind(n, p, e);
	rc = rc ? rc : nccl_move_begin(n, p, e);
	return rc ? name_plan(p, rc, e) : 1;
}

/* Queues what is behind NCCL's part. */
static int nccl_finish(struct nccl *n, const struct plan *p, struct err *e)
{
	int rc = nccl_move_end(n, p, e);

	if (!rc)
		rc = gpu_mark(n->gpu, gpu_stream(n->gpu), &n->event, e);
	if (rc)
		return rc;
	take_off(n, p);
	n->held = 0;
	return 0;
}

/* @stream waits for the plan's flight: 0 when it does, 1 while it cannot.  The watch thread
 * does not see the flight land meanwhile, which gives its event back. */
static int hold_stream(struct nccl *n, void *stream, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	if (n->landed != n->flown)
		rc = gpu_hold(n->gpu, stream, n->event, e);
	pthread_mutex_unlock(&n->lock);
	return rc;
}

/* The streams of the pieces wait for what is queued: 1 when they do, and 0 while one cannot. */
static int hold_streams(struct nccl *n, const struct plan *p, struct err *e)
{
	void *held = NULL;
	int rc;

	for (; n->held < p->pieces; n->held++) {
		const struct piece *t = &p->piece[n->held];

		/* Tensors of one framework are on one stream, as a rule. */
		if (t->memory != RINGUP_CUDA || !gpu_outlives(t->stream) || t->stream == held)
			continue;
		rc = hold_stream(n, held = t->stream, e);
		if (rc)
			return rc < 0 ? rc : 0;
	}
	return 1;
}

/* Is a piece done only when it has run? */
static bool must_run(const struct plan *p)
{
	for (int i = 0; i < p->pieces; i++)
		if (p->piece[i].memory == RINGUP_CUDA && !gpu_outlives(p->piece[i].stream))
			return true;
	return false;
}

static int advance(struct nccl *n, const struct plan *p, struct err *e)
{
	int rc;

	if (n->stage == STAGE_CONNECT) {
		rc = is_connected(n, e);
		if (rc <= 0)
			return name_plan(p, rc, e);
		n->stage = STAGE_QUEUE;
	}
	if (n->stage == STAGE_QUEUE) {
		rc = queue(n, p, e);
		if (rc <= 0)
			return rc;
		n->stage = STAGE_LAUNCH;
	}
	if (n->stage == STAGE_LAUNCH) {
		rc = settled(n, collective_word(p->kind), e);
		if (rc <= 0)
			return name_plan(p, rc, e);
		n->stage = STAGE_FINISH;
	}
	if (n->stage == STAGE_FINISH) {
		rc = nccl_finish(n, p, e);
		if (rc)
			return name_plan(p, rc, e);
		n->stage = STAGE_HOLD;
	}
	if (n->stage == STAGE_HOLD) {
		rc = hold_streams(n, p, e);
		if (rc <= 0 || !must_run(p))
			return name_plan(p, rc, e);
		n->stage = STAGE_RUN;
	}
	rc = look(n, e);
	return rc < 0 ? rc : !rc;
}

/* An error of NCCL's waits for the watch thread, which may know better what has happened. */
static void note_trouble(struct nccl *n, const struct err *e)
{
	if (n->trouble.code)
		return;
	n->trouble = *e;
	n->trouble_ns = clock_ns();
}

static bool is_in_trouble(struct nccl *n, const struct err *more)
{
	bool is;

	pthread_mutex_lock(&n->lock);
	if (more)
		note_trouble(n, more);
	is = n->trouble.code;
	pthread_mutex_unlock(&n->lock);
	return is;
}

static int nccl_step(void *self, const struct plan *p, struct err *e)
{
	struct nccl *n = self;
	struct gpu_visit v;
	int rc;

	if (is_in_trouble(n, NULL))
		return 0;
	rc = gpu_enter(n->gpu, &v, e);
	if (rc)
		return gpu_is_over() ? 0 : name_plan(p, rc, e);
	rc = advance(n, p, e);
	gpu_leave(n->gpu, &v);
	if (rc < 0 && gpu_is_over())
		return 0;
	return rc == RINGUP_EPEER && n->connected && is_in_trouble(n, e) ? 0 : rc;
}

static bool nccl_wait(void *self, struct wait_on *w)
{
	struct nccl *n = self;

	if (n->looks++ < LOOKS)
		return false;
	w->look_ns = LOOK_NS;
	return true;
}

/* ---- the end ---- */

static void nccl_abort(void *self)
{
	struct nccl *n = self;

	(void)nccl_end_abort(n);
}

/* What is queued may still be needed by other ranks. */
static void drain(struct nccl *n)
{
	int64_t deadline = clock_deadline(DRAIN_MS);
	struct err e;

	while (!__atomic_load_n(n->alarm, __ATOMIC_RELAXED) && look(n, &e) > 0 &&
	       clock_ns() < deadline)
		clock_sleep_ms(1);
}

static void give_back_events(struct nccl *n)
{
	for (; n->landed != n->flown; n->landed++)
		gpu_unmark(n->gpu, n->flight[n->landed % NCCL_FLIGHTS].event);
}

static void nccl_close(void *self)
{
	struct nccl *n = self;
	bool failed, ended = true;

	if (!n->has_lock)
		return;
	if (n->comm)
		drain(n);
	failed = __atomic_load_n(n->alarm, __ATOMIC_RELAXED) || n->flown != n->landed;
	if (n->comm)
		ended = failed || !n->connected ? nccl_end_abort(n) : nccl_end_close(n);
	nccl_end_unlist(n);
	if (n->gpu && (failed || !ended))
		gpu_abandon(n->gpu);
	/* While NCCL is not back, its memory stays in use, and its GPU, which is abandoned. */
	if (ended && n->gpu) {
		give_back_events(n);
		gpu_free(n->gpu, n->room, n->room_bytes);
	}
	gpu_put(n->gpu);
	pthread_mutex_destroy(&n->lock);
	n->has_lock = false;
}

/* ---- beside plans ---- */

/* The first tensor decides which GPU this rank of the group has. */
static int take_device(struct nccl *n, int device, struct err *e)
{
	int is = -1;

	if (__atomic_compare_exchange_n(&n->device, &is, device, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE) ||
	    is == device)
		return 0;
	return fail(
		e, RINGUP_EINVAL,
		"the tensor is on GPU %d, and those before it in this group on GPU %d; a rank "
		"has one GPU for a group: torch.cuda.set_device(hvd.local_rank())",
		device, is);
}

static int nccl_mark(void *self, const void *at, void *stream, void **ready, struct err *e)
{
	struct nccl *n = self;
	struct gpu *g;
	int device = __atomic_load_n(&n->device, __ATOMIC_ACQUIRE), rc = 0;

	if (at) {
		rc = gpu_where(at, &device, e);
		rc = rc ? rc : take_device(n, device, e);
	}
	*ready = NULL;
	if (rc || !stream || device < 0)
		return rc;
	rc = use_gpu(n, device, &g, e);
	return rc ? rc : gpu_mark(g, stream, ready, e);
}

static void nccl_unmark(void *self, void *ready)
{
	struct nccl *n = self;

	gpu_unmark(__atomic_load_n(&n->gpu, __ATOMIC_ACQUIRE), ready);
}

static int nccl_copy(void *self, void *to, const void *from, uint64_t bytes, void *ready,
		     void **copy, struct err *e)
{
	struct nccl *n = self;
	int device = __atomic_load_n(&n->device, __ATOMIC_ACQUIRE), rc;
	struct gpu *g;

	if (device < 0)
		return 1;
	rc = use_gpu(n, device, &g, e);
	if (rc)
		return rc;
	rc = *copy || !ready ? 1 : gpu_reached(g, ready, e);
	if (rc > 0 && bytes && !*copy) {
		rc = gpu_copy(g, to, from, bytes, copy, e);
		if (!rc)
			return 0;
	} else if (rc > 0 && *copy) {
		rc = gpu_reached(g, *copy, e);
		if (rc) {
			gpu_unmark(g, *copy);
			*copy = NULL;
		}
	}
	return rc;
}

/* The watch thread knows better than NCCL which rank has died: NCCL's error waits for it. */
static int look_for_trouble(struct nccl *n, int64_t now, struct err *e)
{
	const struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];
	char what[NCCL_NAME + 32];
	int state = NCCL_OK;

	if (!n->trouble.code && n->connected && n->flown != n->landed &&
	    !n->lib->state(n->comm, &state)) {
		snprintf(what, sizeof(what), "%s '%s'", collective_word(f->kind), f->name);
		if (nccl_failed(n, state, what, e))
			note_trouble(n, e);
	}
	if (!n->trouble.code || now - n->trouble_ns < (int64_t)VERDICT_MS * 1000000)
		return 0;
	*e = n->trouble;
	return e->code;
}

static int look_for_late(const struct nccl *n, int64_t now, struct err *e)
{
	const struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];
	int64_t ms = (now - f->since_ns) / 1000000;

	if (!n->device_ms || ms < n->device_ms || n->trouble.code)
		return 0;
	return fail(e, RINGUP_EABORTED,
		    "%s '%s' of %s has been on GPU %d for %.1f s (RINGUP_DEVICE_MS): the work "
		    "before it on its stream has not ended, or another rank's GPU or NCCL's "
		    "network stands still",
		    collective_word(f->kind), f->name, n->group, gpu_number(n->gpu),
		    (double)ms / 1000);
}

static int nccl_watch(void *self, struct err *e)
{
	struct nccl *n = self;
	int64_t now = clock_ns();
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	if (!n->over && (n->flown != n->landed || n->trouble.code)) {
		rc = look_at_flights(n, e);
		if (rc >= 0 && look_for_trouble(n, now, e))
			rc = e->code;
		else if (!rc)
			rc = n->trouble.code != 0;
		else if (rc > 0 && look_for_late(n, now, e))
			rc = e->code;
	}
	pthread_mutex_unlock(&n->lock);
	return rc;
}

static const struct backend_device device = {
	.mark = nccl_mark,
	.unmark = nccl_unmark,
	.copy = nccl_copy,
	.watch = nccl_watch,
};

const struct backend backend_nccl = {
	.name = "nccl",
	.summary = "NVIDIA's NCCL, for tensors in the memory of GPUs",
	.size = sizeof(struct nccl),
	.memory = MEMORY_CUDA,
	.slots = 1,
	.named_only = true,
	.ordered = true,
	.device = &device,
	.open = nccl_open,
	.can = nccl_can,
	.start = nccl_start,
	.step = nccl_step,
	.wait = nccl_wait,
	.abort = nccl_abort,
	.close = nccl_close,
};
