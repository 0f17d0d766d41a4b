/* test_tree.c - leaders agree over sockets, whoever reads them, and hear of each end. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/tree.h"
#include "hosts.h"
#include "ringup.h"
#include "tap.h"
#include "wire/chan.h"
#include "wire/mesh.h"
#include "wire/shake.h"

enum { HOSTS = 6, RANKS = 9, FANOUT = 2, NAMES = 20, ROUNDS = 40 };

static const int host_of[RANKS] = { 0, 0, 1, 2, 2, 2, 3, 4, 5 };

/* A host's leader. */
static struct leader {
	struct mesh mesh;
	struct tree *tree;
	pthread_t watch;
	bool stop;
	int served, left, code, lost; /* atomic */
	bool knew_why;                /* when it heard who left */
	int culprit;
	char why[128];
} leaders[HOSTS];

static bool job_is_over; /* on the host that tells the others */

static int order[RANKS][NAMES * ROUNDS];
static int bad;

static void on_left(void *ctx, int rank)
{
	struct leader *l = ctx;

	l->knew_why = __atomic_load_n(&l->code, __ATOMIC_ACQUIRE) != 0;
	__atomic_store_n(&l->left, rank, __ATOMIC_RELEASE);
}

static void on_alarm(void *ctx, int culprit, int code, const char *why)
{
	struct leader *l = ctx;

	snprintf(l->why, sizeof(l->why), "%s", why);
	l->culprit = culprit;
	__atomic_store_n(&l->code, code, __ATOMIC_RELEASE);
}

static void on_lost(void *ctx, int rank, const struct err *why)
{
	(void)why;
	__atomic_store_n(&((struct leader *)ctx)->lost, rank, __ATOMIC_RELEASE);
}

static bool over(void *ctx, int *culprit, struct err *why)
{
	(void)ctx;
	*culprit = 4;
	if (!job_is_over)
		return false;
	fail(why, RINGUP_ETIMEDOUT, "stalled");
	return true;
}

/* A connection between the leaders of two hosts. */
static int join(int a, int b)
{
	int fd[2], ra = hosts.leader[a], rb = hosts.leader[b];
	struct shake_keys keys[2] = { 0 };
	struct err e;

	memset(keys[0].send, a + 1, sizeof(keys[0].send));
	memset(keys[0].recv, b + 101, sizeof(keys[0].recv));
	memcpy(keys[1].send, keys[0].recv, sizeof(keys[1].send));
	memcpy(keys[1].recv, keys[0].send, sizeof(keys[1].recv));
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) ||
	       chan_open(fd[0], &keys[0], &leaders[a].mesh.control[rb], &e) ||
	       chan_open(fd[1], &keys[1], &leaders[b].mesh.control[ra], &e);
}

/* The thread that looks when nobody else does. */
static void *watch(void *arg)
{
	struct leader *l = arg;
	struct pollfd p = { tree_fd(l->tree), POLLIN, 0 };

	bool again = false;

	while (!__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE))
		if (poll(&p, 1, again ? TREE_AGAIN_MS : 20) > 0 || again) {
			__atomic_fetch_add(&l->served, 1, __ATOMIC_RELAXED);
			again = tree_serve(l->tree);
		}
	return NULL;
}

static int open_all(void)
{
	struct tree_events ev = {
		.left = on_left, .alarm = on_alarm, .lost = on_lost, .over = over
	};
	struct err e = { 0 };
	int h, rc = hosts_open(RANKS, host_of);

	for (h = 0; h < HOSTS; h++) {
		leaders[h] = (struct leader){ .left = -1, .lost = -1 };
		leaders[h].mesh.control = calloc(RANKS, sizeof(struct chan *));
		if (h)
			rc |= join((h - 1) / FANOUT, h);
	}
	for (h = 0; h < HOSTS && !rc; h++) {
		struct rank *k = &hosts.rank[hosts.leader[h]];

		k->topo.mesh = &leaders[h].mesh;
		ev.ctx = &leaders[h];
		rc = tree_open(&leaders[h].tree, &k->host_queue, &k->topo, FANOUT, 4096, &ev,
			       &e);
		if (rc)
			break;
		k->agree.tree = leaders[h].tree;
		pthread_create(&leaders[h].watch, NULL, watch, &leaders[h]);
	}
	if (rc)
		printf("# %s\n", e.text);
	return rc;
}

static void close_all(void)
{
	int h, r;

	for (h = 0; h < HOSTS; h++) {
		__atomic_store_n(&leaders[h].stop, true, __ATOMIC_RELEASE);
		pthread_join(leaders[h].watch, NULL);
		tree_close(leaders[h].tree);
		for (r = 0; r < RANKS; r++)
			chan_close(leaders[h].mesh.control[r]);
		free(leaders[h].mesh.control);
	}
	hosts_close();
}

struct looker {
	struct rank *rank;
	bool look; /* by itself, and not leave that to the watch thread */
};

static bool has_news(void *arg)
{
	struct looker *w = arg;

	if (w->look)
		agree_poll(&w->rank->agree);
	return agree_ready(&w->rank->agree);
}

/* Everything of a round, in an order of the rank's own. */
static void submit(int r, int round)
{
	struct op_signature w = { .count = 10, .pre = 1, .post = 1, .dtype = RINGUP_F32 };
	struct err e = { 0 };
	int i, step = (r % 3) * 2 + 1 + 6 * (r % 2); /* no factor in common with NAMES */

	for (i = 0; i < NAMES; i++)
		if (hosts_post(r, (i * (step % 5 ? step : 1) + round) % NAMES, &w, 0, false,
			       &e))
			__atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
}

static void *run(void *arg)
{
	struct rank *k = arg;
	int r = k->topo.rank, round, n, i, names[BATCH_ITEMS];
	struct item items[BATCH_ITEMS];
	struct waitset *set = &k->segment.waitset;
	int64_t deadline = clock_deadline(100000);

	set->policy.pauses = 200;
	set->policy.patient = true;
	for (round = 0; round < ROUNDS; round++) {
		struct looker w = { k, round % 4 != 3 };

		submit(r, round);
		while (k->taken < (round + 1) * NAMES && clock_ns() < deadline) {
			if (w.look)
				agree_attend(&k->agree, true);
			waitset_wait(set, WAITSET_ANY, has_news, &w, deadline);
			if (w.look)
				agree_attend(&k->agree, false);
			n = hosts_next(r, names, items);
			for (i = 0; i < n; i++)
				order[r][k->taken + i] = names[i];
			if (n)
				hosts_done(r, items, n);
		}
	}
	return NULL;
}

static bool soon(const int *word, int value)
{
	int64_t until = clock_deadline(60000);

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value && clock_ns() < until)
		clock_sleep_ms(1);
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

static void rounds(void)
{
	pthread_t thread[RANKS];
	int r, h, same = 1, served = 0, taken = 0;

	for (r = 0; r < RANKS; r++)
		pthread_create(&thread[r], NULL, run, &hosts.rank[r]);
	for (r = 0; r < RANKS; r++) {
		pthread_join(thread[r], NULL);
		same &= !memcmp(order[r], order[0], sizeof(order[r]));
		taken += hosts.rank[r].taken;
	}
	for (h = 0; h < HOSTS; h++)
		served += __atomic_load_n(&leaders[h].served, __ATOMIC_RELAXED);
	ok(!bad && taken == RANKS * NAMES * ROUNDS, "%d of %d carried out", taken,
	   RANKS * NAMES * ROUNDS);
	ok(same, "in one order");
	ok(served > 0, "the watch threads have helped");
}

/* With nobody at work, the watch thread is called; while somebody looks, it is not. */
static void attention(void)
{
	struct tree *root = leaders[0].tree;
	struct pollfd p = { tree_fd(root), POLLIN, 0 };
	uint64_t before, after;
	int rank, i;
	bool gone, again;

	__atomic_store_n(&leaders[0].stop, true, __ATOMIC_RELEASE);
	pthread_join(leaders[0].watch, NULL);
	while (tree_serve(root))
		clock_sleep_ms(TREE_AGAIN_MS);
	ok(poll(&p, 1, 0) == 0, "silence");
	before = tree_heard(root, 0, &rank, &gone);
	ok(tree_neighbours(root) == 2 && rank == 2 && !gone, "the neighbours are known");
	tree_attend(root, true);
	tree_ping(leaders[1].tree);
	ok(poll(&p, 1, 50) == 0, "whoever attends to it need not be called");
	for (i = 0; i < 100; i++)
		tree_poll(root);
	after = tree_heard(root, 0, &rank, &gone);
	ok(after == before + 1, "and hears");
	tree_ping(leaders[1].tree);
	tree_attend(root, false);
	ok(poll(&p, 1, 60000) == 1, "who does not, is called for what came meanwhile");
	/* Away for less than a moment, as between two small operations. */
	tree_attend(root, true);
	tree_attend(root, false);
	again = tree_serve(root);
	ok(tree_heard(root, 0, &rank, &gone) == after + 1 && poll(&p, 1, 0) == 0, "once");
	tree_ping(leaders[1].tree);
	ok(!again || poll(&p, 1, 20) == 0, "who has just gone may be back soon");
	while (tree_serve(root))
		clock_sleep_ms(TREE_AGAIN_MS);
	ok(tree_heard(root, 0, &rank, &gone) == after + 2, "it is asked again, and hears");
	tree_ping(leaders[1].tree);
	ok(poll(&p, 1, 60000) == 1, "from then on it speaks");
	tree_serve(root);
	leaders[0].stop = false;
	pthread_create(&leaders[0].watch, NULL, watch, &leaders[0]);
}

static void endings(void)
{
	int64_t until = clock_deadline(60000);
	bool gone = false;
	int rank;

	/* A rank that is no leader: its leader sees it in shared memory. */
	__atomic_store_n(&hosts.rank[4].segment.head->left, 5, __ATOMIC_RELEASE);
	tree_turn(leaders[2].tree);
	ok(soon(&leaders[0].left, 4) && soon(&leaders[3].left, 4), "all hear who left");
	ok(!leaders[0].knew_why && !leaders[3].knew_why, "not because of an alarm");
	tree_alarm(leaders[5].tree, 7, RINGUP_EABORTED, "enough");
	ok(soon(&leaders[3].code, RINGUP_EABORTED) && !strcmp(leaders[3].why, "enough") &&
		   leaders[3].culprit == 7,
	   "all hear that it is over");
	tree_goodbye(leaders[3].tree);
	ok(!tree_is_unsent(leaders[3].tree), "nothing is left to send");
	shutdown(chan_fd(leaders[3].mesh.control[2]), SHUT_RDWR);
	while (!gone && clock_ns() < until) {
		clock_sleep_ms(1);
		/* Its parent, and the two children. */
		tree_heard(leaders[1].tree, 1, &rank, &gone);
	}
	ok(gone && rank == 6 && __atomic_load_n(&leaders[1].lost, __ATOMIC_ACQUIRE) == -1,
	   "who said goodbye is not lost");
	shutdown(chan_fd(leaders[4].mesh.control[2]), SHUT_RDWR);
	ok(soon(&leaders[1].lost, 7), "who ends without a word is");
}

/* Their leaders need not have noticed that the job is over when they leave. */
static void farewells(void)
{
	int first = hosts.rank[4].topo.rank;

	__atomic_store_n(&hosts.rank[4].segment.head->left, (uint32_t)first + 1,
			 __ATOMIC_RELEASE);
	tree_turn(leaders[2].tree);
	ok(soon(&leaders[0].left, first) && soon(&leaders[3].left, first), "one leaves");
	ok(leaders[0].knew_why && leaders[3].knew_why && !strcmp(leaders[3].why, "stalled") &&
		   leaders[3].culprit == 4,
	   "all have heard of the alarm before");
}

/* The same, of a leader itself. */
static void goodbye(void)
{
	tree_goodbye(leaders[0].tree);
	ok(soon(&leaders[1].left, 0) && leaders[1].knew_why, "nor does a leader go before it");
}

/* A leader that reads nothing holds up nobody else; and when too much is waiting for it, it
 * is lost, though it says nothing and its connection stands. */
static void deaf(void)
{
	enum { PINGS = 400000 };
	int64_t until;
	uint64_t before, after;
	int rank, i;
	bool gone;

	__atomic_store_n(&leaders[3].stop, true, __ATOMIC_RELEASE);
	pthread_join(leaders[3].watch, NULL);
	before = tree_heard(leaders[4].tree, 0, &rank, &gone);
	/* One in ten thousand reaches the neighbours that listen, before the next ones. */
	for (i = 0; i < PINGS && __atomic_load_n(&leaders[1].lost, __ATOMIC_ACQUIRE) < 0; i++) {
		tree_ping(leaders[1].tree);
		until = clock_deadline(60000);
		do
			after = tree_heard(leaders[4].tree, 0, &rank, &gone);
		while (i % 10000 == 0 && after < before + (uint64_t)i + 1 &&
		       clock_ns() < until);
		if (i % 10000 == 0 && after < before + (uint64_t)i + 1)
			break;
	}
	ok(i > 10000 && i < PINGS, "others hear %d frames that one does not read", i);
	ok(soon(&leaders[1].lost, hosts.leader[3]), "then it is lost");
	tree_alarm(leaders[0].tree, -1, RINGUP_EABORTED, "deaf");
	ok(soon(&leaders[4].code, RINGUP_EABORTED), "and others still hear what there is");
	leaders[3].stop = false;
	pthread_create(&leaders[3].watch, NULL, watch, &leaders[3]);
}

/* A leader whose frames are none is the culprit. */
static void confused(void)
{
	struct err e = { 0 };

	__atomic_store_n(&leaders[4].stop, true, __ATOMIC_RELEASE);
	pthread_join(leaders[4].watch, NULL);
	ok(chan_send(leaders[4].mesh.control[hosts.leader[1]], "?", 1, &e) >= 0, "a bad frame");
	ok(soon(&leaders[1].code, RINGUP_EPEER) && leaders[1].culprit == hosts.leader[4],
	   "is blamed on the one that sent it: %d, %d", leaders[1].code, leaders[1].culprit);
	leaders[4].stop = false;
	pthread_create(&leaders[4].watch, NULL, watch, &leaders[4]);
}

int main(void)
{
	alarm(250);
	ok(!open_all(), "%d ranks on %d hosts", RANKS, HOSTS);
	rounds();
	attention();
	endings();
	close_all();
	job_is_over = true;
	ok(!open_all(), "all at once more, in a job that is over");
	farewells();
	close_all();
	ok(!open_all(), "and again");
	goodbye();
	close_all();
	job_is_over = false;
	ok(!open_all(), "and once more");
	deaf();
	close_all();
	ok(!open_all(), "for the last time");
	confused();
	close_all();
	return tap_done();
}
