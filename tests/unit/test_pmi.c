/* test_pmi.c - ranks of several hosts meet by way of the store that their launcher keeps. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/discover.h"
#include "wire/offer.h"
#include "wire/rendezvous.h"
#include "wire/store.h"

enum { RANKS = 4, PAIRS = 16, LATE_MS = 30000, SHORT_MS = 300 };

static const char good[] = "0123456789abcdef0123456789abcdef";
static const char other[] = "0123456789abcdef0123456789abcdeF";

/* -- a launcher that speaks PMI-1, as Hydra does ---------------------------- */

static struct launcher {
	int fd[RANKS];
	bool waits[RANKS];      /* at the barrier                     */
	int introduced, parted; /* ranks that have begun, and ended   */
	int vanished;           /* ranks that have gone without       */
	int pairs;              /* that were put, each of it once     */
	char key[PAIRS][64], value[PAIRS][1024];
	const char *lie; /* instead of each answer, if there             */
	bool is_deaf;    /* it closes connections at once                */
	bool ends_all;   /* when the last rank has gone, as launchers do */
	pid_t pids[RANKS];
} l;

static void answer(int rank, const char *text)
{
	const char *line = l.lie ? l.lie : text;

	if (send(l.fd[rank], line, strlen(line), MSG_NOSIGNAL) < 0)
		return;
}

static void enter_barrier(int rank)
{
	int i, n = 0;

	l.waits[rank] = true;
	for (i = 0; i < RANKS; i++)
		n += l.waits[i];
	for (i = 0; n == RANKS && i < RANKS; i++) {
		l.waits[i] = false;
		answer(i, "cmd=barrier_out\n");
	}
}

static void serve_get(int rank, const char *line)
{
	char key[64] = "", text[1200];
	int i = 0;

	sscanf(line, "cmd=get kvsname=kvs_7 key=%63s", key);
	while (i < l.pairs && strcmp(key, l.key[i]) != 0)
		i++;
	if (i == l.pairs)
		snprintf(text, sizeof(text), "cmd=get_result rc=-1 msg=key_%s_not_found\n",
			 key);
	else
		snprintf(text, sizeof(text), "cmd=get_result rc=0 msg=success value=%s\n",
			 l.value[i]);
	answer(rank, text);
}

static void serve_put(int rank, const char *line)
{
	int n = l.pairs;

	l.pairs += n < PAIRS && sscanf(line, "cmd=put kvsname=kvs_7 key=%63s value=%1023s",
				       l.key[n], l.value[n]) == 2;
	answer(rank, l.pairs > n ? "cmd=put_result rc=0 msg=success\n"
				 : "cmd=put_result rc=-1 msg=no\n");
}

static void serve(int rank, const char *line)
{
	if (!strncmp(line, "cmd=init ", 9)) {
		l.introduced++;
		answer(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
	} else if (!strcmp(line, "cmd=get_my_kvsname\n")) {
		answer(rank, "cmd=my_kvsname kvsname=kvs_7\n");
	} else if (!strncmp(line, "cmd=put ", 8)) {
		serve_put(rank, line);
	} else if (!strcmp(line, "cmd=barrier_in\n")) {
		enter_barrier(rank);
	} else if (!strncmp(line, "cmd=get ", 8)) {
		serve_get(rank, line);
	} else if (!strcmp(line, "cmd=finalize\n")) {
		l.parted++;
		answer(rank, "cmd=finalize_ack\n");
		close(l.fd[rank]);
		l.fd[rank] = -1;
	}
}

/* Until all ranks have gone. */
static void serve_all(void)
{
	char line[2048];

	for (;;) {
		struct pollfd p[RANKS];
		int i, n = 0;

		for (i = 0; i < RANKS; i++) {
			p[i] = (struct pollfd){ l.fd[i], POLLIN, 0 };
			n += l.fd[i] >= 0;
		}
		for (i = 0; l.ends_all && l.fd[RANKS - 1] < 0 && i < RANKS - 1; i++)
			kill(l.pids[i], SIGKILL);
		if (!n || poll(p, RANKS, LATE_MS) <= 0)
			return;
		for (i = 0; i < RANKS; i++) {
			ssize_t got =
				p[i].revents ? recv(l.fd[i], line, sizeof(line) - 1, 0) : -1;

			if (got > 0 && !l.is_deaf) {
				line[got] = 0;
				serve(i, line);
			} else if (p[i].revents) {
				l.vanished++;
				close(l.fd[i]);
				l.fd[i] = -1;
			}
		}
	}
}

/* -- ranks ------------------------------------------------------------------ */

/* The next atexit() finds no memory. */
static bool is_poor;

int __real_atexit(void (*fn)(void));
int __wrap_atexit(void (*fn)(void));

int __wrap_atexit(void (*fn)(void))
{
	bool was_poor = is_poor;

	is_poor = false;
	return was_poor ? -1 : __real_atexit(fn);
}

static int meet_once(const struct discovery *d, const char *address, int64_t wait_ms,
		     struct err *e)
{
	struct secret mine, all[RANKS];
	struct rendezvous r;
	int i, rc = rendezvous_open(&r, d, address, clock_deadline(wait_ms), e);

	mine = r.secret;
	if (!rc)
		rc = r.exchange(r.ctx, &mine, sizeof(mine), all);
	for (i = 0; !rc && i < d->size; i++)
		if (memcmp(&all[i], &mine, sizeof(mine)) != 0)
			rc = 1;
	rendezvous_close(&r);
	return rc;
}

/* Ranks write to the one end when they have given up. */
static int given_up[2];

/* What one test has its ranks do. */
struct act {
	const char *secret[2]; /* of the last rank; of all others         */
	const char *address;   /* where rank 0 listens                    */
	const char *why;       /* what the error of all ranks must have in it */
	int times;
	bool is_absent;   /* the last rank never comes       */
	bool is_late;     /* it comes after the others have given up once */
	bool has_forked;  /* all meet once, then a child of each tries */
	bool has_no_size; /* PMI_SIZE is another job's       */
	bool is_poor;     /* at first all ranks lack memory  */
};

static int try_in_child(const struct discovery *d, const char *address)
{
	struct err e = { 0 };
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		int rc = meet_once(d, address, LATE_MS, &e);

		exit(rc == RINGUP_EINVAL && strstr(e.text, "is a child of process") ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return status;
}

/* All but the last rank give up once; that one comes when they have, and finds that rank 0 is
 * where it was no longer. */
static int come_late(const struct discovery *d, const char *address, bool is_last)
{
	struct err e = { 0 };
	int i, rc;
	char byte;

	if (!is_last)
		return meet_once(d, address, SHORT_MS, &e) != RINGUP_ETIMEDOUT ||
		       write(given_up[1], "x", 1) != 1;
	for (i = 0; i < RANKS - 1; i++)
		if (read(given_up[0], &byte, 1) != 1)
			return 1;
	rc = meet_once(d, address, LATE_MS, &e);
	return rc != RINGUP_EPEER && rc != RINGUP_EAUTH;
}

static int play(const struct act *a, const struct discovery *d)
{
	bool is_last = d->rank == RANKS - 1;
	struct err e = { 0 };
	int rc = 0, i;

	if (a->is_absent && is_last)
		return 0;
	if (a->is_late && come_late(d, a->address, is_last))
		return 1;
	is_poor = a->is_poor;
	if (a->is_poor && meet_once(d, a->address, LATE_MS, &e) != RINGUP_ENOMEM)
		return 1;
	for (i = 0; !rc && i < a->times; i++)
		rc = meet_once(d, a->address, a->is_absent ? SHORT_MS : LATE_MS, &e);
	if (!rc && a->has_forked)
		rc = try_in_child(d, a->address);
	if (!a->why && rc)
		printf("# rank %d: %s\n", d->rank, e.text);
	else if (a->why && !strstr(e.text, a->why))
		printf("# rank %d: \"%s\" is not in: %s\n", d->rank, a->why, e.text);
	fflush(stdout);
	return a->why && !strstr(e.text, a->why) ? 1 : rc < 0 ? 100 - rc : rc;
}

static void start_rank(const struct act *a, int rank, int fd)
{
	struct discovery d = { .rank = rank,
			       .size = RANKS,
			       .source = "MPI (PMI)",
			       .meet = "",
			       .secret = a->secret[rank != RANKS - 1],
			       .secret_fd = -1,
			       .spans_hosts = true };
	char text[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "%d", fd);
	setenv("PMI_FD", text, 1);
	snprintf(text, sizeof(text), "%d", rank);
	setenv("PMI_RANK", text, 1);
	snprintf(text, sizeof(text), "%d", RANKS + a->has_no_size);
	setenv("PMI_SIZE", text, 1);
	exit(play(a, &d));
}

/* Start the ranks, serve them; their statuses. */
static void job(const struct act *a, int *statuses)
{
	pid_t *pids = l.pids;
	int i, ends[2];

	l = (struct launcher){ .lie = l.lie,
			       .is_deaf = l.is_deaf,
			       .ends_all = strcmp(a->secret[0], a->secret[1]) != 0,
			       .fd = { -1, -1, -1, -1 } };
	fflush(stdout);
	for (i = 0; i < RANKS; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
			abort();
		pids[i] = fork();
		if (pids[i] == 0) {
			close(ends[0]);
			start_rank(a, i, ends[1]);
		}
		close(ends[1]);
		l.fd[i] = ends[0];
	}
	serve_all();
	for (i = 0; i < RANKS; i++) {
		int status = -1;

		waitpid(pids[i], &status, 0);
		statuses[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
}

static bool are_all(const int *statuses, int n, int code)
{
	int i;

	for (i = 0; i < n; i++)
		if (statuses[i] != (code < 0 ? 100 - code : code))
			return false;
	return true;
}

static struct act act(const char *last, const char *others)
{
	return (struct act){ .secret = { last, others }, .address = "127.0.0.1", .times = 1 };
}

static void in_order(void)
{
	struct act a = act("", "");
	struct offer o = { 0 };
	struct err e = { 0 };
	int s[RANKS];

	job(&a, s);
	ok(are_all(s, RANKS, 0), "four ranks meet through PMI");
	ok(l.introduced == RANKS && l.parted == RANKS && !l.vanished,
	   "and part from their launcher as they exit: %d, %d, %d", l.introduced, l.parted,
	   l.vanished);
	ok(!offer_parse(l.value[0], &o, &e) && o.kind == OFFER_KEY,
	   "the key passed through the launcher");
	a.times = 5;
	job(&a, s);
	ok(are_all(s, RANKS, 0) && l.introduced == RANKS && l.parted == RANKS,
	   "five times in a row, over one connection each");
	a.times = 1;
	a.has_forked = true;
	job(&a, s);
	ok(are_all(s, RANKS, 0) && l.parted == RANKS,
	   "a child of fork() has no connection, and ends none");
	a.has_forked = false;
	a.is_poor = true;
	job(&a, s);
	ok(are_all(s, RANKS, 0) && l.parted == RANKS && !l.vanished,
	   "ranks that lacked memory at first part from it, too: %d, %d", l.parted, l.vanished);
}

static void with_secrets(void)
{
	struct act a = act(good, good);
	struct offer o = { 0 };
	struct err e = { 0 };
	struct secret key = { 0 };
	int s[RANKS];

	job(&a, s);
	ok(are_all(s, RANKS, 0), "four ranks with a RINGUP_SECRET meet");
	ok(!offer_parse(l.value[0], &o, &e) && o.kind == OFFER_NONCE &&
		   !offer_take(&o, good, &key, &e) && memcmp(key.key, o.bytes, SECRET_BYTES),
	   "and the key did not pass through the launcher");
	a = act(other, good);
	job(&a, s);
	ok(s[RANKS - 1] == 100 - RINGUP_EAUTH, "one with another secret is refused");
	a = act("", good);
	a.why = NULL;
	job(&a, s);
	ok(s[RANKS - 1] == 100 - RINGUP_EAUTH, "and one without");
	a = act(good, "");
	job(&a, s);
	ok(s[RANKS - 1] == 100 - RINGUP_EAUTH, "and one that has the only one");
	a = act("short", "short");
	a.why = "but needs at least";
	job(&a, s);
	ok(s[0] == 100 - RINGUP_EINVAL && are_all(s + 1, RANKS - 1, RINGUP_EPEER),
	   "a secret that can be guessed is refused, as all ranks are told");
}

static void in_vain(void)
{
	struct act a = act("", "");
	int s[RANKS];

	a.address = "203.0.113.1";
	a.why = "203.0.113.1";
	job(&a, s);
	ok(s[0] < 0 || s[0] > 100, "rank 0 cannot listen");
	ok(are_all(s + 1, RANKS - 1, RINGUP_EPEER), "and the others are told why");
	a = act("", "");
	a.is_absent = true;
	a.why = "not all ranks have used";
	job(&a, s);
	ok(are_all(s, RANKS - 1, RINGUP_ETIMEDOUT), "without one rank the others give up");
	a = act("", "");
	a.is_late = true;
	job(&a, s);
	ok(are_all(s, RANKS, 0), "ranks that try again meet one that came too late");
	a = act("", "");
	a.has_no_size = true;
	a.why = "has no PMI or PMIx store: start them with `ringup run -H";
	job(&a, s);
	ok(are_all(s, RANKS, RINGUP_EINVAL), "PMI's variables of another job are not taken");
}

static void hostile(void)
{
	static char flood[4096];
	struct act a = act("", "");
	int s[RANKS];

	memset(flood, 'x', sizeof(flood) - 1);
	l.lie = "cmd=no_such_answer\n";
	a.why = "no_such_answer";
	job(&a, s);
	ok(are_all(s, RANKS, RINGUP_EMISMATCH), "an answer to another question");
	l.lie = "cmd=response_to_init rc=-1 msg=go_away\n";
	a.why = "go_away";
	job(&a, s);
	ok(are_all(s, RANKS, RINGUP_ESYSTEM), "a launcher that refuses");
	l.lie = flood;
	a.why = "not a PMI-1 answer";
	job(&a, s);
	ok(are_all(s, RANKS, RINGUP_EMISMATCH), "one that does not end its line");
	l.lie = "cmd=response_to_init rc=0\ncmd=finalize_ack\n";
	job(&a, s);
	ok(are_all(s, RANKS, RINGUP_EMISMATCH), "or says two things at once");
	l.lie = NULL;
	l.is_deaf = true;
	a.why = "has closed this rank's connection";
	job(&a, s);
	ok(are_all(s, RANKS, RINGUP_EPEER), "or hangs up");
}

/* Without such a launcher, each rank is told what to do. */
static void no_store(void)
{
	static const char *const said[][2] = {
		{ "Slurm", "`srun --mpi=pmix` or `srun --mpi=pmi2`" },
		{ "torchrun", "Python package" },
		{ "Horovod", "ringup's own horovodrun" },
		{ "Open MPI", "`ringup run -H" },
	};
	struct discovery d = { .rank = 1, .size = 2, .meet = "", .spans_hosts = true };
	struct rendezvous r;
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		d.source = said[i][0];
		ok(rendezvous_open(&r, &d, NULL, clock_deadline(LATE_MS), &e) ==
				   RINGUP_EINVAL &&
			   strstr(e.text, said[i][1]) && strstr(e.text, "hosts share"),
		   "%s: %s", d.source, e.text);
		rendezvous_close(&r);
	}
	ok(!store_name(0, 2), "there is no store here");
	setenv("PMIX_NAMESPACE", "job", 1);
	setenv("PMIX_RANK", "1", 1);
	ok(!store_name(0, 2) && !strcmp(store_name(1, 2), "PMIx"),
	   "PMIx is for the rank that it names");
	unsetenv("PMIX_NAMESPACE");
	unsetenv("PMIX_RANK");
}

int main(void)
{
	static const char *const others[] = { "PMI_FD",         "PMI_RANK",  "PMI_SIZE",
					      "PMIX_NAMESPACE", "PMIX_RANK", NULL };
	int i;

	for (i = 0; others[i]; i++)
		unsetenv(others[i]);
	if (pipe(given_up))
		return 1;
	no_store();
	in_order();
	with_secrets();
	in_vain();
	hostile();
	return tap_done();
}
