/* test_gloo.c - the model agrees with every recorded case of the real library. */
#include "net/cases.h"

int main(void)
{
	const struct picker *k = picker_find("gloo");

	ok(k != NULL, "gloo is a picker");
	ok(cases_run(k, "gloo.json", NULL) >= 13, "no case was lost");
	return tap_done();
}
