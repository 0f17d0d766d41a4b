/* test_manual.c - who comes by hand is known, is asked, and writes nothing. */
/* needs: waits */
#include "probe/manual.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "probe/agent.h"
#include "ringup.h"
#include "tap.h"

static struct roster nodes;
static struct err e;
static pid_t child;
static const char *says;
static bool has_wrong_secret;
static char root[] = "/tmp/manual.XXXXXX"; /* nothing is ever written there */

static void agent(const char *where, const char *hex)
{
	struct secret s;
	struct talk t;
	struct err why;

	alarm(250);
	if (manual_read(&s, hex, &why))
		_exit(9);
	s.key[0] ^= has_wrong_secret;
	if (manual_join(&t, where, says, &s, &why))
		_exit(7);
	_exit(agent_run(&t, root, &s, NULL, &why) ? 8 : 0);
}

static void invite(const char *where, const char *hex, int seconds)
{
	(void)seconds;
	child = fork();
	if (!child)
		agent(where, hex);
}

static int take(void *ctx, int i, const json_t *msg, struct err *why)
{
	(void)ctx;
	(void)i;
	(void)msg;
	(void)why;
	return 0;
}

static int end_of_child(void)
{
	int status = 0;

	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int gather(struct agents *a, const struct agents_how *how, int seconds)
{
	struct manual_options hands = { "127.0.0.1", seconds, invite };
	struct agents_owner owner = { take, NULL };
	struct secret s;
	int rc = secret_new(&s, &e);

	if (!rc)
		rc = agents_open(a, how, owner, &e);
	return rc ? rc : manual_gather(a, &hands, &s, &e);
}

static void test_orders(const struct agents_how *how)
{
	static const char *const orders[] = { "stage", "commit", "keep", "reach" };
	struct agents a;
	size_t i;

	for (i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		ok(!gather(&a, how, 20) && a.m[0].talks && !a.m[0].lost, "it comes");
		agents_say(&a, 0,
			   json_pack("{ss ss sn sb sb}", "op", orders[i], "interface", "eth0",
				     "network", "force", 1, "dry_run", 0),
			   "staged");
		agents_await(&a, "", 20000, "it is silent");
		ok(a.m[0].lost && strstr(a.m[0].why, "unknown order"), "no: %s: %s", orders[i],
		   a.m[0].why);
		agents_close(&a);
		ok(end_of_child() == 8, "and it goes");
	}
}

static void test_facts(const struct agents_how *how)
{
	struct agents a;

	ok(!gather(&a, how, 20), "it comes");
	agents_say(&a, 0,
		   json_pack("{ss si s[s] si}", "op", "hello", "node", 0, "names", "n1", "port",
			     0),
		   "facts");
	agents_await(&a, "", 20000, "it is silent");
	ok(!a.m[0].lost && a.m[0].answered, "it tells its facts without being told the secret");
	agents_close(&a);
	ok(end_of_child() == 0, "and goes with the check");
}

static void test_strangers(const struct agents_how *how)
{
	struct agents a;

	has_wrong_secret = true;
	ok(!gather(&a, how, 1) && a.m[0].lost && !a.m[0].talks, "a wrong secret is nobody's");
	agents_close(&a);
	ok(end_of_child() == 7, "and is told so");
	has_wrong_secret = false;
	says = "other";
	ok(!gather(&a, how, 1) && a.m[0].lost, "a name that is not asked for does not count");
	agents_close(&a);
	end_of_child();
}

static void test_read(void)
{
	static const char good[] =
		" 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\r\n";
	struct secret s;

	ok(!manual_read(&s, good, &e) && s.key[31] == 31, "a secret is read");
	ok(manual_read(&s, "", &e) && manual_read(&s, "0001", &e), "nothing, or half of one");
	ok(manual_read(&s, "zz0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		       &e),
	   "no digits");
	ok(manual_read(&s, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00",
		       &e),
	   "too many digits");
}

int main(void)
{
	struct agents_how how = { .nodes = &nodes };

	if (!mkdtemp(root))
		return 1;
	roster_add(&nodes, "n1.example.org", &e);
	test_read();
	says = "n1";
	test_orders(&how);
	test_facts(&how);
	test_strangers(&how);
	roster_free(&nodes);
	ok(!rmdir(root), "nothing was written");
	return tap_done();
}
