/* data.c - find this program's data files, in a build tree or installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "ringup.h"

int data_program(char out[PATH_MAX], struct err *e)
{
	const char *started = (const char *)getauxval(AT_EXECFN);
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);

	out[len < 0 ? 0 : len] = 0;
	/* A chroot may have no /proc. */
	if (len < 0 && !(started && realpath(started, out))) {
		*out = 0;
		return fail_os(e, "/proc/self/exe (is /proc mounted?)");
	}
	return 0;
}

static bool data_is_in(char out[PATH_MAX], int len, const char *dir, const char *sub,
		       const char *name)
{
	return snprintf(out, PATH_MAX, "%.*s%s/%s", len, dir, sub, name) < PATH_MAX &&
	       !access(out, R_OK);
}

int data_find(char out[PATH_MAX], const char *name, struct err *e)
{
	static const char *const relative[] = { "/share/ringup", "/../share/ringup" };
	const char *given = conf_env("RINGUP_TEST_DATA");
	char self[PATH_MAX];
	int dir;

	if (data_program(self, e))
		return e->code;
	if (given && data_is_in(out, (int)strlen(given), given, "", name))
		return 0;
	dir = (int)(strrchr(self, '/') - self);
	for (size_t i = 0; i < sizeof(relative) / sizeof(relative[0]); i++)
		if (data_is_in(out, dir, self, relative[i], name))
			return 0;
	return fail(e, RINGUP_ESYSTEM,
		    "%s is missing in %.*s/../share/ringup, where %s looks for it: install "
		    "ringup again",
		    name, dir, self, self);
}
