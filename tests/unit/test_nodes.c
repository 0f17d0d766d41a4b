/* test_nodes.c - whose address it is, on one node and over several. */
#include "diagnose/nodes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tap.h"

/* A node with eth0, @address, and docker0. */
static void add(struct nodes *l, const char *name, const char *address)
{
	char path[] = "/tmp/test_nodes.XXXXXX";
	FILE *f = fdopen(mkstemp(path), "w");
	struct err e;

	fprintf(f,
		"{\"schema\":\"ringup.net.snapshot/1\",\"hostname\":\"%s\",\"interfaces\":["
		"{\"index\":2,\"name\":\"eth0\",\"type\":\"physical\"},"
		"{\"index\":3,\"name\":\"docker0\",\"type\":\"bridge\"}],\"addresses\":["
		"{\"interface\":2,\"address\":\"%s\",\"prefix\":24},"
		"{\"interface\":3,\"address\":\"172.17.0.1\",\"prefix\":16}]}",
		name, address);
	fclose(f);
	ok(!nodes_add(l, path, &e), "%s is read", name);
	unlink(path);
}

static void check(const struct nodes *l, const char *address, enum nodes_owner want,
		  const char *text)
{
	char said[256];
	enum nodes_owner owner = nodes_own(l, address, said, sizeof(said));

	ok(owner == want && !strcmp(said, text), "%s: '%s'", address, said);
}

int main(void)
{
	struct nodes l = { 0 }, none = { 0 };
	char said[256], tiny[8];
	struct err e;

	check(&none, "10.0.0.1", NODES_UNKNOWN, "");
	check(&none, "127.0.1.1", NODES_LOOPBACK,
	      "127.0.1.1 is the loopback: each node reaches itself");
	check(&none, "172.17.0.1", NODES_SHARED,
	      "172.17.0.1 is the default bridge address of docker on every node");
	check(&none, "nonsense", NODES_UNKNOWN, "");
	ok(nodes_shared(&none, said, sizeof(said)) == NODES_UNKNOWN && !*said,
	   "nobody shares nothing");
	add(&l, "a", "10.0.0.1");
	check(&l, "172.17.0.1", NODES_SHARED, "172.17.0.1 is docker0 of a, a bridge");
	add(&l, "b", "10.0.0.2");
	check(&l, "10.0.0.2", NODES_ONE, "10.0.0.2 is eth0 of b");
	check(&l, "172.17.0.1", NODES_SHARED,
	      "172.17.0.1 is docker0 of a and docker0 of b: of every node");
	check(&l, "10.0.0.9", NODES_UNKNOWN, "10.0.0.9 is not an address of these nodes");
	add(&l, "c", "10.0.0.2");
	check(&l, "10.0.0.2", NODES_SHARED, "10.0.0.2 is eth0 of b and eth0 of c");
	ok(nodes_shared(&l, said, sizeof(said)) == NODES_SHARED &&
		   !strncmp(said, "172.17.0.1 ", 11),
	   "'%s'", said);
	nodes_own(&l, "172.17.0.1", tiny, sizeof(tiny));
	ok(!strcmp(tiny, "172.17."), "a sentence is cut, not written past its end");
	nodes_free(&l);
	ok(nodes_add(&l, "/nonexistent", &e) < 0 && *e.text, "a file that is not there: %s",
	   e.text);
	nodes_free(&l);
	ok(!nodes_here(&l, "", &e) && l.live && l.n == 1, "this machine");
	check(&l, "203.0.113.7", NODES_UNKNOWN, "");
	nodes_free(&l);
	return tap_done();
}
