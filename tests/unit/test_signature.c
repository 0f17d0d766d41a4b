/* test_signature.c - the table keeps the rules that signature.h sets. */
#include "diagnose/signature.h"

#include "diagnose/rulefile.h"

#include <string.h>

#include "tap.h"

static void check(const struct signature *s)
{
	const char *why = rulefile_check(s);

	ok(!why, "%s keeps the rules%s%s", s->id, why ? ": " : "", why ? why : "");
}

int main(void)
{
	int i, k;

	for (i = 0; i < signature_count; i++) {
		check(&signatures[i]);
		for (k = 0; k < i && strcmp(signatures[i].id, signatures[k].id) != 0;)
			k++;
		ok(k == i, "%s: nobody else has its id", signatures[i].id);
	}
	ok(signature_find("M1") && !strcmp(signature_find("M1")->library, "openmpi"),
	   "M1 is found");
	ok(!signature_find("M"), "M is not");
	return tap_done();
}
