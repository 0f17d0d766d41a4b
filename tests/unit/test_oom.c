/* test_oom.c - what the kernel's counters say about memory, recorded. */
/* proves: F32 of docs/RELIABILITY.md */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "host/oom.h"
#include "tap.h"

static char root[] = "/tmp/test_oom.XXXXXX";
static struct oom o;
static char said[192];

static void put(const char *path, const char *text)
{
	if (file_write(root, path, 0644, text, strlen(text), NULL))
		printf("# cannot write %s%s\n", root, path);
}

static bool says(const char *text)
{
	bool is = oom_since(&o, root, said, sizeof(said));

	if (is == (*text != 0) && !strcmp(said, text))
		return true;
	printf("# said \"%s\"\n", said);
	return false;
}

static void events(const char *n)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "low 0\nhigh 0\nmax 9\noom 1\noom_kill %s\n"
		 "oom_group_kill 7\n",
		 n);
	put("/sys/fs/cgroup/job/memory.events", text);
}

static void version_2(void)
{
	put("/proc/self/cgroup", "0::/job\n");
	put("/proc/vmstat", "nr_free_pages 12\noom_kill 31\n");
	events("2");
	oom_mark(&o, root);
	ok(says(""), "nothing new");
	events("3");
	put("/proc/vmstat", "oom_kill 32\n");
	ok(says("; out of memory in control group /job"), "version 2, its limit unknown");
	put("/sys/fs/cgroup/job/memory.max", "max\n");
	ok(says("; out of memory in control group /job"), "max is no limit");
	put("/sys/fs/cgroup/job/memory.max", "67108864\n");
	ok(says("; out of memory in control group /job (64 MiB)"), "with its limit");
	oom_mark(&o, root);
	ok(says(""), "marked anew");
	put("/proc/vmstat", "oom_kill 33\n");
	ok(says("; out of memory on this host"), "elsewhere on the host");
	events("garbage");
	ok(says("; out of memory on this host"), "garbage is no number");
}

static void version_1(void)
{
	char group[CGROUP_PATH], path[CGROUP_PATH + 64];
	int i;

	put("/proc/self/cgroup", "4:memory:/slurm/job_7/step_0\n0::/\n");
	put("/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
	put("/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.limit_in_bytes",
	    "9223372036854771712\n");
	oom_mark(&o, root);
	ok(says(""), "version 1: nothing new");
	put("/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
	ok(says("; out of memory in control group /slurm/job_7/step_0"), "without a limit");
	put("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "1073741824\n");
	ok(says("; out of memory in control group /slurm/job_7/step_0 (1024 MiB)"),
	   "the limit of the group above");

	for (i = 0; i < 200; i++)
		group[i] = i % 20 ? (char)('a' + i % 20) : '/';
	group[i] = 0;
	snprintf(path, sizeof(path), "3:memory:%s\n", group);
	put("/proc/self/cgroup", path);
	snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.oom_control", group);
	put(path, "oom_kill 4\n");
	oom_mark(&o, root);
	put(path, "oom_kill 5\n");
	ok(oom_since(&o, root, said, sizeof(said)) && strlen(said) < 130 &&
		   strstr(said, "control group .../") && strstr(said, group + 120),
	   "of a long path the end");
}

int main(void)
{
	char cmd[64];

	if (!mkdtemp(root))
		return 1;
	oom_mark(&o, root);
	ok(says(""), "without control groups and counters nothing is said");
	version_2();
	version_1();
	put("/proc/self/cgroup", "4:memory:/docker/0123\n");
	put("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n");
	oom_mark(&o, root);
	put("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill 1\n");
	ok(says("; out of memory in control group /"), "a container sees its own root only");
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
