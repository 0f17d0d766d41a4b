/* store.c - broadcast of a short text from rank 0, through the launcher's key-value store. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/thread.h"
#include "ringup.h"
#include "wire/kvs.h"
#include "wire/mpi_state.h"

_Static_assert((int)STORE_VALUE_BYTES == (int)KVS_VALUE_BYTES, "what all launchers take");

/*
 * A thread of its own calls the launcher's functions, since they have no deadline; caller and
 * thread share this.
 */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t is_done; /* by CLOCK_MONOTONIC                  */
	const struct kvs *kvs;  /* NULL: nothing has been tried        */
	pid_t owner;            /* the process that has set kvs        */
	bool is_open, has_thread;
	pthread_t thread; /* to be joined, as soon as it is not busy  */
	bool is_busy;     /* the thread talks to the launcher            */
	unsigned round;   /* fences that have begun                      */
	int rank;
	char value[KVS_VALUE_BYTES]; /* rank 0's: input there, output on all */
	struct err why;
} store = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* PMI comes first, since it tells rank and size: a launcher below another one passes on the
 * variables that it was given, and PMIx tells a rank alone. */
static const struct kvs *store_find(int rank, int size)
{
	static const struct kvs *const known[] = { &kvs_pmi, &kvs_pmix };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i]->is_here(rank, size))
			return known[i];
	return NULL;
}

const char *store_name(int rank, int size)
{
	const struct kvs *k = store_find(rank, size);

	return k ? k->name : NULL;
}

/* Run by exit(3): closes the connection to the launcher.  A child of fork() has a copy of its
 * parent's connection, and must not close it. */
static void store_part(void)
{
	if (store.owner != getpid() || pthread_mutex_trylock(&store.lock))
		return;
	if (!store.is_busy && store.is_open) {
		store.kvs->close();
		store.is_open = false;
	}
	pthread_mutex_unlock(&store.lock);
}

/* On the thread: opens the store once, puts rank 0's value, waits for all, gets the value. */
static int converse(char *value, struct err *e)
{
	const struct kvs *k = store.kvs;
	char key[KVS_KEY_BYTES];
	int rc = store.is_open ? 0 : k->open(store.rank, e);

	if (rc)
		return rc;
	store.is_open = true;
	snprintf(key, sizeof(key), "ringup-offer-%u", ++store.round);
	if (store.rank == 0)
		rc = k->put(key, value, e);
	if (!rc)
		rc = k->fence(e);
	return rc ? rc : k->get(key, value, e);
}

/* The thread.  While is_busy is set, fields that it uses without the lock are its own. */
static void *work(void *arg)
{
	char value[KVS_VALUE_BYTES];
	struct err e = { 0 };

	(void)arg;
	memcpy(value, store.value, sizeof(value));
	converse(value, &e);
	pthread_mutex_lock(&store.lock);
	memcpy(store.value, value, sizeof(store.value));
	store.why = e;
	store.is_busy = false;
	pthread_cond_broadcast(&store.is_done);
	pthread_mutex_unlock(&store.lock);
	explicit_bzero(value, sizeof(value));
	return NULL;
}

/* Waits for the thread, under the lock. */
static int await_work(int64_t deadline_ns, struct err *e)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / 1000000000),
				  .tv_nsec = (long)(deadline_ns % 1000000000) };
	int late = 0;

	while (store.is_busy && !late)
		late = pthread_cond_timedwait(&store.is_done, &store.lock, &until);
	if (!store.is_busy) {
		if (store.has_thread)
			pthread_join(store.thread, NULL);
		store.has_thread = false;
		return 0;
	}
	return fail(e, RINGUP_ETIMEDOUT,
		    "not all ranks have used the launcher's store (%s): check that each rank "
		    "of this job calls ringup_init() or hvd.init()",
		    store.kvs->name);
}

/* Finds the store, once in a process; under the lock. */
static int store_prepare(int rank, int size, struct err *e)
{
	const struct kvs *k = store.kvs;
	pthread_condattr_t a;

	if (store.owner && store.owner != getpid())
		return fail(e, RINGUP_EINVAL,
			    "this process is a child of process %d, which is connected to the "
			    "launcher: start ranks only with the launcher",
			    (int)store.owner);
	if (k)
		return 0;
	if (mpi_state() == MPI_STATE_FINALIZED)
		return fail(e, RINGUP_EINVAL,
			    "MPI_Finalize() has ended this rank's connection to its launcher: "
			    "call ringup_init() or hvd.init() before it");
	k = store_find(rank, size);
	if (!k)
		return fail(e, RINGUP_EINVAL, "the launcher has no store for its ranks");
	if (atexit(store_part))
		return fail(e, RINGUP_ENOMEM, "no memory to disconnect from the launcher");
	store.kvs = k;
	store.owner = getpid();
	store.rank = rank;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&store.is_done, &a);
	pthread_condattr_destroy(&a);
	return 0;
}

/* Starts the thread, under the lock. */
static int store_begin(const char *mine, struct err *e)
{
	int rc;

	snprintf(store.value, sizeof(store.value), "%s", mine ? mine : "");
	store.is_busy = true;
	rc = thread_start(&store.thread, work, NULL);
	if (rc) {
		store.is_busy = false;
		return limits_fail(e, rc, "cannot create a thread for the launcher's store");
	}
	store.has_thread = true;
	return 0;
}

int store_share(int rank, int size, const char *mine, char *all, int64_t deadline_ns,
		struct err *e)
{
	int rc;

	pthread_mutex_lock(&store.lock);
	rc = store_prepare(rank, size, e);
	/* An earlier call that timed out may still be busy. */
	if (!rc)
		rc = await_work(deadline_ns, e);
	if (!rc)
		rc = store_begin(mine, e);
	if (!rc)
		rc = await_work(deadline_ns, e);
	if (!rc && store.why.code)
		rc = fail(e, store.why.code, "%s", store.why.text);
	if (!rc)
		memcpy(all, store.value, sizeof(store.value));
	if (!store.is_busy)
		explicit_bzero(store.value, sizeof(store.value));
	pthread_mutex_unlock(&store.lock);
	return rc;
}
