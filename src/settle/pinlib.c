/* pinlib.c - find libnccl-env-ringup.so, for NCCL's setting. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "settle/pinlib.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "host/pins.h"
#include "ringup.h"

/* A path that stays right when the next version is installed. */
static const char current[] = "/opt/ringup/current/lib/" PINS_PLUGIN;
static const char installed[] = "/usr/local/lib/" PINS_PLUGIN;

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Looks beside this program, in a build tree or in an installation. */
static bool find_beside(char out[PATH_MAX])
{
	static const char *const tries[] = { ".libs", LIB_FROM_BIN, "../share/ringup/lib" };
	char self[PATH_MAX], path[PATH_MAX + 64];

	if (data_program(self, NULL))
		return false;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/" PINS_PLUGIN, self, tries[i]);
		if (realpath(path, out))
			return true;
	}
	return false;
}

int pinlib_find(const char *root, char out[PATH_MAX], struct err *e)
{
	if (!*root && find_beside(out)) {
		if (is_same_file(out, current))
			snprintf(out, PATH_MAX, "%s", current);
		return 0;
	}
	snprintf(out, PATH_MAX, "%s", current);
	if (file_exists(root, out))
		return 0;
	snprintf(out, PATH_MAX, "%s", installed);
	if (file_exists(root, out))
		return 0;
	return fail(e, RINGUP_ESYSTEM,
		    "cannot pin settings: %.120s is missing; reinstall ringup", out);
}
