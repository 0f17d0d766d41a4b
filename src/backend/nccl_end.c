/* nccl_end.c - ends NCCL communicators, each in its own thread, within a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "backend/nccl_state.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "wire/segment.h"

enum { ABORT_MS = 10000, CLOSE_MS = 2000, LOOK_MS = 1 };

/* The thread and the communicator's owner each have a share; the last one frees it. */
struct nccl_end {
	const struct nccl_lib *lib;
	nccl_comm comm;
	bool agreed;         /* with the other ranks, else at once */
	int64_t deadline_ns; /* for their agreement                */
	bool done;           /* atomic                             */
	int shares;          /* atomic                             */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nccl *listed; /* of all jobs of this process */

void nccl_end_list(struct nccl *n)
{
	pthread_mutex_lock(&lock);
	n->next = listed;
	listed = n;
	n->listed = true;
	pthread_mutex_unlock(&lock);
}

void nccl_end_unlist(struct nccl *n)
{
	struct nccl **at;

	pthread_mutex_lock(&lock);
	for (at = &listed; *at && *at != n; at = &(*at)->next)
		;
	if (*at)
		*at = n->next;
	n->listed = false;
	pthread_mutex_unlock(&lock);
}

static void end_put(struct nccl_end *end)
{
	if (!__atomic_sub_fetch(&end->shares, 1, __ATOMIC_ACQ_REL))
		free(end);
}

/* A call of a communicator that does not block may still be under way: waits for its result. */
static int settle(const struct nccl_end *end, int rc)
{
	while (rc == NCCL_BUSY && clock_ns() < end->deadline_ns) {
		clock_sleep_ms(LOOK_MS);
		if (end->lib->state(end->comm, &rc))
			rc = NCCL_SYSTEM;
	}
	return rc;
}

static void *end_main(void *arg)
{
	struct nccl_end *end = arg;
	bool agreed = end->agreed && !settle(end, end->lib->finalize(end->comm));

	/* Revoked, its kernels end at once; freeing it may take longer. */
	if (!agreed && end->lib->revoke)
		(void)settle(end, end->lib->revoke(end->comm, 0));
	if (agreed)
		(void)end->lib->destroy(end->comm);
	else
		(void)end->lib->abort(end->comm);
	__atomic_store_n(&end->done, true, __ATOMIC_RELEASE);
	end_put(end);
	return NULL;
}

/* Starts the end of @n's communicator, once.  With the lock. */
static void end_start(struct nccl *n, bool agreed)
{
	struct nccl_end *end;
	pthread_t thread;

	if (!n->comm || n->end)
		return;
	end = calloc(1, sizeof(*end));
	if (!end)
		return;
	*end = (struct nccl_end){ .lib = n->lib,
				  .comm = n->comm,
				  .agreed = agreed,
				  .deadline_ns = clock_deadline(CLOSE_MS),
				  .shares = 2 };
	pthread_mutex_lock(&n->lock);
	n->over = true;
	pthread_mutex_unlock(&n->lock);
	if (thread_start(&thread, end_main, end)) {
		free(end);
		return;
	}
	pthread_detach(thread);
	n->end = end;
}

/* Waits for @n's end; false if it does not come. */
static bool end_wait(struct nccl *n)
{
	int64_t deadline = clock_deadline(ABORT_MS);
	bool done;

	if (!n->comm)
		return true;
	if (!n->end)
		return false;
	while (!(done = __atomic_load_n(&n->end->done, __ATOMIC_ACQUIRE)) &&
	       clock_ns() < deadline)
		clock_sleep_ms(LOOK_MS);
	if (!done) {
		log_warn("%s: NCCL has not given up its collectives for %d s, so the GPU may "
			 "still write to tensors; this process must end",
			 n->group, ABORT_MS / 1000);
		return false;
	}
	end_put(n->end);
	n->end = NULL;
	n->comm = NULL;
	return true;
}

bool nccl_end_abort(struct nccl *n)
{
	bool alone = n->left && __atomic_load_n(n->left, __ATOMIC_ACQUIRE) & SEGMENT_ABORTED &&
		     !__atomic_load_n(n->alarm, __ATOMIC_ACQUIRE);
	struct nccl *other;

	pthread_mutex_lock(&lock);
	for (other = listed; other; other = other->next)
		if (other == n || (!alone && other->alarm == n->alarm))
			end_start(other, false);
	pthread_mutex_unlock(&lock);
	return end_wait(n);
}

bool nccl_end_close(struct nccl *n)
{
	pthread_mutex_lock(&lock);
	end_start(n, true);
	pthread_mutex_unlock(&lock);
	return end_wait(n);
}
