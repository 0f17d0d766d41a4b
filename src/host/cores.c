/* cores.c - how many processors this process may really use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

void cores_mask(unsigned char mask[CORES_MASK_BYTES])
{
	cpu_set_t set;
	int i;

	memset(mask, 0, CORES_MASK_BYTES);
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set)) {
		mask[0] = 1;
		return;
	}
	for (i = 0; i < CPU_SETSIZE && i < CORES_MASK_BYTES * 8; i++)
		if (CPU_ISSET(i, &set))
			mask[i / 8] |= (unsigned char)(1 << i % 8);
}

int cores_count(const unsigned char mask[CORES_MASK_BYTES])
{
	int i, n = 0;

	for (i = 0; i < CORES_MASK_BYTES; i++)
		n += __builtin_popcount(mask[i]);
	return n;
}

/* A number in a file of a control group. */
static bool read_number(const char *root, const char *group, const char *file, long long *n)
{
	char path[PATH_MAX];
	char *text;
	size_t len;
	bool is;

	if (snprintf(path, sizeof(path), "/sys/fs/cgroup/cpu%s/%s", group, file) >=
	    (int)sizeof(path))
		return false;
	if (file_read(root, path, 256, &text, &len, NULL))
		return false;
	is = sscanf(text, "%lld", n) == 1;
	free(text);
	return is;
}

/* Quota and period in microseconds, as processors. */
static int processors(long long quota, long long period)
{
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return 0;
	return (int)(quota / period + (quota % period > 0));
}

/* Version 1: two files; -1 is no limit. */
static int quota_of_v1(const char *root, const char *group)
{
	long long quota, period;

	if (!read_number(root, group, "cpu.cfs_quota_us", &quota) ||
	    !read_number(root, group, "cpu.cfs_period_us", &period))
		return 0;
	return processors(quota, period);
}

/* Version 2: "max 100000" or "150000 100000". */
static int quota_of_v2(const char *root, const char *group)
{
	char path[PATH_MAX];
	long long quota, period;
	char *text;
	size_t len;
	int n = 0;

	if (snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group) >=
	    (int)sizeof(path))
		return 0;
	if (file_read(root, path, 256, &text, &len, NULL))
		return 0;
	if (sscanf(text, "%lld %lld", &quota, &period) == 2)
		n = processors(quota, period);
	free(text);
	return n;
}

/* The smallest from @group up to the root.  Those that are not there, because a container
 * sees the root of its own only, have no limit. */
static int least_of(const char *root, char *group, int (*of)(const char *, const char *))
{
	int least = 0, n;
	char *end;

	for (;;) {
		n = of(root, strcmp(group, "/") ? group : "");
		if (n && (!least || n < least))
			least = n;
		end = strrchr(group, '/');
		if (!end || !*group)
			return least;
		*end = 0;
	}
}

/* Is "cpu" in "cpu,cpuacct"? */
static bool has_cpu(const char *controllers, size_t len)
{
	size_t n;

	for (; len; controllers += n, len -= n) {
		n = 0;
		while (n < len && controllers[n] != ',')
			n++;
		if (n == 3 && !memcmp(controllers, "cpu", 3))
			return true;
		n += n < len;
	}
	return false;
}

/* The processors of the controller that @line, of /proc/self/cgroup, is of: "0::/a" or
 * "4:cpu,cpuacct:/a". */
static int quota_by(const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *group;

	group = controllers ? strchr(++controllers, ':') : NULL;
	if (!group || group[1] != '/')
		return 0;
	if (group == controllers)
		return least_of(root, group + 1, quota_of_v2);
	return has_cpu(controllers, (size_t)(group - controllers))
		       ? least_of(root, group + 1, quota_of_v1)
		       : 0;
}

int cores_quota(const char *root)
{
	char *text, *line, *rest;
	int least = 0, n;
	size_t len;

	if (file_read(root, "/proc/self/cgroup", 65536, &text, &len, NULL))
		return 0;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		n = quota_by(root, line);
		if (n && (!least || n < least))
			least = n;
	}
	free(text);
	return least;
}
