/* nccl_run.c - the back end nccl: NCCL moves and reduces tensors in GPU memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nccl_state.h"
#include "backend/wait.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "device/driver.h"
#include "device/staging.h"

enum {
	SPIN_NS = 50000,   /* how long a plan is looked at again at once              */
	LOOK_NS = 50000,   /* then from one look to the next                          */
	DRAIN_MS = 600000, /* without RINGUP_DEVICE_MS: for what is queued at the end */
	VERDICT_MS = 300,  /* how long an error of NCCL's waits for its reason        */
};

/* What the engine has: the group itself stays where NCCL does not come back from it. */
struct nccl_slot {
	struct nccl *group;
};

static struct nccl *group_of(const void *self)
{
	return ((const struct nccl_slot *)self)->group;
}

/* ---- opening ---- */

/* What the ranks tell each other before NCCL, whose own check comes too late. */
struct hello {
	int32_t code, version;
	struct nccl_id id; /* rank 0's counts */
	char why[NCCL_WHY];
};

/* With NCCL_COMM_ID all communicators have one id and address, so that a rank of one may meet
 * those of another; and NCCL uses only interfaces in its subnet. */
static int refuse_address(const char *where, struct err *e)
{
	return conf_env("NCCL_COMM_ID")
		       ? fail(e, RINGUP_EINVAL,
			      "NCCL_COMM_ID is set %s, and would be the address of every "
			      "group; unset it",
			      where)
		       : 0;
}

static int id_make(struct nccl *n, struct hello *mine, struct err *e)
{
	int rc = nccl_failed(n, n->lib->make_id(&mine->id), "ncclGetUniqueId", e);

	/* NCCL has put into the environment what its file has. */
	return rc ? rc : refuse_address("in nccl.conf", e);
}

/* Loads the libraries on this rank, and says how that went.  Nothing here starts CUDA, which
 * the program may still want to configure, or to leave to children of fork(). */
static void hello_make(struct nccl *n, const struct topo *t, struct hello *mine)
{
	struct err e = { 0 };

	memset(mine, 0, sizeof(*mine));
	if (nccl_end_stuck()) {
		fail(&e, RINGUP_EABORTED,
		     "NCCL still runs a collective of an earlier job in this process; start a "
		     "new process");
		goto out;
	}
	if (refuse_address("here", &e) || driver_open(&e) ||
	    !(n->lib = nccl_lib_get(t->nccl ? t->nccl : "", &e)))
		goto out;
	mine->version = n->lib->number;
	if (!t->rank)
		(void)id_make(n, mine, &e);
out:
	mine->code = e.code;
	snprintf(mine->why, sizeof(mine->why), "%.*s", NCCL_WHY - 1, e.text);
}

/* All ranks come to the same conclusion. */
static int compare(struct nccl *n, const struct hello *all, struct err *e)
{
	char first[NCCL_NUMBER], other[NCCL_NUMBER];

	for (int r = 0; r < n->size; r++)
		if (all[r].code)
			return fail(e, RINGUP_ENOBACKEND, "rank %d cannot use NCCL: %s", r,
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

/* What the job's thread does for a group. */
static const struct nccl_work work = {
	.carry_out = nccl_queue,
	.end = nccl_end_agreed,
	.look = nccl_look,
};

static int group_open(struct nccl *n, const struct topo *t, struct err *e)
{
	char number[NCCL_NUMBER];
	int rc;

	*n = (struct nccl){ .alarm = t->abort,
			    .rank = t->rank,
			    .size = t->size,
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
	pthread_mutex_init(&n->holds, NULL);
	rc = nccl_thread_join(n, &work, t->local_rank, e);
	if (rc)
		return rc;
	if (!t->rank && !t->serial) {
		nccl_lib_number(n->lib->number, number);
		log_info("NCCL %s, %s, takes tensors in the memory of GPUs", number,
			 n->lib->path);
	}
	return 0;
}

static int nccl_open(void *self, const struct topo *t, struct err *e)
{
	struct nccl_slot *slot = self;

	slot->group = calloc(1, sizeof(*slot->group));
	return slot->group ? group_open(slot->group, t, e)
			   : fail(e, RINGUP_ENOMEM, "no memory for NCCL");
}

static bool nccl_can(const void *self, const struct plan *p)
{
	(void)self;
	return p->kind != PLAN_BARRIER && p->redop != RINGUP_ADASUM;
}

/* ---- a plan ---- */

static bool has_landed(const struct nccl *n)
{
	return __atomic_load_n(&n->landed, __ATOMIC_ACQUIRE) > n->flown_by;
}

/* Is a piece done only when it has run? */
static bool lands(const struct plan *p)
{
	for (int i = 0; i < p->pieces; i++)
		if (p->piece[i].memory == RINGUP_CUDA && !gpu_outlives(p->piece[i].stream))
			return true;
	return false;
}

static int nccl_start(void *self, const struct plan *p, struct err *e)
{
	struct nccl *n = group_of(self);

	(void)e;
	n->since_ns = clock_ns();
	__atomic_store_n(&n->lands, lands(p), __ATOMIC_RELAXED);
	nccl_thread_post(n, p);
	return 0;
}

static int nccl_step(void *self, const struct plan *p, struct err *e)
{
	struct nccl *n = group_of(self);

	(void)p;
	if (nccl_is_in_trouble(n) || nccl_thread_task(n) != NCCL_DONE)
		return 0;
	if (n->failed.code == RINGUP_EPEER &&
	    __atomic_load_n(&n->connected, __ATOMIC_ACQUIRE)) {
		nccl_note_trouble(n, &n->failed);
		return 0;
	}
	if (n->failed.code && gpu_is_over())
		return 0;
	if (n->failed.code) {
		*e = n->failed;
		return e->code;
	}
	return !n->lands || has_landed(n);
}

static bool nccl_wait(void *self, struct wait_on *w)
{
	struct nccl *n = group_of(self);

	if (clock_ns() - n->since_ns < SPIN_NS) {
		sched_yield();
		return false;
	}
	w->look_ns = LOOK_NS;
	return true;
}

/* ---- the end ---- */

static void nccl_abort(void *self)
{
	(void)nccl_end_abort(group_of(self));
}

/* What is queued may still be needed by other ranks, and its results here.  The time limit is
 * that of one collective. */
static bool nccl_settle(void *self)
{
	struct nccl *n = group_of(self);
	int64_t limit = (n->device_ms ? n->device_ms : DRAIN_MS) * INT64_C(1000000);
	int64_t since = clock_ns();

	while (__atomic_load_n(&n->landed, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&n->flown, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(n->alarm, __ATOMIC_RELAXED) || nccl_is_over(n) ||
		    nccl_is_in_trouble(n))
			return false;
		if (gpu_moved(n->gpu) > since)
			since = gpu_moved(n->gpu);
		if (clock_ns() - since > limit)
			return false;
		clock_sleep_ms(1);
	}
	return true;
}

static void give_back_events(struct nccl *n)
{
	for (; n->landed != n->flown; n->landed++) {
		struct nccl_flight *f = &n->flight[n->landed % NCCL_FLIGHTS];

		gpu_unmark(n->gpu, f->event);
		if (f->begun)
			gpu_unmark(n->gpu, f->begun);
	}
}

static void group_free(struct nccl *n)
{
	if (n->gpu)
		give_back_events(n);
	pthread_mutex_destroy(&n->lock);
	pthread_mutex_destroy(&n->holds);
	free(n);
}

static void nccl_close(void *self)
{
	struct nccl_slot *slot = self;
	struct nccl *n = slot->group;
	bool good, ended;
	struct gpu *g;

	if (!n || !n->thread) {
		slot->group = NULL;
		free(n);
		return;
	}
	good = nccl_settle(self);
	slot->group = NULL;
	ended = good && __atomic_load_n(&n->connected, __ATOMIC_ACQUIRE) ? nccl_end_close(n)
									 : nccl_end_abort(n);
	ended = nccl_thread_leave(n) && ended;
	g = n->gpu;
	if (g && (!good || !ended))
		gpu_abandon(g);
	/* Else its memory and its name stay in use. */
	if (ended)
		group_free(n);
	gpu_put(g);
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
	struct nccl *n = group_of(self);
	struct gpu *g;
	int device = __atomic_load_n(&n->device, __ATOMIC_ACQUIRE), rc = 0;

	if (at) {
		rc = gpu_where(at, &device, e);
		rc = rc ? rc : take_device(n, device, e);
	}
	*ready = NULL;
	if (rc || !stream || device < 0)
		return rc;
	rc = nccl_use_gpu(n, device, &g, e);
	return rc ? rc : gpu_mark(g, stream, ready, e);
}

static void nccl_unmark(void *self, void *ready)
{
	struct nccl *n = group_of(self);

	gpu_unmark(__atomic_load_n(&n->gpu, __ATOMIC_ACQUIRE), ready);
}

static int nccl_copy(void *self, void *to, const void *from, uint64_t bytes, void *ready,
		     struct staging_copy *c, struct err *e)
{
	struct nccl *n = group_of(self);
	int device = __atomic_load_n(&n->device, __ATOMIC_ACQUIRE), rc;
	struct gpu *g;

	if (device < 0)
		return 1;
	rc = nccl_use_gpu(n, device, &g, e);
	if (rc)
		return rc;
	rc = c->id || !ready ? 1 : gpu_reached(g, ready, e);
	return rc > 0 && bytes ? gpu_copy(g, to, from, bytes, c, e) : rc;
}

static bool nccl_drop(void *self, const struct staging_copy *c)
{
	struct gpu *g = __atomic_load_n(&group_of(self)->gpu, __ATOMIC_ACQUIRE);

	return !c->id || gpu_drop_copy(g, c);
}

/* Work that is queued on @stream from now on finds the results of a flight. */
static int nccl_hold(void *self, uint64_t flight, void *stream, struct err *e)
{
	struct nccl *n = group_of(self);
	int rc = 0;

	pthread_mutex_lock(&n->holds);
	if (__atomic_load_n(&n->landed, __ATOMIC_ACQUIRE) <= flight)
		rc = nccl_is_over(n)
			     ? fail(e, RINGUP_EABORTED,
				    "%s has ended before its result was there", n->group)
			     : gpu_hold(n->gpu, stream, n->flight[flight % NCCL_FLIGHTS].event,
					e);
	pthread_mutex_unlock(&n->holds);
	if (rc > 0)
		return fail(e, RINGUP_EINVAL,
			    "the stream that is to use the result is being captured; end the "
			    "capture before you wait");
	return rc;
}

static uint64_t nccl_flight(void *self)
{
	struct nccl *n = group_of(self);

	return n->lands ? UINT64_MAX : n->flown_by;
}

/* Does the driver, or NCCL, keep the thread that would notice all else? */
static int look_for_stuck(const struct nccl *n, struct err *e)
{
	int64_t ms = nccl_thread_late(n);
	int limit = n->device_ms > n->start_ms ? n->device_ms : n->start_ms;

	/* NCCL 2.22 connects the ranks in the call that launches. */
	if (n->lib->number / 100 == 222 && ms >= n->start_ms)
		return nccl_fail_apart(n, e);
	if (!n->device_ms || ms < limit)
		return 0;
	return fail(e, RINGUP_EABORTED,
		    "%s: a call of NCCL or of the GPU's driver has not returned for %.1f s",
		    n->group, (double)ms / 1000);
}

/* The watch thread knows better than NCCL which rank has died: NCCL's error waits for it. */
static int nccl_watch(void *self, struct err *e)
{
	struct nccl *n = group_of(self);
	int rc;

	if (nccl_is_over(n))
		return 0;
	pthread_mutex_lock(&n->lock);
	rc = n->landed != n->flown || n->trouble.code || n->task == NCCL_AT_WORK;
	if (n->verdict.code) {
		*e = n->verdict;
		rc = e->code;
	} else if (n->trouble.code &&
		   clock_ns() - n->trouble_ns >= (int64_t)VERDICT_MS * 1000000) {
		*e = n->trouble;
		rc = e->code;
	}
	pthread_mutex_unlock(&n->lock);
	return rc > 0 && look_for_stuck(n, e) ? e->code : rc;
}

static const struct backend_device device = {
	.mark = nccl_mark,
	.unmark = nccl_unmark,
	.copy = nccl_copy,
	.drop = nccl_drop,
	.hold = nccl_hold,
	.flight = nccl_flight,
	.settle = nccl_settle,
	.watch = nccl_watch,
};

const struct backend backend_nccl = {
	.name = "nccl",
	.summary = "NVIDIA's NCCL, for tensors in the memory of GPUs",
	.size = sizeof(struct nccl_slot),
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
