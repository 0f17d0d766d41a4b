/* test_api_status.c - every code has words, and the version is the package's. */
#include <string.h>

#include "config.h"
#include "ringup.h"
#include "tap.h"

int main(void)
{
	static const struct {
		int code;
		const char *name;
	} all[] = {
#define X(name, code, text) { RINGUP_##name, #name },
		RINGUP_STATUSES(X)
#undef X
	};
	size_t i, k, twice = 0;

	ok(!strcmp(ringup_version(), PACKAGE_VERSION), "version %s", ringup_version());
	ok(*ringup_strerror(RINGUP_OK), "success is \"%s\"", ringup_strerror(RINGUP_OK));
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		ok(all[i].code < 0 && *ringup_strerror(all[i].code), "%s: %s", all[i].name,
		   ringup_strerror(all[i].code));
		for (k = 0; k < i; k++)
			twice += all[k].code == all[i].code;
	}
	ok(twice == 0, "no code means two things");
	ok(*ringup_strerror(-9999) && *ringup_strerror(7),
	   "codes that do not exist have words");
	return tap_done();
}
