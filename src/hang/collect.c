/* collect.c - saves all it can learn about a hung job to a folder, within a time limit. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/collect.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/pidstat.h"
#include "base/proc.h"
#include "hang/jobs.h"
#include "hang/ras.h"
#include "ringup.h"
#include "wire/observe.h"

enum { ITEM_MS = 2500, OUTPUT = 4 << 20, DUMP = 64 << 20, TAIL = 64 << 10, MOST_RANKS = 256 };

struct collection {
	const char *dir;
	int64_t until_ns;
	char missing[4096];
	size_t len;
};

static int item_ms(const struct collection *c)
{
	int left = clock_left_ms(c->until_ns);

	return left < ITEM_MS ? left : ITEM_MS;
}

static void lack(struct collection *c, const char *name, const char *why)
{
	int n = snprintf(c->missing + c->len, sizeof(c->missing) - c->len, "%s: %s\n", name,
			 why);

	if (n > 0 && (size_t)n < sizeof(c->missing) - c->len)
		c->len += (size_t)n;
}

static void keep(struct collection *c, const char *name, const void *data, size_t len)
{
	char path[PATH_MAX];
	struct err e;

	if (snprintf(path, sizeof(path), "%s/%s", c->dir, name) >= (int)sizeof(path))
		return;
	if (file_write("", path, 0600, data, len, &e))
		lack(c, name, e.text);
}

/* The output of a program. */
static void keep_output(struct collection *c, const char *name, const char *const *argv)
{
	char *out = NULL;
	struct err e = { 0 };
	int status, ms = item_ms(c);

	if (ms <= 0) {
		lack(c, name, "no time left");
		return;
	}
	if (proc_capture((char *const *)(uintptr_t)argv, OUTPUT, ms, &out, &status, &e))
		lack(c, name, e.text);
	else if (!*out)
		lack(c, name, "no output, which may need root");
	else
		keep(c, name, out, strlen(out));
	free(out);
}

/* ---- a rank ---- */

/* Files of /proc, one behind the other. */
static void keep_state(struct collection *c, const char *name, pid_t pid)
{
	static const char *const files[] = { "cmdline", "status", "wchan",  "syscall",
					     "stack",   "io",     "limits", "cgroup" };
	char text[64 << 10], path[64];
	size_t at = 0;
	ssize_t n;
	int fd;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, "== %s\n", files[i]);
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text + at, 6000);
		if (fd >= 0)
			close(fd);
		for (ssize_t k = 0; k < n; k++)
			if (!text[at + (size_t)k])
				text[at + (size_t)k] = ' ';
		at += n > 0 ? (size_t)n : 0;
		text[at++] = '\n';
	}
	keep(c, name, text, at);
}

/* The end of what @pid writes to descriptor @of, if that is a file. */
static void keep_tail(struct collection *c, const char *name, pid_t pid, int of)
{
	char path[64], *text = malloc(TAIL);
	struct stat st;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, of);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (text && fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		n = pread(fd, text, TAIL, st.st_size > TAIL ? st.st_size - TAIL : 0);
	if (n > 0)
		keep(c, name, text, (size_t)n);
	if (fd >= 0)
		close(fd);
	free(text);
}

struct kept_page {
	struct collection *in;
	int rank;
	bool kept;
};

/* The last operations that the rank has begun, of its page. */
static void keep_page(void *arg, int fd)
{
	struct kept_page *k = arg;
	char text[OBSERVE_RECORDS * (OBSERVE_TEXT + 64)] = "", name[64];
	struct observed x;
	struct err e;
	size_t at = 0;

	if (k->kept || observe_read(fd, &x, &e))
		return;
	for (int i = 0; i < x.page.records; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "%.1f s ago: %s (number %u)\n",
				       (double)(clock_ns() - x.page.record[i].at_ns) / 1e9,
				       x.page.record[i].what, x.page.record[i].number);
	snprintf(name, sizeof(name), "rank-%d.operations", k->rank);
	if (at)
		keep(k->in, name, text, at);
	k->kept = true;
	observe_free(&x);
}

static void keep_rank(struct collection *c, const struct job_rank *r)
{
	struct kept_page page = { c, r->rank, false };
	char name[64], pid[16];
	const char *const native[] = { "eu-stack", "-m", "-s", "-p", pid, NULL };
	const char *const python[] = { "py-spy", "dump", "--nonblocking", "--pid", pid, NULL };

	snprintf(pid, sizeof(pid), "%d", (int)r->pid);
	snprintf(name, sizeof(name), "rank-%d.state", r->rank);
	keep_state(c, name, r->pid);
	observe_find(r->pid, keep_page, &page);
	snprintf(name, sizeof(name), "rank-%d.stdout", r->rank);
	keep_tail(c, name, r->pid, 1);
	snprintf(name, sizeof(name), "rank-%d.stderr", r->rank);
	keep_tail(c, name, r->pid, 2);
	snprintf(name, sizeof(name), "rank-%d.python", r->rank);
	if (r->is_python)
		keep_output(c, name, python);
	snprintf(name, sizeof(name), "rank-%d.stack", r->rank);
	keep_output(c, name, native);
}

/* ---- what libraries tell ---- */

/* When did @r begin, as files tell time? */
static time_t begun_at(const struct job_rank *r)
{
	struct timespec boot, now;
	long hz = sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - boot.tv_sec + (time_t)(r->start / (uint64_t)(hz > 0 ? hz : 100));
}

static bool keep_dump(struct collection *c, const struct job_rank *r, const char *prefix)
{
	char path[PATH_MAX + 32], name[64], *data = NULL;
	struct stat st;
	struct err e;
	size_t len;

	snprintf(path, sizeof(path), "%s%d", prefix, r->rank);
	snprintf(name, sizeof(name), "trace_rank_%d", r->rank);
	/* An older one is another job's. */
	if (stat(path, &st) || !S_ISREG(st.st_mode) || st.st_mtime < begun_at(r))
		return false;
	if (file_read("", path, DUMP, &data, &len, &e))
		lack(c, name, e.text);
	else
		keep(c, name, data, len);
	free(data);
	return true;
}

/* The flight record that torch.distributed has written, by its variables or by default. */
static void keep_flight(struct collection *c, const struct job_rank *r)
{
	static const char *const names[] = { "TORCH_FR_DUMP_TEMP_FILE",
					     "TORCH_NCCL_DEBUG_INFO_TEMP_FILE" };
	static const char *const homes[][2] = { { "XDG_CACHE_HOME", "" },
						{ "HOME", "/.cache" } };
	char *env = malloc(JOBS_ENVIRON), prefix[PATH_MAX];
	ssize_t len = env ? pidstat_file(r->pid, "environ", env, JOBS_ENVIRON) : -1;
	const char *value;
	bool kept = false;

	for (int i = 0; i < 2 && len > 0 && !kept; i++)
		if ((value = pidstat_variable(env, (size_t)len, names[i])))
			kept = keep_dump(c, r, value);
	for (int i = 0; i < 2 && len > 0 && !kept; i++)
		if ((value = pidstat_variable(env, (size_t)len, homes[i][0]))) {
			snprintf(prefix, sizeof(prefix), "%.4000s%s/torch/comm_lib_trace_rank_",
				 value, homes[i][1]);
			kept = keep_dump(c, r, prefix);
		}
	if (!kept)
		keep_dump(c, r, "/tmp/nccl_trace_rank_");
	free(env);
}

/* NCCL's own report, if the job uses it and may be asked. */
static void keep_ras(struct collection *c, const struct hang_job *j)
{
	char version[RAS_VERSION], where[128] = "", *out = NULL;
	int64_t until = clock_deadline(item_ms(c));
	const char *hazard;
	struct err e;
	size_t len;

	for (int i = 0; i < j->ranks && i < 8 && !*where; i++)
		if (!ras_of(j->rank[i].pid, version, where))
			*where = 0;
	if (!*where)
		return;
	hazard = ras_hazard(version, j->size);
	if (hazard)
		lack(c, "ras", hazard);
	else if (ras_fetch(where, until, &out, &len, &e))
		lack(c, "ras", e.text);
	else
		keep(c, "ras", out, len);
	free(out);
}

int collect_job(const char *dir, const struct hang_job *j, int64_t until_ns, struct err *e)
{
	static const char *const sockets[] = { "ss", "-tanpi", NULL };
	static const char *const kernel[] = { "dmesg", "--time-format=iso", NULL };
	struct collection c = { .dir = dir, .until_ns = until_ns };
	char path[PATH_MAX];

	keep_output(&c, "sockets", sockets);
	keep_output(&c, "kernel", kernel);
	keep_ras(&c, j);
	for (int i = 0; i < j->ranks && i < MOST_RANKS; i++)
		keep_flight(&c, &j->rank[i]);
	for (int i = 0; i < j->ranks && i < MOST_RANKS; i++)
		keep_rank(&c, &j->rank[i]);
	if (j->ranks > MOST_RANKS)
		lack(&c, "ranks", "of the first 256 only");
	if (!c.len)
		return 0;
	snprintf(path, sizeof(path), "%s/missing", dir);
	return file_write("", path, 0600, c.missing, c.len, e);
}
