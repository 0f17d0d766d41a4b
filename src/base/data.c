/* data.c - find this program's data files, in a build tree or installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "ringup.h"

static bool data_is_in(char out[PATH_MAX], int len, const char *dir, const char *sub,
		       const char *name)
{
	return snprintf(out, PATH_MAX, "%.*s%s/%s", len, dir, sub, name) < PATH_MAX &&
	       !access(out, R_OK);
}

int data_self(char out[PATH_MAX], struct err *e)
{
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);

	out[len < 0 ? 0 : len] = 0;
	return len < 0 ? fail_os(e, "/proc/self/exe") : 0;
}

int data_find(char out[PATH_MAX], const char *name, struct err *e)
{
	static const char *const relative[] = { "/share/ringup", "/../share/ringup" };
	const char *given = conf_env("RINGUP_TEST_DATA");
	char self[PATH_MAX];
	int dir;

	if (data_self(self, e))
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
