/* handles.c - integer handles of collectives in flight, passed between a graph's operations. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/handles.h"

#include <pthread.h>
#include <stdlib.h>

/* A place in the table.  The serial number goes up each time that the place is taken, so that
 * an old handle does not lead to a new run. */
struct place {
	struct collective_run *run; /* NULL: the place is free      */
	uint32_t serial;
	uint32_t next; /* free places: the index of another one, + 1; 0: none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *places;
static uint32_t place_count, first_free; /* first_free: index + 1; 0: none */

/* Unused runs; there is room for each that was ever made. */
static struct collective_run **spare;
static size_t spare_count, spare_room, made;

struct collective_run *handles_borrow(void)
{
	struct collective_run *run = NULL, **more;

	pthread_mutex_lock(&lock);
	if (spare_count) {
		run = spare[--spare_count];
	} else if (made < spare_room ||
		   (more = realloc(spare, (2 * spare_room + 16) * sizeof(*spare)))) {
		if (made >= spare_room) {
			spare = more;
			spare_room = 2 * spare_room + 16;
		}
		run = calloc(1, sizeof(*run));
		made += run != NULL;
	}
	pthread_mutex_unlock(&lock);
	return run;
}

void handles_return(struct collective_run *run)
{
	pthread_mutex_lock(&lock);
	spare[spare_count++] = run;
	pthread_mutex_unlock(&lock);
}

/* Make more places, all of them free.  The caller has the lock. */
static int places_grow(void)
{
	uint32_t i, n = place_count ? 2 * place_count : 64;
	struct place *more;

	if (n > INT32_MAX / 2)
		return -1;
	more = realloc(places, n * sizeof(*places));
	if (!more)
		return -1;
	places = more;
	for (i = place_count; i < n; i++)
		places[i] = (struct place){ .next = i + 1 < n ? i + 2 : first_free };
	first_free = place_count + 1;
	place_count = n;
	return 0;
}

int64_t handles_put(struct collective_run *run)
{
	int64_t handle = 0;
	struct place *p;

	pthread_mutex_lock(&lock);
	if (first_free || !places_grow()) {
		p = &places[first_free - 1];
		p->serial = (p->serial + 1) & 0x7fffffff;
		p->run = run;
		handle = (int64_t)(((uint64_t)p->serial << 32) | first_free);
		first_free = p->next;
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

/* The run in a place, which is free from now on.  The caller has the lock. */
static struct collective_run *place_clear(uint32_t i)
{
	struct collective_run *run = places[i].run;

	places[i].run = NULL;
	places[i].next = first_free;
	first_free = i + 1;
	return run;
}

struct collective_run *handles_take(int64_t handle)
{
	uint32_t i = (uint32_t)handle, serial = (uint32_t)((uint64_t)handle >> 32);
	struct collective_run *run = NULL;

	pthread_mutex_lock(&lock);
	if (i >= 1 && i <= place_count && places[i - 1].run && places[i - 1].serial == serial)
		run = place_clear(i - 1);
	pthread_mutex_unlock(&lock);
	return run;
}

void handles_drop(void (*drop)(struct collective_run *run))
{
	struct collective_run *run;

	for (uint32_t i = 0;; i++) {
		pthread_mutex_lock(&lock);
		if (i >= place_count) {
			pthread_mutex_unlock(&lock);
			return;
		}
		run = places[i].run ? place_clear(i) : NULL;
		pthread_mutex_unlock(&lock);
		if (run) {
			drop(run);
			handles_return(run);
		}
	}
}
