/* agree.h - how ranks find out which tensors are ready everywhere, and in which order. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_AGREE_H
#define ENGINE_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/want.h"

struct err;

enum { NAME_BYTES = 511, BATCH_ITEMS = 256 };

/* One tensor that all ranks have submitted. */
struct item {
	uint32_t id;          /* as find() gave it                           */
	const char *bad;      /* the ranks disagree: a sentence; else NULL   */
	const uint64_t *rows; /* allgather: rows of every rank; else NULL  */
	const void *result;   /* what has come with the agreement, so that nothing
			       * is to be carried out; else NULL.  All three are
			       * valid until done()                        */
};

/* How post() found its rank: there are others to come; it was the last of all, so that next()
 * has something to give; or that, and all await the operation, so that nobody need be kicked.
 */
enum arrival { ARRIVED_EARLY, ARRIVED_LAST, ARRIVED_AWAITED };

/*
 * There is no cycle.  A rank publishes a tensor when it submits it; the last to
 * do so puts it on the one list that all ranks work through; whatever is on the
 * list when a batch ends is the next batch.  All ranks see the same batches.
 *
 * find(), hold() and post() are called under the engine's lock, next() and done()
 * by the holder of the baton.
 */
struct agree {
	const char *name;

	/*
	 * Numbers stand for names.  There are more names than numbers: when they
	 * run out, that of a name which nobody is using goes to another.  A rank
	 * holds a number while it has an operation in flight on it.
	 *
	 * find() gives @name's number, held, and its @age.  At most a few
	 * microseconds; only the first use of a name costs that.
	 * hold() returns false if the number has another age by now: find() again.
	 * drop() lets go, once for each of them; any thread.
	 */
	int (*find)(void *self, const char *name, size_t len, const struct want *w,
		    uint32_t *id, uint32_t *age, struct err *e);
	bool (*hold)(void *self, uint32_t id, uint32_t age);
	void (*drop)(void *self, uint32_t id);

	/* This rank is ready.  @changed: @w is not what it was the last time, or
	 * there was none.  @awaits: the caller has the baton, and keeps it until the
	 * operation is complete. */
	int (*post)(void *self, uint32_t id, const struct want *w, uint64_t rows, bool changed,
		    bool awaits, enum arrival *as, struct err *e);

	/* Is there a next batch?  Cheap, any thread. */
	bool (*ready)(void *self);

	/* Fill @items with the next batch: at most BATCH_ITEMS, and no more after
	 * they come to @cap bytes.  Returns how many; 0 if there is none yet. */
	int (*next)(void *self, uint64_t cap, struct item *items);

	/* The batch that next() gave has been carried out. */
	void (*done)(void *self);

	/* The holder of the baton has nothing to do but wait: between attend(true) and
	 * attend(false) it calls poll() whenever it looks, also just before it sleeps.
	 * So what must be fetched is fetched by whoever waits for it. */
	void (*attend)(void *self, bool on);
	void (*poll)(void *self);
};

#endif
