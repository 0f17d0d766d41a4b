/* test_jobend.c - how jobs ended, and what is found first in their logs. */
/* tests: src/diagnose */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diagnose/links.h"
#include "diagnose/routine.h"
#include "sifted.h"
#include "tap.h"

/* Does the first finding name the rank and the host, in its places or its cause? */
static bool names(int rank, const char *host)
{
	const struct finding *f = found.n ? found.list[0].finding : NULL;
	const char *cause = f ? found.list[0].cause : "";
	bool has_rank = rank < 0, has_host = !strcmp(host, "-") || strstr(cause, host);
	char who[32];
	int i;

	snprintf(who, sizeof(who), "rank %d ", rank);
	has_rank |= strstr(cause, who) != NULL;
	for (i = 0; f && i < f->ranks; i++)
		has_rank |= f->rank[i] == rank;
	for (i = 0; f && i < f->hosts; i++)
		has_host |= !strcmp(f->host[i], host);
	return has_rank && has_host;
}

static bool is_wanted(const char *want)
{
	const char *text = strchr(want, '=');
	bool is_silent = !strncmp(want, "silent", 6);

	if (!text)
		return found.outcome == JOBEND_WELL ||
		       (!found.n && found.outcome == JOBEND_UNKNOWN);
	if (!found.n || found.outcome == JOBEND_WELL ||
	    is_silent != (found.outcome == JOBEND_SILENT))
		return false;
	return strstr(found.list[0].cause, text + 1) || strstr(found.list[0].proof, text + 1);
}

static void check_log(char *head, const char *log, size_t len)
{
	char *name = strsep(&head, "\t"), *want = strsep(&head, "\t"),
	     *rank = strsep(&head, "\t"), *host = head;

	bool is_missed = !strncmp(want, "missed:", 7);

	diagnose(log, len);
	if (is_missed) {
		ok(!is_wanted(want + 7), "%s: missed as before; if it is found, say so", name);
		return;
	}
	ok(host && is_wanted(want) && names(*rank == '-' ? -1 : atoi(rank), host), "%s", name);
	if (!is_wanted(want))
		printf("# %s, %d found: %s | %s\n", jobend_name(found.outcome), found.n,
		       found.n ? found.list[0].cause : "", found.n ? found.list[0].proof : "");
}

static void read_logs(const char *folder, const char *name)
{
	char path[4096];
	static const char mark[] = "\n#### ";
	static char all[768 << 10], head[512];
	FILE *f;
	size_t len, n;
	char *at, *log, *next;
	int logs = 0;

	snprintf(path, sizeof(path), "%s/tests/diagnose/%s", folder, name);
	f = fopen(path, "re");
	len = f ? fread(all, 1, sizeof(all) - 1, f) : 0;
	all[len] = 0;
	at = strstr(all, mark);
	for (; at; at = next, logs++) {
		at += sizeof(mark) - 1;
		n = strcspn(at, "\n");
		snprintf(head, sizeof(head), "%.*s", (int)n, at);
		log = at + n + 1;
		next = strstr(log, mark);
		check_log(head, log, (size_t)((next ? next + 1 : all + len) - log));
	}
	if (f)
		fclose(f);
	ok(logs > 50 && len < sizeof(all) - 1, "%d logs in %s", logs, path);
}

static void check_table(void)
{
	static const char log[] =
		"0: step 7 loss 1\n1: step 7 loss 1\n1: sizes differ\n"
		"0: step 8 loss 1\nsrun: error: n2: task 1: Exited with exit code 3\n";
	const struct proc *p;
	int n;

	diagnose(log, sizeof(log) - 1);
	p = procs_list(sieve.evidence.procs, &n);
	ok(n == 3 && p[1].rank == 0 && p[1].step == 8 && p[2].rank == 1 && p[2].step == 7,
	   "the table has each rank's last step");
	ok(p[2].status == 3 && p[2].last[0].line == 3 &&
		   !strcmp(p[2].last[0].text, "1: sizes differ"),
	   "it has the status of the rank that ended, and its last line");
	ok(found.n == 1 && found.list[0].lasts == 2 &&
		   strstr(found.list[0].cause, "sizes differ"),
	   "the last lines of that rank are quoted");
}

/* Of @n ranks the launcher reports that it ended them, and then that the next one crashed. */
static void check_order(int n)
{
	static char log[8 << 10];
	const struct finding *f;
	size_t at = 0;
	bool in_order;

	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(log + at, sizeof(log) - at,
				       "srun: error: n1: task %d: Killed\n", i);
	at += (size_t)snprintf(log + at, sizeof(log) - at,
			       "srun: error: n2: task %d: Bus error\n", n);
	diagnose(log, at);
	f = found.n ? found.list[0].finding : NULL;
	in_order = f && f->ranks == (n + 1 < EVIDENCE_RANKS ? n + 1 : EVIDENCE_RANKS) &&
		   f->rank[0] == n;
	for (int i = 1; in_order && i < f->ranks; i++)
		in_order = f->rank[i] == i - 1;
	ok(in_order && f->hosts == 1 && !strcmp(f->host[0], "n2"),
	   "the rank that crashed stands before the %d that were ended", n);
}

static void check_routine(void)
{
	static struct routine r;
	const int room = ROUTINE_SHAPES / 2;
	char line[] = "aaaa words";
	bool kept = true;

	for (int i = 0; i <= room; i++) {
		for (int k = 0, rest = i; k < 4; k++, rest /= 16)
			line[k] = (char)('g' + rest % 16);
		routine_add(&r, 7, routine_shape(7, line, line + 10), (uint64_t)i, true);
		kept &= i == room || routine_find(&r, routine_shape(7, line, line + 10));
	}
	ok(kept && !routine_find(&r, routine_shape(7, line, line + 10)),
	   "the shapes of lines that fit are kept, and none more");
	ok(!routine_resumed(&r, 7, 3), "lines of one shape before and after: none");
	memcpy(line, "gggg", 4);
	routine_add(&r, 7, routine_shape(7, line, line + 10), 9, true);
	ok(routine_resumed(&r, 7, 3) && !routine_resumed(&r, 8, 3),
	   "of the process that wrote some");
}

/* Is the host known of the last of @tasks tasks of srun that start ranks? */
static bool has_task_host(int tasks)
{
	static char log[64 << 10];
	char host[32];
	int n = 0;

	for (int i = 0; i < tasks; i++)
		n += snprintf(log + n, sizeof(log) - (size_t)n,
			      "srun: error: h%d: task %d: Exited with exit code 1\n", i, i);
	n += snprintf(log + n, sizeof(log) - (size_t)n,
		      "%d: [default1]:[rank7]: RuntimeError: the gizmo is gone\n", tasks - 1);
	diagnose(log, (size_t)n);
	snprintf(host, sizeof(host), "h%d", tasks - 1);
	for (int i = 0; i < found.n; i++) {
		const struct finding *f = found.list[i].finding;

		if (strstr(f->proof, "gizmo"))
			return f->ranks == 1 && f->rank[0] == 7 && f->hosts == 1 &&
			       !strcmp(f->host[0], host);
	}
	return false;
}

/* Is the host known of the last of @ranks ranks that a table names? */
static bool has_link(int ranks)
{
	static struct links l;
	char line[64];
	int n = 0;

	links_reset(&l);
	for (int i = 0; i < ranks; i++) {
		n = snprintf(line, sizeof(line), "rank %d host h%d", i, i);
		links_read(&l, 0, line, line + n);
	}
	return links_of_rank(&l, 0, ranks - 1) != NULL;
}

/* Is a suite that failed over after @suites, the last of which has as many tests? */
static bool is_suite_over(int suites)
{
	static char log[4 << 10];
	int n = snprintf(log, sizeof(log), "1 failed, 6 passed in 1.00s\n");

	for (int i = 2; i < suites; i++)
		n += snprintf(log + n, sizeof(log) - (size_t)n, "3 passed in 1.00s\n");
	n += snprintf(log + n, sizeof(log) - (size_t)n, "7 passed in 1.00s\n");
	diagnose(log, (size_t)n);
	return found.outcome == JOBEND_WELL;
}

int main(void)
{
	const char *src = getenv("srcdir");

	ok(!sift_open(&sieve, NULL), "there is memory");
	read_logs(src ? src : ".", "outcomes.txt");
	read_logs(src ? src : ".", "threads.txt");
	read_logs(src ? src : ".", "runs.txt");
	read_logs(src ? src : ".", "sight.txt");
	read_logs(src ? src : ".", "sight2.txt");
	read_logs(src ? src : ".", "sight3.txt");
	read_logs(src ? src : ".", "sight4.txt");
	read_logs(src ? src : ".", "sight5.txt");
	read_logs(src ? src : ".", "sight6.txt");
	check_table();
	check_order(1);
	check_order(EVIDENCE_RANKS - 1);
	check_order(EVIDENCE_RANKS);
	check_order(EVIDENCE_RANKS + 1);
	check_routine();
	ok(has_task_host(EVIDENCE_TASKS - 1) && has_task_host(EVIDENCE_TASKS) &&
		   !has_task_host(EVIDENCE_TASKS + 1),
	   "the hosts of tasks that fit are known, and none more");
	ok(has_link(LINKS - 1) && has_link(LINKS) && !has_link(LINKS + 1),
	   "the ranks of a table that fit are known, and none more");
	ok(is_suite_over(PROCS_SUITES - 1) && is_suite_over(PROCS_SUITES) &&
		   is_suite_over(PROCS_SUITES + 1),
	   "a suite that failed is over if it passes later, after as many others as fit or "
	   "more");
	conclude_free(&found);
	sift_close(&sieve);
	return tap_done();
}
