/* test_star.c - agreement over connections: one order for all, hostile words refused. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/star.h"
#include "tap.h"
#include "wire/chan.h"
#include "wire/mesh.h"

enum { RANKS = 3, NAMES = 30, CARD = 4096 };

static struct rank {
	int rank, rc, news, left, alarm_code;
	char alarm_why[128];
	struct mesh mesh;
	struct star *star;
	pthread_t thread;
} ranks[RANKS];

static struct secret secret;
static pthread_barrier_t barrier;
static unsigned char board[RANKS * CARD];

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	struct rank *r = ctx;

	memcpy(board + (size_t)r->rank * len, mine, len);
	pthread_barrier_wait(&barrier);
	memcpy(all, board, RANKS * len);
	pthread_barrier_wait(&barrier);
	return 0;
}

static void on_news(void *ctx)
{
	((struct rank *)ctx)->news++;
}

static void on_left(void *ctx, int rank)
{
	((struct rank *)ctx)->left = rank;
}

static void on_alarm(void *ctx, int code, const char *why)
{
	struct rank *r = ctx;

	r->alarm_code = code;
	snprintf(r->alarm_why, sizeof(r->alarm_why), "%s", why);
}

static void *join(void *arg)
{
	struct rank *r = arg;
	struct star_events ev = { on_news, on_left, on_alarm, r };
	int host_of[RANKS], local_of[RANKS] = { 0 }, i;
	struct mesh_shape shape = { r->rank, RANKS, host_of, local_of, MESH_STAR, 1 };
	struct err e = { 0 };

	for (i = 0; i < RANKS; i++)
		host_of[i] = i;
	r->rc = mesh_open(&r->mesh, &shape, "127.0.0.1", &secret, exchange, r,
			  clock_deadline(20000), &e);
	if (!r->rc)
		r->rc = star_open(&r->star, &r->mesh, &ev, &e);
	if (r->rc)
		printf("# rank %d: %s\n", r->rank, e.text);
	return NULL;
}

static int open_all(void)
{
	int i, bad = 0;

	pthread_barrier_init(&barrier, NULL, RANKS);
	for (i = 0; i < RANKS; i++) {
		ranks[i] = (struct rank){ .rank = i, .left = -1 };
		pthread_create(&ranks[i].thread, NULL, join, &ranks[i]);
	}
	for (i = 0; i < RANKS; i++) {
		pthread_join(ranks[i].thread, NULL);
		bad |= ranks[i].rc;
	}
	pthread_barrier_destroy(&barrier);
	return !bad;
}

static void close_all(void)
{
	int i;

	for (i = 0; i < RANKS; i++) {
		star_close(ranks[i].star);
		mesh_close(&ranks[i].mesh);
	}
}

/* Let all that is on its way arrive; the first failure of a rank is returned. */
static int settle(struct err *e)
{
	int i, q, rc = 0, quiet = 0;

	while (quiet < 3) {
		quiet++;
		for (i = 0; i < RANKS; i++)
			for (q = 0; q < RANKS; q++) {
				struct chan *c = ranks[i].mesh.control[q];
				struct pollfd p = { c ? chan_fd(c) : -1, POLLIN, 0 };
				struct err why = { 0 };

				if (!c || poll(&p, 1, 2) <= 0)
					continue;
				quiet = 0;
				if (star_poll(ranks[i].star, q, &why)) {
					if (!rc)
						*e = why;
					return why.code;
				}
			}
	}
	return rc;
}

static uint32_t post(int rank, const char *name, struct want w, bool changed, uint64_t rows)
{
	struct star *s = ranks[rank].star;
	struct err e = { 0 };
	static uint32_t id[RANKS][4096], age[RANKS][4096];
	static char known[RANKS][4096];
	unsigned n = (unsigned)atoi(name + 1);
	bool last;

	if (!known[rank][n] || !agree_star.hold(s, id[rank][n], age[rank][n])) {
		agree_star.find(s, name, strlen(name), &w, &id[rank][n], &age[rank][n], &e);
		changed = true;
		known[rank][n] = 1;
	}
	if (agree_star.post(s, id[rank][n], &w, rows, changed, &last, &e))
		printf("# rank %d: %s\n", rank, e.text);
	agree_star.drop(s, id[rank][n]);
	return id[rank][n];
}

static void order(void)
{
	static const int steps[RANKS] = { 1, 7, 11 };
	struct want w = { .count = 5, .pre = 1, .post = 1, .dtype = RINGUP_F32 };
	struct item items[RANKS][BATCH_ITEMS];
	uint32_t id[RANKS][NAMES];
	struct err e = { 0 };
	int round, r, i, k, good = 1, total, n[RANKS];
	char name[16];

	for (round = 0; round < 5; round++) {
		for (r = 0; r < RANKS; r++)
			for (i = 0; i < NAMES; i++) {
				k = (i * steps[r] + round) % NAMES;
				snprintf(name, sizeof(name), "n%d", k);
				id[r][k] = post(r, name, w, false, 0);
			}
		for (total = 0; total < NAMES && good; total += n[0]) {
			good &= !settle(&e);
			for (r = 0; r < RANKS; r++)
				n[r] = agree_star.next(ranks[r].star, 0, items[r]);
			good &= n[0] > 0 && n[1] == n[0] && n[2] == n[0];
			for (i = 0; i < n[0] && good; i++) {
				/* Numbers are each rank's own: the same name must be meant. */
				for (k = 0; id[0][k] != items[0][i].id; k++)
					;
				for (r = 1; r < RANKS; r++)
					good &= id[r][k] == items[r][i].id;
			}
			for (r = RANKS - 1; r >= 0; r--)
				agree_star.done(ranks[r].star);
		}
	}
	ok(good && ranks[1].news > 0, "one order and the same batches: %s", e.text);
}

static void values(void)
{
	struct want a = { .count = 4, .pre = 1, .post = 1, .dtype = RINGUP_F32 }, b = a;
	struct want g = { .count = 2, .pre = 1, .post = 1, .kind = PLAN_ALLGATHER };
	struct item items[BATCH_ITEMS];
	struct err e = { 0 };
	int r, good = 1;

	b.dtype = RINGUP_F64;
	for (r = 0; r < RANKS; r++)
		post(r, "n100", r == 2 ? b : a, true, 0);
	settle(&e);
	for (r = RANKS - 1; r >= 0; r--) {
		good &= agree_star.next(ranks[r].star, 0, items) == 1 && items[0].bad &&
			strstr(items[0].bad, "rank 2 a sum of 4 f64");
		agree_star.done(ranks[r].star);
	}
	ok(good, "disagreement reaches all ranks");
	for (r = 0; r < RANKS; r++)
		post(r, "n101", g, true, (uint64_t)r * 10);
	settle(&e);
	for (good = 1, r = RANKS - 1; r >= 0; r--) {
		good &= agree_star.next(ranks[r].star, 0, items) == 1 && items[0].rows &&
			items[0].rows[1] == 10 && items[0].rows[2] == 20;
		agree_star.done(ranks[r].star);
	}
	ok(good, "and so do row counts");
}

/* More names than numbers. */
static void recycling(void)
{
	struct want w = { .count = 1, .pre = 1, .post = 1 };
	struct item items[BATCH_ITEMS];
	struct err e = { 0 };
	uint32_t id, age;
	char name[16];
	bool last;
	int i, r, good = 1;

	for (i = 0; i < 9000 && good; i++) {
		snprintf(name, sizeof(name), "step%d", i);
		for (r = 0; r < RANKS; r++) {
			good &= !agree_star.find(ranks[r].star, name, strlen(name), &w, &id,
						 &age, &e);
			/* Only now and then for real: it is the numbers that matter. */
			if (i % 1000 == 0)
				good &= !agree_star.post(ranks[r].star, id, &w, 0, true, &last,
							 &e);
			agree_star.drop(ranks[r].star, id);
		}
		if (i % 1000)
			continue;
		good &= !settle(&e);
		for (r = RANKS - 1; r >= 0; r--) {
			good &= agree_star.next(ranks[r].star, 0, items) == 1;
			agree_star.done(ranks[r].star);
		}
	}
	ok(good, "nine thousand names: %s", e.text);
}

static void farewell(void)
{
	struct err e = { 0 };

	star_leave(ranks[2].star);
	settle(&e);
	ok(ranks[0].left == 2 && ranks[1].left == 2, "a farewell reaches all");
	star_alarm(ranks[1].star, RINGUP_EABORTED, "enough");
	settle(&e);
	ok(ranks[0].alarm_code == RINGUP_EABORTED && ranks[2].alarm_code == RINGUP_EABORTED &&
		   !strcmp(ranks[2].alarm_why, "enough"),
	   "an alarm, too");
}

static void hostile(const char *what, int from, int to, const void *frame, size_t len)
{
	struct err e = { 0 };
	int rc;

	if (!open_all())
		return;
	chan_send(ranks[from].mesh.control[to], frame, len, &e);
	rc = settle(&e);
	ok(rc < 0, "%s: %s", what, e.text);
	close_all();
}

int main(void)
{
	unsigned char frame[200] = { 0 };
	struct err e;

	alarm(120);
	if (secret_new(&secret, &e))
		return 1;
	ok(open_all(), "three ranks connect");
	order();
	values();
	recycling();
	farewell();
	close_all();

	hostile("an unknown kind", 1, 0, "\xff", 1);
	frame[0] = 1;
	hostile("a name without a want", 1, 0, frame, 10);
	memset(frame + 1, 0xff, 100);
	hostile("a number out of range", 1, 0, frame, 100);
	frame[0] = 2;
	hostile("a tensor never defined", 1, 0, frame, 13);
	frame[0] = 3;
	hostile("a batch of what is not in flight", 0, 1, frame, 50);
	frame[0] = 3;
	frame[1] = 0;
	hostile("a batch cut short", 0, 1, frame, 4);
	frame[0] = 4;
	hostile("a farewell of nobody", 0, 1, frame, 5);
	frame[0] = 5;
	hostile("an alarm too short", 0, 1, frame, 3);
	return tap_done();
}
