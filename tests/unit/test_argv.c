/* test_argv.c - words come out as they went in. */
#include <string.h>

#include "base/argv.h"
#include "base/err.h"
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
	argv_put(&a, "100%", "b c", NULL);
	argv_take(&a, strdup("taken"));
	w = argv_words(&a, &e);
	ok(w && !strcmp(w[3], "100%") && !strcmp(w[4], "b c") && !strcmp(w[5], "taken") &&
		   !w[6],
	   "words as they are");
	argv_free(&a);
	ok(!a.word && !a.count, "freed");
	argv_take(&a, NULL);
	ok(a.failed && !argv_words(&a, &e),
	   "a word for which there was no memory fails the command");
	argv_free(&a);
	return tap_done();
}
