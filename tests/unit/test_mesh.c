/* test_mesh.c - ranks connect along rails and to a tree, all of them or none. */
/* needs: waits */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/chan.h"
#include "wire/dial.h"
#include "wire/mesh.h"
#include "wire/shake.h"
#include "wire/sock.h"

enum { MOST = 64, LONG_MS = 60000, AT_VERSION = 2, AT_WHERE = 34 };

static struct secret secret, wrong;

/* The ranks of one process exchange through memory. */
struct board {
	pthread_barrier_t barrier;
	unsigned char bytes[MOST * 4096];
	size_t len;
	int spoil; /* this rank says that it is another version; -1 for none */
	int lost;  /* a rank dies after the first exchange: the second one fails */
};

/* How the ranks are spread, and what connects them. */
static int host_of[MOST], local_of[MOST], sockets = 1;

struct rank {
	pthread_t thread;
	struct board *board;
	const char *address;
	const struct secret *secret;
	int rank, size, lone, rc, talks, exchanges;
	int64_t wait_ms;
	struct mesh mesh;
	struct err err;
};

static int exchange(void *ctx, const void *mine, size_t len, void *all)
{
	struct rank *r = ctx;
	unsigned char *slot = r->board->bytes + (size_t)r->rank * len;

	if (r->exchanges++ && r->board->lost)
		return RINGUP_EPEER;
	memcpy(slot, mine, len);
	if (r->board->spoil == r->rank && r->exchanges == 1)
		memcpy(slot + AT_VERSION, "6.6.6", 5);
	pthread_barrier_wait(&r->board->barrier);
	memcpy(all, r->board->bytes, len * (size_t)r->size);
	/* What a rank said is not changed on the way back to it. */
	memcpy((unsigned char *)all + (size_t)r->rank * len, mine, len);
	pthread_barrier_wait(&r->board->barrier);
	return 0;
}

static int can_read(int fd)
{
	return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, LONG_MS) == 1;
}

static int hear(struct chan *c, int want)
{
	const void *data;
	int rc;

	while ((rc = chan_recv(c, &data, NULL)) == 0)
		if (!can_read(chan_fd(c)))
			return 0;
	return rc == sizeof(int) && !memcmp(data, &want, sizeof(int));
}

static struct mesh_shape shape_of(const struct rank *r)
{
	return (struct mesh_shape){ r->rank, r->size, host_of, local_of, sockets };
}

/* Are all connections there, and no others, and do they lead where they should? */
static int converse(struct mesh *m)
{
	struct mesh_shape s = { m->rank, m->size, host_of, local_of, sockets };
	int i, k, r, number, good = 1, links = 0;

	for (r = 0; r < m->size; r++) {
		links += mesh_has_data(&s, m->rank, r);
		good &= mesh_has_control(&s, m->rank, r) == (m->control[r] != NULL);
	}
	good &= links == m->links;
	for (i = 0; i < m->links; i++) {
		struct mesh_link *l = &m->link[i];

		good &= l->fds == sockets && mesh_has_data(&s, m->rank, l->rank) &&
			l->host == host_of[l->rank];
		for (k = 0; k < l->fds; k++)
			good &= write(l->fd[k], &m->rank, sizeof(int)) == sizeof(int);
	}
	for (i = 0; i < m->links; i++)
		for (k = 0; k < m->link[i].fds; k++)
			good &= can_read(m->link[i].fd[k]) &&
				read(m->link[i].fd[k], &number, sizeof(int)) == sizeof(int) &&
				number == m->link[i].rank;
	for (i = 0; i < m->size; i++) {
		if (!m->control[i])
			continue;
		good &= chan_send(m->control[i], &m->rank, sizeof(int), NULL) == 0;
		good &= hear(m->control[i], i);
	}
	return good;
}

static void *be_rank(void *arg)
{
	struct rank *r = arg;
	struct mesh_shape shape = shape_of(r);

	r->rc = mesh_open(&r->mesh, &shape, r->address, r->secret, exchange, r,
			  clock_deadline(r->wait_ms), &r->err);
	if (!r->rc)
		r->talks = converse(&r->mesh);
	return NULL;
}

static struct rank ranks[MOST];
static struct board board;
static bool uneven; /* host_of and local_of are set by the test itself */

static void prepare(int size, const char *address)
{
	int i;

	memset(ranks, 0, sizeof(ranks));
	board.spoil = -1;
	board.lost = 0;
	if (!uneven)
		for (i = 0; i < size; i++) {
			host_of[i] = i;
			local_of[i] = 0;
		}
	pthread_barrier_init(&board.barrier, NULL, (unsigned)size);
	for (i = 0; i < size; i++)
		ranks[i] = (struct rank){ .board = &board,
					  .address = address,
					  .secret = &secret,
					  .rank = i,
					  .size = size,
					  .wait_ms = LONG_MS };
}

static void run(int size)
{
	int i;

	for (i = 0; i < size; i++)
		pthread_create(&ranks[i].thread, NULL, be_rank, &ranks[i]);
	for (i = 0; i < size; i++)
		pthread_join(ranks[i].thread, NULL);
	pthread_barrier_destroy(&board.barrier);
}

static void close_all(int size)
{
	int i;

	for (i = 0; i < size; i++)
		mesh_close(&ranks[i].mesh);
}

static int count_fds(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int count_listening(void)
{
	int fd, n = 0, on;
	socklen_t len;

	for (fd = 0; fd < 1024; fd++) {
		len = sizeof(on);
		n += !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) && on;
	}
	return n;
}

static void test_sizes(void)
{
	static const int sizes[] = { 1, 2, 3, 4, 7, 16, 64 };
	size_t k;
	int i;

	for (k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		int size = sizes[k], good = 0, before = count_fds();

		prepare(size, "127.0.0.1");
		run(size);
		for (i = 0; i < size; i++) {
			good += ranks[i].talks;
			if (ranks[i].rc)
				printf("# rank %d: %s\n", i, ranks[i].err.text);
		}
		ok(good == size, "%d ranks, all connections right", size);
		ok(count_listening() == 0, "and nobody listens any more");
		close_all(size);
		ok(count_fds() == before, "and nothing is left open");
	}
	mesh_close(&ranks[0].mesh);
	mesh_close(&(struct mesh){ 0 });
	ok(fcntl(0, F_GETFD) >= 0, "closing a mesh that is closed closes nothing");
}

/* Ranks on hosts: a word with a letter per rank, the host's. */
static void test_shapes(void)
{
	static const struct {
		const char *hosts;
		int sockets, rails, links; /* links: of all ranks together */
	} rows[] = {
		{ "aabb", 1, 2, 4 },     { "abab", 4, 2, 4 }, { "aaab", 2, 1, 2 },
		{ "abcabca", 1, 2, 12 }, { "aaaa", 1, 4, 0 }, { "abcdefghijklmnop", 1, 1, 240 },
	};
	size_t k;
	int i, j;

	uneven = true;
	for (k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		int size = (int)strlen(rows[k].hosts), good = 0, links = 0,
		    before = count_fds();

		sockets = rows[k].sockets;
		for (i = 0; i < size; i++) {
			host_of[i] = rows[k].hosts[i] - 'a';
			for (local_of[i] = 0, j = 0; j < i; j++)
				local_of[i] += host_of[j] == host_of[i];
		}
		prepare(size, "127.0.0.1");
		run(size);
		for (i = 0; i < size; i++) {
			good += ranks[i].talks && ranks[i].mesh.rails == rows[k].rails;
			links += ranks[i].mesh.links;
			if (ranks[i].rc)
				printf("# rank %d: %s\n", i, ranks[i].err.text);
		}
		ok(good == size && links == rows[k].links, "%s: %d rails, %d links of %d",
		   rows[k].hosts, rows[k].rails, links / 2, sockets);
		close_all(size);
		ok(count_fds() == before, "and nothing is left open");
	}
	uneven = false;
	sockets = 1;
}

static void test_v6(void)
{
	struct err e = { 0 };
	char where[SOCK_TEXT];
	int fd = sock_listen("::1", where, &e);

	if (fd < 0) {
		ok(1, "# SKIP no IPv6 here: %s", e.text);
		return;
	}
	close(fd);
	prepare(3, "::1");
	run(3);
	ok(ranks[0].talks + ranks[1].talks + ranks[2].talks == 3, "three ranks over IPv6 %s",
	   ranks[0].err.text);
	close_all(3);
}

static int option(int fd, int level, int name)
{
	int v = -1;
	socklen_t n = sizeof(v);

	return getsockopt(fd, level, name, &v, &n) ? -1 : v;
}

static void test_options(void)
{
	struct mesh *m = &ranks[0].mesh;
	int fd[3], i;

	sockets = 2;
	prepare(2, "127.0.0.1");
	run(2);
	ok(ranks[0].talks && ranks[1].talks, "two ranks");
	ok(m->links == 1 && m->link[0].fds == 2, "have two sockets");
	fd[0] = m->link[0].fd[0];
	fd[1] = m->link[0].fd[1];
	fd[2] = chan_fd(m->control[1]);
	for (i = 0; i < 3; i++)
		ok(fcntl(fd[i], F_GETFL) & O_NONBLOCK && fcntl(fd[i], F_GETFD) & FD_CLOEXEC &&
			   option(fd[i], IPPROTO_TCP, TCP_NODELAY) == 1,
		   "without delay, non-blocking, closed on exec: %d", i);
	for (i = 0; i < 2; i++)
		ok(option(fd[i], IPPROTO_TCP, TCP_USER_TIMEOUT) == 0 ||
			   option(fd[i], IPPROTO_TCP, TCP_USER_TIMEOUT) > 3600 * 1000,
		   "a slow reader of data is not cut off: %d", i);
	ok(option(fd[2], IPPROTO_TCP, TCP_USER_TIMEOUT) == 15000,
	   "the control channel is watched");
	close_all(2);
	sockets = 1;
}

/* Rank 1 has another secret: the ranks must not connect, and say so. */
static void test_secret(void)
{
	int i, failed = 0;

	prepare(3, "127.0.0.1");
	ranks[1].secret = &wrong;
	for (i = 0; i < 3; i++)
		ranks[i].wait_ms = 3000;
	run(3);
	for (i = 0; i < 3; i++) {
		failed += ranks[i].rc < 0;
		printf("# rank %d: %d %s\n", i, ranks[i].rc, ranks[i].err.text);
	}
	ok(failed == 3, "one rank with a wrong secret: nobody connects");
	ok(ranks[1].rc == RINGUP_EAUTH, "it is told: %s", ranks[1].err.text);
	/* Unless rank 1 has given up before rank 0 could ask. */
	ok((ranks[0].rc == RINGUP_EAUTH || ranks[0].rc == RINGUP_EPEER) &&
		   strstr(ranks[0].err.text, "rank 1"),
	   "and who dials it hears about it: %s", ranks[0].err.text);
}

static void test_version(void)
{
	int i, good = 0;

	prepare(3, "127.0.0.1");
	board.spoil = 2;
	run(3);
	for (i = 0; i < 2; i++)
		good += ranks[i].rc == RINGUP_EMISMATCH &&
			strstr(ranks[i].err.text, "rank 2 runs ringup 6.6.6") != NULL;
	ok(good == 2, "another version is named: %s", ranks[0].err.text);
	close_all(3);
}

static int given_up; /* the others have; atomic */

/* Rank 2 exchanges addresses and is never seen again: it ends, or (lone) hears nothing until
 * the others have given up. */
static void *vanish(void *arg)
{
	struct rank *r = arg;
	unsigned char card[114] = { 0 }, all[3 * 114];
	struct err e = { 0 };
	int fd = sock_listen("127.0.0.1", (char *)card + AT_WHERE, &e);

	card[0] = SHAKE_PROTOCOL;
	strcpy((char *)card + AT_VERSION, build_version());
	exchange(r, card, sizeof(card), all);
	while (r->lone && !__atomic_load_n(&given_up, __ATOMIC_ACQUIRE))
		clock_sleep_ms(1);
	close(fd);
	return NULL;
}

static void test_missing(void)
{
	int i, late = 0;

	prepare(3, "127.0.0.1");
	for (i = 0; i < 3; i++)
		ranks[i].wait_ms = 3000;
	board.lost = 1;
	ranks[2].lone = 1;
	given_up = 0;
	for (i = 0; i < 3; i++)
		pthread_create(&ranks[i].thread, NULL, i == 2 ? vanish : be_rank, &ranks[i]);
	for (i = 0; i < 2; i++)
		pthread_join(ranks[i].thread, NULL);
	__atomic_store_n(&given_up, 1, __ATOMIC_RELEASE);
	pthread_join(ranks[2].thread, NULL);
	pthread_barrier_destroy(&board.barrier);
	/* Who gives up first is out of time, the other one may see him leave. */
	for (i = 0; i < 2; i++) {
		late += ranks[i].rc == RINGUP_ETIMEDOUT && strstr(ranks[i].err.text, "rank 2");
		ok(ranks[i].rc == RINGUP_ETIMEDOUT || ranks[i].rc == RINGUP_EPEER, "%s",
		   ranks[i].err.text);
	}
	ok(late > 0, "a rank that does not connect is named");
}

static void test_died(void)
{
	int64_t began = clock_ns();
	int i;

	prepare(3, "127.0.0.1");
	board.lost = 1;
	for (i = 0; i < 3; i++)
		pthread_create(&ranks[i].thread, NULL, i == 2 ? vanish : be_rank, &ranks[i]);
	for (i = 0; i < 3; i++)
		pthread_join(ranks[i].thread, NULL);
	pthread_barrier_destroy(&board.barrier);
	ok(ranks[0].rc == RINGUP_EPEER && ranks[1].rc == RINGUP_EPEER, "a rank dies: %s",
	   ranks[1].err.text);
	ok(strstr(ranks[0].err.text, "rank 2") || strstr(ranks[1].err.text, "rank 2"),
	   "who waits for it names it: %s", ranks[0].err.text);
	ok(clock_ns() - began < (int64_t)LONG_MS * 1000000 / 2, "long before the deadline");
}

static int no_exchange(void *ctx, const void *mine, size_t len, void *all)
{
	(void)mine;
	(void)len;
	(void)all;
	if (!ctx)
		return 7;
	return fail(ctx, RINGUP_ETIMEDOUT, "the store is closed");
}

static void test_arguments(void)
{
	int64_t soon = clock_deadline(LONG_MS);
	struct secret none = { 0 };
	struct err e = { 0 };
	struct mesh_shape two = { 0, 2, host_of, local_of, 1 };
	struct mesh_shape none_such = { 2, 2, host_of, local_of, 1 };
	struct mesh_shape crowded = { 0, 2, host_of, local_of, MESH_SOCKETS + 1 };
	struct mesh m;

	ok(mesh_open(&m, &none_such, "127.0.0.1", &secret, no_exchange, NULL, soon, &e) ==
		   RINGUP_EINVAL,
	   "rank 2 of 2: %s", e.text);
	ok(mesh_open(&m, &crowded, "127.0.0.1", &secret, no_exchange, NULL, soon, &e) ==
		   RINGUP_EINVAL,
	   "too many sockets: %s", e.text);
	ok(mesh_open(&m, &two, "127.0.0.1", &none, no_exchange, NULL, soon, &e) ==
		   RINGUP_EINVAL,
	   "no secret: %s", e.text);
	ok(mesh_open(&m, &two, "0.0.0.0", &secret, no_exchange, NULL, soon, &e) ==
		   RINGUP_EINVAL,
	   "everywhere: %s", e.text);
	ok(mesh_open(&m, &two, "127.0.0.1", &secret, no_exchange, NULL, soon, &e) ==
		   RINGUP_EPEER,
	   "the exchange fails: %s", e.text);
	ok(mesh_open(&m, &two, "127.0.0.1", &secret, no_exchange, &e, soon, &e) ==
			   RINGUP_ETIMEDOUT &&
		   strstr(e.text, "the store is closed"),
	   "the exchange fails and says why: %s", e.text);
	mesh_close(&m);
}

/* Strangers, while the ranks connect: they have seen the addresses, too. */
static struct crowd {
	pthread_t thread;
	unsigned char cards[4 * 114];
	int is_known, stop, tries;
} crowd;

enum { CROWD = 200 };

static void *be_crowd(void *arg)
{
	int fd[CROWD], i, n;

	(void)arg;
	for (i = 0; i < CROWD; i++)
		fd[i] = -1;
	while (!__atomic_load_n(&crowd.is_known, __ATOMIC_ACQUIRE))
		clock_sleep_ms(1);
	for (n = 0; !__atomic_load_n(&crowd.stop, __ATOMIC_RELAXED); n++) {
		struct sock_addr to;

		i = n % CROWD;
		if (fd[i] >= 0)
			(void)!send(fd[i], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n % (3 * CROWD) >= 2 * CROWD && fd[i] >= 0) {
			close(fd[i]);
			fd[i] = -1;
		}
		if (fd[i] < 0 &&
		    !sock_parse((char *)crowd.cards + n % 4 * 114 + AT_WHERE, &to, NULL))
			fd[i] = sock_connect(&to, NULL);
		__atomic_fetch_add(&crowd.tries, 1, __ATOMIC_RELAXED);
		if (i == CROWD - 1)
			clock_sleep_ms(5);
	}
	for (i = 0; i < CROWD; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return NULL;
}

/* Like exchange(), but the strangers are there before the ranks are. */
static int leak(void *ctx, const void *mine, size_t len, void *all)
{
	struct rank *r = ctx;
	int rc = exchange(ctx, mine, len, all);

	if (r->rank == 0 && !__atomic_load_n(&crowd.is_known, __ATOMIC_RELAXED)) {
		memcpy(crowd.cards, all, sizeof(crowd.cards));
		__atomic_store_n(&crowd.is_known, 1, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&crowd.tries, __ATOMIC_RELAXED) < CROWD * (1 + r->rank))
		clock_sleep_ms(1);
	return rc;
}

static void *be_watched_rank(void *arg)
{
	struct rank *r = arg;
	struct mesh_shape shape = shape_of(r);

	r->rc = mesh_open(&r->mesh, &shape, r->address, r->secret, leak, r,
			  clock_deadline(r->wait_ms), &r->err);
	if (!r->rc)
		r->talks = converse(&r->mesh);
	return NULL;
}

static void test_strangers(void)
{
	int i, good = 0;

	prepare(4, "127.0.0.1");
	pthread_create(&crowd.thread, NULL, be_crowd, NULL);
	for (i = 0; i < 4; i++)
		pthread_create(&ranks[i].thread, NULL, be_watched_rank, &ranks[i]);
	for (i = 0; i < 4; i++) {
		pthread_join(ranks[i].thread, NULL);
		good += ranks[i].talks;
		if (ranks[i].rc)
			printf("# rank %d: %s\n", i, ranks[i].err.text);
	}
	__atomic_store_n(&crowd.stop, 1, __ATOMIC_RELAXED);
	pthread_join(crowd.thread, NULL);
	ok(good == 4, "strangers at all doors do not matter");
	close_all(4);
	pthread_barrier_destroy(&board.barrier);
}

int main(void)
{
	struct err e = { 0 };

	ok(!secret_new(&secret, &e) && !secret_new(&wrong, &e), "two secrets");
	test_sizes();
	test_shapes();
	test_v6();
	test_options();
	test_arguments();
	test_version();
	test_secret();
	test_missing();
	test_died();
	test_strangers();
	return tap_done();
}
