/* cores.c - how many processors this process may really use. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/cores.h"

#include <limits.h>
#include <sched.h>
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

/* "max 100000" or "150000 100000": quota and period in microseconds. */
static int quota_of(const char *root, const char *group)
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
	if (sscanf(text, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0 &&
	    quota / period < INT_MAX)
		n = (int)((quota + period - 1) / period);
	free(text);
	return n;
}

int cores_quota(const char *root)
{
	char *text, *group, *end;
	int least = 0, n;
	size_t len;

	if (file_read(root, "/proc/self/cgroup", 65536, &text, &len, NULL))
		return 0;
	group = strstr(text, "0::/");
	if (group && (group == text || group[-1] == '\n')) {
		group += 3;
		group[strcspn(group, "\n")] = 0;
		for (;;) {
			n = quota_of(root, strcmp(group, "/") ? group : "");
			if (n && (!least || n < least))
				least = n;
			end = strrchr(group, '/');
			if (!end || !*group)
				break;
			*end = 0;
		}
	}
	free(text);
	return least;
}
