/* bind.c - bind a whole process to one processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bind.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

/* The @n-th processor of @all, wrapping around at its end; below 0: from the end. */
static cpu_set_t nth(const cpu_set_t *all, int n)
{
	int i = 0, count = CPU_COUNT(all), left = (n % count + count) % count;
	cpu_set_t one;

	for (; i < CPU_SETSIZE - 1; i++)
		if (CPU_ISSET((size_t)i, all) && left-- == 0)
			break;
	CPU_ZERO(&one);
	CPU_SET((size_t)i, &one);
	return one;
}

int bind_process(pid_t pid, int n, struct err *e)
{
	char path[40];
	cpu_set_t all, one;
	struct dirent *d;
	int rc = 0;
	DIR *tasks;

	if (sched_getaffinity(0, sizeof(all), &all))
		return fail_os(e, "affinity");
	one = nth(&all, n);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return fail_os(e, "%s", path);
	while ((d = readdir(tasks)) && !rc)
		if (isdigit((unsigned char)*d->d_name) &&
		    sched_setaffinity(atoi(d->d_name), sizeof(one), &one))
			rc = fail_os(e, "process %d: affinity", (int)pid);
	closedir(tasks);
	return rc;
}
