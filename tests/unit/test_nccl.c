/* test_nccl.c - the model agrees with every recorded case of the real library. */
#include "net/cases.h"

int main(void)
{
	const struct picker *k = picker_find("nccl");

	ok(k != NULL, "nccl is a picker");
	ok(cases_run(k, "nccl.json", netconf_nccl) >= 69, "no case was lost");
	return tap_done();
}
