/* progress.c - the progress threads of a host's ranks: asleep until they are notified. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/progress.h"

#include "base/futex.h"
#include "wire/waitset.h"

void progress_notify(struct progress *of_host, const struct waitset *w, int rank)
{
	struct progress *p = &of_host[waitset_place(w, rank)];

	if (!__atomic_load_n(&p->driving, __ATOMIC_RELAXED))
		progress_wake(p);
}

void progress_wake(struct progress *p)
{
	__atomic_fetch_add(&p->word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&p->asleep, __ATOMIC_SEQ_CST))
		futex_wake(&p->word);
}

void progress_sleep(struct progress *p, uint32_t seen)
{
	__atomic_store_n(&p->asleep, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (progress_seen(p) == seen)
		futex_wait(&p->word, seen, INT64_MAX);
	__atomic_store_n(&p->asleep, 0, __ATOMIC_SEQ_CST);
}
