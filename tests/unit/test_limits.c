/* test_limits.c - the limit of processes that was met is named, with its value and a cure. */
#include "base/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ringup.h"
#include "tap.h"

static char root[] = "/tmp/test_limits.XXXXXX", said[256];

static void put(const char *path, const char *text)
{
	if (file_write(root, path, 0644, text, strlen(text), NULL))
		printf("# cannot write %s%s\n", root, path);
}

static const char *say(long long most)
{
	limits_of_processes(root, most, said, sizeof(said));
	return said;
}

int main(void)
{
	struct err e = { 0 };
	char cmd[64];

	if (!mkdtemp(root))
		return 1;
	ok(!*say(-1), "no limit is known: %s", said);
	ok(strstr(say(50),
		  "is limited to 50 processes and threads: raise that limit (ulimit -u)"),
	   "the user's: %s", said);
	put("/proc/self/cgroup", "0::/pod/box\n");
	put("/sys/fs/cgroup/pod/pids.max", "40\n");
	put("/sys/fs/cgroup/pod/pids.current", "40\n");
	put("/sys/fs/cgroup/pod/box/pids.max", "max\n");
	put("/sys/fs/cgroup/pod/box/pids.current", "30\n");
	ok(!strcmp(say(-1),
		   "; control group /pod is limited to 40 processes and threads: raise its "
		   "pids.max"),
	   "a group's above: %s", said);
	ok(strstr(say(30), "control group /pod is limited to 40"),
	   "it is full, so it is the one: %s", said);
	put("/sys/fs/cgroup/pod/pids.current", "20\n");
	ok(strstr(say(30), "is limited to 30 processes"),
	   "it is not, and the user may have fewer: %s", said);
	ok(strstr(say(100), "control group /pod"), "the user may have more: %s", said);
	put("/sys/fs/cgroup/pod/box/pids.max", "31\n");
	ok(strstr(say(-1), "control group /pod/box is limited to 31"),
	   "the one with the fewest left: %s", said);
	ok(limits_fail(&e, ENOENT, "thread %d", 3) == RINGUP_ESYSTEM &&
		   !strcmp(e.text, "thread 3: No such file or directory"),
	   "no limit for other errors: %s", e.text);
	ok(limits_fail(&e, EAGAIN, "thread") == RINGUP_ESYSTEM && e.os == EAGAIN &&
		   !strncmp(e.text, "thread: Resource temporarily unavailable", 40),
	   "the error comes first: %s", e.text);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", root);
	return system(cmd) || tap_done();
}
