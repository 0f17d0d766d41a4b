/* test_argv.c - words come out as they went in. */
#include <string.h>

#include "base/err.h"
#include "bench/argv.h"
#include "tap.h"

int main(void)
{
	struct argv a = { 0 };
	struct err e = { 0 };
	char *const *w;

	ok(!argv_words(&a, &e) && e.code < 0, "no words are no command");
	argv_add(&a, "%s", "mpirun");
	argv_add(&a, "-n%d", 4);
	argv_add(&a, "%s", "");
	w = argv_words(&a, &e);
	ok(w && !strcmp(w[0], "mpirun") && !strcmp(w[1], "-n4") && !*w[2] && !w[3],
	   "three words, one of them empty, and an end");
	argv_free(&a);
	ok(!a.word && !a.count, "freed");
	argv_free(&a);
	return tap_done();
}
