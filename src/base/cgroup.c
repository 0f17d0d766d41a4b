/* cgroup.c - the control group that limits this process, in either version. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* Is @name in a list like "cpu,cpuacct" of @len bytes? */
static bool cgroup_is_listed(const char *list, size_t len, const char *name)
{
	size_t n;

	for (size_t at = 0; at < len; at += n + 1) {
		for (n = 0; at + n < len && list[at + n] != ','; n++)
			;
		if (n == strlen(name) && !memcmp(list + at, name, n))
			return true;
	}
	return false;
}

/* "0::/a" is version 2, "4:cpu,cpuacct:/a" a hierarchy of version 1.  A controller with a
 * hierarchy of version 1 is not in version 2. */
static void cgroup_read_line(struct cgroup *g, const char *line)
{
	const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
	int version;

	if (!path || path[1] != '/' || strlen(path + 1) >= sizeof(g->path))
		return;
	list++;
	version = path == list ? 2 : 1;
	if (version == 1 ? !cgroup_is_listed(list, (size_t)(path - list), g->controller)
			 : g->version == 1)
		return;
	g->version = version;
	snprintf(g->path, sizeof(g->path), "%s", strcmp(path + 1, "/") ? path + 1 : "");
}

bool cgroup_find(struct cgroup *g, const char *root, const char *controller)
{
	char *text, *line, *rest;
	size_t len;

	memset(g, 0, sizeof(*g));
	snprintf(g->controller, sizeof(g->controller), "%s", controller);
	if (file_read(root, "/proc/self/cgroup", 65536, &text, &len, NULL))
		return false;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		cgroup_read_line(g, line);
	free(text);
	return g->version;
}

bool cgroup_read(const struct cgroup *g, const char *root, const char *file,
		 char text[CGROUP_TEXT])
{
	char path[PATH_MAX];
	char *got;
	size_t len;

	snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s%s/%s", g->version == 1 ? "/" : "",
		 g->version == 1 ? g->controller : "", g->path, file);
	if (file_read(root, path, CGROUP_TEXT - 1, &got, &len, NULL))
		return false;
	memcpy(text, got, len);
	text[len] = 0;
	free(got);
	return true;
}

bool cgroup_up(struct cgroup *g)
{
	char *end = strrchr(g->path, '/');

	if (end)
		*end = 0;
	return end;
}
