/* oom.c - the OOM killer's counters: processes killed for lack of memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/oom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { SHOWN = 80 }; /* bytes of a group's path, from its end, which tells more */

/* "oom_kill 3" in @text, among other lines. */
static bool find_count(const char *text, uint64_t *n)
{
	const char *at = strstr(text, "oom_kill ");
	unsigned long long v;

	if (!at || sscanf(at, "oom_kill %llu", &v) != 1)
		return false;
	*n = v;
	return true;
}

static bool count_in_group(const struct cgroup *g, const char *root, uint64_t *n)
{
	char text[CGROUP_TEXT];

	return cgroup_read(g, root, g->version == 1 ? "memory.oom_control" : "memory.events",
			   text) &&
	       find_count(text, n);
}

static uint64_t count_on_host(const char *root)
{
	uint64_t n = 0;
	char *text;
	size_t len;

	if (file_read(root, "/proc/vmstat", 65536, &text, &len, NULL))
		return 0;
	find_count(text, &n);
	free(text);
	return n;
}

void oom_mark(struct oom *o, const char *root)
{
	memset(o, 0, sizeof(*o));
	o->on_host = count_on_host(root);
	if (!cgroup_find(&o->group, root, "memory"))
		return;
	while (!count_in_group(&o->group, root, &o->in_group))
		if (!cgroup_up(&o->group)) {
			o->group.version = 0;
			return;
		}
}

/* The smallest limit of the group and those above it, in MiB; 0: none. */
static unsigned long long least_limit(struct cgroup g, const char *root)
{
	const char *file = g.version == 1 ? "memory.limit_in_bytes" : "memory.max";
	unsigned long long least = UINT64_MAX, n;
	char text[CGROUP_TEXT];

	do {
		if (cgroup_read(&g, root, file, text) && sscanf(text, "%llu", &n) == 1 &&
		    n < least)
			least = n;
	} while (cgroup_up(&g));
	/* No limit is the largest number of pages, in version 1. */
	return least < UINT64_MAX >> 2 ? least >> 20 : 0;
}

bool oom_since(const struct oom *o, const char *root, char *out, size_t size)
{
	const char *path = *o->group.path ? o->group.path : "/";
	size_t len = strlen(path);
	unsigned long long limit;
	uint64_t n;
	int at;

	*out = 0;
	if (o->group.version && count_in_group(&o->group, root, &n) && n > o->in_group) {
		at = snprintf(out, size, "; out of memory in control group %s%s",
			      len > SHOWN ? "..." : "", path + (len > SHOWN ? len - SHOWN : 0));
		limit = least_limit(o->group, root);
		if (limit && at > 0 && (size_t)at < size)
			snprintf(out + at, size - (size_t)at, " (%llu MiB)", limit);
	} else if (count_on_host(root) > o->on_host) {
		snprintf(out, size, "; out of memory on this host");
	}
	return *out;
}
