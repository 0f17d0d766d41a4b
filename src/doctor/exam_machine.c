/* exam_machine.c - examine the node's network and limits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <net/if.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/pidstat.h"
#include "detect/netfacts.h"
#include "doctor/exam.h"
#include "host/cores.h"
#include "nicpick/lint.h"
#include "nicpick/picker.h"

#define MIB ((uint64_t)1 << 20)

enum {
	SHM_LEAST_MIB = 512,
	TEMP_LEAST_MIB = 256,
	FILES_LEAST = 1024,
	PROCESSES_LEAST = 256,
	RDMA_LEAST_MIB = 64,
	INODES_LEAST = 64,
};

/* Formats a size: "1.5 GiB". */
static const char *size_text(uint64_t bytes, char out[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	int u = 0;

	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	snprintf(out, 32, v < 10 && u ? "%.1f %s" : "%.0f %s", v, units[u]);
	return out;
}

/* Network. */

/* Adds where the finding @f is, and the line or command that fixes it. */
static void why_lint(struct exam *x, const struct lint_finding *f)
{
	char why[2048], todo[2048];

	snprintf(why, sizeof(why), "%.300s: %.500s: %.500s", f->where, f->line ? f->line : "",
		 f->what);
	snprintf(todo, sizeof(todo), "in %.300s write: %.1000s", f->where,
		 f->fix ? f->fix : "");
	exam_why(x, f->line ? why : f->what,
		 !f->fix            ? "ringup net lint"
		 : *f->where == '/' ? todo
				    : f->fix);
}

static void add_lint(struct exam *x, const struct snapshot *s, struct err *e, int *rc)
{
	struct lint_report r = { 0 };
	int i, errors = 0, warnings = 0;

	*rc = lint_run(&r, s, e);
	for (i = 0; i < r.n; i++) {
		errors += r.findings[i].severity == LINT_ERROR;
		warnings += r.findings[i].severity == LINT_WARNING;
	}
	if (!*rc && errors + warnings) {
		exam_add(x, errors ? EXAM_BAD : EXAM_NOTE,
			 "settings: %d error%s, %d warning%s%s", errors, errors == 1 ? "" : "s",
			 warnings, warnings == 1 ? "" : "s",
			 errors + warnings > 1 ? "; ringup net lint lists all" : "");
		for (i = 0; i < r.n; i++)
			if (r.findings[i].severity == (errors ? LINT_ERROR : LINT_WARNING))
				break;
		why_lint(x, &r.findings[i]);
	} else if (!*rc) {
		exam_add(x, EXAM_GOOD, "settings: ok");
	}
	lint_free(&r);
}

static void add_choice(struct exam *x, const struct snapshot *s, struct err *e, int *rc)
{
	struct own_hint h = { .interface = x->conf && exam_is_live(x) ? x->conf->interface : "",
			      .any = true };
	struct picked own = { 0 };
	const struct pick_role *role;

	*rc = netfacts_choose(s, h, &own, e);
	role = &own.roles[0];
	if (!*rc && role->npicks) {
		exam_add(x, EXAM_GOOD, "ringup uses %s between hosts",
			 role->picks[0].interface);
	} else if (!*rc) {
		exam_add(x, EXAM_BAD, "no interface that ringup can use between hosts");
		exam_why(x, role->error, "ringup net explain");
	}
	picker_free(&own);
}

/* Reports a finding where nothing that this host's processes say to each other arrives. */
static bool add_loopback(struct exam *x, const struct iface_list *l)
{
	for (int i = 0; i < l->nifaces; i++)
		if (l->ifaces[i].kind == IFACE_LOOPBACK && l->ifaces[i].flags & IFF_UP)
			return true;
	exam_add(x, EXAM_BAD, "the loopback interface is down");
	exam_why(x, "ranks on one host, their launcher and most frameworks connect through it",
		 "ip link set lo up");
	return false;
}

int exam_network(struct exam *x, struct err *e)
{
	struct netfacts_from from = { .root = x->root, .resolve = true };
	struct snapshot s = { 0 };
	struct err why = { 0 };
	int rc = 0;

	/* A tree has no record of the node's interfaces. */
	if (!exam_is_live(x)) {
		exam_add(x, EXAM_NOTE, "not checked: a tree below --root has no interfaces");
		exam_why(x, NULL, "ringup net lint --snapshot FILE");
		return 0;
	}
	if (netfacts_read(&s, &from, &why)) {
		exam_add(x, EXAM_BAD, "cannot be read: %s", why.text);
	} else {
		if (add_loopback(x, &s.ifaces))
			add_choice(x, &s, e, &rc);
		if (!rc)
			add_lint(x, &s, e, &rc);
		exam_proxies(x, &s.ifaces);
	}
	snapshot_free(&s);
	return rc;
}

/* Limits. */

/* The first entry of the folder @dir that begins with @prefix, in @out; false: none. */
static bool first_entry(const char *dir, const char *prefix, char out[NAME_MAX + 1])
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	bool any = false;

	*out = 0;
	while (d && !any && (entry = readdir(d)))
		any = *entry->d_name != '.' && !strncmp(entry->d_name, prefix, strlen(prefix));
	if (any)
		snprintf(out, NAME_MAX + 1, "%s", entry->d_name);
	if (d)
		closedir(d);
	return any;
}

/* Has this node an RDMA device that programs can open? */
static bool has_rdma(void)
{
	char name[NAME_MAX + 1];

	return first_entry("/sys/class/infiniband", "", name) &&
	       first_entry("/dev/infiniband", "uverbs", name);
}

/* Reports RDMA devices that the kernel shows and that programs here cannot use: NCCL, UCX and
 * libfabric then take sockets, which is many times slower. */
static void add_rdma(struct exam *x)
{
	char device[NAME_MAX + 1], verbs[NAME_MAX + 1], path[PATH_MAX];
	static const char why[] = "NCCL, UCX and libfabric use sockets instead, and are slower";

	if (!first_entry("/sys/class/infiniband", "", device))
		return;
	if (!first_entry("/dev/infiniband", "uverbs", verbs)) {
		exam_add(x, EXAM_NOTE,
			 "RDMA: the kernel has %.64s, but /dev/infiniband/uverbs* is missing",
			 device);
		exam_why(x, why,
			 "start the container with docker run --device=/dev/infiniband, or on "
			 "Kubernetes with an RDMA device plug-in; on the host, run modprobe "
			 "ib_uverbs");
		return;
	}
	snprintf(path, sizeof(path), "/dev/infiniband/%s", verbs);
	if (access(path, R_OK | W_OK)) {
		exam_add(x, EXAM_NOTE, "RDMA: this user cannot open %s: %s", path,
			 strerror(errno));
		exam_why(x, why,
			 "chmod 666 /dev/infiniband/uverbs*; the package rdma-core has "
			 "a udev rule for it");
	}
}

/* Does the kernel let this process lock any amount of memory?  Only of the machine's root, not
 * of a user namespace's. */
static bool is_lock_exempt(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	unsigned inside = 0, outside = 0, count = 0;
	char map[128];

	pidstat_file(getpid(), "uid_map", map, sizeof(map));
	return !syscall(SYS_capget, &h, data) && data[0].effective & 1U << CAP_IPC_LOCK &&
	       sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && !outside &&
	       count == UINT_MAX;
}

static void add_memlock(struct exam *x)
{
	static const char todo[] = "set memlock to unlimited in /etc/security/limits.conf, or "
				   "LimitMEMLOCK=infinity, or docker run --ulimit memlock=-1";
	struct rlimit l;
	bool rdma = has_rdma();
	char size[32];

	if (getrlimit(RLIMIT_MEMLOCK, &l))
		return;
	if (l.rlim_cur == RLIM_INFINITY) {
		exam_add(x, EXAM_GOOD, "locked memory: unlimited");
	} else if (rdma && l.rlim_cur < RDMA_LEAST_MIB * MIB && is_lock_exempt()) {
		exam_add(x, EXAM_NOTE,
			 "locked memory: at most %s, except for root (CAP_IPC_LOCK)",
			 size_text(l.rlim_cur, size));
		exam_why(x,
			 "this node has an RDMA device, which other users' jobs cannot use if "
			 "they have this limit",
			 todo);
	} else if (rdma && l.rlim_cur < RDMA_LEAST_MIB * MIB) {
		exam_add(x, EXAM_BAD, "locked memory: at most %s", size_text(l.rlim_cur, size));
		exam_why(x, "this node has an RDMA device, which needs locked memory", todo);
	} else {
		exam_add(x, EXAM_GOOD, "locked memory: at most %s; %s",
			 size_text(l.rlim_cur, size),
			 rdma ? "enough" : "no RDMA device needs more");
	}
}

static void add_files(struct exam *x)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return;
	if (l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= FILES_LEAST) {
		exam_add(x, EXAM_GOOD, "open files: %lld",
			 l.rlim_cur == RLIM_INFINITY ? -1LL : (long long)l.rlim_cur);
		return;
	}
	exam_add(x, EXAM_BAD, "open files: %lld", (long long)l.rlim_cur);
	exam_why(x,
		 "each rank keeps connections to others open, and data loaders open many files",
		 "run ulimit -n 65536; make it permanent in /etc/security/limits.conf");
}

/* Reports a file system without free inodes, even if it has free space. */
static bool add_inodes(struct exam *x, const char *what, const char *dir,
		       const struct statvfs *v)
{
	char todo[PATH_MAX + 64];

	/* Some file systems do not count inodes. */
	if (!v->f_files || v->f_favail >= INODES_LEAST)
		return false;
	exam_add(x, EXAM_BAD, "%s: %s has inodes for %lld more files", what, dir,
		 (long long)v->f_favail);
	snprintf(todo, sizeof(todo), "remove files there; df -i %s shows how many it takes",
		 dir);
	exam_why(x,
		 "programs fail with \"No space left on device\", although df shows free space",
		 todo);
	return true;
}

/* Reports a user without a name or a home directory; root has both. */
static void add_user(struct exam *x)
{
	static const char *const told[] = { "LOGNAME", "USER", "LNAME", "USERNAME" };
	const char *home = conf_env("HOME");
	bool is_named = getpwuid(geteuid());

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		is_named |= conf_env(told[i]) && *conf_env(told[i]);
	if (!is_named) {
		exam_add(x, EXAM_NOTE, "the user %u has no name in /etc/passwd", geteuid());
		exam_why(x,
			 "torch.compile and others fail with KeyError: "
			 "'getpwuid(): uid not found'",
			 "export USER=trainer HOME=/tmp");
	} else if (home && access(home, W_OK | X_OK)) {
		exam_add(x, EXAM_NOTE, "the home directory %s is not writable", home);
		exam_why(x, "torch.compile, Triton, pip and others keep their caches there",
			 "export HOME=/tmp, or XDG_CACHE_HOME and TRITON_CACHE_DIR");
	}
}

static void add_shm(struct exam *x)
{
	struct statvfs v;
	char size[32], left[32];
	uint64_t all, free_bytes;

	if (statvfs("/dev/shm", &v)) {
		exam_add(x, EXAM_BAD, "shared memory: /dev/shm is missing");
		exam_why(x, "NCCL, MPI and torch's data loaders keep their buffers there",
			 "mount -t tmpfs tmpfs /dev/shm");
		return;
	}
	if (v.f_flag & ST_RDONLY || access("/dev/shm", W_OK)) {
		bool fixed = v.f_flag & ST_RDONLY;

		exam_add(x, EXAM_BAD, "shared memory: /dev/shm %s",
			 fixed ? "is read-only" : "is not writable for this user");
		exam_why(x, "NCCL, MPI and torch's data loaders keep their buffers there",
			 fixed ? "mount -o remount,rw /dev/shm" : "chmod 1777 /dev/shm");
		return;
	}
	if (add_inodes(x, "shared memory", "/dev/shm", &v))
		return;
	all = (uint64_t)v.f_blocks * v.f_frsize;
	free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (all >= SHM_LEAST_MIB * MIB && free_bytes >= all / 10) {
		exam_add(x, EXAM_GOOD, "shared memory: %s, %s free", size_text(all, size),
			 size_text(free_bytes, left));
		return;
	}
	exam_add(x, EXAM_BAD, "shared memory: %s, %s free", size_text(all, size),
		 size_text(free_bytes, left));
	exam_why(x,
		 "NCCL, MPI and torch's data loaders keep their buffers there, and SIGBUS "
		 "kills them when it is full",
		 all < SHM_LEAST_MIB * MIB ? "docker run --shm-size=8g, or mount -o "
					     "remount,size=50% /dev/shm"
					   : "ls -l /dev/shm; remove files of dead jobs");
}

static void add_temporary(struct exam *x)
{
	const char *told = conf_env("TMPDIR"), *dir = told && *told ? told : "/tmp";
	char size[32], todo[PATH_MAX + 64];
	struct statvfs v;
	uint64_t left;

	if (statvfs(dir, &v)) {
		exam_add(x, EXAM_BAD, "temporary files: %s%s cannot be used: %s",
			 told ? "TMPDIR=" : "", dir, strerror(errno));
		snprintf(todo, sizeof(todo), "mkdir -p %s%s", dir,
			 told ? ", or unset TMPDIR" : "");
		exam_why(x, "Python, torch and launchers write files there when they start",
			 todo);
		return;
	}
	if (v.f_flag & ST_RDONLY || access(dir, W_OK | X_OK)) {
		exam_add(x, EXAM_BAD, "temporary files: %s is not writable", dir);
		exam_why(x, "Python, torch and launchers write files there when they start",
			 "set TMPDIR to a folder that you own");
		return;
	}
	if (v.f_flag & ST_NOEXEC) {
		exam_add(x, EXAM_NOTE, "temporary files: %s is mounted noexec", dir);
		exam_why(x,
			 "torch.compile, Triton and pip's builds load libraries that they "
			 "compile there",
			 "set TMPDIR to a folder on a file system without noexec");
	}
	if (add_inodes(x, "temporary files", dir, &v))
		return;
	left = (uint64_t)v.f_bavail * v.f_frsize;
	exam_add(x, left < TEMP_LEAST_MIB * MIB ? EXAM_BAD : EXAM_GOOD,
		 "temporary files: %s, %s free", dir, size_text(left, size));
	if (left < TEMP_LEAST_MIB * MIB)
		exam_why(x, "programs fail with various errors when it is full",
			 "free some space, or set TMPDIR to a larger file system");
}

/* The fewest processes that groups from this process's up to the root still take; -1: any
 * number. */
static long long group_processes(void)
{
	char most[CGROUP_TEXT], now[CGROUP_TEXT];
	long long least = -1, left;
	struct cgroup g;

	if (!cgroup_find(&g, "", "pids"))
		return -1;
	do {
		if (cgroup_read(&g, "", "pids.max", most) &&
		    cgroup_read(&g, "", "pids.current", now) && *most != 'm') {
			left = atoll(most) - atoll(now);
			left = left > 0 ? left : 0;
			least = least < 0 || left < least ? left : least;
		}
	} while (cgroup_up(&g));
	return least;
}

static void add_processes(struct exam *x)
{
	long long left = group_processes();
	struct rlimit l;

	if (left >= 0 && left < PROCESSES_LEAST) {
		exam_add(x, EXAM_BAD, "processes: the control group allows only %lld more",
			 left);
		exam_why(x, "each rank has dozens of threads, and every thread counts",
			 "raise its pids.max, or use docker run --pids-limit=-1");
	} else if (!getrlimit(RLIMIT_NPROC, &l) && l.rlim_cur < PROCESSES_LEAST) {
		exam_add(x, EXAM_BAD, "processes: this user may have at most %lld",
			 (long long)l.rlim_cur);
		exam_why(x, "each rank has dozens of threads, and every thread counts",
			 "run ulimit -u 65536; make it permanent in /etc/security/limits.conf");
	} else if (left >= 0) {
		exam_add(x, EXAM_GOOD, "processes: %lld more", left);
	} else {
		exam_add(x, EXAM_GOOD, "processes: enough");
	}
}

/* The lowest limit from this process's group up to the root; 0: none. */
static uint64_t memory_limit(void)
{
	struct cgroup g;
	char value[CGROUP_TEXT];
	uint64_t least = 0;

	if (!cgroup_find(&g, "", "memory"))
		return 0;
	do {
		unsigned long long v;

		if (cgroup_read(&g, "", g.version == 1 ? "memory.limit_in_bytes" : "memory.max",
				value) &&
		    sscanf(value, "%llu", &v) == 1 && v < (1ULL << 60) && (!least || v < least))
			least = v;
	} while (cgroup_up(&g));
	return least;
}

static void add_memory(struct exam *x)
{
	uint64_t limit = memory_limit();
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	char size[32], whole[32];

	if (limit && limit < all)
		exam_add(x, EXAM_GOOD,
			 "memory: the control group allows %s of the machine's %s",
			 size_text(limit, size), size_text(all, whole));
	else
		exam_add(x, EXAM_GOOD, "memory: %s, no control group limit",
			 size_text(all, whole));
}

static void add_processors(struct exam *x)
{
	unsigned char mask[CORES_MASK_BYTES];
	int may, quota = cores_quota("");

	cores_mask(mask);
	may = cores_count(mask);
	if (quota && quota < may) {
		exam_add(x, EXAM_NOTE, "processors: %d, but the control group's quota is %d",
			 may, quota);
		exam_why(x, "the kernel throttles ranks that use more",
			 "start at most that many ranks, or raise the group's cpu.max");
	} else {
		exam_add(x, EXAM_GOOD, "processors: %d", may);
	}
}

/* Limits of the process that shells and batch systems set, and that no job expects. */
static void add_process_limits(struct exam *x)
{
	static const struct {
		int resource;
		uint64_t least; /* below it nothing works */
		const char *what, *why, *todo;
	} all[] = {
		{ RLIMIT_AS, 8192 * MIB, "address space (virtual memory)",
		  "imports fail with \"failed to map segment from shared object\"; CUDA "
		  "reserves "
		  "far more than it uses",
		  "run ulimit -v unlimited; batch systems: ask for no h_vmem or pvmem" },
		{ RLIMIT_DATA, 2048 * MIB, "data segment",
		  "programs fail with \"Cannot allocate memory\"", "run ulimit -d unlimited" },
		{ RLIMIT_FSIZE, 64 * MIB, "size of files",
		  "larger checkpoints and shared memory end a program with SIGXFSZ",
		  "run ulimit -f unlimited" },
	};
	struct rlimit l;
	char size[32];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (getrlimit((__rlimit_resource_t)all[i].resource, &l) ||
		    l.rlim_cur == RLIM_INFINITY)
			continue;
		exam_add(x, l.rlim_cur < all[i].least ? EXAM_BAD : EXAM_NOTE, "%s: at most %s",
			 all[i].what, size_text(l.rlim_cur, size));
		exam_why(x, all[i].why, all[i].todo);
	}
	if (!getrlimit(RLIMIT_CPU, &l) && l.rlim_cur != RLIM_INFINITY) {
		exam_add(x, EXAM_NOTE, "processor time: at most %llu s for each process",
			 (unsigned long long)l.rlim_cur);
		exam_why(x, "the kernel kills it with SIGXCPU", "run ulimit -t unlimited");
	}
}

/* Reports a kernel that promises no more memory than it has, as CUDA asks it to. */
static void add_overcommit(struct exam *x)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = f ? fgetc(f) : 0;

	if (f)
		fclose(f);
	if (mode != '2')
		return;
	exam_add(x, EXAM_NOTE,
		 "memory: the kernel does not overcommit (vm.overcommit_memory=2)");
	exam_why(x,
		 "CUDA, and fork() in large processes, fail with \"Cannot allocate memory\" "
		 "although memory is free",
		 "sudo sysctl vm.overcommit_memory=0");
}

/* Reports file systems of the kernel that a chroot or a sandbox lacks. */
static void add_mounts(struct exam *x)
{
	if (access("/proc/self", F_OK)) {
		exam_add(x, EXAM_BAD, "/proc is not mounted");
		exam_why(x,
			 "Python, MPI and CUDA read processes, memory and drivers there; the "
			 "lines on GPUs and control groups below are incomplete",
			 "mount -t proc proc /proc");
	}
	if (access("/sys/class", F_OK)) {
		exam_add(x, EXAM_BAD, "/sys is not mounted");
		exam_why(x, "NCCL, UCX and hwloc find interfaces, GPUs and processors there",
			 "mount -t sysfs sysfs /sys");
	}
}

int exam_limits(struct exam *x, struct err *e)
{
	(void)e;
	if (!exam_is_live(x)) {
		exam_add(x, EXAM_NOTE,
			 "not checked: limits belong to running processes, not to a tree below "
			 "--root");
		return 0;
	}
	add_mounts(x);
	add_user(x);
	add_rdma(x);
	add_memlock(x);
	add_files(x);
	add_processes(x);
	add_process_limits(x);
	add_shm(x);
	add_temporary(x);
	add_memory(x);
	add_overcommit(x);
	add_processors(x);
	return 0;
}
