/* nccl_end.c - ends NCCL communicators within a time limit, each in its own thread. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "backend/nccl_state.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"

enum {
	ABORT_MS = 10000,
	CLOSE_MS = 2000,
	BACK_MS = 200, /* how long a call of NCCL may keep the job's thread */
	LOOK_MS = 1,
	NCCL_ABORTS_ANYWHERE = 21900, /* earlier, what is connecting ends in its own thread */
};

static int stuck; /* ends that have missed their time limit; atomic */

static void say_ended(struct nccl *n)
{
	pthread_mutex_lock(&n->lock);
	if (n->late && !n->ended)
		__atomic_fetch_sub(&stuck, 1, __ATOMIC_ACQ_REL);
	n->ended = true;
	pthread_mutex_unlock(&n->lock);
}

static bool has_ended(struct nccl *n, bool late)
{
	bool has;

	pthread_mutex_lock(&n->lock);
	has = n->ended;
	if (!has && late) {
		n->late = true;
		__atomic_fetch_add(&stuck, 1, __ATOMIC_ACQ_REL);
	}
	pthread_mutex_unlock(&n->lock);
	return has;
}

bool nccl_end_stuck(void)
{
	return __atomic_load_n(&stuck, __ATOMIC_ACQUIRE);
}

/* Only the thread that takes the communicator ends it. */
static nccl_comm take_comm(struct nccl *n)
{
	return __atomic_exchange_n(&n->comm, NULL, __ATOMIC_ACQ_REL);
}

/* ---- in agreement, by the job's thread ---- */

void nccl_end_agreed(struct nccl *n)
{
	int64_t deadline = clock_deadline(CLOSE_MS);
	struct err e = { 0 };
	int rc = NCCL_OK;
	nccl_comm comm;
	bool agreed;

	agreed = nccl_enter(n);
	if (agreed) {
		rc = n->lib->finalize(nccl_comm_of(n));
		nccl_leave(n);
	}
	agreed = agreed && !nccl_failed(n, rc, "ncclCommFinalize", &e) &&
		 !nccl_settled(n, deadline, "ncclCommFinalize", &e);
	comm = take_comm(n);
	if (comm)
		(void)(agreed ? n->lib->destroy(comm) : n->lib->abort(comm));
	say_ended(n);
}

/* ---- at once ---- */

/* NCCL's kernels have ended: now those behind them write what nobody will read. */
static void wait_for_flights(const struct nccl *n, int64_t deadline)
{
	struct err e;

	for (uint64_t i = __atomic_load_n(&n->landed, __ATOMIC_ACQUIRE);
	     i < __atomic_load_n(&n->flown, __ATOMIC_ACQUIRE); i++)
		while (!gpu_reached(n->gpu, n->flight[i % NCCL_FLIGHTS].event, &e) &&
		       clock_ns() < deadline)
			clock_sleep_ms(LOOK_MS);
}

/* Is the job's thread busy with @n, and will it soon be back?  Not if NCCL blocks it, which
 * ncclCommAbort() ends; nor if the driver does, but then it finds that @n is over before it
 * calls NCCL again. */
static bool comes_back(const struct nccl *n)
{
	int64_t since = __atomic_load_n(&n->inside_ns, __ATOMIC_SEQ_CST);

	return nccl_thread_is_at(n) &&
	       (!nccl_comm_of(n) ||
		(since ? (clock_ns() - since) / 1000000 : nccl_thread_late(n)) < BACK_MS);
}

static void *end_main(void *arg)
{
	struct nccl *n = arg;
	/* Ends before end_wait() gives up. */
	int64_t deadline = clock_deadline(ABORT_MS - BACK_MS);
	nccl_comm comm;

	while (comes_back(n) && clock_ns() < deadline)
		clock_sleep_ms(LOOK_MS);
	if (nccl_comm_of(n) && n->lib->number < NCCL_ABORTS_ANYWHERE && !n->connected) {
		nccl_thread_post(n, NULL);
		return NULL;
	}
	comm = take_comm(n);
	if (comm)
		(void)n->lib->abort(comm);
	wait_for_flights(n, deadline);
	/* A thread that the driver blocks uses the plan until it is back. */
	while (nccl_thread_is_at(n) && clock_ns() < deadline)
		clock_sleep_ms(LOOK_MS);
	say_ended(n);
	return NULL;
}

/* Begins the end of @n, once. */
static void end_begin(struct nccl *n)
{
	pthread_t thread;

	if (__atomic_exchange_n(&n->over, true, __ATOMIC_SEQ_CST))
		return;
	if (nccl_thread_task(n) == NCCL_IDLE)
		say_ended(n);
	else if (!thread_start(&thread, end_main, n))
		pthread_detach(thread);
}

static bool end_wait(struct nccl *n)
{
	int64_t deadline = clock_deadline(ABORT_MS);

	while (!has_ended(n, false) && clock_ns() < deadline)
		clock_sleep_ms(LOOK_MS);
	if (has_ended(n, true))
		return true;
	log_warn("%s: for %d s NCCL has not given up its collectives, or work before them on "
		 "their stream has not ended, so the GPU may still write to tensors; this "
		 "process "
		 "must end",
		 n->group, ABORT_MS / 1000);
	return false;
}

bool nccl_end_abort(struct nccl *n)
{
	if (__atomic_load_n(n->alarm, __ATOMIC_ACQUIRE))
		nccl_thread_visit(n, end_begin);
	else
		end_begin(n);
	return end_wait(n);
}

bool nccl_end_close(struct nccl *n)
{
	nccl_thread_post(n, NULL);
	return end_wait(n);
}
