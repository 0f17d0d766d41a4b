/* path.c - walk the folders of PATH or of a list like it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"

bool path_next(const char **listp, char dir[PATH_MAX])
{
	const char *p = *listp;
	bool found = false;
	size_t len;

	while (!found && p && *p) {
		len = strcspn(p, ":");
		found = len && len < PATH_MAX;
		if (found) {
			memcpy(dir, p, len);
			dir[len] = 0;
		}
		p += len + (p[len] == ':');
	}
	*listp = p;
	return found;
}

bool path_program(const char *name, char out[PATH_MAX])
{
	const char *list = conf_env("PATH");
	char dir[PATH_MAX];
	struct stat st;

	while (path_next(&list, dir))
		if (snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX && !stat(out, &st) &&
		    S_ISREG(st.st_mode) && !access(out, X_OK))
			return true;
	return false;
}
