/* test_ucx.c - the model agrees with every recorded case of the real library. */
#include "net/cases.h"

int main(void)
{
	const struct picker *k = picker_find("ucx");

	ok(k != NULL, "ucx is a picker");
	ok(cases_run(k, "ucx.json", NULL) >= 15, "no case was lost");
	return tap_done();
}
