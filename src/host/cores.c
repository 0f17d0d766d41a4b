/* cores.c - the processors that this process may use: affinity mask and cgroup quota. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"

void cores_mask(unsigned char mask[CORES_MASK_BYTES])
{
	cpu_set_t set;

	memset(mask, 0, CORES_MASK_BYTES);
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set)) {
		mask[0] = 1;
		return;
	}
	for (int i = 0; i < CPU_SETSIZE && i < CORES_MASK_BYTES * 8; i++)
		if (CPU_ISSET(i, &set))
			mask[i / 8] |= (unsigned char)(1 << i % 8);
}

int cores_count(const unsigned char mask[CORES_MASK_BYTES])
{
	int n = 0;

	for (int i = 0; i < CORES_MASK_BYTES; i++)
		n += __builtin_popcount(mask[i]);
	return n;
}

/* Quota and period in microseconds: two files with -1 for no quota, or one with "max
 * 100000" or "150000 100000". */
static int quota_of(const struct cgroup *g, const char *root)
{
	char text[CGROUP_TEXT];
	long long quota, period;

	if (g->version == 1) {
		if (!cgroup_read(g, root, "cpu.cfs_quota_us", text) ||
		    sscanf(text, "%lld", &quota) != 1 ||
		    !cgroup_read(g, root, "cpu.cfs_period_us", text) ||
		    sscanf(text, "%lld", &period) != 1)
			return 0;
	} else if (!cgroup_read(g, root, "cpu.max", text) ||
		   sscanf(text, "%lld %lld", &quota, &period) != 2) {
		return 0;
	}
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return 0;
	return (int)(quota / period + (quota % period > 0));
}

int cores_quota(const char *root)
{
	struct cgroup g;
	int least = 0, n;

	if (!cgroup_find(&g, root, "cpu"))
		return 0;
	do {
		n = quota_of(&g, root);
		if (n && (!least || n < least))
			least = n;
	} while (cgroup_up(&g));
	return least;
}
