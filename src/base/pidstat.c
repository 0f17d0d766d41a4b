/* pidstat.c - a process's parent, session, state and start time, from /proc/PID/stat. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pidstat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int pidstat_parse(const char *text, struct pidstat *p)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	long pid, parent, group, session;
	unsigned long long start;
	size_t len;
	char state;

	/* The name may contain any bytes, also ") R 1 2 3". */
	if (!open || !close || close < open)
		return -1;
	if (sscanf(text, "%ld (", &pid) != 1)
		return -1;
	if (sscanf(close + 1,
		   " %c %ld %ld %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		   "%*d %llu",
		   &state, &parent, &group, &session, &start) != 5)
		return -1;
	*p = (struct pidstat){ (pid_t)pid, (pid_t)parent, (pid_t)session, state, start, "" };
	len = (size_t)(close - open - 1);
	if (len >= sizeof(p->name))
		len = sizeof(p->name) - 1;
	memcpy(p->name, open + 1, len);
	return 0;
}

int pidstat_read(pid_t pid, struct pidstat *p)
{
	char path[32], text[1024];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = 0;
	return pidstat_parse(text, p);
}

bool pidstat_is_alive(pid_t pid, uint64_t start)
{
	struct pidstat p;

	return !pidstat_read(pid, &p) && p.start == start && p.state != 'Z' && p.state != 'X';
}
