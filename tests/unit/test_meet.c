/* test_meet.c - ranks exchange bytes, whatever strangers do meanwhile. */
/* proves: F19 F22 F23 of docs/RELIABILITY.md */
/* needs: waits */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/chan.h"
#include "wire/dial.h"
#include "wire/meet.h"
#include "wire/ranks.h"
#include "wire/sock.h"

enum { LONG_MS = 60000 };

static struct secret secret, wrong;

/* One rank in a thread of its own. */
struct rank {
	pthread_t thread;
	const char *where;
	int rank, size, rounds, cycles;
	size_t len;
	int64_t wait_ms;
	int rc, good;
	struct err err;
};

static unsigned char byte_of(int rank, int round, size_t i)
{
	return (unsigned char)(rank * 7 + round * 13 + (int)i);
}

static int check(const unsigned char *all, const struct rank *r, int round)
{
	size_t i;
	int from;

	for (from = 0; from < r->size; from++)
		for (i = 0; i < r->len; i++)
			if (all[(size_t)from * r->len + i] != byte_of(from, round, i))
				return 0;
	return 1;
}

static void *be_rank(void *arg)
{
	struct rank *r = arg;
	int64_t deadline = clock_deadline(r->wait_ms);
	unsigned char mine[MEET_BYTES], *all = malloc(r->len * (size_t)r->size + 1);
	struct meet *m = NULL;
	int round, cycle;
	size_t i;

	for (cycle = 0; cycle < r->cycles && !r->rc; cycle++) {
		r->rc = meet_join(r->where, r->rank, r->size, &secret, deadline, &m, &r->err);
		for (round = 0; round < r->rounds && !r->rc; round++) {
			for (i = 0; i < r->len; i++)
				mine[i] = byte_of(r->rank, round, i);
			r->rc = meet_exchange(m, mine, r->len, all, deadline, &r->err);
			if (!r->rc)
				r->good += check(all, r, round);
		}
		meet_leave(m);
		m = NULL;
	}
	free(all);
	return NULL;
}

/* Start the ranks for which @in is 'x'; say how many rounds were right. */
static int run_ranks(struct rank *r, const struct rank *like, const char *in)
{
	int i, good = 0;

	for (i = 0; i < like->size; i++) {
		r[i] = *like;
		r[i].rank = i;
		if (!r[i].cycles)
			r[i].cycles = 1;
		if (!in || in[i] == 'x')
			pthread_create(&r[i].thread, NULL, be_rank, &r[i]);
	}
	for (i = 0; i < like->size; i++) {
		if (in && in[i] != 'x')
			continue;
		pthread_join(r[i].thread, NULL);
		good += r[i].good;
		if (r[i].rc)
			printf("# rank %d: %d %s\n", i, r[i].rc, r[i].err.text);
	}
	return good;
}

static struct meet_server *serve_on(const char *address, int size)
{
	struct meet_server *s = NULL;
	struct err e = { 0 };

	if (meet_serve(address, size, &secret, &s, &e))
		printf("# %s\n", e.text);
	return s;
}

static void test_rounds(void)
{
	static const struct {
		int size, rounds;
		size_t len;
	} t[] = { { 1, 3, 8 },          { 2, 5, 1 },    { 4, 10, 128 },       { 5, 2, 0 },
		  { 3, 3, MEET_BYTES }, { 64, 3, 200 }, { 40, 2, MEET_BYTES } };
	struct rank r[64];
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct meet_server *s = serve_on("127.0.0.1", t[i].size);
		struct rank like = { .where = meet_where(s),
				     .size = t[i].size,
				     .rounds = t[i].rounds,
				     .len = t[i].len,
				     .wait_ms = LONG_MS };

		ok(run_ranks(r, &like, NULL) == t[i].size * t[i].rounds,
		   "%d ranks, %d rounds of %zu bytes", t[i].size, t[i].rounds, t[i].len);
		meet_stop(s);
	}
}

static void test_v6(void)
{
	struct meet_server *s = NULL;
	struct err e = { 0 };
	struct rank r[2], like = { .size = 2, .rounds = 1, .len = 9, .wait_ms = LONG_MS };

	if (meet_serve("::1", 2, &secret, &s, &e)) {
		ok(1, "# SKIP no IPv6 here: %s", e.text);
		return;
	}
	like.where = meet_where(s);
	ok(run_ranks(r, &like, NULL) == 2, "two ranks at %s", meet_where(s));
	meet_stop(s);
}

static void test_cycles(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 3);
	struct rank r[3], like = { .where = meet_where(s),
				   .size = 3,
				   .rounds = 2,
				   .len = 32,
				   .wait_ms = LONG_MS,
				   .cycles = 20 };

	ok(run_ranks(r, &like, NULL) == 3 * 2 * 20, "ranks leave and come back, 20 times");
	meet_stop(s);
}

static void *be_left(void *arg)
{
	struct rank *r = arg;
	int64_t late = clock_deadline(LONG_MS);
	struct meet *m = NULL;
	unsigned char all[8];

	r->rc = meet_join(r->where, 1, 2, &secret, late, &m, &r->err);
	if (!r->rc)
		r->rc = meet_exchange(m, "1234", 4, all, late, &r->err);
	if (!r->rc)
		r->rc = meet_exchange(m, "1234", 4, all, late, &r->err);
	if (r->rc == RINGUP_EPEER && meet_exchange(m, "1234", 4, all, late, NULL) != r->rc)
		r->rc = 1;
	meet_leave(m);
	return NULL;
}

/* One leaves between two rounds: the other one does not wait until it is too late. */
static void test_left(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 2);
	struct rank r[2] = { { .where = meet_where(s) } };
	struct rank like = {
		.where = meet_where(s), .size = 2, .rounds = 2, .len = 4, .wait_ms = LONG_MS
	};
	int64_t late = clock_deadline(LONG_MS);
	struct meet *m = NULL;
	struct err e = { 0 };
	pthread_t thread;
	unsigned char all[8];

	pthread_create(&thread, NULL, be_left, &r[0]);
	ok(!meet_join(meet_where(s), 0, 2, &secret, late, &m, &e) &&
		   !meet_exchange(m, "1234", 4, all, late, &e),
	   "two meet %s", e.text);
	meet_leave(m);
	pthread_join(thread, NULL);
	ok(r[0].rc == RINGUP_EPEER && strstr(r[0].err.text, "rank 0 has left"),
	   "one leaves, and the other hears it: %s", r[0].err.text);
	ok(run_ranks(r, &like, NULL) == 2 * 2, "and they can begin anew");
	meet_stop(s);
}

static void test_missing(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 4);
	struct rank r[4], like = {
		.where = meet_where(s), .size = 4, .rounds = 1, .len = 4, .wait_ms = 4000
	};

	run_ranks(r, &like, "xx..");
	ok(r[0].rc == RINGUP_ETIMEDOUT && r[1].rc == RINGUP_ETIMEDOUT, "two did not come");
	ok(strstr(r[0].err.text, "ranks 2, 3 of 4 did not join within "), "named: %s",
	   r[0].err.text);
	ok(strstr(r[1].err.text, "ranks 2, 3 of 4 did not join within "), "to all: %s",
	   r[1].err.text);
	like.wait_ms = LONG_MS;
	ok(run_ranks(r, &like, NULL) == 4, "when all come later, it works");
	meet_stop(s);
}

static void test_gone(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 2);
	int64_t soon = clock_deadline(LONG_MS);
	struct meet *m = NULL, *twice = NULL;
	struct err e = { 0 };
	unsigned char all[8];

	ok(!meet_join(meet_where(s), 0, 2, &secret, soon, &m, &e), "rank 0 comes");
	ok(meet_join(meet_where(s), 0, 2, &secret, soon, &twice, &e) == RINGUP_EBUSY,
	   "a second rank 0: %s", e.text);
	ok(meet_exchange(m, "1234", 4, all, clock_deadline(100), &e) == RINGUP_ETIMEDOUT,
	   "the first waits undisturbed: %s", e.text);
	ok(meet_exchange(m, "1234", 4, all, clock_deadline(0), &e) == RINGUP_ETIMEDOUT &&
		   strstr(e.text, "rank 1 of 2"),
	   "and can ask again: %s", e.text);
	ok(meet_exchange(m, all, MEET_BYTES + 1, NULL, soon, &e) == RINGUP_EINVAL,
	   "too many bytes: %s", e.text);
	meet_stop(s);
	ok(meet_exchange(m, "1234", 4, all, soon, &e) == RINGUP_EPEER, "the server stops: %s",
	   e.text);
	meet_leave(m);
	meet_leave(NULL);
	meet_stop(NULL);
}

static void test_refused(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 2), *none = NULL;
	int64_t soon = clock_deadline(LONG_MS);
	struct secret zero = { 0 };
	struct meet *m = NULL;
	struct err e = { 0 };

	ok(meet_join(meet_where(s), 1, 2, &wrong, soon, &m, &e) == RINGUP_EAUTH,
	   "a wrong secret: %s", e.text);
	ok(meet_join(meet_where(s), 1, 3, &secret, soon, &m, &e) == RINGUP_EMISMATCH &&
		   strstr(e.text, "3") && strstr(e.text, "2"),
	   "another size: %s", e.text);
	ok(meet_join(meet_where(s), 2, 3, &secret, soon, &m, &e) == RINGUP_EINVAL,
	   "a rank too many: %s", e.text);
	ok(meet_join(meet_where(s), 2, 2, &secret, soon, &m, &e) == RINGUP_EINVAL,
	   "no such rank: %s", e.text);
	ok(meet_join(meet_where(s), 1, 2, &zero, soon, &m, &e) == RINGUP_EINVAL,
	   "no secret: %s", e.text);
	ok(meet_join("nowhere", 1, 2, &secret, soon, &m, &e) == RINGUP_EINVAL, "no address: %s",
	   e.text);
	ok(m == NULL, "nothing is returned");
	ok(meet_serve("0.0.0.0", 2, &secret, &none, &e) == RINGUP_EINVAL, "everywhere: %s",
	   e.text);
	ok(meet_serve("127.0.0.1", 2, &zero, &none, &e) == RINGUP_EINVAL, "no secret: %s",
	   e.text);
	ok(meet_serve("127.0.0.1", 0, &secret, &none, &e) == RINGUP_EINVAL, "no ranks: %s",
	   e.text);
	meet_stop(s);
}

/* Somebody listens who never answers, and nobody listens. */
static void test_unreachable(void)
{
	struct err e = { 0 };
	struct meet *m = NULL;
	char where[SOCK_TEXT];
	int fd = sock_listen("127.0.0.1", where, &e);

	ok(meet_join(where, 0, 2, &secret, clock_deadline(300), &m, &e) == RINGUP_ETIMEDOUT,
	   "no answer: %s", e.text);
	close(fd);
	ok(meet_join(where, 0, 2, &secret, clock_deadline(LONG_MS), &m, &e) == RINGUP_EPEER &&
		   !strstr(e.text, "firewall"),
	   "nobody there, and no firewall to blame: %s", e.text);
}

static void test_lengths(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 2);
	struct rank r[2] = { { .where = meet_where(s),
			       .size = 2,
			       .rounds = 1,
			       .cycles = 1,
			       .len = 5,
			       .wait_ms = LONG_MS } };
	int i;

	r[1] = r[0];
	r[1].rank = 1;
	r[1].len = 6;
	for (i = 0; i < 2; i++)
		pthread_create(&r[i].thread, NULL, be_rank, &r[i]);
	for (i = 0; i < 2; i++)
		pthread_join(r[i].thread, NULL);
	ok(r[0].rc == RINGUP_EMISMATCH && r[1].rc == RINGUP_EMISMATCH,
	   "different lengths, on both: %s", r[0].err.text);
	meet_stop(s);
}

/* F23, rank 1 of another version: told itself, and told to who waits for it. */
static void test_version(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 2);
	struct rank r = { .where = meet_where(s),
			  .size = 2,
			  .rounds = 1,
			  .cycles = 1,
			  .len = 5,
			  .wait_ms = LONG_MS };
	struct err e = { 0 };
	struct sock_addr to;
	struct pollfd p;
	struct shake h;
	int rc = SHAKE_MORE;

	pthread_create(&r.thread, NULL, be_rank, &r);
	sock_parse(meet_where(s), &to, &e);
	p = (struct pollfd){ sock_connect(&to, &e), POLLOUT, 0 };
	shake_init(&h, SHAKE_CLIENT, SHAKE_MEET, 1, SHAKE_NO_RANK, &secret);
	strcpy(h.me.version, "7.7.7");
	while (rc == SHAKE_MORE && poll(&p, 1, LONG_MS) == 1) {
		rc = shake_step(&h, p.fd, &e);
		p.events = h.events;
	}
	ok(rc == RINGUP_EMISMATCH && strstr(e.text, "7.7.7"), "rank 1 hears: %s", e.text);
	pthread_join(r.thread, NULL);
	ok(r.rc == RINGUP_EMISMATCH && strstr(r.err.text, "rank 1 runs ringup 7.7.7"),
	   "rank 0 hears: %s", r.err.text);
	close(p.fd);
	meet_stop(s);
}

/* Strangers of three kinds, while ranks come, exchange and go. */
struct crowd {
	pthread_t thread;
	const char *where;
	int stop, connections;
};

static void *be_crowd(void *arg)
{
	static const char junk[4096] = "GET / HTTP/1.1\r\n\r\n";
	struct crowd *c = arg;
	int fd[200], i, n;
	struct sock_addr to;

	sock_parse(c->where, &to, NULL);
	for (i = 0; i < 200; i++)
		fd[i] = -1;
	for (n = 0; !__atomic_load_n(&c->stop, __ATOMIC_RELAXED); n++) {
		i = n % 200;
		if (fd[i] < 0) {
			fd[i] = sock_connect(&to, NULL);
			__atomic_fetch_add(&c->connections, 1, __ATOMIC_RELAXED);
		}
		/* Silent; a byte now and then; all at once. */
		if (fd[i] >= 0 && i % 3 &&
		    send(fd[i], junk, i % 3 == 1 ? 1 : sizeof(junk),
			 MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		    errno != EAGAIN) {
			close(fd[i]);
			fd[i] = -1;
		}
		if (i == 199)
			clock_sleep_ms(20);
	}
	for (i = 0; i < 200; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return NULL;
}

static void test_strangers(void)
{
	struct meet_server *s = serve_on("127.0.0.1", 8);
	struct crowd c = { .where = meet_where(s) };
	struct rank r[8], like = { .where = meet_where(s),
				   .size = 8,
				   .rounds = 50,
				   .len = 300,
				   .wait_ms = LONG_MS,
				   .cycles = 3 };

	pthread_create(&c.thread, NULL, be_crowd, &c);
	while (__atomic_load_n(&c.connections, __ATOMIC_RELAXED) < 200)
		clock_sleep_ms(5);
	ok(run_ranks(r, &like, NULL) == 8 * 50 * 3, "200 strangers disturb nobody");
	__atomic_store_n(&c.stop, 1, __ATOMIC_RELAXED);
	pthread_join(c.thread, NULL);
	meet_stop(s);
}

/* One who knows the secret, and then talks nonsense, is put out. */
static void test_nonsense(void)
{
	static const unsigned char frames[][8] = { { 0 }, { 1, 2 }, { 3, 0, 0, 0, 1 }, { 99 } };
	struct meet_server *s = serve_on("127.0.0.1", 1);
	struct rank r, like = {
		.where = meet_where(s), .size = 1, .rounds = 2, .len = 7, .wait_ms = LONG_MS
	};
	struct err e = { 0 };
	const void *data;
	size_t i;

	for (i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		struct dial d;
		struct chan *c = NULL;
		struct pollfd p;
		int rc;

		rc = dial_open(&d, meet_where(s), SHAKE_MEET, 0, SHAKE_NO_RANK, &secret,
			       clock_deadline(LONG_MS), &e);
		ok(rc == 0 && dial_wait(&d, &e) == 1 &&
			   !chan_open(dial_take(&d), &d.shake.keys, &c, &e),
		   "a rank that is no rank %s", e.text);
		chan_send(c, frames[i], 1 + i * 2, &e);
		p = (struct pollfd){ chan_fd(c), POLLIN, 0 };
		ok(poll(&p, 1, LONG_MS) == 1 && chan_recv(c, &data, &e) == RINGUP_EPEER,
		   "says %u and is put out: %s", frames[i][0], e.text);
		chan_close(c);
		dial_close(&d);
	}
	ok(run_ranks(&r, &like, NULL) == 2, "the rank itself is served");
	meet_stop(s);
}

static void test_signals(void)
{
	struct sigaction before[NSIG], after;
	struct meet_server *s;
	int i, changed = 0;

	for (i = 1; i < NSIG; i++)
		sigaction(i, NULL, &before[i]);
	s = serve_on("127.0.0.1", 2);
	for (i = 1; i < NSIG; i++)
		changed += sigaction(i, NULL, &after) == 0 &&
			   after.sa_handler != before[i].sa_handler;
	ok(s && changed == 0, "no signal is handled differently");
	meet_stop(s);
}

int main(void)
{
	struct err e = { 0 };

	ok(!secret_new(&secret, &e) && !secret_new(&wrong, &e), "two secrets");
	test_rounds();
	test_v6();
	test_cycles();
	test_left();
	test_missing();
	test_gone();
	test_refused();
	test_unreachable();
	test_lengths();
	test_version();
	test_nonsense();
	test_signals();
	test_strangers();
	return tap_done();
}
