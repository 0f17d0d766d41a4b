/* test_hvd.c - Horovod's choice, as the runner's experiments showed it. */
#include "net/cases.h"

int main(void)
{
	const struct picker *k = picker_find("horovod");

	ok(k != NULL, "horovod is a picker");
	ok(cases_run(k, "horovod.json", NULL) >= 7, "no case was lost");
	return tap_done();
}
