/* elastic.c - the state machine of an elastic job: which ranks start, join and exit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/elastic.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "ringup.h"

static int64_t after(int64_t now, int64_t ms)
{
	return now + ms * 1000000;
}

int elastic_init(struct elastic *x, const struct elastic_options *how, uint32_t seed,
		 struct err *e)
{
	*x = (struct elastic){ .how = *how, .random = seed ? seed : 1 };
	x->members = calloc(1, sizeof(*x->members));
	return x->members ? 0 : fail(e, RINGUP_ENOMEM, "no memory for an elastic job");
}

void elastic_fini(struct elastic *x)
{
	free(x->hosts);
	free(x->workers);
	free(x->members);
	*x = (struct elastic){ 0 };
}

/* -- hosts and workers -------------------------------------------------------- */

static bool host_is_usable(const struct elastic_host *h)
{
	return h->listed && !h->blacklisted;
}

/* The slots of a host in which workers may be; 0 if it is not usable. */
static int host_slots(const struct elastic *x, int host)
{
	const struct elastic_host *h = &x->hosts[host];
	int slots = host_is_usable(h) ? h->spec.slots : 0;

	if (!x->generation)
		slots -= h->spoiled;
	return slots > 0 ? slots : 0;
}

static int slots_count(const struct elastic *x)
{
	int n = 0;

	for (int i = 0; i < x->host_count; i++)
		n += host_slots(x, i);
	return n;
}

static int target(const struct elastic *x)
{
	int n = slots_count(x);

	return x->how.max_np && n > x->how.max_np ? x->how.max_np : n;
}

static bool is_alive(const struct elastic_worker *w)
{
	return w->state == ELASTIC_STARTING || w->state == ELASTIC_WAITING ||
	       w->state == ELASTIC_MEMBER;
}

/* Does the worker fit on its host?  Of the host's workers, those in the lowest slots fit. */
static bool worker_has_place(const struct elastic *x, const struct elastic_worker *w)
{
	const struct elastic_host *h = &x->hosts[w->host];
	int before = 0;

	if (!host_is_usable(h) || w->slot < h->spec.slots)
		return host_is_usable(h);
	for (int i = 0; i < x->worker_count; i++)
		before += is_alive(&x->workers[i]) && x->workers[i].host == w->host &&
			  x->workers[i].slot < w->slot;
	return before < h->spec.slots;
}

/* Is the worker known to have the state?  Until a worker reports it for the first time, every
 * worker of the generation counts. */
static bool worker_holds(const struct elastic *x, const struct elastic_worker *w)
{
	return is_alive(w) && w->rank >= 0 && (w->holds || !x->kept);
}

/* May the worker have the state?  A member may have received it and not reported yet. */
static bool worker_may_hold(const struct elastic *x, const struct elastic_worker *w)
{
	return worker_holds(x, w) || (w->state == ELASTIC_MEMBER && w->rank >= 0);
}

/* Does a worker with a place have the state?  If not, workers without a place keep it. */
static bool state_has_place(const struct elastic *x)
{
	for (int i = 0; i < x->worker_count; i++)
		if (worker_holds(x, &x->workers[i]) && worker_has_place(x, &x->workers[i]))
			return true;
	return false;
}

/* May the worker be in the next generation?  @safe: state_has_place(). */
static bool worker_may_stay(const struct elastic *x, const struct elastic_worker *w, bool safe)
{
	return worker_has_place(x, w) || (!safe && worker_may_hold(x, w));
}

static int count_holders(const struct elastic *x)
{
	int n = 0;

	for (int i = 0; i < x->worker_count; i++)
		n += worker_holds(x, &x->workers[i]);
	return n;
}

static int count_state(const struct elastic *x, enum elastic_state s)
{
	int n = 0;

	for (int i = 0; i < x->worker_count; i++)
		n += x->workers[i].state == s;
	return n;
}

/* Workers that wait and may stay; @holders: how many of them have the state. */
static int count_waiting(const struct elastic *x, int *holders)
{
	bool safe = state_has_place(x);
	int n = 0;

	*holders = 0;
	for (int i = 0; i < x->worker_count; i++) {
		const struct elastic_worker *w = &x->workers[i];

		if (w->state != ELASTIC_WAITING || !worker_may_stay(x, w, safe))
			continue;
		n++;
		*holders += worker_holds(x, w);
	}
	return n;
}

static int count_alive(const struct elastic *x, bool placed)
{
	int n = 0;

	for (int i = 0; i < x->worker_count; i++)
		n += is_alive(&x->workers[i]) &&
		     (!placed || worker_has_place(x, &x->workers[i]));
	return n;
}

/* -- events ------------------------------------------------------------------ */

static int host_find(struct elastic *x, const char *name)
{
	struct elastic_host *h;
	int i;

	for (i = 0; i < x->host_count; i++)
		if (!strcmp(x->hosts[i].spec.name, name))
			return i;
	h = array_more(&x->hosts, &x->host_count, sizeof(*h));
	x->out_of_memory |= !h;
	if (!h)
		return -1;
	snprintf(h->spec.name, sizeof(h->spec.name), "%s", name);
	return i;
}

void elastic_hosts(struct elastic *x, const struct hostlist *l, int64_t now)
{
	int h;

	for (int i = 0; i < x->host_count; i++)
		x->hosts[i].listed = false;
	for (int i = 0; i < l->count; i++) {
		h = host_find(x, l->host[i].name);
		if (h < 0)
			return;
		x->hosts[h].listed = true;
		x->hosts[h].spec.slots = l->host[i].slots;
	}
	(void)now;
}

static void generation_break(struct elastic *x)
{
	if (x->generation && !x->broken)
		x->to_break = true;
	x->broken = true;
	x->bits = 0;
}

void elastic_arrive(struct elastic *x, int worker, enum lobby_state state, int64_t now)
{
	struct elastic_worker *w = &x->workers[worker];

	if (!is_alive(w))
		return;
	if (w->state == ELASTIC_MEMBER)
		generation_break(x);
	/* A worker that had the state when the generation began still has it. */
	w->holds = w->rank >= 0 && (w->holds || state != LOBBY_STATE_NONE);
	x->kept |= w->holds;
	/* A new worker's wait does not count while a generation is running. */
	if (!x->waiting_ns && (!x->generation || w->rank >= 0))
		x->waiting_ns = now;
	w->state = ELASTIC_WAITING;
	w->ready_ns = now;
}

void elastic_leave(struct elastic *x, int worker)
{
	struct elastic_worker *w = &x->workers[worker];

	if (w->state == ELASTIC_WAITING)
		w->state = ELASTIC_STARTING;
}

/* Slots of the hosts other than @host. */
static int slots_elsewhere(const struct elastic *x, int host)
{
	return slots_count(x) - host_slots(x, host);
}

static uint32_t random_next(struct elastic *x)
{
	x->random ^= x->random << 13;
	x->random ^= x->random >> 17;
	x->random ^= x->random << 5;
	return x->random;
}

/* As in Horovod: the lower limit times 2, 4, 8 ..., plus at most as much again at random. */
static int64_t cooldown_ms(struct elastic *x, int failures)
{
	int64_t least = x->how.cooldown_min_ms, most = x->how.cooldown_max_ms;
	int64_t ms = failures < 20 ? least << failures : most;

	ms += (int64_t)(random_next(x) % 1024) * least / 1024;
	if (ms > most)
		ms = most;
	return ms < least ? least : ms;
}

static int64_t pause_ms(int failures)
{
	int64_t ms = failures < 2 ? 0 : ELASTIC_PAUSE_MS;

	for (; failures > 2 && ms < ELASTIC_PAUSE_MAX_MS; failures--)
		ms *= 2;
	return ms;
}

static void host_failed(struct elastic *x, const struct elastic_worker *w, int64_t now)
{
	struct elastic_host *h = &x->hosts[w->host];
	bool cools = x->how.cooldown_max_ms > 0;
	int64_t ms;

	/* The other workers of a host mostly fail with the first: together they are one
	 * failure. */
	if (h->blacklisted)
		return;
	if (!x->generation)
		h->spoiled++;
	if (w->rank >= 0 && now - w->started_ns >= ELASTIC_STEADY_MS * (int64_t)1000000)
		h->failures = 0;
	h->failures++;
	ms = cools ? cooldown_ms(x, h->failures) : pause_ms(h->failures);
	h->blacklisted = x->generation && slots_elsewhere(x, w->host) >= x->how.min_np;
	h->rest_ns = h->blacklisted && !cools ? INT64_MAX : after(now, ms);
	if (h->blacklisted && !x->succeeded)
		snprintf(x->say, sizeof(x->say),
			 "host %.120s is no longer used%s, since a rank failed there",
			 h->spec.name, cools ? " for a while" : "");
}

void elastic_exit(struct elastic *x, int worker, int status, int64_t now)
{
	struct elastic_worker *w = &x->workers[worker];
	bool counts = is_alive(w), stays = worker_may_stay(x, w, state_has_place(x));
	enum elastic_state was = w->state;

	w->state = ELASTIC_ENDED;
	if (!counts)
		return;
	if (was == ELASTIC_MEMBER)
		generation_break(x);
	if (status == 0 && stays) {
		x->succeeded = true;
	} else if (stays) {
		x->failed = x->failed ? x->failed : status;
		if (was == ELASTIC_MEMBER && !x->final)
			x->final = status;
		host_failed(x, w, now);
	}
}

/* -- decisions --------------------------------------------------------------- */

static void act_done(struct elastic *x, struct elastic_action *a, int status)
{
	x->over = true;
	a->act = ELASTIC_DONE;
	a->status = status;
}

static void act_fail(struct elastic *x, struct elastic_action *a)
{
	act_done(x, a, x->failed ? x->failed : 1);
}

static void act_end(struct elastic *x, int worker, struct elastic_action *a)
{
	x->workers[worker].state = ELASTIC_ENDING;
	a->act = ELASTIC_END;
	a->worker = worker;
	a->host = x->workers[worker].host;
}

/* After its pause a host is used like any other. */
static void hosts_wake(struct elastic *x, int64_t now, int64_t *until)
{
	for (int i = 0; i < x->host_count; i++) {
		struct elastic_host *h = &x->hosts[i];

		if (!h->rest_ns || h->rest_ns == INT64_MAX)
			continue;
		if (h->rest_ns > now) {
			clock_sooner(until, h->rest_ns);
			continue;
		}
		h->rest_ns = 0;
		h->blacklisted = false;
	}
}

/*
 * Ends one worker without a place: on a failed host immediately, on a removed host when the
 * generation is over, so that the ranks choose the moment.  A worker that has the state stays
 * until one with a place has it, too.
 */
static bool end_one(struct elastic *x, struct elastic_action *a)
{
	bool safe = state_has_place(x);

	for (int i = 0; i < x->worker_count; i++) {
		const struct elastic_worker *w = &x->workers[i];
		const struct elastic_host *h = &x->hosts[w->host];

		if (!is_alive(w) || worker_may_stay(x, w, safe))
			continue;
		if (w->state == ELASTIC_MEMBER && !h->blacklisted && !x->broken)
			continue;
		if (w->state == ELASTIC_MEMBER)
			generation_break(x);
		snprintf(a->why, sizeof(a->why), "host %.120s is no longer part of the job",
			 h->spec.name);
		act_end(x, i, a);
		return true;
	}
	return false;
}

/* The first worker in @state that can end while another worker keeps the state; or -1. */
static int late_find(const struct elastic *x, enum elastic_state state)
{
	int holders = count_holders(x);

	for (int i = 0; i < x->worker_count; i++) {
		const struct elastic_worker *w = &x->workers[i];

		if (w->state == state &&
		    (!worker_may_hold(x, w) || holders - worker_holds(x, w) > 0))
			return i;
	}
	return -1;
}

/* Ends one worker that the others have waited for too long. */
static bool end_late(struct elastic *x, int64_t now, struct elastic_action *a, int64_t *until)
{
	enum elastic_state state = x->generation ? ELASTIC_MEMBER : ELASTIC_STARTING;
	int64_t ms = x->generation ? x->how.timeout_ms : x->how.start_ms, late;
	int i;

	if (!x->broken && x->generation)
		return false;
	if (!x->waiting_ns || !count_state(x, state))
		return false;
	late = after(x->waiting_ns, ms);
	if (now < late) {
		clock_sooner(until, late);
		return false;
	}
	i = late_find(x, state);
	if (i < 0) {
		x->waiting_ns = now;
		snprintf(a->why, sizeof(a->why),
			 "no rank with the job's state has joined the rendezvous for %lld s; "
			 "still waiting",
			 (long long)(ms / 1000));
		a->act = ELASTIC_SAY;
		return true;
	}
	snprintf(a->why, sizeof(a->why), "it did not come to the meeting within %lld s",
		 (long long)(ms / 1000));
	if (!x->generation)
		host_failed(x, &x->workers[i], now);
	if (!x->failed)
		x->failed = 1;
	act_end(x, i, a);
	return true;
}

static int free_slot(const struct elastic *x, int host)
{
	int i;

	for (int slot = 0; slot < x->hosts[host].spec.slots; slot++) {
		for (i = 0; i < x->worker_count; i++)
			if (x->workers[i].host == host && x->workers[i].slot == slot &&
			    x->workers[i].state != ELASTIC_ENDED)
				break;
		if (i == x->worker_count)
			return slot;
	}
	return -1;
}

/* How many workers @host may have now. */
static int host_room(const struct elastic *x, int host)
{
	int i, n = host_slots(x, host);

	for (i = 0; i < x->worker_count; i++)
		n -= x->workers[i].host == host && is_alive(&x->workers[i]);
	return n;
}

static bool start_one(struct elastic *x, int64_t now, struct elastic_action *a)
{
	struct elastic_worker *worker;
	int h, slot, w = x->worker_count;

	if (x->succeeded || !x->started || count_alive(x, true) >= target(x))
		return false;
	for (h = 0; h < x->host_count; h++) {
		if (x->hosts[h].rest_ns > now || host_room(x, h) <= 0)
			continue;
		slot = free_slot(x, h);
		if (slot >= 0)
			break;
	}
	if (h == x->host_count)
		return false;
	worker = array_more(&x->workers, &x->worker_count, sizeof(*worker));
	x->out_of_memory |= !worker;
	if (!worker)
		return false;
	*worker = (struct elastic_worker){
		.state = ELASTIC_STARTING,
		.host = h,
		.slot = slot,
		.rank = -1,
		.started_ns = now,
	};
	a->act = ELASTIC_START;
	a->worker = w;
	a->host = h;
	return true;
}

/* Workers that have the state in the order of their ranks, then other workers of the
 * generation before, then new ones in the order of their start. */
static int compare_seniority(const struct elastic *x, int a, int b)
{
	bool ha = worker_holds(x, &x->workers[a]), hb = worker_holds(x, &x->workers[b]);
	int ra = x->workers[a].rank, rb = x->workers[b].rank;

	if (ha != hb)
		return ha ? -1 : 1;
	if (ra < 0 || rb < 0)
		return ra < 0 && rb < 0 ? a - b : ra < 0 ? 1 : -1;
	return ra - rb;
}

/*
 * Of the first @keepers members, which have the state and no place, and of the @placed behind
 * them, keep as many as the generation may have.  One keeper stays in any case, and one of the
 * others if there are any: they take the state over, even if that is one rank more than max_np.
 */
static int members_limit(struct elastic *x, int keepers, int placed)
{
	int most = x->how.max_np ? x->how.max_np : INT_MAX, take = placed, stay = keepers;

	if (keepers && most < 2)
		most = 2;
	if (take > most - (keepers > 0))
		take = most - (keepers > 0);
	if (stay > most - take)
		stay = most - take;
	memmove(x->members + stay, x->members + keepers, (size_t)take * sizeof(*x->members));
	return stay + take;
}

static int members_choose(struct elastic *x)
{
	int *more = realloc(x->members, (size_t)(x->worker_count + 1) * sizeof(*more));
	int k, n = 0, keepers = 0;
	bool safe = state_has_place(x);

	if (!more)
		return -1;
	x->members = more;
	for (int i = 0; i < x->worker_count; i++) {
		if (x->workers[i].state != ELASTIC_WAITING ||
		    !worker_may_stay(x, &x->workers[i], safe))
			continue;
		keepers += !worker_has_place(x, &x->workers[i]);
		for (k = n++; k > 0 && compare_seniority(x, i, more[k - 1]) < 0; k--)
			more[k] = more[k - 1];
		more[k] = i;
	}
	return members_limit(x, keepers, n - keepers);
}

static void form(struct elastic *x, int64_t now, struct elastic_action *a)
{
	int n;

	if (x->generation && x->how.reset_limit >= 0 && x->resets >= x->how.reset_limit) {
		snprintf(a->why, sizeof(a->why),
			 "the ranks have met again %d times, the limit of --reset-limit",
			 x->resets);
		act_fail(x, a);
		return;
	}
	n = members_choose(x);
	if (n < 0) {
		x->out_of_memory = true;
		return;
	}
	x->resets += x->generation > 0;
	x->generation++;
	x->broken = x->to_break = false;
	x->bits = x->reported = 0;
	x->final = 0;
	x->waiting_ns = x->short_ns = 0;
	/* Workers that are not in this generation lose the rank of the one before, and those
	 * that were not in that one have an older state, if any. */
	for (int i = 0; i < x->worker_count; i++) {
		x->workers[i].holds &= x->workers[i].rank >= 0;
		x->workers[i].rank = -1;
	}
	for (int i = 0; i < n; i++) {
		struct elastic_worker *w = &x->workers[x->members[i]];

		w->state = ELASTIC_MEMBER;
		w->rank = i;
		w->started_ns = now;
	}
	a->act = ELASTIC_FORM;
	a->count = n;
}

/* Was the worker started to join the generation, and may it still come in time? */
static bool is_coming(const struct elastic *x, const struct elastic_worker *w, int64_t now,
		      int64_t *until)
{
	int64_t late = after(w->started_ns, x->how.start_ms);

	if (w->state != ELASTIC_STARTING || w->rank >= 0 || !worker_has_place(x, w) ||
	    now >= late)
		return false;
	clock_sooner(until, late);
	return true;
}

/*
 * Are there new workers that wait, and none that may still come?  Workers that are added
 * together shall join together: each meeting costs the generation time, and counts for the
 * reset limit.  But no new worker has longer to come than one before the first meeting
 * (start_ms), and no new worker that is ready waits longer than that for others.
 */
static bool newcomers_are_ready(const struct elastic *x, int64_t now, int64_t *until)
{
	int64_t first = INT64_MAX, late;
	bool coming = false;

	for (int i = 0; i < x->worker_count; i++) {
		const struct elastic_worker *w = &x->workers[i];

		if (w->state == ELASTIC_WAITING && worker_has_place(x, w))
			clock_sooner(&first, w->ready_ns);
	}
	if (first == INT64_MAX)
		return false;
	late = after(first, x->how.start_ms);
	if (now >= late)
		return true;
	for (int i = 0; i < x->worker_count; i++)
		coming |= is_coming(x, &x->workers[i], now, until);
	if (coming)
		clock_sooner(until, late);
	return !coming;
}

/* Would the next generation have other workers than this one?  The ranks of a failed host that
 * keep the state for the others go on until they meet for another reason. */
static void notice_bits(struct elastic *x, int64_t now, int64_t *until)
{
	int placed = 0, leaving = 0;

	if (x->broken || !x->generation || x->succeeded)
		return;
	for (int i = 0; i < x->worker_count; i++) {
		const struct elastic_worker *w = &x->workers[i];

		if (w->state != ELASTIC_MEMBER)
			continue;
		placed += worker_has_place(x, w);
		leaving += !worker_has_place(x, w) && !x->hosts[w->host].blacklisted;
	}
	if (leaving && placed)
		x->bits |= 1;
	if (placed < target(x) && newcomers_are_ready(x, now, until))
		x->bits |= 2;
}

/* A worker has ended with success: there are no more meetings, and the job is over when all
 * workers of the generation have ended or have returned to the lobby. */
static bool end_well(struct elastic *x, struct elastic_action *a)
{
	if (!x->succeeded || count_state(x, ELASTIC_MEMBER))
		return false;
	if (!x->generation && count_state(x, ELASTIC_STARTING))
		return false;
	act_done(x, a, x->generation ? x->final : x->failed);
	return true;
}

/* Can more workers be started, now or later? */
static bool has_hope(const struct elastic *x)
{
	if (x->how.discovers)
		return true;
	for (int i = 0; i < x->host_count; i++)
		if (x->hosts[i].rest_ns && x->hosts[i].rest_ns != INT64_MAX && x->generation)
			return true;
	return target(x) >= x->how.min_np;
}

static bool end_badly(struct elastic *x, struct elastic_action *a)
{
	if (!x->started || x->succeeded)
		return false;
	if (x->worker_count && x->failed && !count_alive(x, false)) {
		act_fail(x, a);
		return true;
	}
	/* Workers without the state cannot continue the job. */
	if (x->generation && x->broken && !count_state(x, ELASTIC_MEMBER) &&
	    !count_holders(x)) {
		snprintf(a->why, sizeof(a->why),
			 "no rank with the state of generation %u is left", x->generation);
		act_fail(x, a);
		return true;
	}
	if (!x->generation && count_alive(x, true) < x->how.min_np && !has_hope(x)) {
		snprintf(a->why, sizeof(a->why),
			 "too many ranks failed before they had met: %d left, but at "
			 "least %d are needed",
			 count_alive(x, true), x->how.min_np);
		act_fail(x, a);
		return true;
	}
	return false;
}

/* Ends the job if there have been too few workers for too long. */
static bool end_short(struct elastic *x, bool is_short, int64_t now, struct elastic_action *a,
		      int64_t *until)
{
	int need = x->started ? x->how.min_np : x->how.np, have;
	int64_t late;

	if (!is_short) {
		x->short_ns = 0;
		return false;
	}
	if (!x->short_ns)
		x->short_ns = now;
	late = after(x->short_ns, x->how.timeout_ms);
	if (now < late) {
		clock_sooner(until, late);
		return false;
	}
	have = x->started ? count_state(x, ELASTIC_WAITING) : slots_count(x);
	snprintf(a->why, sizeof(a->why), "%s%d %s after %lld s, at least %d are needed",
		 x->started ? "" : "the hosts have ", have,
		 x->started ? (have == 1 ? "rank is ready" : "ranks are ready")
			    : (have == 1 ? "slot" : "slots"),
		 (long long)(x->how.timeout_ms / 1000), need);
	act_fail(x, a);
	return true;
}

/* Are all workers of the generation before, or all started ones, in the lobby or ended? */
static bool is_assembled(const struct elastic *x)
{
	if (x->generation)
		return x->broken && !count_state(x, ELASTIC_MEMBER);
	return count_state(x, ELASTIC_WAITING) && !count_state(x, ELASTIC_STARTING);
}

static bool say_or_break(struct elastic *x, struct elastic_action *a)
{
	if (x->to_break) {
		x->to_break = false;
		a->act = ELASTIC_BREAK;
		return true;
	}
	if (*x->say) {
		snprintf(a->why, sizeof(a->why), "%s", x->say);
		*x->say = 0;
		a->act = ELASTIC_SAY;
		return true;
	}
	return false;
}

static bool form_or_wait(struct elastic *x, int64_t now, struct elastic_action *a,
			 int64_t *until)
{
	int holders, waiting = count_waiting(x, &holders);
	bool is_short;

	if (x->succeeded)
		return false;
	if (x->started && is_assembled(x) && waiting >= x->how.min_np &&
	    (!x->generation || holders)) {
		form(x, now, a);
		return true;
	}
	is_short = !x->started ||
		   (x->generation ? is_assembled(x) : !count_state(x, ELASTIC_STARTING));
	return end_short(x, is_short, now, a, until);
}

void elastic_next(struct elastic *x, int64_t now, struct elastic_action *a, int64_t *until_ns)
{
	*until_ns = INT64_MAX;
	*a = (struct elastic_action){ .act = ELASTIC_NOTHING };
	if (x->over)
		return;
	if (x->out_of_memory) {
		snprintf(a->why, sizeof(a->why), "out of memory");
		act_done(x, a, 1);
		return;
	}
	hosts_wake(x, now, until_ns);
	if (!x->started && slots_count(x) >= x->how.np)
		x->started = true;
	if (say_or_break(x, a) || end_one(x, a) || end_well(x, a) || end_badly(x, a) ||
	    end_late(x, now, a, until_ns) || start_one(x, now, a) ||
	    form_or_wait(x, now, a, until_ns))
		return;
	notice_bits(x, now, until_ns);
	if (x->bits & ~x->reported) {
		x->reported = x->bits;
		a->act = ELASTIC_NOTICE;
		a->bits = x->bits;
	}
}
