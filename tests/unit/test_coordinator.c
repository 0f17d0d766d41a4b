/* test_coordinator.c - many hosts agree: one order, in few frames, whatever comes first. */
#include <unistd.h>

#include "engine/coordinator.h"
#include "engine/frame.h"
#include "hosts.h"
#include "rounds.h"
#include "tap.h"

enum { NAMES = 24, ROUNDS = 12, MANY = 100 };

/* A frame on its way. */
struct letter {
	struct letter *next;
	size_t len;
	unsigned char data[];
};

/* The last invitation that has come to its end. */
static struct {
	int at, from, to, count;
	char where[COORDINATOR_WHERE];
} invited;

/* A host's leader, and what its neighbours have sent it. */
static struct leader {
	int host, left, alarms, culprit, code;
	struct coordinator *coordinator;
	struct letter *first[64], **end[64]; /* by link */
	char why[256];
} leaders[HOSTS_RANKS];

static int frames, depth, fanout;
static uint32_t seed;

/* The same sequence everywhere, so that a failure can be repeated. */
static uint32_t next_number(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static int link_to(const struct leader *l, int rank)
{
	int k;

	for (k = 0; coordinator_leader(l->coordinator, k) != rank; k++)
		;
	return k;
}

static void on_send(void *ctx, int link, const void *frame, size_t len)
{
	struct leader *from = ctx;
	struct leader *to =
		&leaders[hosts.host_of[coordinator_leader(from->coordinator, link)]];
	int k = link_to(to, hosts.leader[from->host]);
	struct letter *x = malloc(sizeof(*x) + len);

	x->next = NULL;
	x->len = len;
	memcpy(x->data, frame, len);
	*to->end[k] = x;
	to->end[k] = &x->next;
	frames++;
}

static void on_left(void *ctx, int rank)
{
	((struct leader *)ctx)->left = rank;
}

static void on_alarm(void *ctx, int culprit, int code, const char *why)
{
	struct leader *l = ctx;

	l->alarms++;
	l->culprit = culprit;
	l->code = code;
	snprintf(l->why, sizeof(l->why), "%s", why);
}

static void on_invite(void *ctx, int from, int to, const char *where)
{
	invited.at = ((struct leader *)ctx)->host;
	invited.from = from;
	invited.to = to;
	invited.count++;
	snprintf(invited.where, sizeof(invited.where), "%s", where);
}

static int open_all(int ranks, const int *host_of, uint64_t cap)
{
	struct coordinator_events ev = {
		.send = on_send, .left = on_left, .alarm = on_alarm, .invite = on_invite
	};
	struct err e = { 0 };
	int h, k, rc;

	rc = hosts_open(ranks, host_of);
	for (h = 0; h < hosts.hosts && !rc; h++) {
		struct rank *r = &hosts.rank[hosts.leader[h]];

		leaders[h] = (struct leader){ .host = h, .left = -1 };
		ev.ctx = &leaders[h];
		rc = coordinator_open(&leaders[h].coordinator, &r->host_queue, &r->topo, fanout,
				      cap, &ev, &e);
		for (k = 0; k < 64; k++)
			leaders[h].end[k] = &leaders[h].first[k];
	}
	if (rc)
		printf("# %s\n", e.text);
	return rc;
}

static void close_all(void)
{
	struct letter *x;
	int h, k;

	for (h = 0; h < hosts.hosts; h++) {
		coordinator_close(leaders[h].coordinator);
		for (k = 0; k < 64; k++)
			while ((x = leaders[h].first[k])) {
				leaders[h].first[k] = x->next;
				free(x);
			}
	}
	hosts_close();
}

/* Let a leader read one frame; 1 if there was one. */
static int deliver(struct leader *l, int link, struct err *e)
{
	struct letter *x = l->first[link];
	int rc;

	if (!x)
		return 0;
	l->first[link] = x->next;
	if (!x->next)
		l->end[link] = &l->first[link];
	rc = coordinator_take(l->coordinator, link, x->data, x->len, e);
	free(x);
	if (!rc)
		rc = coordinator_turn(l->coordinator, e);
	return rc ? rc : 1;
}

/* All that is on its way arrives.  One sweep over the hosts is one step of time. */
static int settle(struct err *e)
{
	static int ready[HOSTS_RANKS];
	int h, k, any = 1, rc;

	for (depth = 0; any; depth++) {
		any = 0;
		for (h = 0; h < hosts.hosts; h++) {
			if (coordinator_turn(leaders[h].coordinator, e))
				return e->code;
			ready[h] = coordinator_links(leaders[h].coordinator);
		}
		/* Only what was there before the sweep. */
		for (h = 0; h < hosts.hosts; h++)
			for (k = 0; k < ready[h]; k++) {
				struct letter *last =
					leaders[h].first[k]
						? (void *)((char *)leaders[h].end[k] -
							   offsetof(struct letter, next))
						: NULL;

				while (last && leaders[h].first[k]) {
					bool done = leaders[h].first[k] == last;

					rc = deliver(&leaders[h], k, e);
					if (rc < 0)
						return rc;
					any |= rc;
					if (done)
						break;
				}
			}
	}
	return 0;
}

static struct op_signature sum(uint64_t count)
{
	return (struct op_signature){
		.count = count, .pre = 1, .post = 1, .dtype = RINGUP_F32
	};
}

/* Ranks submit, leaders read and batches are carried out in a random order. */
static int mix(const struct op_signature *s, struct err *e)
{
	static int sent[HOSTS_RANKS][NAMES], order[HOSTS_RANKS][NAMES * ROUNDS];
	struct item items[BATCH_ITEMS];
	int names[BATCH_ITEMS], r, n, i, k, rc, left = hosts.ranks * NAMES * ROUNDS;

	memset(sent, 0, sizeof(sent));
	while (left) {
		r = (int)next_number((uint32_t)hosts.ranks);
		n = (int)next_number(NAMES);
		/* A name again only when the last time is complete. */
		for (i = 0, k = 0; i < hosts.rank[r].taken; i++)
			k += order[r][i] == n;
		if (sent[r][n] == k && k < ROUNDS) {
			if (hosts_post(r, n, s, (uint64_t)(r * ROUNDS + k), false, e))
				return e->code;
			sent[r][n]++;
		}
		i = (int)next_number((uint32_t)hosts.hosts);
		k = coordinator_links(leaders[i].coordinator);
		rc = k ? deliver(&leaders[i], (int)next_number((uint32_t)k), e) : 0;
		if (rc < 0 || coordinator_turn(leaders[i].coordinator, e))
			return e->code;
		r = (int)next_number((uint32_t)hosts.ranks);
		n = hosts_next(r, names, items);
		for (i = 0; i < n; i++) {
			order[r][hosts.rank[r].taken + i] = names[i];
			if (items[i].bad)
				return fail(e, RINGUP_EMISMATCH, "%s", items[i].bad);
			for (k = 0; op_signature_has_rows(s) && k < hosts.ranks; k++)
				if (items[i].rows[k] / ROUNDS != (uint64_t)k ||
				    items[i].rows[k] % ROUNDS != items[i].rows[0] % ROUNDS)
					return fail(e, RINGUP_EPEER, "rows of rank %d", k);
		}
		if (!n)
			continue;
		hosts_done(r, items, n);
		left -= n;
		if (r == hosts.leader[hosts.host_of[r]])
			coordinator_done(leaders[hosts.host_of[r]].coordinator);
	}
	for (r = 1; r < hosts.ranks; r++)
		if (memcmp(order[r], order[0], sizeof(order[r])))
			return fail(e, RINGUP_EPEER, "rank %d has another order", r);
	return 0;
}

/* Uneven hosts, ranks dealt out so that they are numbered by their lowest. */
static void deal(int ranks, int most, int *host_of)
{
	int r, h, hosts_so_far = 0, count[HOSTS_RANKS] = { 0 };

	for (r = 0; r < ranks; r++) {
		do
			h = (int)next_number((uint32_t)most);
		while (count[h < hosts_so_far ? h : hosts_so_far] == HOSTS_LOCAL);
		if (h >= hosts_so_far)
			h = hosts_so_far++;
		host_of[r] = h;
		count[h]++;
	}
}

static void mixes(void)
{
	static const int most[] = { 1, 2, 3, 5, 9, 10, 20, 40 };
	struct op_signature w = sum(100),
			    g = { .count = 2, .pre = 1, .post = 1, .kind = PLAN_ALLGATHER };
	int host_of[HOSTS_RANKS], i, n, k, rc;
	struct err e = { 0 };

	for (i = 0; i < (int)(sizeof(most) / sizeof(most[0])); i++)
		for (k = 0; k < 2; k++) {
			seed = (uint32_t)i;
			fanout = k ? 2 + (int)next_number(3) : COORDINATOR_FANOUT;
			n = most[i] + (int)next_number((uint32_t)most[i] + 1);
			if (most[i] == 1)
				n = 2;
			deal(n, most[i], host_of);
			rc = open_all(n, host_of, 2000);
			if (!rc)
				rc = mix(k ? &g : &w, &e);
			ok(!rc, "%d ranks on %d hosts, %d a parent: %s", n, hosts.hosts, fanout,
			   e.text);
			close_all();
		}
}

static void one_a_host(int n, int *host_of)
{
	for (; n > 0; n--)
		host_of[n - 1] = n - 1;
}

/* Carry out whatever is ready everywhere; the sentence about the last bad one. */
static int carry_out(char *bad, size_t len)
{
	struct item items[BATCH_ITEMS];
	int names[BATCH_ITEMS], r, n, all = -1;

	bad[0] = 0;
	for (r = hosts.ranks - 1; r >= 0; r--) {
		n = hosts_next(r, names, items);
		if (n && items[0].bad)
			snprintf(bad, len, "%s", items[0].bad);
		hosts_done(r, items, n);
		coordinator_done(leaders[hosts.host_of[r]].coordinator);
		if (all >= 0 && all != n)
			return -1;
		all = n;
	}
	return all;
}

/* A thousand ledgers take 0.7 GB, and several times that with a sanitizer, which sees all in
 * fewer. */
static bool has_room(void)
{
	if (ROUNDS_SANITIZED && !rounds_are_long())
		return false;
	return (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) > 4e9;
}

/* What many hosts cost: time grows with the depth, frames by two a host. */
static void growth(void)
{
	static const int sizes[] = { 2, 9, 10, 64, 73, 100, 585, 1024 };
	int host_of[HOSTS_RANKS], i, r, n, k;
	struct op_signature w = sum(10);
	struct err e = { 0 };
	char bad[512];

	fanout = COORDINATOR_FANOUT;
	for (i = 0; i < (int)(sizeof(sizes) / sizeof(sizes[0])); i++) {
		if (sizes[i] > MANY && !has_room()) {
			ok(1,
			   "%d hosts # SKIP too little memory is free, or a sanitizer fills it",
			   sizes[i]);
			continue;
		}
		one_a_host(sizes[i], host_of);
		if (open_all(sizes[i], host_of, 1 << 20))
			return;
		for (k = 0; k < 2; k++) {
			for (r = 0; r < sizes[i]; r++)
				for (n = 0; n < NAMES; n++)
					hosts_post(r, n, &w, 0, false, &e);
			frames = 0;
			settle(&e);
			carry_out(bad, sizeof(bad));
			settle(&e);
			carry_out(bad, sizeof(bad));
		}
		/* One frame up and a batch or two down: what is ready first goes first. */
		n = sizes[i] <= 9 ? 1 : sizes[i] <= 73 ? 2 : sizes[i] <= 585 ? 3 : 4;
		ok(frames <= 3 * (sizes[i] - 1), "%d hosts, %d names: %d frames", sizes[i],
		   NAMES, frames);
		for (r = 0; r < sizes[i]; r++)
			hosts_post(r, 0, &w, 0, false, &e);
		settle(&e);
		/* The last sweep finds nothing, the first makes the leaves speak. */
		ok(depth <= 2 * n + 1, "in %d steps, at depth %d", depth, n);
		close_all();
	}
}

/* What rank @r puts into its @k-th operation on name @n, and what comes of all of them. */
static float share(int r, int n, int k)
{
	return (float)(1 + r + 10 * n + 100 * k);
}

static float total(int n, int k)
{
	float sum = 0;
	int r;

	for (r = 0; r < hosts.ranks; r++)
		sum += share(r, n, k);
	return sum;
}
/* ---- two hosts, a few steps, in every order ---- */

enum { MOVES = 6, STEPS_MOST = 64 };

/* What each rank submits, in its order, names by number. */
struct script {
	const char *what;
	int names, count[2], name[2][MOVES];
	int blocking[2]; /* the rank waits for each before the next */
	int changed[2];  /* the place at which it wants something else, or -1 */
	int bare;        /* the place at which the second comes without data, or 0 */
};

static int chosen[STEPS_MOST], choices[STEPS_MOST], steps, inlined, offers;

/* The next choice of this run; runs go through all combinations. */
static int choose(int n)
{
	if (steps == STEPS_MOST)
		return 0;
	choices[steps] = n;
	return chosen[steps++] % n;
}

static bool next_run(void)
{
	while (steps-- > 0) {
		if (++chosen[steps] < choices[steps])
			return true;
		chosen[steps] = 0;
	}
	return false;
}

struct place {
	int at[2], done[2], times[2][NAMES], order[2][NAMES * ROUNDS];
	int in_flight[2][NAMES];
};

static bool may_submit(const struct script *s, const struct place *p, int r)
{
	int n = p->at[r] < s->count[r] ? s->name[r][p->at[r]] : -1;

	return n >= 0 && !p->in_flight[r][n] && !(s->blocking[r] && p->done[r] < p->at[r]);
}

static int submit(const struct script *s, struct place *p, int r, struct err *e)
{
	int n = s->name[r][p->at[r]];
	struct op_signature w = sum(p->at[r] == s->changed[r] ? 2 : 1);
	float data[2] = { share(r, n, p->times[r][n]), 0 };

	p->in_flight[r][n] = 1;
	if (p->at[r]++ == s->changed[r])
		return hosts_post(r, n, &w, 0, true, e);
	if (r && s->bare && p->at[r] == s->bare + 1)
		return hosts_post(r, n, &w, 0, false, e);
	return hosts_put(r, n, &w, data, e);
}

static int take_batch(struct place *p, int r, struct err *e)
{
	struct item items[BATCH_ITEMS];
	int names[BATCH_ITEMS], n = hosts_next(r, names, items), i;

	for (i = 0; i < n; i++) {
		int k = p->times[r][names[i]]++;

		p->order[r][p->done[r]++] =
			names[i] | (items[i].result ? 256 : 0) | (items[i].bad ? 512 : 0);
		p->in_flight[r][names[i]] = 0;
		if (items[i].result && *(const float *)items[i].result != total(names[i], k))
			return fail(e, RINGUP_EPEER, "n%d has another sum", names[i]);
		inlined += !!items[i].result;
	}
	if (n) {
		hosts_done(r, items, n);
		coordinator_done(leaders[r].coordinator);
	}
	return n;
}

/* One order: until nothing can happen any more, and then all must be complete. */
static int play(const struct script *s, struct err *e)
{
	struct place p = { 0 };
	int r, rc, can[6], n, k;

	for (;;) {
		for (r = 0, n = 0; r < 2; r++) {
			if (may_submit(s, &p, r))
				can[n++] = r;
			if (leaders[r].first[0])
				can[n++] = 2 + r;
		}
		if (!n)
			break;
		k = can[choose(n)];
		if (k >= 2 && leaders[k - 2].first[0]->data[0] == 10)
			offers++;
		rc = k < 2 ? submit(s, &p, k, e) : deliver(&leaders[k - 2], 0, e);
		if (rc >= 0 && coordinator_turn(leaders[k % 2].coordinator, e))
			rc = e->code;
		while (rc >= 0 && (rc = take_batch(&p, k % 2, e)) > 0)
			if (coordinator_turn(leaders[k % 2].coordinator, e))
				rc = e->code;
		if (rc < 0)
			return rc;
	}
	if (p.done[0] != s->count[0] || p.done[1] != s->count[1])
		return fail(e, RINGUP_ETIMEDOUT, "%d of %d and %d of %d are complete",
			    p.done[0], s->count[0], p.done[1], s->count[1]);
	if (memcmp(p.order[0], p.order[1], sizeof(p.order[0])))
		return fail(e, RINGUP_EPEER, "the hosts have different orders");
	return 0;
}

/* Both hosts know the names and have used them once. */
static int prepare(const struct script *s, struct err *e)
{
	int host_of[2] = { 0, 1 }, n, r;
	struct op_signature w = sum(1);
	char bad[512];

	fanout = COORDINATOR_FANOUT;
	hosts.eager_bytes = 64;
	if (open_all(2, host_of, 1 << 20))
		return -1;
	for (n = 0; n < s->names; n++)
		for (r = 0; r < 2; r++)
			if (hosts_post(r, n, &w, 0, true, e))
				return e->code;
	for (n = 0; n < s->names; n += r) {
		if (settle(e))
			return e->code;
		r = carry_out(bad, sizeof(bad));
		if (r <= 0)
			return fail(e, RINGUP_EPEER, "the first batches");
	}
	return settle(e);
}

/* An offer and the answer to it may cross each other, and anything else. */
static void every_order(void)
{
	static const struct script scripts[] = {
		{ "in step",
		  1,
		  { 3, 3 },
		  { { 0, 0, 0 }, { 0, 0, 0 } },
		  { 1, 1 },
		  { -1, -1 },
		  0 },
		{ "one comes without data",
		  1,
		  { 3, 3 },
		  { { 0, 0, 0 }, { 0, 0, 0 } },
		  { 1, 1 },
		  { -1, -1 },
		  1 },
		{ "two at once", 2, { 2, 2 }, { { 0, 1 }, { 0, 1 } }, { 0, 0 }, { -1, -1 }, 0 },
		{ "crosswise", 2, { 2, 2 }, { { 0, 1 }, { 1, 0 } }, { 0, 0 }, { -1, -1 }, 0 },
		{ "crosswise, and one waits",
		  2,
		  { 4, 4 },
		  { { 0, 1, 0, 1 }, { 1, 0, 1, 0 } },
		  { 0, 1 },
		  { -1, -1 },
		  0 },
		{ "the root waits",
		  2,
		  { 4, 4 },
		  { { 0, 1, 0, 1 }, { 1, 0, 1, 0 } },
		  { 1, 0 },
		  { -1, -1 },
		  0 },
		{ "one changes its mind",
		  2,
		  { 3, 3 },
		  { { 0, 1, 0 }, { 0, 1, 0 } },
		  { 0, 1 },
		  { -1, 2 },
		  0 },
		{ "the root does",
		  2,
		  { 3, 3 },
		  { { 0, 1, 0 }, { 1, 0, 0 } },
		  { 0, 0 },
		  { 2, -1 },
		  0 },
	};
	size_t i;

	for (i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		const struct script *s = &scripts[i];
		struct err e = { 0 };
		int runs = 0, rc;

		memset(chosen, 0, sizeof(chosen));
		inlined = offers = 0;
		do {
			steps = 0;
			rc = prepare(s, &e);
			if (!rc)
				rc = play(s, &e);
			close_all();
			runs++;
		} while (!rc && next_run());
		hosts.eager_bytes = 0;
		ok(!rc && inlined && offers, "%s: %d orders, %d offers, %d sums on the way: %s",
		   s->what, runs, offers, inlined, e.text);
	}
}

static void disagreement(void)
{
	int host_of[HOSTS_RANKS] = { 0, 0, 1, 1, 2, 3, 4, 4 };
	struct op_signature a = sum(10), b = sum(12), c = sum(13);
	struct err e = { 0 };
	char bad[512];
	int r, n;

	fanout = 2;
	if (open_all(8, host_of, 1 << 20))
		return;
	for (r = 0; r < 8; r++)
		hosts_post(r, 1, r == 3 ? &b : r == 7 ? &c : &a, 0, true, &e);
	ok(!settle(&e) && carry_out(bad, sizeof(bad)) == 1, "it is carried out: %s", e.text);
	ok(!strcmp(bad, "n1: rank 0 wants an allreduce (sum) of 10 f32, rank 3 an allreduce "
			"(sum) of 12 f32"),
	   "%s", bad);
	for (r = 0; r < 8; r++)
		hosts_post(r, 1, r == 3 ? &b : r == 7 ? &c : &a, 0, false, &e);
	settle(&e);
	n = carry_out(bad, sizeof(bad));
	ok(n == 1 && strstr(bad, "rank 3 an allreduce (sum) of 12 f32"), "once more");
	for (r = 0; r < 8; r++)
		hosts_post(r, 1, r == 7 ? &c : &a, 0, r == 3, &e);
	settle(&e);
	n = carry_out(bad, sizeof(bad));
	ok(n == 1 && strstr(bad, "rank 7 an allreduce (sum) of 13 f32"), "another one: %s",
	   bad);
	for (r = 0; r < 8; r++)
		hosts_post(r, 1, &a, 0, r == 7, &e);
	settle(&e);
	n = carry_out(bad, sizeof(bad));
	ok(n == 1 && !bad[0], "once they agree, it works");
	close_all();
}

/* More tensors are due than a batch has places: the next one takes the rest. */
static void more_than_a_batch(void)
{
	int host_of[3] = { 0, 1, 2 }, r, n, most = 0, all = 0;
	struct op_signature a = sum(10);
	struct err e = { 0 };
	char bad[512];

	fanout = COORDINATOR_FANOUT;
	if (open_all(3, host_of, 1 << 20))
		return;
	for (n = 0; n < HOSTS_NAMES; n++)
		for (r = 0; r < 3; r++)
			hosts_post(r, n, &a, 0, false, &e);
	do {
		n = settle(&e) ? -1 : carry_out(bad, sizeof(bad));
		all += n;
		most = n > most ? n : most;
	} while (n > 0);
	ok(!n && all == HOSTS_NAMES && most == BATCH_ITEMS,
	   "%d of %d, at most %d at a time: %s", all, HOSTS_NAMES, most, e.text);
	close_all();
}

/* A number may go to another name while others still know it by the old one. */
static void recycling(void)
{
	int host_of[3] = { 0, 1, 2 }, i, r, n = 1, good = 1;
	struct op_signature a = sum(10);
	struct err e = { 0 };
	uint32_t id, age;
	char name[32], bad[512];

	fanout = COORDINATOR_FANOUT;
	if (open_all(3, host_of, 1 << 20))
		return;
	for (i = 0; i < 3 && good; i++) {
		for (r = 0; r < 3; r++)
			hosts_post(r, 1, &a, 0, false, &e);
		good &= !settle(&e) && carry_out(bad, sizeof(bad)) == 1 && !bad[0];
		/* On one host only: its number of n1 goes to another name. */
		for (; n % (2 * LEDGER_IDS) && good; n++) {
			snprintf(name, sizeof(name), "other %d", n);
			good &= !ledger_find(hosts.rank[i].ledger, name, strlen(name), &a, &id,
					     &age, &e);
			ledger_drop(hosts.rank[i].ledger, id);
		}
		n++;
	}
	ok(good, "numbers of one host change: %s", e.text);
	close_all();
}

/* A rank that has joined hears of what the others submit, wherever it is. */
static void joining(void)
{
	int host_of[6] = { 0, 1, 2, 3, 4, 5 }, r;
	struct op_signature a = sum(10), w;
	struct ledger *l;
	char name[NAME_BYTES + 1], bad[512];
	struct err e = { 0 };
	uint32_t ids[8];

	fanout = 2;
	if (open_all(6, host_of, 1 << 20))
		return;
	l = hosts.rank[5].ledger;
	hosts_post(2, 1, &a, 0, true, &e);
	settle(&e);
	ok(ledger_calling(l, ids, 8) == 0, "nobody is called who has not joined");
	ledger_join(l, true);
	settle(&e);
	ok(ledger_calling(l, ids, 8) == 1 && ledger_called(l, ids[0], name, &w) == 2 &&
		   !strcmp(name, "n1") && op_signature_equal(&w, &a),
	   "who joins is called for what is under way: %s", e.text);
	for (r = 0; r < 6; r++)
		if (r != 2)
			hosts_post(r, 1, &a, 0, true, &e);
	settle(&e);
	ok(carry_out(bad, sizeof(bad)) == 1 && !bad[0], "its answer completes it");
	for (r = 0; r < 5; r++)
		hosts_post(r, 1, &a, 0, false, &e);
	settle(&e);
	ok(ledger_calling(l, ids, 8) == 1, "and it is called for what comes later");
	hosts_post(5, 1, &a, 0, false, &e);
	settle(&e);
	ok(carry_out(bad, sizeof(bad)) == 1 && !bad[0], "which is completed, too");
	ledger_join(l, false);
	settle(&e);
	hosts_post(0, 1, &a, 0, false, &e);
	frames = 0;
	settle(&e);
	ok(frames == 0 && ledger_calling(l, ids, 8) == 0, "when it is back, nobody calls");
	close_all();
}

static void endings(void)
{
	int host_of[HOSTS_RANKS], h, good = 1;
	struct err e = { 0 };

	fanout = 2;
	one_a_host(12, host_of);
	if (open_all(12, host_of, 1 << 20))
		return;
	frames = 0;
	coordinator_leave(leaders[7].coordinator, 7);
	coordinator_leave(leaders[7].coordinator, 7);
	settle(&e);
	for (h = 0; h < 12; h++)
		good &= h == 7 || leaders[h].left == 7;
	ok(good && frames == 11, "a farewell reaches all, once: %d frames", frames);
	ok(coordinator_gone(leaders[3].coordinator, link_to(&leaders[3], 7)),
	   "its neighbour knows it");
	frames = 0;
	coordinator_alarm(leaders[5].coordinator, 7, RINGUP_EABORTED, "enough");
	coordinator_alarm(leaders[5].coordinator, 3, RINGUP_EPEER, "more");
	settle(&e);
	for (h = 0, good = 1; h < 12; h++)
		good &= h == 5 ||
			(leaders[h].alarms == 1 && leaders[h].code == RINGUP_EABORTED &&
			 leaders[h].culprit == 7 && !strcmp(leaders[h].why, "enough"));
	ok(good && frames == 11, "so does an alarm: %d frames", frames);
	coordinator_ping(leaders[1].coordinator);
	ok(!settle(&e), "a ping says nothing");
	close_all();
}

/* Bytes for a leader that a sane one would not have sent. */
static void hostile(const char *what, bool from_child, const void *frame, size_t len)
{
	int host_of[3] = { 0, 1, 2 }, r;
	struct op_signature a = sum(10);
	struct err e = { 0 };
	struct leader *to = &leaders[from_child ? 0 : 1];

	fanout = COORDINATOR_FANOUT;
	if (open_all(3, host_of, 1 << 20))
		return;
	/* One name is known, another in flight. */
	for (r = 0; r < 3; r++)
		hosts_post(r, 0, &a, 0, true, &e);
	settle(&e);
	hosts_post(1, 1, &a, 0, true, &e);
	settle(&e);
	ok(coordinator_take(to->coordinator, 0, frame, len, &e) < 0, "%s: %s", what, e.text);
	close_all();
}

static void strangers(void)
{
	unsigned char f[700] = { 0 };
	struct op_signature a = sum(10);

	hostile("an empty frame", true, f, 0);
	hostile("kind 0", true, f, 9);
	f[0] = 99;
	hostile("an unknown kind", true, f, 9);
	f[0] = 3;
	hostile("a batch from below", true, f, 9);
	hostile("a batch of nothing", false, f, 2);
	f[2] = 0;
	hostile("a batch of what is not in flight", false, f, 4);
	f[2] = 1;
	f[3] = 0x40;
	f[4] = 200;
	hostile("a sentence cut short", false, f, 6);
	f[3] = 0x80;
	hostile("rows that nobody asked for", false, f, 4 + 24);
	f[0] = 2;
	hostile("an announcement from above", false, f, 3);
	f[1] = 9;
	f[2] = 0;
	hostile("a tensor never defined", true, f, 3);
	f[1] = 1;
	hostile("a tensor announced twice", true, f, 3);
	f[1] = 0;
	f[2] = 0x80;
	hostile("rows of what has none", true, f, 11);
	f[2] = 0x40;
	hostile("a verdict from below", true, f, 11);
	f[2] = 0xff;
	hostile("a number out of range", true, f, 3);
	f[2] = 0;
	hostile("half a number", true, f, 2);
	f[0] = 1;
	f[1] = 5;
	hostile("a definition of nothing", true, f, 3);
	f[3] = 3;
	hostile("three signatures", true, f, 400);
	f[3] = 1;
	f[4] = 1;
	op_signature_put(f + 8, &a);
	hostile("a name of no bytes", true, f, 8 + OP_SIGNATURE_WIRE);
	hostile("a name too long", true, f, 8 + OP_SIGNATURE_WIRE + NAME_BYTES + 1);
	f[4] = 2;
	hostile("a rank of another subtree", true, f, 9 + OP_SIGNATURE_WIRE);
	f[4] = 1;
	f[1] = 1;
	memcpy(f + 8 + OP_SIGNATURE_WIRE, "n9", 2);
	hostile("a name changed in flight", true, f, 10 + OP_SIGNATURE_WIRE);
	f[1] = 5;
	memcpy(f + 8 + OP_SIGNATURE_WIRE, "n1", 2);
	hostile("two numbers for one name", true, f, 10 + OP_SIGNATURE_WIRE);
	f[0] = 4;
	memset(f + 1, 9, 4);
	hostile("a farewell of nobody", true, f, 5);
	f[0] = 5;
	hostile("an alarm without a code", true, f, 3);
	hostile("an alarm because of no rank that there is", true, f, 12);
	f[0] = 6;
	hostile("a ping with a word", true, f, 3);
	f[0] = 7;
	hostile("a doubt about joining", true, f, 2);
	hostile("joining from above", false, f, 2);
	f[0] = 8;
	hostile("a call from below", true, f, 200);
	memset(f + 1, 0, sizeof(f) - 1);
	op_signature_put(f + 1, &a);
	hostile("a call without a name", false, f, 1 + OP_SIGNATURE_WIRE);
	hostile("a call with too much of a name", false, f, 2 + OP_SIGNATURE_WIRE + NAME_BYTES);
	memset(f + 1, 0xff, OP_SIGNATURE_WIRE);
	hostile("a call for what there is not", false, f, 3 + OP_SIGNATURE_WIRE);
}

/* The same of two hosts, one tensor of which is known and has been submitted again by the one
 * that is asked: the root has made an offer, its child has answered before one came. */
static void hostile_to_two(const char *what, bool from_child, const void *frame, size_t len)
{
	static const struct script one = { .names = 1 };
	struct leader *to = &leaders[from_child ? 0 : 1];
	float data = 1;
	struct op_signature w = sum(1);
	struct err e = { 0 };

	if (prepare(&one, &e) || hosts_put(to->host, 0, &w, &data, &e) ||
	    coordinator_turn(to->coordinator, &e))
		return;
	ok(coordinator_take(to->coordinator, 0, frame, len, &e) < 0, "%s: %s", what, e.text);
	close_all();
	hosts.eager_bytes = 0;
}

static void strangers_with_data(void)
{
	unsigned char f[OP_SIGNATURE_INLINE_BYTES + 64] = { 10 };

	hostile("an offer to one of three", false, f, 7);
	hostile_to_two("an offer from below", true, f, 7);
	hostile_to_two("an offer without a number", false, f, 2);
	hostile_to_two("an offer too large", false, f, 4 + OP_SIGNATURE_INLINE_BYTES);
	f[2] = 0x20;
	hostile_to_two("an offer of what there is not", false, f, 7);
	f[0] = 11;
	hostile_to_two("an answer from above", false, f, 1);
	hostile_to_two("an answer with a word", true, f, 2);
	hostile("an answer that nobody waits for", true, f, 1);
	f[0] = 2;
	f[1] = 0;
	f[2] = 0x20;
	hostile_to_two("data cut short", true, f, 6);
	hostile("data of one of three that never agreed on them", true, f, 7);
	f[0] = 3;
	f[2] = 0;
	f[3] = 0x20;
	hostile_to_two("a result cut short", false, f, 7);
	hostile("a result of what did not travel", false, f, 44);
}

/* The kinds of all that is on its way to a host, as letters. */
static const char *on_its_way(int host)
{
	static char kinds[16];
	const struct letter *x;
	size_t n = 0;

	for (x = leaders[host].first[0]; x && n + 1 < sizeof(kinds); x = x->next)
		kinds[n++] = x->data[0] == 7    ? 'J'
			     : x->data[0] == 8  ? 'C'
			     : x->data[0] == 10 ? 'O'
			     : x->data[0] == 11 ? 'D'
						: '?';
	kinds[n] = 0;
	return kinds;
}

/* What is offered is called for only when it is known not to be over there: a rank of the other
 * host joins before it has heard of the offer (@early), or after. */
static void offered_to_joined(bool early)
{
	static const struct script s = { .names = 1 };
	struct op_signature w = sum(1);
	float data[2] = { 1, 0 };
	struct err e = { 0 };
	int good;

	good = !prepare(&s, &e) && !hosts_put(0, 0, &w, data, &e) &&
	       !coordinator_turn(leaders[0].coordinator, &e) && !strcmp(on_its_way(1), "O");
	ok(good, "an offer is on its way: %s", on_its_way(1));
	if (!early)
		good &= deliver(&leaders[1], 0, &e) == 1 && !*on_its_way(0);
	ledger_join(hosts.rank[1].ledger, true);
	good &= !coordinator_turn(leaders[1].coordinator, &e);
	ok(good && !strcmp(on_its_way(0), early ? "J" : "DJ"), "a rank joins: %s",
	   on_its_way(0));
	good &= deliver(&leaders[0], 0, &e) == 1;
	if (early) {
		ok(good && !strcmp(on_its_way(1), "O"), "nothing is called for: %s",
		   on_its_way(1));
		good &= deliver(&leaders[1], 0, &e) == 1 && !strcmp(on_its_way(0), "D");
	}
	ok(good && deliver(&leaders[0], 0, &e) == 1 && !strcmp(on_its_way(1), "C"),
	   "it is now: %s", on_its_way(1));
	close_all();
	hosts.eager_bytes = 0;
}

/* Up and down the tree, to the host of whom it is for; or back, if that cannot be. */
static void invitations(void)
{
	static const int host_of[] = { 0, 0, 1, 2, 3, 4, 5, 6, 6 };
	static const char where[] = "10.0.0.1:4000";
	struct err e = { 0 };
	int from, to, good = 1, ranks = sizeof(host_of) / sizeof(host_of[0]);
	unsigned char frame[] = { FRAME_INVITE, 2, 0, 0, 0, 1, 0, 0, 0, 'x' };

	fanout = 2;
	if (open_all(ranks, host_of, 1000)) {
		ok(0, "invitations");
		return;
	}
	for (from = 0; from < ranks; from++)
		for (to = 0; to < ranks; to++) {
			if (host_of[from] == host_of[to])
				continue;
			invited.count = 0;
			coordinator_invite(leaders[host_of[from]].coordinator, from, to, where);
			good &= !settle(&e) && invited.count == 1 && invited.from == from &&
				invited.to == to && invited.at == host_of[to] &&
				!strcmp(invited.where, where);
		}
	ok(good, "an invitation comes to the host of whom it is for");
	/* Host 2 leads to hosts 5 and 6. */
	coordinator_goodbye(leaders[2].coordinator);
	good = !settle(&e);
	invited.count = 0;
	coordinator_invite(leaders[0].coordinator, 0, 8, where);
	good &= !settle(&e) && invited.count == 1 && invited.to == 8;
	ok(good && coordinator_has_invited(leaders[0].coordinator) &&
		   coordinator_has_children(leaders[0].coordinator),
	   "also through a leader that has said goodbye");
	for (int k = 0; k < coordinator_links(leaders[0].coordinator); k++)
		coordinator_link_closed(leaders[0].coordinator, k);
	ok(!coordinator_has_children(leaders[0].coordinator), "until its connection has ended");
	invited.count = 0;
	coordinator_invite(leaders[0].coordinator, 0, 8, where);
	good &= !settle(&e) && invited.count == 1 && invited.from == 8 && invited.to == 0 &&
		invited.at == 0 && !*invited.where;
	ok(good, "or back to its sender, empty, if nothing leads there any more");
	invited.count = 0;
	coordinator_invite(leaders[0].coordinator, 0, 8, "?0:1");
	ok(!settle(&e) && !invited.count, "a question ends there");
	frame[5] = 200;
	ok(coordinator_take(leaders[1].coordinator, 0, frame, sizeof(frame), &e) ==
		   RINGUP_EPEER,
	   "no such rank");
	frame[5] = 2;
	frame[9] = 0;
	ok(coordinator_take(leaders[1].coordinator, 0, frame, sizeof(frame), &e) ==
		   RINGUP_EPEER,
	   "no text");
	close_all();
}

int main(void)
{
	alarm(250);
	mixes();
	growth();
	disagreement();
	more_than_a_batch();
	recycling();
	joining();
	every_order();
	offered_to_joined(true);
	offered_to_joined(false);
	endings();
	invitations();
	strangers();
	strangers_with_data();
	return tap_done();
}
