/* test_lobby.c - needs: waits; workers wait for a place, and get one, a refusal or the end. */
#include "wire/lobby.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

enum { WORKERS = 8 };

static struct lobby *lobby;
static struct secret secret;
static bool waits[WORKERS], came[WORKERS], left[WORKERS], unwanted[WORKERS];
static enum lobby_state states[WORKERS];

static int admit(void *ctx, uint32_t worker, struct err *e)
{
	(void)ctx;
	if (worker < WORKERS && !unwanted[worker])
		return 0;
	return fail(e, RINGUP_ESHUTDOWN, "worker %u is not wanted", worker);
}

static void arrive(void *ctx, uint32_t worker, enum lobby_state state)
{
	(void)ctx;
	states[worker] = state;
	waits[worker] = came[worker] = true;
}

static void leave(void *ctx, uint32_t worker)
{
	(void)ctx;
	waits[worker] = false;
	left[worker] = true;
}

struct visitor {
	pthread_t thread;
	uint32_t worker;
	struct secret secret;
	struct lobby_place place;
	struct err e;
	int rc;
	bool done;
};

static void *visit(void *arg)
{
	struct visitor *v = arg;

	v->rc = lobby_join(lobby_where(lobby), v->worker, LOBBY_STATE_HELD, &v->secret,
			   clock_deadline(20000), &v->place, &v->e);
	__atomic_store_n(&v->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void come(struct visitor *v, uint32_t worker)
{
	*v = (struct visitor){ .worker = worker, .secret = secret };
	pthread_create(&v->thread, NULL, visit, v);
}

/* Serve until @flag is set. */
static void serve_until(const bool *flag)
{
	struct pollfd *p = NULL;
	int64_t end = clock_deadline(30000);
	size_t n;

	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE) && clock_left_ms(end)) {
		p = realloc(p, lobby_poll_count(lobby) * sizeof(*p));
		n = lobby_poll(lobby, p);
		poll(p, n, 5);
		lobby_serve(lobby, p);
	}
	free(p);
}

static void test_places(void)
{
	struct lobby_place place = { 3, 1, 2, 5, "127.0.0.1:4000" }, one = { 4, 0, 1, 0, "" };
	struct visitor v[2];

	come(&v[0], 0);
	come(&v[1], 1);
	serve_until(&came[0]);
	serve_until(&came[1]);
	ok(waits[0] && waits[1], "two wait");
	ok(states[0] == LOBBY_STATE_HELD, "and say whether they have the state");
	lobby_assign(lobby, 1, &place);
	serve_until(&v[1].done);
	ok(!v[1].rc && v[1].place.generation == 3 && v[1].place.rank == 1 &&
		   v[1].place.size == 2 && v[1].place.slot == 5 &&
		   !strcmp(v[1].place.where, "127.0.0.1:4000"),
	   "one gets its place");
	lobby_assign(lobby, 0, &one);
	serve_until(&v[0].done);
	ok(!v[0].rc && v[0].place.size == 1, "the other is alone");
	pthread_join(v[0].thread, NULL);
	pthread_join(v[1].thread, NULL);
	lobby_assign(lobby, 0, &one);
	ok(!left[0] && !left[1], "nobody has left without an answer");
	came[0] = false;
	come(&v[0], 0);
	serve_until(&came[0]);
	lobby_assign(lobby, 0, &place);
	serve_until(&v[0].done);
	pthread_join(v[0].thread, NULL);
	ok(!v[0].rc && v[0].place.generation == 3, "and may come back");
}

static void test_refusals(void)
{
	struct err why = { 0 };
	struct visitor v;

	fail(&why, RINGUP_ESHUTDOWN, "host h2 is no longer part of the job");
	come(&v, 2);
	serve_until(&came[2]);
	lobby_refuse(lobby, 2, &why);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	ok(v.rc == RINGUP_ESHUTDOWN && strstr(v.e.text, "no longer part"), "%s", v.e.text);
	unwanted[3] = true;
	come(&v, 3);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	ok(v.rc == RINGUP_ESHUTDOWN && strstr(v.e.text, "not wanted"), "%s", v.e.text);
	come(&v, LOBBY_WORKERS);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	ok(v.rc == RINGUP_EINVAL, "%s", v.e.text);
}

static void test_strangers(void)
{
	struct visitor v = { .worker = 4 };

	v.secret = secret;
	v.secret.key[0] ^= 1;
	pthread_create(&v.thread, NULL, visit, &v);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	ok(v.rc == RINGUP_EAUTH && !came[4], "%s", v.e.text);
}

/* Another process comes as @worker; its code. */
static void *send_child(void *arg)
{
	struct visitor *v = arg;
	struct err e = { 0 };
	pid_t child = fork();
	int status;

	if (!child) {
		v->rc = lobby_join(lobby_where(lobby), v->worker, LOBBY_STATE_NONE, &v->secret,
				   clock_deadline(20000), &v->place, &e);
		_exit(v->rc == RINGUP_EBUSY && strstr(e.text, "starts is not a rank") ? 7
										      : -v->rc);
	}
	v->rc = waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
									 : -1;
	__atomic_store_n(&v->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void come_as_child(struct visitor *v, uint32_t worker)
{
	*v = (struct visitor){ .worker = worker, .secret = secret };
	pthread_create(&v->thread, NULL, send_child, v);
}

static void test_others(void)
{
	struct lobby_place place = { 3, 1, 2, 5, "127.0.0.1:4000" };
	struct err why = { 0 };
	struct visitor v;

	fail(&why, RINGUP_ESHUTDOWN, "the test is over");
	/* This process has come as worker 1. */
	came[1] = false;
	come_as_child(&v, 1);
	serve_until(&v.done);
	lobby_refuse(lobby, 1, &why);
	pthread_join(v.thread, NULL);
	ok(v.rc == 7 && !came[1], "a worker's child is told that it is none: %d", v.rc);
	come(&v, 1);
	serve_until(&came[1]);
	lobby_assign(lobby, 1, &place);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	ok(!v.rc, "which the worker does not notice: %s", v.e.text);

	come_as_child(&v, 6);
	serve_until(&came[6]);
	lobby_assign(lobby, 6, &place);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	came[6] = false;
	come(&v, 6);
	serve_until(&came[6]);
	lobby_assign(lobby, 6, &place);
	serve_until(&v.done);
	pthread_join(v.thread, NULL);
	ok(!v.rc && v.place.generation == 3, "one that has ended may have a successor: %s",
	   v.e.text);
}

/* A worker that dies while it waits. */
static void test_leaving(void)
{
	struct visitor v;

	come(&v, 5);
	serve_until(&came[5]);
	ok(waits[5], "it waits");
	lobby_close(lobby);
	pthread_join(v.thread, NULL);
	ok(v.rc == RINGUP_EPEER, "the launcher is gone: %s", v.e.text);
}

static void test_secrets(void)
{
	struct secret a, b;

	lobby_secret(&a, &secret, 1);
	lobby_secret(&b, &secret, 2);
	ok(memcmp(&a, &b, sizeof(a)) != 0 && memcmp(&a, &secret, sizeof(a)) != 0,
	   "each generation has a secret of its own");
	lobby_secret(&b, &secret, 1);
	ok(!memcmp(&a, &b, sizeof(a)), "which follows from the job's");
}

int main(void)
{
	struct lobby_owner owner = { admit, arrive, leave, NULL };
	struct err e = { 0 };

	ok(!secret_new(&secret, &e) && !lobby_open(&lobby, "127.0.0.1", &secret, owner, &e),
	   "open");
	test_places();
	test_refusals();
	test_strangers();
	test_others();
	test_leaving();
	test_secrets();
	return tap_done();
}
