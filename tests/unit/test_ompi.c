/* test_ompi.c - the model agrees with every recorded case of the real libraries. */
#include "net/cases.h"

int main(void)
{
	const struct picker *k = picker_find("openmpi");

	ok(k != NULL, "openmpi is a picker");
	ok(cases_run(k, "openmpi.json", netconf_mca) >= 34, "no case of 4.1 was lost");
	ok(cases_run(k, "openmpi5.json", netconf_mca) >= 34, "no case of 5 was lost");
	return tap_done();
}
