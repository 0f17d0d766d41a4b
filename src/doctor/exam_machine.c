/* exam_machine.c - examine network, limits and GPUs of the node. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "detect/netfacts.h"
#include "doctor/exam.h"
#include "host/cgroup.h"
#include "host/cores.h"
#include "nicpick/lint.h"
#include "nicpick/picker.h"

#define MIB ((uint64_t)1 << 20)

enum { SHM_LEAST_MIB = 512, FILES_LEAST = 1024, RDMA_LEAST_MIB = 64 };

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
		exam_add(x, errors ? EXAM_BAD : EXAM_NOTE, "settings: %d error%s, %d warning%s",
			 errors, errors == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
		for (i = 0; i < r.n; i++)
			if (r.findings[i].severity == (errors ? LINT_ERROR : LINT_WARNING))
				break;
		exam_why(x, r.findings[i].what, "ringup net lint");
	} else if (!*rc) {
		exam_add(x, EXAM_GOOD, "settings: nothing to find fault with");
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
		exam_add(x, EXAM_BAD, "ringup can use no interface between hosts");
		exam_why(x, role->error, "ringup net explain");
	}
	picker_free(&own);
}

int exam_network(struct exam *x, struct err *e)
{
	struct netfacts_from from = { .root = x->root };
	struct snapshot s = { 0 };
	struct err why = { 0 };
	int rc = 0;

	/* A tree has no record of the node's interfaces. */
	if (!exam_is_live(x)) {
		exam_add(x, EXAM_NOTE, "not looked at below a root: a tree has no interfaces");
		exam_why(x, NULL, "ringup net lint --snapshot FILE");
		return 0;
	}
	if (netfacts_read(&s, &from, &why)) {
		exam_add(x, EXAM_BAD, "it cannot be read: %s", why.text);
	} else {
		add_choice(x, &s, e, &rc);
		if (!rc)
			add_lint(x, &s, e, &rc);
	}
	snapshot_free(&s);
	return rc;
}

/* Limits. */

static bool has_rdma(void)
{
	DIR *d = opendir("/sys/class/infiniband");
	struct dirent *entry;
	bool any = false;

	while (d && !any && (entry = readdir(d)))
		any = *entry->d_name != '.';
	if (d)
		closedir(d);
	return any;
}

static void add_memlock(struct exam *x)
{
	struct rlimit l;
	bool rdma = has_rdma();
	char size[32];

	if (getrlimit(RLIMIT_MEMLOCK, &l))
		return;
	if (l.rlim_cur == RLIM_INFINITY) {
		exam_add(x, EXAM_GOOD, "locked memory: unlimited");
	} else if (rdma && l.rlim_cur < RDMA_LEAST_MIB * MIB) {
		exam_add(x, EXAM_BAD, "locked memory: at most %s", size_text(l.rlim_cur, size));
		exam_why(x, "there is an RDMA device, and it works on locked memory only",
			 "memlock unlimited in /etc/security/limits.conf, or "
			 "LimitMEMLOCK=infinity, or docker run --ulimit memlock=-1");
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
	exam_why(x, "each rank holds connections to others, and data loaders open many files",
		 "ulimit -n 65536, for good in /etc/security/limits.conf");
}

static void add_shm(struct exam *x)
{
	struct statvfs v;
	char size[32], left[32];
	uint64_t all, free_bytes;

	if (statvfs("/dev/shm", &v)) {
		exam_add(x, EXAM_BAD, "shared memory: there is no /dev/shm");
		exam_why(x, "NCCL, MPI and the data loaders of torch put their buffers there",
			 "mount -t tmpfs tmpfs /dev/shm");
		return;
	}
	all = (uint64_t)v.f_blocks * v.f_frsize;
	free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (all >= SHM_LEAST_MIB * MIB && free_bytes >= all / 10) {
		exam_add(x, EXAM_GOOD, "shared memory: %s, %s free", size_text(all, size),
			 size_text(free_bytes, left));
		return;
	}
	exam_add(x, EXAM_BAD, "shared memory: %s, %s free", size_text(all, size),
		 size_text(free_bytes, left));
	exam_why(
		x,
		"NCCL, MPI and the data loaders of torch put their buffers there, and end with "
		"SIGBUS where it is full",
		all < SHM_LEAST_MIB * MIB ? "docker run --shm-size=8g, or mount -o "
					    "remount,size=50% /dev/shm"
					  : "ls -l /dev/shm: remove what dead jobs have left");
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
		exam_add(x, EXAM_GOOD, "memory: the control group has %s of the machine's %s",
			 size_text(limit, size), size_text(all, whole));
	else
		exam_add(x, EXAM_GOOD, "memory: %s, no limit by a control group",
			 size_text(all, whole));
}

static void add_processors(struct exam *x)
{
	unsigned char mask[CORES_MASK_BYTES];
	int may, quota = cores_quota("");

	cores_mask(mask);
	may = cores_count(mask);
	if (quota && quota < may) {
		exam_add(x, EXAM_NOTE, "processors: %d, but the control group pays for %d", may,
			 quota);
		exam_why(x, "more ranks than that stand still in turn",
			 "start no more ranks than the group pays for, or raise its cpu.max");
	} else {
		exam_add(x, EXAM_GOOD, "processors: %d", may);
	}
}

int exam_limits(struct exam *x, struct err *e)
{
	(void)e;
	if (!exam_is_live(x)) {
		exam_add(x, EXAM_NOTE,
			 "not looked at below a root: they are of running processes");
		return 0;
	}
	add_memlock(x);
	add_files(x);
	add_shm(x);
	add_memory(x);
	add_processors(x);
	return 0;
}

int exam_gpus(struct exam *x, struct err *e)
{
	const json_t *cuda = json_object_get(x->facts, "cuda");
	const json_t *driver = json_object_get(cuda, "driver");
	int count = (int)json_integer_value(json_object_get(cuda, "gpu_count"));

	(void)e;
	if (count && !json_is_object(driver)) {
		exam_add(x, EXAM_BAD, "%d GPU%s, and no driver", count, count == 1 ? "" : "s");
		exam_why(x, "frameworks see no GPU without libcuda.so.1 and its kernel module",
			 "install the driver, or start the container with its GPUs "
			 "(docker run --gpus all)");
	} else if (json_is_object(driver)) {
		exam_add(x, EXAM_GOOD, "%d GPU%s, driver %s", count, count == 1 ? "" : "s",
			 *jsonio_string(driver, "version") ? jsonio_string(driver, "version")
							   : "of unknown version");
	} else {
		exam_add(x, EXAM_GOOD, "none");
	}
	return 0;
}
