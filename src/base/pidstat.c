/* pidstat.c - read the files, parent, state and start time of a process from /proc. */
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

ssize_t pidstat_file(pid_t pid, const char *name, char *out, size_t cap)
{
	char path[64];
	ssize_t n, len = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	out[0] = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -1;
	while ((size_t)len + 1 < cap && (n = read(fd, out + len, cap - 1 - (size_t)len)) > 0)
		len += n;
	close(fd);
	out[len] = 0;
	return len;
}

const char *pidstat_variable(const char *env, size_t len, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = env; at < env + len; at += strlen(at) + 1)
		if (!strncmp(at, name, n) && at[n] == '=')
			return at + n + 1;
	return NULL;
}

int pidstat_read(pid_t pid, struct pidstat *p)
{
	char text[1024];

	return pidstat_file(pid, "stat", text, sizeof(text)) > 0 ? pidstat_parse(text, p) : -1;
}

bool pidstat_is_alive(pid_t pid, uint64_t start)
{
	struct pidstat p;

	return !pidstat_read(pid, &p) && p.start == start && p.state != 'Z' && p.state != 'X';
}
