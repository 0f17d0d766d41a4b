/* test_peers.c - the list of peers: names, and what happens when one is not there. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/peer.h"
#include "tap.h"

int main(void)
{
	struct peer_setup s = {
		.ranks = 2,
		.self = "/nonexistent/ringup",
		.door = "/nonexistent/door",
		.dir = "/nonexistent",
		.data = "/nonexistent",
		.python = "/nonexistent/python",
		.under = "",
	};
	int i, j, twice = 0;

	setenv("PATH", "/nonexistent", 1);
	for (i = 0; peers[i].name; i++) {
		struct argv a = { 0 };
		struct err e = { 0 };

		ok(peer_find(peers[i].name) == &peers[i] && *peers[i].summary, "%s",
		   peers[i].name);
		ok(peers[i].command(&s, &a, &e) < 0 && *e.text, "not here: %s", e.text);
		argv_free(&a);
		for (j = 0; j < i; j++)
			twice += !strcmp(peers[i].name, peers[j].name);
	}
	ok(!twice, "all names differ");
	ok(!peer_find("") && !peer_find("nobody"), "no other");
	return tap_done();
}
