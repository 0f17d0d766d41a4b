/* test_names.c - names that resolve are told, and nobody is waited for. */
#include "probe/names.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "host/netconf.h"
#include "tap.h"

int main(void)
{
	static const char *const names[] = { "localhost", "127.0.0.1" };
	struct netconf_host h[2];
	struct err e = { 0 };
	int64_t start = clock_ns();

	ok(names_resolve(h, names, 2, 30000, &e) == 2, "asked and told: %s", e.text);
	ok(!strcmp(h[0].name, "localhost") && h[0].nips > 0, "localhost is somewhere");
	ok(!strcmp(h[1].name, "127.0.0.1") && h[1].nips == 1, "an address is itself");
	ok(names_resolve(h, names, 0, 30000, &e) == 0, "nothing asked, nothing told");
	ok(clock_ns() - start < 30000000000ll, "who has all answers does not wait");
	return tap_done();
}
