/* fuzz_card.c - what other ranks say of themselves, of a group, and of how it went. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz/fuzz.h"

/* Memory, connections and threads are other targets'; groups speak by way of the input. */
#define segment_door_open fake_door
#define group_peer_info   fake_peer_info
#define group_share       fake_share
#define group_connect     fake_connect
#define own_address       fake_address
#define group_progress    fake_progress
#define group_liveness    fake_liveness
#define group_p2p_area    fake_p2p_area
#define p2p_open          fake_p2p_open
#define comms_add         fake_add
#define engine_start      fake_start
#define watch_start       fake_watch
#define engine_submit     fake_submit
#include "engine/context.c"
#include "engine/context_group.c"
#include "engine/liveness.h"
#include "engine/progress.h"

enum { RANKS = 4 };

static struct {
	const uint8_t *data;
	size_t len;
} input;

static unsigned char next_byte(void)
{
	if (!input.len)
		return 0;
	input.len--;
	return *input.data++;
}

int fake_door(struct segment_door *d, struct err *e)
{
	(void)e;
	*d = (struct segment_door){ .fd = -1 };
	return 0;
}

/* The machine is asked once what it is: its files are no part of the input. */
#undef group_peer_info
void group_peer_info(struct peer_info *c, const struct conf *conf,
		     const struct segment_door *door);

void fake_peer_info(struct peer_info *c, const struct conf *conf,
		    const struct segment_door *door)
{
	static struct peer_info first;

	if (!*first.version)
		group_peer_info(&first, conf, door);
	*c = first;
}

struct progress *fake_progress(const struct group *g)
{
	static struct progress all[RANKS];

	(void)g;
	return all;
}

struct liveness *fake_liveness(const struct group *g)
{
	static struct liveness all[RANKS];

	(void)g;
	return all;
}

void *fake_p2p_area(const struct group *g)
{
	(void)g;
	return NULL;
}

int fake_p2p_open(struct p2p **xp, const struct p2p_setup *s, struct err *e)
{
	(void)s, (void)e;
	*xp = NULL;
	return 0;
}

int fake_share(struct group *g, const struct group_site *s, struct err *e)
{
	/* Only the head's addresses are taken, and nobody looks there. */
	static struct segment_head head;

	(void)s, (void)e;
	g->segment.head = &head;
	return next_byte() ? 0 : fail(e, RINGUP_ESYSTEM, "no memory to share");
}

int fake_connect(struct group *g, const struct group_site *s, struct err *e)
{
	g->comm.engine = s->engine;
	return next_byte() % 4 ? 0 : fail(e, RINGUP_ENOBACKEND, "no connections");
}

int fake_address(const struct conf *c, bool one_host, char *out, size_t size, struct err *e)
{
	(void)c, (void)one_host;
	snprintf(out, size, "127.0.0.1");
	return next_byte() % 4 ? 0 : fail(e, RINGUP_ESYSTEM, "no address");
}

int fake_add(struct engine *g, struct comm *c, struct err *e)
{
	(void)g, (void)c, (void)e;
	return 0;
}

int fake_start(struct engine *g, struct err *e)
{
	(void)g, (void)e;
	return 0;
}

int fake_watch(struct watch *w, const struct topo *t, struct tree *world,
	       const struct heartbeat_peer *peers, const struct heartbeat_rules *rules,
	       struct err *e)
{
	int r;

	(void)w, (void)world, (void)rules, (void)e;
	for (r = 0; r < t->size; r++)
		fuzz_require(memchr(peers[r].host, 0, sizeof(peers[r].host)));
	return 0;
}

/* ---- what the others say ---- */

/* As this rank does, but for some bytes. */
static void change(unsigned char *all, size_t total, size_t mine, size_t len)
{
	size_t at;
	int n;

	for (n = next_byte() % 16; n > 0 && total; n--) {
		at = (next_byte() | (size_t)next_byte() << 8) % total;
		if (at >= mine && at < mine + len)
			next_byte();
		else
			all[at] ^= next_byte();
	}
}

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	const struct context *c = ctx;
	int r;

	if (next_byte() == 255)
		return -1;
	for (r = 0; r < RANKS; r++)
		memcpy((char *)all + len * (size_t)r, mine, len);
	change(all, len * RANKS, len * (size_t)c->rank, len);
	return 0;
}

/* An allgather of the world: who has joined, or asks for something else, gives other
 * numbers of bytes.  No more is allocated than there is. */
int fake_submit(struct comm *c, const struct request *q, int64_t deadline_ns,
		struct ringup_op **opp, struct err *e)
{
	size_t total = 0, mine = 0, i;
	unsigned char *all;
	int r, n;

	(void)deadline_ns, (void)opp;
	if (next_byte() == 255)
		return fail(e, RINGUP_ESHUTDOWN, "a rank has left");
	for (r = 0; r < RANKS; r++)
		q->counts[r] = q->rows;
	for (n = next_byte() % 4; n > 0; n--) {
		r = next_byte() % RANKS;
		q->counts[r] = r == c->topo.rank ? q->rows : next_byte();
	}
	for (r = 0; r < RANKS; r++) {
		mine = r == c->topo.rank ? total : mine;
		total += q->counts[r];
	}
	all = malloc(total + !total);
	fuzz_require(all != NULL);
	for (i = 0; i < total; i++)
		all[i] = q->rows ? ((const unsigned char *)q->in)[(i - mine) % q->rows] : 0;
	if (q->rows)
		memcpy(all + mine, q->in, q->rows);
	change(all, total, mine, q->rows);
	*q->outp = all;
	return 0;
}

/* ---- what follows ---- */

static void check_outcome(int rc, const struct err *e)
{
	fuzz_require(rc <= 0);
	if (rc)
		fuzz_require(e->code == rc && *e->text && memchr(e->text, 0, sizeof(e->text)));
}

/* Hosts are numbered by their lowest rank, and the ranks of each from 0 on. */
static void check_topo(const struct topo *t)
{
	int local[RANKS] = { 0 }, hosts = 0, r;

	for (r = 0; r < t->size; r++) {
		fuzz_require(t->host_of[r] >= 0 && t->host_of[r] <= hosts && hosts < RANKS);
		hosts += t->host_of[r] == hosts;
		fuzz_require(t->local_of[r] == local[t->host_of[r]]++);
	}
	fuzz_require(t->hosts == hosts);
	if (t->rank < 0)
		return;
	fuzz_require(t->host == t->host_of[t->rank] && t->local_rank == t->local_of[t->rank]);
	fuzz_require(t->local_size == local[t->host]);
}

static void check_place(const struct context *c)
{
	fuzz_require(c->local_rank >= 0 && c->local_rank < c->local_size);
	fuzz_require(c->host_rank >= 0 && c->host_rank < c->host_count);
	fuzz_require(c->local_size + c->host_count - 1 <= RANKS);
	fuzz_require(!c->homogeneous || c->local_size * c->host_count == RANKS);
}

static int be_world(struct context *c)
{
	struct bringup b = { .context = c, .door = { .fd = -1 } };
	struct err e = { 0 };
	int rc;

	b.bootstrap = (struct bootstrap){ c->rank, RANKS, exchange, c, NULL };
	b.infos = calloc(RANKS, sizeof(*b.infos));
	rc = b.infos ? bring_up(&b, &e) : RINGUP_ENOMEM;
	check_outcome(rc, &e);
	if (!rc) {
		check_topo(&c->world.comm.topo);
		check_place(c);
	}
	segment_door_close(&b.door);
	free(b.infos);
	return rc;
}

static void be_group(struct context *c)
{
	int ranks[RANKS], n = 0, r;
	unsigned char who = next_byte();
	struct err e = { 0 };
	struct group g;
	int rc;

	for (r = 0; r < RANKS; r++)
		if (who >> r & 1 || (r == RANKS - 1 && !n))
			ranks[n++] = r;
	rc = context_group_open(c, ranks, n, &g, &e);
	check_outcome(rc, &e);
	if (rc)
		return;
	check_topo(&g.comm.topo);
	e.code = 0;
	rc = context_group_close(c, &g, &e);
	check_outcome(rc, &e);
	if (rc)
		group_close(&g);
}

/*
 * A byte says which rank this is.  Each exchange takes a byte (255: it fails), then how many
 * bytes of the others' are changed, and of each where it is, in two, and how.  In between a
 * byte says how each step went here.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct context *c = calloc(1, sizeof(*c));
	int i;

	fuzz_require(c != NULL);
	input.data = data;
	input.len = len;
	c->size = RANKS;
	c->conf.backend = c->conf.join = "";
	c->rank = next_byte() % RANKS;
	if (!be_world(c))
		for (i = 0; i < 3; i++)
			be_group(c);
	c->world.open = false;
	group_close(&c->world);
	free(c->peers);
	free(c->launched);
	free(c->counts);
	free(c);
	return 0;
}
