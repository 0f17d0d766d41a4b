/* limits.c - name the process limit that made a fork or a new thread fail. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"

/* The control group with the fewest processes left, of this process's and those above. */
struct tightest {
	char path[64]; /* its end, which tells more */
	long long most, left;
};

static bool read_number(const struct cgroup *g, const char *root, const char *file,
			long long *n)
{
	char text[CGROUP_TEXT];

	/* "max" is no number. */
	return cgroup_read(g, root, file, text) && sscanf(text, "%lld", n) == 1;
}

static bool find_tightest(const char *root, struct tightest *t)
{
	struct cgroup g;
	long long most, now;
	bool more = cgroup_find(&g, root, "pids"), found = false;

	for (; more; more = cgroup_up(&g)) {
		size_t len = strlen(g.path), shown = sizeof(t->path) - 1;

		if (!read_number(&g, root, "pids.max", &most) ||
		    !read_number(&g, root, "pids.current", &now) ||
		    (found && most - now >= t->left))
			continue;
		snprintf(t->path, sizeof(t->path), "%s",
			 len ? g.path + (len > shown ? len - shown : 0) : "/");
		t->most = most;
		t->left = most - now;
		found = true;
	}
	return found;
}

void limits_of_processes(const char *root, long long most, char *text, size_t size)
{
	struct tightest t;
	bool found = find_tightest(root, &t);

	text[0] = 0;
	/* The new one has gone already where a thread was refused, others may have, too. */
	if (found && (most < 0 || t.left < 2 || t.most < most))
		snprintf(text, size,
			 "; control group %s is limited to %lld processes and threads: raise "
			 "its pids.max",
			 t.path, t.most);
	else if (most >= 0)
		snprintf(text, size,
			 "; user %d is limited to %lld processes and threads: raise that limit "
			 "(ulimit -u)",
			 (int)geteuid(), most);
}

int limits_fail(struct err *e, int why, const char *fmt, ...)
{
	struct rlimit r;
	char step[160];
	va_list ap;
	size_t len;
	int rc;

	va_start(ap, fmt);
	vsnprintf(step, sizeof(step), fmt, ap);
	va_end(ap);
	errno = why;
	rc = fail_os(e, "%s", step);
	if (!e || why != EAGAIN)
		return rc;
	len = strlen(e->text);
	/* The kernel does not ask root. */
	if (getrlimit(RLIMIT_NPROC, &r) || r.rlim_cur == RLIM_INFINITY || !geteuid())
		r.rlim_cur = (rlim_t)-1;
	limits_of_processes("", (long long)r.rlim_cur, e->text + len, sizeof(e->text) - len);
	return rc;
}
