/* test_cores.c - affinity and quotas, live and recorded. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "host/cores.h"
#include "tap.h"

static void put(const char *root, const char *path, const char *text)
{
	if (file_write(root, path, 0644, text, strlen(text), NULL))
		printf("# cannot write %s%s\n", root, path);
}

/* As recorded on a cluster of the older kind: two controllers in one hierarchy. */
static void version_1(const char *root)
{
	put(root, "/proc/self/cgroup",
	    "12:memory:/slurm/job_7\n4:cpuacct,cpu:/slurm/job_7/step_0\n"
	    "3:cpuset:/\n1:name=systemd:/user.slice\n0::/\n");
	put(root, "/sys/fs/cgroup/cpu/slurm/job_7/step_0/cpu.cfs_quota_us", "-1\n");
	put(root, "/sys/fs/cgroup/cpu/slurm/job_7/step_0/cpu.cfs_period_us", "100000\n");
	ok(cores_quota(root) == 0, "version 1: -1 is no quota");
	put(root, "/sys/fs/cgroup/cpu/slurm/job_7/cpu.cfs_quota_us", "350000\n");
	put(root, "/sys/fs/cgroup/cpu/slurm/job_7/cpu.cfs_period_us", "100000\n");
	ok(cores_quota(root) == 4, "three and a half, of the group above, are four");
	put(root, "/sys/fs/cgroup/cpu/slurm/job_7/step_0/cpu.cfs_quota_us", "100000\n");
	ok(cores_quota(root) == 1, "the smallest counts");
	put(root, "/sys/fs/cgroup/cpu/slurm/job_7/step_0/cpu.cfs_period_us", "0\n");
	ok(cores_quota(root) == 4, "no period: no quota");
	put(root, "/proc/self/cgroup", "9:cpuset:/slurm/job_7\n8:cpuacct:/slurm/job_7\n");
	ok(cores_quota(root) == 0, "other controllers' groups are not asked");
	put(root, "/proc/self/cgroup", "4:cpu:/docker/0123\n");
	put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
	put(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	ok(cores_quota(root) == 2, "a container sees its own root only");
}

/* To a file of the kernel's: no other takes its place. */
static void tell(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (f && fputs(text, f) >= 0 && !fclose(f))
		return;
	printf("# cannot write %s\n", path);
}

/* One processor's worth of time, for real, where that can be had. */
static void live(void)
{
	static const char group[] = "/sys/fs/cgroup/cpu/ringup.test_cores";
	char text[32];
	int n;

	if (access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", W_OK) || mkdir(group, 0755)) {
		ok(1, "a quota of one processor # SKIP no control group can be made");
		return;
	}
	snprintf(text, sizeof(text), "%d", (int)getpid());
	tell("/sys/fs/cgroup/cpu/ringup.test_cores/cpu.cfs_quota_us", "100000");
	tell("/sys/fs/cgroup/cpu/ringup.test_cores/cgroup.procs", text);
	n = cores_quota("");
	tell("/sys/fs/cgroup/cpu/cgroup.procs", text);
	rmdir(group);
	ok(n == 1, "in a group with a quota of one processor: %d", n);
}

int main(void)
{
	unsigned char mask[CORES_MASK_BYTES], one[CORES_MASK_BYTES];
	char root[] = "/tmp/test_cores.XXXXXX", cmd[64];
	cpu_set_t set;
	int i;

	cores_mask(mask);
	sched_getaffinity(0, sizeof(set), &set);
	ok(cores_count(mask) == CPU_COUNT(&set), "as many as the kernel allows: %d",
	   cores_count(mask));
	for (i = 0; !CPU_ISSET(i, &set); i++)
		;
	CPU_ZERO(&set);
	CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	cores_mask(one);
	ok(cores_count(one) == 1, "one after pinning");

	if (!mkdtemp(root))
		return 1;
	ok(cores_quota(root) == 0, "no control groups: no quota");
	put(root, "/proc/self/cgroup", "0::/a/b\n");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put(root, "/sys/fs/cgroup/a/cpu.max", "max 100000\n");
	ok(cores_quota(root) == 0, "max is no quota");
	put(root, "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
	ok(cores_quota(root) == 2, "one and a half are two");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
	ok(cores_quota(root) == 1, "the smallest up to the root counts");
	put(root, "/sys/fs/cgroup/a/b/cpu.max", "garbage\n");
	ok(cores_quota(root) == 2, "garbage is no quota");
	version_1(root);
	live();
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	ok(system(cmd) == 0, "cleaned up");
	return tap_done();
}
