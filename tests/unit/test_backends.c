/* test_backends.c - the contract that every back end of the list keeps. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static uint32_t quiet;

int main(void)
{
	const struct backend *const *b, *const *c;
	struct topo impossible = { .rank = 0, .size = 2, .hosts = 2, .abort = &quiet };
	int count = 0;

	for (b = backends; *b; b++, count++) {
		struct err e = { 0 };
		void *self = calloc(1, (*b)->size);
		int twice = 0, rc;

		ok((*b)->name && *(*b)->name && (*b)->summary && *(*b)->summary && (*b)->size,
		   "%s: has a name and a summary", (*b)->name);
		ok((*b)->open && (*b)->can && (*b)->start && (*b)->step && (*b)->wait &&
			   (*b)->abort && (*b)->close && (*b)->slots > 0 && (*b)->memory,
		   "%s: every function is there", (*b)->name);
		ok(backend_find((*b)->name) == *b, "%s: is found by name", (*b)->name);
		for (c = backends; *c; c++)
			twice += !strcmp((*c)->name, (*b)->name);
		ok(twice == 1, "%s: no other is called so", (*b)->name);
		/* Two ranks, but neither memory nor connections between them. */
		rc = self ? (*b)->open(self, &impossible, &e) : 0;
		ok(rc < 0 && e.code == rc && *e.text, "%s: refuses in a sentence: %s",
		   (*b)->name, e.text);
		if (self)
			(*b)->close(self);
		ok(1, "%s: is closed after a failure", (*b)->name);
		free(self);
	}
	ok(count > 1, "there are %d", count);
	ok(!backend_find("pigeon") && !backend_find(""), "others are not found");
	return tap_done();
}
