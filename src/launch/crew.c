/* crew.c - start the ranks of a job on this host, watch them, end them together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pidstat.h"
#include "base/proc.h"
#include "host/oom.h"
#include "launch/culprit.h"
#include "launch/ending.h"
#include "launch/output.h"
#include "launch/rankenv.h"
#include "launch/stray.h"
#include "ringup.h"
#include "wire/cause.h"
#include "wire/meet.h"
#include "wire/secret.h"

/*
 * A rank that has ended stays a zombie until the end of the job, so that its
 * number, which is also its group's, is not used again.
 */
struct rank {
	pid_t pid; /* 0: not started */
	int pidfd; /* -1: has ended  */
};

struct watch {
	const struct crew *how;
	struct rank *ranks;
	struct culprit_end *ends; /* of all ranks */
	unsigned ended;
	int64_t failed_ns; /* when the first failure was seen; 0: none was   */
	int64_t name_ns;   /* when the culprit is named at the latest        */
	int started, running;
	pid_t session; /* of all ranks; its leader stays a zombie until the end, too */
	struct output *output;
	struct stray stray;
	struct meet_server *server;
	struct secret secret;
	char mark[RANKENV_MARK]; /* "RINGUP_JOB=..." */
	char host[64];
	struct oom oom; /* before any rank was there */
	struct cause cause;
	int secret_fd, port_fd;
	int *older; /* children of this process that are not the job's; ends with 0 */
	struct pollfd *polls;
	struct ending ending;
};

/* -- before --------------------------------------------------------------- */

/* Raises the limit of descriptors, or fails before any rank is started. */
static int check_fds(const struct crew *j, struct err *e)
{
	rlim_t need = (rlim_t)j->size * (j->output_dir ? 10 : 8) + 64;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l))
		return fail_os(e, "limit of open files");
	if (need <= l.rlim_cur)
		return 0;
	if (need > l.rlim_max)
		return fail(e, RINGUP_ESYSTEM,
			    "%d ranks need %llu open files and the limit is %llu; raise it "
			    "with `ulimit -n`, or start fewer",
			    j->size, (unsigned long long)need, (unsigned long long)l.rlim_max);
	l.rlim_cur = need;
	return setrlimit(RLIMIT_NOFILE, &l) ? fail_os(e, "limit of open files") : 0;
}

/* Hosts the meeting point; the secret is in no environment, argument list or core dump. */
static int host_meeting(struct watch *w, struct err *e)
{
	int rc;

	if (w->how->size == 1)
		return 0;
	prctl(PR_SET_DUMPABLE, 0);
	rc = secret_new(&w->secret, e);
	if (!rc)
		rc = w->secret_fd = secret_to_fd(&w->secret, e);
	if (rc >= 0)
		rc = meet_serve("127.0.0.1", w->how->size, &w->secret, &w->server, e);
	return rc;
}

static int name_job(struct watch *w, struct err *e)
{
	if (gethostname(w->host, sizeof(w->host) - 1))
		snprintf(w->host, sizeof(w->host), "this host");
	return rankenv_mark(w->mark, w->how->name, e);
}

static int cores(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

/* Rank 0 gets the launcher's standard input, unless a terminal would stop it for
 * reading in the background. */
static int stdin_for(int rank)
{
	int flags = fcntl(STDIN_FILENO, F_GETFL);

	/* A closed stdin has been replaced by a write-only descriptor: see out_start(). */
	if (rank > 0 || flags < 0 || (flags & O_ACCMODE) == O_WRONLY)
		return -1;
	if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp())
		return -1;
	return STDIN_FILENO;
}

/* How to start rank @rank; its environment and descriptors are the caller's to release. */
static int prepare_rank(struct watch *w, const struct rankenv *common, int rank,
			struct proc_how *how, int fds[3], struct err *e)
{
	char **env;
	int rc = rankenv_make(common, rank, &env, e);

	if (rc)
		return rc;
	fds[0] = stdin_for(rank);
	*how = (struct proc_how){
		.argv = w->how->argv,
		.envp = env,
		.fds = fds,
		.nfds = 3,
		.keep = { w->secret_fd, w->cause.fd },
	};
	return output_pipes(w->output, rank, &fds[1], &fds[2], e);
}

/* Enters the started ranks: all, or those before one that could not be started. */
static void note_started(struct watch *w, const pid_t *pid, const int *pidfd)
{
	if (w->session > 0)
		stray_add(&w->stray, w->session);
	for (int i = 0; i < w->how->size; i++) {
		if (!pid[i])
			continue;
		/* Without gaps for ranks that were not started. */
		w->ranks[w->started++] = (struct rank){ pid[i], pidfd[i] };
		w->running++;
	}
}

static int start_prepared(struct watch *w, const struct proc_how *how, struct err *e)
{
	int n = w->how->size, i, rc;
	pid_t *pid = calloc((size_t)n, sizeof(*pid));
	int *pidfd = calloc((size_t)n, sizeof(*pidfd));

	if (!pid || !pidfd) {
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d ranks", n);
	} else {
		rc = proc_start_all(how, n, pid, pidfd, &w->session, e);
		for (i = 0; i < n - 1 && pid[i]; i++)
			;
		if (rc)
			fail_in(e, "cannot start rank %d of %d", i, n);
		note_started(w, pid, pidfd);
	}
	free(pid);
	free(pidfd);
	return rc;
}

static int start_all(struct watch *w, int port, struct err *e)
{
	int size = w->how->size, threads = cores() / size, i, rc = 0;
	struct proc_how *how = calloc((size_t)size, sizeof(*how));
	int(*fds)[3] = calloc((size_t)size, sizeof(*fds));
	struct rankenv common = {
		.size = size,
		.host = w->host,
		.job = strchr(w->mark, '=') + 1,
		.meet = w->server ? meet_where(w->server) : NULL,
		.secret_fd = w->secret_fd,
		.cause_fd = w->cause.fd,
		.master_port = port,
		.threads = threads > 0 ? threads : 1,
		.base = conf_environ(),
		.extra = w->how->extra,
	};

	if (!how || !fds)
		rc = fail(e, RINGUP_ENOMEM, "no memory for %d ranks", size);
	for (i = 0; i < size && !rc; i++)
		rc = prepare_rank(w, &common, i, &how[i], fds[i], e);
	if (!rc)
		rc = start_prepared(w, how, e);
	for (i = 0; how && i < size; i++) {
		output_started(w->output, i);
		if (how[i].envp)
			rankenv_free((char **)(uintptr_t)how[i].envp);
	}
	free(how);
	free(fds);
	return rc;
}

/* -- children that are not ranks ------------------------------------------ */

/* The children of this process; ends with 0; NULL if /proc does not tell. */
static int *children(void)
{
	char path[64];
	int *list = NULL, *more, count = 0, pid, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	while (f && n >= 0) {
		n = fscanf(f, "%d", &pid);
		more = realloc(list, sizeof(*list) * (size_t)(count + 1));
		if (!more)
			break;
		list = more;
		list[count++] = n == 1 ? pid : 0;
		if (n != 1)
			break;
	}
	if (f)
		fclose(f);
	return list;
}

static bool crew_is_in(const int *list, int pid)
{
	for (; list && *list; list++)
		if (*list == pid)
			return true;
	return false;
}

static bool is_rank(const struct watch *w, int pid)
{
	for (int i = 0; i < w->started; i++)
		if (w->ranks[i].pid == pid)
			return true;
	return false;
}

/*
 * Orphans of the ranks have become this process's children: reaps those that have
 * ended, sends @sig (0: nothing) to the others and counts them.
 */
static int reap_orphans(const struct watch *w, int sig)
{
	int *list = children(), *p, alive = 0;

	if (!list)
		return stray_signal(&w->stray, sig);
	for (p = list; *p; p++) {
		if (is_rank(w, *p) || crew_is_in(w->older, *p) || *p == w->stray.guard ||
		    *p == w->session)
			continue;
		if (waitpid(*p, NULL, WNOHANG) != 0)
			continue;
		alive++;
		/* With older children, an orphan may be one of theirs. */
		if (sig && w->older && !*w->older)
			kill(*p, sig);
	}
	free(list);
	return alive;
}

/* -- ending --------------------------------------------------------------- */

/* @all: also to all processes of its group, which the rank itself may have left. */
static void signal_rank(const struct rank *r, int sig, bool all)
{
	if (all)
		kill(-r->pid, sig);
	if (!all || getpgid(r->pid) != r->pid)
		kill(r->pid, sig);
}

static void ranks_signal(void *ctx, int sig, bool all)
{
	const struct watch *w = ctx;

	for (int i = 0; i < w->started; i++)
		if (w->ranks[i].pidfd >= 0)
			signal_rank(&w->ranks[i], sig, all);
}

/* Is the rank stopped (SIGSTOP, a debugger)?  Then it handles no signal. */
static bool is_stopped(const struct rank *r)
{
	struct pidstat s;

	return r->pidfd >= 0 && !pidstat_read(r->pid, &s) && (s.state == 'T' || s.state == 't');
}

/* Names stopped ranks: most likely the others have failed because of them. */
static void name_stopped(const struct watch *w)
{
	for (int i = 0; i < w->started; i++)
		if (is_stopped(&w->ranks[i]))
			output_say(w->output, "rank %d (pid %d) on %s is stopped", i,
				   (int)w->ranks[i].pid, w->host);
}

/* Says the state of rank @i as in ps(1), and the kernel's function in which it sleeps, if
 * readable. */
static void say_where(const struct watch *w, int i)
{
	struct pidstat s = { .state = '?' };
	char path[64], *where = NULL;
	size_t len;

	/* The rank may have become another user's process. */
	if (kill(w->ranks[i].pid, SIGKILL)) {
		output_say(w->output, "rank %d (pid %d) on %s cannot be killed: %s; given up",
			   i, (int)w->ranks[i].pid, w->host, strerror(errno));
		return;
	}
	pidstat_read(w->ranks[i].pid, &s);
	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)w->ranks[i].pid);
	if (file_read("", path, 128, &where, &len, NULL))
		where = NULL;
	output_say(w->output,
		   "rank %d (pid %d) on %s cannot be killed: it hangs in the kernel (state "
		   "%c%s%s); given up",
		   i, (int)w->ranks[i].pid, w->host, s.state,
		   where && *where && strcmp(where, "0") ? ", in " : "",
		   where && strcmp(where, "0") ? where : "");
	free(where);
}

static void ranks_name(void *ctx, bool given_up)
{
	const struct watch *w = ctx;

	for (int i = 0; i < w->started; i++) {
		if (w->ranks[i].pidfd < 0)
			continue;
		if (given_up)
			say_where(w, i);
		else
			output_say(w->output,
				   "rank %d (pid %d) on %s did not end when told to and is "
				   "killed",
				   i, (int)w->ranks[i].pid, w->host);
	}
}

static void ranks_kill_stopped(void *ctx)
{
	const struct watch *w = ctx;

	for (int i = 0; i < w->started; i++)
		if (is_stopped(&w->ranks[i]))
			signal_rank(&w->ranks[i], SIGKILL, true);
}

/* The first failure is certain: names the culprit, and the job ends. */
static void mourn(struct watch *w, const struct culprit *c)
{
	const struct culprit_end *end = &w->ends[c->rank];
	int other = c->awaited >= 0 ? c->awaited : c->left;
	char text[128], memory[192], why[160] = "";

	culprit_describe(end, text, sizeof(text));
	oom_since(&w->oom, "", memory, sizeof(memory));
	if (other >= 0)
		snprintf(why, sizeof(why),
			 ": rank %d (pid %d) on %s had left the job before, %s", other,
			 (int)w->ranks[other].pid, w->host,
			 c->awaited >= 0 ? "and has not ended" : "with status 0");
	output_say(w->output, "rank %d (pid %d) on %s %s%s%s", c->rank,
		   (int)w->ranks[c->rank].pid, w->host, text, memory, why);
	name_stopped(w);
	ending_mourn(&w->ending, culprit_status(end));
}

/* Records the ranks that have ended. */
static void find_dead(struct watch *w)
{
	siginfo_t how;

	for (int i = 0; i < w->started; i++) {
		struct pollfd p = { w->ranks[i].pidfd, POLLIN, 0 };

		if (p.fd < 0 || poll(&p, 1, 0) <= 0)
			continue;
		how.si_pid = 0;
		if (waitid(P_PID, (id_t)w->ranks[i].pid, &how, WEXITED | WNOHANG | WNOWAIT) ||
		    !how.si_pid)
			continue;
		close(w->ranks[i].pidfd);
		w->ranks[i].pidfd = -1;
		w->running--;
		output_drain(w->output, i);
		w->ends[i] = (struct culprit_end){ .ended = true,
						   .code = how.si_code,
						   .status = how.si_status,
						   .order = ++w->ended,
						   .cause = cause_read(&w->cause, i) };
	}
}

/* Finds the culprit.  A stopped rank that others have failed because of is not waited for. */
static void bury(struct watch *w)
{
	struct culprit c;

	find_dead(w);
	if (w->ending.phase != ENDING_RUNNING || !w->ended)
		return;
	c = culprit_find(w->ends, w->started);
	if (c.rank < 0)
		return;
	if (!w->failed_ns)
		w->failed_ns = clock_ns();
	w->name_ns = w->failed_ns + culprit_patience_ms(&c, w->ends) * 1000000;
	if (!w->running || clock_ns() >= w->name_ns ||
	    (c.awaited >= 0 && is_stopped(&w->ranks[c.awaited])))
		mourn(w, &c);
}

/* -- while it runs -------------------------------------------------------- */

static void sleep_until_needed(struct watch *w)
{
	size_t n = output_poll(w->output, w->polls);
	int64_t until = ending_until(&w->ending);

	if (w->failed_ns && w->ending.phase == ENDING_RUNNING && w->name_ns < until)
		until = w->name_ns;
	w->polls[n++] = (struct pollfd){ w->ending.signal_fd, POLLIN, 0 };
	for (int i = 0; i < w->started; i++)
		if (w->ranks[i].pidfd >= 0)
			w->polls[n++] = (struct pollfd){ w->ranks[i].pidfd, POLLIN, 0 };
	poll(w->polls, n, clock_left_ms(until));
}

/* Without the guard, children of the ranks would outlive a launcher that is killed. */
static void keep_guard(struct watch *w)
{
	struct err e;
	int rc = stray_keep(&w->stray, &e);

	if (rc > 0)
		output_say(w->output, "the guard of this job was killed; there is another one");
	else if (rc)
		output_say(w->output,
			   "the guard of this job was killed, and there is no other: %s",
			   e.text);
}

static void watch_ranks(struct watch *w)
{
	while (w->running && w->ending.phase != ENDING_OVER) {
		sleep_until_needed(w);
		bury(w);
		output_move(w->output);
		if (ending_signals(&w->ending)) {
			keep_guard(w);
			reap_orphans(w, 0);
		}
		ending_turn(&w->ending, w->running);
	}
}

/* -- afterwards ----------------------------------------------------------- */

/* The ranks have ended; ends the processes that they have left behind. */
static void end_strays(struct watch *w)
{
	const struct ending *x = &w->ending;
	bool has_time = x->signal && x->phase == ENDING_WARNED;
	int64_t patience = has_time ? x->next_ns : clock_deadline(ENDING_STRAY_MS);
	int64_t enough = clock_deadline(w->how->grace_ms + ENDING_DEATH_MS);
	int sig = SIGTERM;

	while (reap_orphans(w, sig) && clock_left_ms(enough)) {
		stray_signal(&w->stray, sig);
		sig = clock_left_ms(patience) && x->phase != ENDING_KILLED ? 0 : SIGKILL;
		output_move(w->output);
		clock_sleep_ms(5);
	}
}

static void close_all(struct watch *w)
{
	for (int i = 0; i < w->started; i++) {
		if (w->ranks[i].pidfd >= 0)
			close(w->ranks[i].pidfd);
		while (waitpid(w->ranks[i].pid, NULL, WNOHANG) < 0 && errno == EINTR)
			;
	}
	stray_close(&w->stray);
	if (w->session > 0)
		while (waitpid(w->session, NULL, 0) < 0 && errno == EINTR)
			;
	output_close(w->output);
	meet_stop(w->server);
	secret_wipe(&w->secret);
	cause_close(&w->cause);
	if (w->secret_fd >= 0)
		close(w->secret_fd);
	if (w->port_fd >= 0)
		close(w->port_fd);
	ending_fini(&w->ending);
	free(w->older);
	free(w->polls);
	free(w->ranks);
	free(w->ends);
}

static int crew_prepare(struct watch *w, struct err *e)
{
	const struct crew *j = w->how;
	int rc = check_fds(j, e);

	if (!rc)
		rc = name_job(w, e);
	if (!rc)
		rc = ending_catch(&w->ending, e);
	if (!rc)
		rc = output_open(&w->output, j->size, j->prefix, j->output_dir, e);
	if (rc)
		return rc;
	w->ending.output = w->output;
	w->ranks = calloc((size_t)j->size, sizeof(*w->ranks));
	w->ends = calloc((size_t)j->size, sizeof(*w->ends));
	w->polls =
		calloc(output_poll_count(w->output) + (size_t)j->size + 1, sizeof(*w->polls));
	if (!w->ranks || !w->ends || !w->polls)
		return fail(e, RINGUP_ENOMEM, "no memory for %d ranks", j->size);
	w->older = children();
	oom_mark(&w->oom, "");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return fail_os(e, "subreaper");
	rc = stray_open(&w->stray, w->mark, e);
	if (rc)
		return rc;
	/* Without the file the first end that is seen counts as the cause. */
	if (cause_create(&w->cause, e)) {
		log_warn("%s; so the first rank that is seen to end is named", e->text);
		e->code = 0;
	}
	return host_meeting(w, e);
}

int crew_run(const struct crew *j, struct err *e)
{
	struct watch w = {
		.how = j,
		.secret_fd = -1,
		.port_fd = -1,
	};
	int port = 0, rc;

	ending_init(&w.ending, j->timeout_ms, j->grace_ms,
		    (struct ending_owner){
			    .signal = ranks_signal,
			    .stopped = ranks_kill_stopped,
			    .name = ranks_name,
			    .ctx = &w,
		    });
	rc = crew_prepare(&w, e);
	if (!rc)
		rc = rankenv_port(&w.port_fd, &port, e);
	if (!rc)
		rc = start_all(&w, port, e);
	if (rc)
		ending_kill(&w.ending);
	if (w.started) {
		watch_ranks(&w);
		end_strays(&w);
		ending_flush(&w.ending);
	}
	if (!rc && !w.ending.status)
		rc = output_check(w.output, e);
	close_all(&w);
	return rc ? rc : w.ending.status;
}
