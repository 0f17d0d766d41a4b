/* notify.h - wake sleeping threads and ranks: an operation is complete, ready, or failed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_NOTIFY_H
#define ENGINE_NOTIFY_H

#include "engine/engine_state.h"

struct comm;

/* notify_completed - operations of this rank are complete: wake the threads that wait for them.
 */
void notify_completed(struct engine *g);

/* notify_news - the agreement or the alarm has changed: this rank has to look.  Any thread. */
void notify_news(struct engine *g);

/* notify_ranks - make the ranks @w of this host look, whatever they wait for.  Any thread. */
void notify_ranks(struct engine *g, const struct waitset *w);

/* notify_call - wake the ranks of @c on this host that wait for news, and the progress threads
 * of ranks in which no thread makes progress. */
void notify_call(struct comm *c);

/* notify_announce - this rank has written to shared memory, and other ranks of @c wait for
 * that. */
void notify_announce(struct comm *c);

/* notify_device - this rank may have queued something on a device, at which the watch thread
 * then looks until it has ended. */
void notify_device(struct engine *g);

/* notify_alarm - end the job, because of rank @culprit or, if that is -1, of no single rank;
 * the first sentence counts.  Any thread. */
void notify_alarm(struct engine *g, int culprit, int code, const char *why);

/* notify_lost - likewise, because rank @culprit does not move, or has not been heard of. */
void notify_lost(struct engine *g, int culprit, enum alarm_stillness stillness,
		 const char *why);

/* notify_blind - end the job because poll(2) has failed, with errno, in this rank, which is
 * number @rank.  @cannot says what it can do no longer: "cannot watch other ranks". */
void notify_blind(struct engine *g, int rank, const char *cannot);

#endif
