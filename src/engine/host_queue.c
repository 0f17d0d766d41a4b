/* host_queue.c - with several hosts: the queue between the ranks of a host and their leader. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host_queue.h"

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/err.h"
#include "engine/inline.h"
#include "engine/ledger.h"
#include "engine/progress.h"
#include "ringup.h"

/* An entry of either list: its position, a mark, and the id. */
enum { NUMBER_AT = 16, LAST_OF_BATCH = 1 << 15, ID_MASK = LAST_OF_BATCH - 1 };
_Static_assert((int)LEDGER_IDS <= (int)ID_MASK, "an id fits below the mark");

size_t host_queue_bytes(int size)
{
	return sizeof(struct host_queue_shared) + LEDGER_IDS * sizeof(uint64_t) +
	       LEDGER_IDS * (size_t)size * sizeof(uint64_t);
}

int host_queue_open(struct host_queue *s, struct ledger *l, struct progress *progress,
		    const struct topo *t, struct err *e)
{
	unsigned char *at = (unsigned char *)l->seg->extra + ledger_bytes(l->ranks);
	int n = 0;

	memset(s, 0, sizeof(*s));
	s->size = t->size;
	s->hosts = t->hosts;
	s->rank = calloc((size_t)l->ranks, sizeof(*s->rank));
	if (!s->rank)
		return fail(e, RINGUP_ENOMEM, "no memory for the ledger");
	for (int r = 0; r < t->size; r++)
		if (t->host_of[r] == t->host && n < l->ranks)
			s->rank[n++] = r;
	s->shared = (void *)at;
	s->up = (void *)(at + sizeof(struct host_queue_shared));
	s->rows = s->up + LEDGER_IDS;
	s->ledger = l;
	s->progress = progress;
	l->of_group = s->rank;
	l->inlined = true;
	return 0;
}

void host_queue_close(struct host_queue *s)
{
	free(s->rank);
	memset(s, 0, sizeof(*s));
}

static uint64_t entry(uint64_t at, uint32_t id, bool last)
{
	return (at + 1) << NUMBER_AT | (last ? LAST_OF_BATCH : 0) | id;
}

static bool is_there(const uint64_t *list, uint64_t at, uint64_t *entry)
{
	*entry = __atomic_load_n(&list[at % LEDGER_IDS], __ATOMIC_ACQUIRE);
	return *entry >> NUMBER_AT == at + 1;
}

/* ---- up ---- */

/* If an earlier entry is still unseen, the rank that put it there has notified the leader. */
void host_queue_arrived(struct host_queue *s, uint32_t id)
{
	const struct waitset *waitset = &s->ledger->seg->waitset;
	uint64_t at = __atomic_fetch_add(&s->shared->tail, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&s->up[at % LEDGER_IDS], entry(at, id, false), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->shared->taken, __ATOMIC_RELAXED) != at)
		return;
	if (__atomic_load_n(&waitset_at(waitset, 0)->asleep, __ATOMIC_RELAXED))
		waitset_notify_one(waitset, 0);
	progress_notify(s->progress, waitset, 0);
}

bool host_queue_pending(const struct host_queue *s)
{
	uint64_t v;

	return is_there(s->up, __atomic_load_n(&s->seen, __ATOMIC_RELAXED), &v);
}

bool host_queue_take(struct host_queue *s, uint32_t *id)
{
	uint64_t v;

	if (!is_there(s->up, s->seen, &v)) {
		if (__atomic_load_n(&s->shared->taken, __ATOMIC_RELAXED) == s->seen)
			return false;
		/* From now on the next rank to arrive notifies; but it may have arrived. */
		__atomic_store_n(&s->shared->taken, s->seen, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!is_there(s->up, s->seen, &v))
			return false;
	}
	__atomic_store_n(&s->seen, s->seen + 1, __ATOMIC_RELAXED);
	*id = (uint32_t)(v & ID_MASK);
	return true;
}

bool host_queue_changed(struct host_queue *s, uint32_t id)
{
	uint32_t *dirty = &s->ledger->entries[id].dirty;

	return __atomic_load_n(dirty, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(dirty, 0, __ATOMIC_ACQUIRE);
}

void host_queue_signatures(const struct host_queue *s, uint32_t id, struct op_signatures *w)
{
	const struct ledger *l = s->ledger;

	for (int i = 0; i < l->ranks; i++)
		op_signatures_add(w, s->rank[i], &ledger_record(l, id, i)->signature);
}

void host_queue_collect(const struct host_queue *s, uint32_t id, uint64_t *rows)
{
	const struct ledger *l = s->ledger;

	for (int i = 0; i < l->ranks; i++)
		rows[s->rank[i]] = ledger_rows_of(l, id, i);
}

/* ---- down ---- */

uint64_t *host_queue_rows(const struct host_queue *s, uint32_t id)
{
	return s->rows + (size_t)id * (size_t)s->size;
}

void host_queue_wake(const struct host_queue *s)
{
	const struct waitset *waitset = &s->ledger->seg->waitset;

	waitset_notify(waitset, WAITSET_ANY);
	for (int i = 0; i < waitset->count; i++)
		progress_notify(s->progress, waitset, i);
}

/* The first entry is written last: a rank that sees it, sees the whole batch. */
void host_queue_publish(struct host_queue *s, const uint16_t *ids, int count)
{
	struct ledger *l = s->ledger;
	uint64_t at = l->shared->tail;

	for (int i = count - 1; i >= 0; i--)
		__atomic_store_n(&l->list[(at + (uint64_t)i) % LEDGER_IDS],
				 entry(at + (uint64_t)i, ids[i], i == count - 1),
				 __ATOMIC_RELEASE);
	l->shared->tail = at + (uint64_t)count;
	host_queue_wake(s);
}

int host_queue_next(struct host_queue *s, struct item *items)
{
	struct ledger *l = s->ledger;
	bool more = true;
	uint64_t v;
	int n;

	for (n = 0; more && n < BATCH_ITEMS; n++) {
		uint32_t id;

		if (!is_there(l->list, l->head + (uint64_t)n, &v))
			return 0;
		id = (uint32_t)(v & ID_MASK);
		more = !(v & LAST_OF_BATCH);
		items[n] = (struct item){ .id = id,
					  .bad = ledger_verdict(l, id),
					  .mixed = ledger_is_mixed(l, id),
					  .result = inline_result(l, id) };
		if (op_signature_has_rows(&ledger_record(l, id, l->rank)->signature))
			items[n].rows = host_queue_rows(s, id);
	}
	l->end = l->head + (uint64_t)n;
	return n;
}
