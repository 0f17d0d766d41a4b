/* test_libfabric.c - the model agrees with every recorded case of the real library. */
#include "net/cases.h"

int main(void)
{
	const struct picker *k = picker_find("libfabric");

	ok(k != NULL, "libfabric is a picker");
	ok(cases_run(k, "libfabric.json", NULL) >= 15, "no case was lost");
	return tap_done();
}
