/* jobs.c - finds the jobs of this user on this host, and their ranks, in /proc. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/jobs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pidstat.h"
#include "ringup.h"
#include "wire/discover.h"
#include "wire/observe.h"

enum {
	MAPS = 1 << 20,
	UP = 16, /* ancestors that are looked at */
};

/* A process. */
struct process {
	struct pidstat stat;
	char source[32], key[JOBS_KEY];
	int rank, size, local_size; /* rank -1: of no job */
	bool spans, has_page, unreadable, named;
};

struct scan {
	struct process *of;
	int n, room;
	uid_t uid;
};

/* ---- one process ---- */

struct found_page {
	struct process *p;
	pid_t inner; /* its number in its own namespace */
};

/* A child of fork() has its parent's descriptors, but the page says whose it is. */
static void see_page(void *arg, int fd)
{
	struct found_page *f = arg;
	struct process *p = f->p;
	struct observed x;
	struct err e;
	int rc = observe_read(fd, &x, &e);

	if (rc == RINGUP_EMISMATCH)
		p->has_page = true; /* its reader says so */
	if (rc)
		return;
	if (x.page.pid == f->inner) {
		p->has_page = true;
		if (p->rank < 0 && x.page.rank >= 0) {
			/* The ranks of one job name the same process as their first. */
			p->rank = x.peers ? x.peers[x.page.rank].as : x.page.rank;
			p->size = *x.page.part ? 0 : x.page.size;
			p->local_size = x.page.hosts == 1 ? x.page.size : -1;
			snprintf(p->source, sizeof(p->source), "ringup");
			snprintf(p->key, sizeof(p->key), "page %d %.60s %u",
				 x.peers ? x.peers[0].pid : 0, x.peers ? x.peers[0].host : "",
				 x.page.generation);
		}
	}
	observe_free(&x);
}

static pid_t inner_pid(pid_t pid)
{
	char text[4096], *at;
	pid_t inner = pid;

	if (pidstat_file(pid, "status", text, sizeof(text)) <= 0)
		return pid;
	at = strstr(text, "\nNSpid:");
	for (at = at ? at + 7 : NULL; at && *at && *at != '\n';) {
		inner = (pid_t)strtol(at, &at, 10);
		while (*at == '\t' || *at == ' ')
			at++;
	}
	return inner;
}

/* What the launcher's variables say; @env has room for JOBS_ENVIRON bytes. */
static void read_place(struct process *p, char *env)
{
	ssize_t len =
		pidstat_file(p->stat.pid, "environ", env, JOBS_ENVIRON); /* /proc/PID/environ */
	struct discover_process of = { env, len > 0 ? (size_t)len : 0, p->stat.parent };
	struct discovery d;
	struct err e;

	p->unreadable = len < 0 && (errno == EACCES || errno == EPERM);
	if (len <= 0 || discover_other(&of, &d, &e) || !strcmp(d.source, "none"))
		return;
	p->rank = d.rank;
	p->size = d.worker >= 0 ? 0 : d.size;
	if (d.worker >= 0)
		p->rank = d.worker;
	p->local_size = d.local_size;
	p->spans = d.spans_hosts;
	snprintf(p->source, sizeof(p->source), "%s", d.source);
	snprintf(p->key, sizeof(p->key), "%s", d.key);
}

static int add_process(struct scan *s, pid_t pid, char *env, struct err *e)
{
	struct process *p, *more;
	struct found_page f;

	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 256;
		more = s->room > JOBS_PROCS ? NULL
					    : realloc(s->of, (size_t)s->room * sizeof(*more));
		if (!more)
			return fail(e, RINGUP_ENOMEM, "no memory for %d processes", s->n);
		s->of = more;
	}
	p = &s->of[s->n];
	memset(p, 0, sizeof(*p));
	p->rank = p->local_size = -1;
	if (pidstat_read(pid, &p->stat))
		return 0;
	read_place(p, env);
	f = (struct found_page){ p, inner_pid(pid) };
	if (observe_find(pid, see_page, &f) < 0)
		p->unreadable = true;
	s->n++;
	return 0;
}

static int scan_all(struct scan *s, struct err *e)
{
	char *env = malloc(JOBS_ENVIRON);
	DIR *dir = opendir("/proc");
	struct dirent *d;
	struct stat st;
	int rc = 0;

	if (!env || !dir)
		rc = dir ? fail(e, RINGUP_ENOMEM, "no memory") : fail_os(e, "/proc");
	while (!rc && (d = readdir(dir)))
		/* Root sees everybody's; another user only his own. */
		if (isdigit((unsigned char)*d->d_name) &&
		    !fstatat(dirfd(dir), d->d_name, &st, 0) &&
		    (st.st_uid == s->uid || !s->uid) && atoi(d->d_name) != getpid())
			rc = add_process(s, atoi(d->d_name), env, e);
	if (dir)
		closedir(dir);
	free(env);
	return rc;
}

/* ---- which process is the rank ---- */

static struct process *process_of(const struct scan *s, pid_t pid)
{
	for (int i = 0; i < s->n; i++)
		if (s->of[i].stat.pid == pid)
			return &s->of[i];
	return NULL;
}

static bool is_below(const struct scan *s, const struct process *p, pid_t ancestor)
{
	for (int up = 0; p && up < UP; up++) {
		if (p->stat.pid == ancestor)
			return true;
		p = process_of(s, p->stat.parent);
	}
	return false;
}

static bool is_same_rank(const struct process *a, const struct process *b)
{
	return a->rank == b->rank && !strcmp(a->source, b->source) && !strcmp(a->key, b->key);
}

static bool is_wrapper(const char *name)
{
	static const char *const names[] = { "sh",      "bash",    "dash",    "zsh",   "time",
					     "timeout", "numactl", "taskset", "env",   "nice",
					     "strace",  "nsys",    "conda",   "setsid" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool communicates(pid_t pid)
{
	static const char *const libraries[] = { "libringup", "libmpi",  "libtorch_cpu",
						 "libnccl",   "libgloo", "libmpich" };
	char *maps = malloc(MAPS);
	bool found = false;

	if (maps && pidstat_file(pid, "maps", maps, MAPS) > 0)
		for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
			found |= strstr(maps, libraries[i]) != NULL;
	free(maps);
	return found;
}

/* How likely is @p the rank itself, rather than a wrapper or a child of it? */
static int weigh(const struct scan *s, const struct process *p)
{
	const struct process *up = process_of(s, p->stat.parent);
	bool first = !up || !is_same_rank(up, p) || is_wrapper(up->stat.name);

	return (p->has_page ? 8 : 0) + (communicates(p->stat.pid) ? 2 : 0) +
	       (first && !is_wrapper(p->stat.name) ? 3 : 0) + (p->stat.state != 'Z');
}

/* ---- jobs ---- */

static struct hang_job *job_for(struct hang_jobs *l, const struct process *p)
{
	struct hang_job *j;

	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->job[i].source, p->source) && !strcmp(l->job[i].key, p->key))
			return &l->job[i];
	if (l->n == JOBS_MOST)
		return NULL;
	j = &l->job[l->n++];
	snprintf(j->source, sizeof(j->source), "%s", p->source);
	snprintf(j->key, sizeof(j->key), "%s", p->key);
	j->here = -1;
	return j;
}

static void put_rank(struct hang_job *j, const struct process *p, int rank)
{
	struct job_rank *more;

	more = realloc(j->rank, (size_t)(j->ranks + 1) * sizeof(*more));
	if (!more)
		return;
	j->rank = more;
	j->rank[j->ranks++] =
		(struct job_rank){ .rank = rank,
				   .pid = p->stat.pid,
				   .start = p->stat.start,
				   .has_page = p->has_page,
				   .is_python = !strncmp(p->stat.name, "python", 6),
				   .unreadable = p->unreadable };
	if (p->size > j->size)
		j->size = p->size;
	if (p->local_size >= 0 && !p->spans && p->local_size >= p->size)
		j->here = p->size;
}

/* Adds, of all processes with the variables of one rank, the likeliest. */
static void take_rank(const struct scan *s, bool *taken, int at, struct hang_jobs *l)
{
	struct hang_job *j;
	int best = at, weight = -1, w;

	for (int i = at + 1; i < s->n; i++) {
		if (taken[i] || !is_same_rank(&s->of[at], &s->of[i]))
			continue;
		taken[i] = true;
		weight = weight < 0 ? weigh(s, &s->of[at]) : weight;
		w = weigh(s, &s->of[i]);
		if (w > weight) {
			best = i;
			weight = w;
		}
	}
	j = job_for(l, &s->of[best]);
	if (j)
		put_rank(j, &s->of[best], s->of[best].rank);
}

static int by_rank(const void *a, const void *b)
{
	const struct job_rank *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void read_command(pid_t pid, char *out, size_t size)
{
	char text[JOBS_TEXT];
	ssize_t n = pidstat_file(pid, "cmdline", text, sizeof(text));

	for (ssize_t i = 0; i + 1 < n; i++)
		if (!text[i])
			text[i] = ' ';
	snprintf(out, size, "%s", n > 0 ? text : "");
}

static int64_t age_s(uint64_t start)
{
	struct timespec now;
	long hz = sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &now);
	return hz > 0 ? now.tv_sec - (int64_t)(start / (uint64_t)hz) : 0;
}

static void finish_job(const struct scan *s, struct hang_job *j)
{
	const struct process *p;

	qsort(j->rank, (size_t)j->ranks, sizeof(*j->rank), by_rank);
	p = process_of(s, j->rank[0].pid);
	j->launcher = p ? p->stat.parent : 0;
	j->age_s = age_s(j->rank[0].start);
	read_command(j->rank[0].pid, j->command, sizeof(j->command));
}

/* Is one of @pids in job @j, or did one of them start it? */
static bool is_wanted(const struct scan *s, const struct hang_job *j, const pid_t *pids, int n)
{
	for (int i = 0; i < j->ranks; i++)
		for (int k = 0; k < n; k++)
			if (is_below(s, process_of(s, j->rank[i].pid), pids[k]))
				return true;
	return !pids;
}

/* Makes a job of the named processes that belong to none, in their order. */
static void add_loose(const struct scan *s, struct hang_jobs *l, const pid_t *pids, int n)
{
	struct process loose = { .size = 0, .local_size = -1 };
	struct hang_job *j = NULL;
	int rank = 0;

	snprintf(loose.source, sizeof(loose.source), "processes");
	for (int k = 0; k < n; k++) {
		const struct process *p = process_of(s, pids[k]);
		bool starts = false;

		for (int i = 0; i < s->n && p; i++)
			starts |= s->of[i].rank >= 0 && is_below(s, &s->of[i], pids[k]);
		if (!p || p->rank >= 0 || starts)
			continue;
		j = j ? j : job_for(l, &loose);
		if (j)
			put_rank(j, p, rank++);
	}
	if (j)
		j->size = j->here = rank;
}

static int collect_jobs(struct scan *s, struct hang_jobs *l, const pid_t *pids, int n,
			struct err *e)
{
	bool *taken = calloc((size_t)s->n + 1, sizeof(*taken));
	int kept = 0;

	l->job = calloc(JOBS_MOST, sizeof(*l->job));
	if (!taken || !l->job) {
		free(taken);
		return fail(e, RINGUP_ENOMEM, "no memory for jobs");
	}
	for (int i = 0; i < s->n; i++)
		if (!taken[i] && s->of[i].rank >= 0)
			take_rank(s, taken, i, l);
	free(taken);
	add_loose(s, l, pids, n);
	for (int i = 0; i < l->n; i++) {
		/* Ranks are on one host alone if that host has all of them. */
		if (l->job[i].here < 0 && l->job[i].ranks == l->job[i].size)
			l->job[i].here = l->job[i].size;
		finish_job(s, &l->job[i]);
		if (is_wanted(s, &l->job[i], pids, n))
			l->job[kept++] = l->job[i];
		else
			free(l->job[i].rank);
	}
	l->n = kept;
	return 0;
}

int jobs_find(struct hang_jobs *l, const pid_t *pids, int n, struct err *e)
{
	struct scan s = { .uid = geteuid() };
	int rc = scan_all(&s, e);

	memset(l, 0, sizeof(*l));
	if (!rc)
		rc = collect_jobs(&s, l, pids, n, e);
	for (int i = 0; i < s.n; i++)
		l->hidden += s.of[i].unreadable;
	free(s.of);
	return rc;
}

void jobs_free(struct hang_jobs *l)
{
	for (int i = 0; l->job && i < l->n; i++)
		free(l->job[i].rank);
	free(l->job);
	memset(l, 0, sizeof(*l));
}
