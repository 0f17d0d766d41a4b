/* remote.c - inspects a job's ranks on its other hosts, through an agent on each. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/remote.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/pidstat.h"
#include "hang/jobs.h"
#include "hang/look.h"
#include "hang/rows.h"
#include "hang/twice.h"
#include "probe/agents.h"
#include "probe/roster.h"
#include "ringup.h"

enum {
	UP = 4,             /* ancestors of a rank that may be its launcher           */
	PATIENCE_MS = 4000, /* for an answer, after the second look                */
	MOST_WAIT_MS = 3600000,
	WORDS = 64,
	LONG_MS = 60000, /* others wait for so long for a rank that no host has */
	CMDLINE = 32 << 10,
};

/* ---- how the launcher has reached its other hosts ---- */

/* The words of a command line; their texts stay in @text. */
static int words_of(pid_t pid, char *text, size_t size, char *word[WORDS])
{
	ssize_t len = pidstat_file(pid, "cmdline", text, size);
	int n = 0;

	for (char *at = text; len > 0 && at < text + len && n < WORDS; at += strlen(at) + 1)
		word[n++] = at;
	return n;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Options of ssh that a word follows. */
static bool ssh_takes_word(const char *option)
{
	return strlen(option) == 2 && strchr("BbcDEeFIiJLlmOopQRSWw", option[1]);
}

/* The place of the host among the words of a command that starts a daemon elsewhere; 0: it is
 * none. */
static int host_at(char *const *word, int n)
{
	int at = 1;

	/* STARTER... HOST /path/ringup rankd */
	if (n > 3 && !strcmp(word[n - 1], "rankd") && !strcmp(base_of(word[n - 2]), "ringup"))
		return n - 3;
	if (n < 3 || strcmp(base_of(word[0]), "ssh") != 0)
		return 0;
	while (at < n && *word[at] == '-')
		at += ssh_takes_word(word[at]) ? 2 : 1;
	return at < n - 1 ? at : 0;
}

/* Adds the host to which process @pid leads; its starter has to be that of the others. */
static void take_way(pid_t pid, struct roster *nodes, char *shell, size_t size)
{
	char text[CMDLINE], way[1024] = "", *word[WORDS];
	int n = words_of(pid, text, sizeof(text), word), host = host_at(word, n);
	size_t len = 0;
	struct err e;

	for (int i = 0; i < host && len < sizeof(way); i++)
		len += (size_t)snprintf(way + len, sizeof(way) - len, "%s%s", i ? " " : "",
					word[i]);
	if (!host || len >= sizeof(way) || len >= size || (*shell && strcmp(shell, way) != 0))
		return;
	if (!roster_add(nodes, word[host], &e))
		memcpy(shell, way, len + 1);
}

static void take_children(pid_t pid, struct roster *nodes, char *shell, size_t size)
{
	char name[48], text[16384], *at = text;
	long child;

	snprintf(name, sizeof(name), "task/%d/children", (int)pid);
	if (pidstat_file(pid, name, text, sizeof(text)) <= 0)
		return;
	while ((child = strtol(at, &at, 10)) > 0)
		take_way((pid_t)child, nodes, shell, size);
}

static const char *variable(const char *env, ssize_t len, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = env; len > 0 && at < env + len; at += strlen(at) + 1)
		if (!strncmp(at, name, n) && at[n] == '=')
			return at + n + 1;
	return NULL;
}

/* A step of Slurm's job, whose number is only digits. */
static void take_slurm(const struct hang_job *j, struct roster *nodes, char *shell, size_t size)
{
	char *env = malloc(JOBS_ENVIRON);
	ssize_t len = env ? pidstat_file(j->rank[0].pid, "environ", env, JOBS_ENVIRON)
			  : -1; /* /proc/PID/environ */
	const char *list = variable(env, len, "SLURM_JOB_NODELIST");
	const char *id = variable(env, len, "SLURM_JOB_ID");
	struct err e;

	if (list && id && *id && !id[strspn(id, "0123456789")] &&
	    !roster_slurm(nodes, list, &e))
		snprintf(shell, size, "srun --jobid=%.32s -N1 -n1 --overlap --input=0 -w", id);
	free(env);
}

void remote_ways(const struct hang_job *j, struct roster *nodes, char *shell, size_t size)
{
	struct pidstat p = { .parent = j->ranks ? j->launcher : 0 };

	*shell = 0;
	for (int up = 0; up < UP && p.parent > 1 && !nodes->n; up++) {
		take_children(p.parent, nodes, shell, size);
		if (pidstat_read(p.parent, &p))
			break;
	}
	if (!nodes->n && j->ranks && j->ranks < j->size)
		take_slurm(j, nodes, shell, size);
}

/* ---- asking ---- */

/* The agents of a job. */
struct remote {
	struct roster nodes;
	struct agents_how how;
	struct agents agents;
	struct twice *twice;
	char shell[1024];
	bool is_open;
	char name[TWICE_HOSTS][ROWS_NAME]; /* what sampled hosts call themselves */
	int names;
	bool is_empty[TWICE_HOSTS]; /* by agent: no process of this job runs there */
};

static void host_add(struct twice *t, const char *name, const char *why)
{
	struct twice_host *h;

	if (t->hosts == TWICE_HOSTS)
		return;
	h = &t->host[t->hosts++];
	snprintf(h->name, sizeof(h->name), "%.60s", name);
	snprintf(h->why, sizeof(h->why), "%s", why);
}

static void remote_sampled(struct remote *a, const char *name)
{
	if (*name && a->names < TWICE_HOSTS)
		snprintf(a->name[a->names++], ROWS_NAME, "%.60s", name);
}

static bool is_sampled(const struct remote *a, const char *name)
{
	for (int i = 0; i < a->names; i++)
		if (!strcmp(a->name[i], name))
			return true;
	return false;
}

static int take_answer(void *ctx, int i, const json_t *msg, struct err *e)
{
	struct remote *a = ctx;

	(void)e;
	remote_sampled(a, jsonio_string(msg, "host"));
	if (json_is_true(json_object_get(msg, "found")))
		remote_take(a->twice, msg);
	else if (i < TWICE_HOSTS)
		a->is_empty[i] = true;
	return 0;
}

static void remote_begin(struct remote *a, struct twice *t, const struct agents_how *how,
			 const struct twice_how *looks)
{
	struct agents_owner owner = { .take = take_answer, .ctx = a };
	struct err e = { 0 };

	*a = (struct remote){ .twice = t };
	a->how = *how;
	if (!how->nodes->n) {
		remote_ways(t->job, &a->nodes, a->shell, sizeof(a->shell));
		a->how.nodes = &a->nodes;
		a->how.start.kind = STARTER_SSH;
		a->how.start.shell = a->shell;
	}
	a->how.start.command[0] = "hang";
	a->how.start.command[1] = "--agent";
	if (!a->how.nodes->n)
		return;
	a->is_open = true;
	if (agents_open(&a->agents, &a->how, owner, &e)) {
		snprintf(t->now.unseen, sizeof(t->now.unseen), "other hosts: %.110s", e.text);
		return;
	}
	for (int i = 0; i < a->agents.n; i++)
		if (agents_start(&a->agents, i))
			agents_say(&a->agents, i,
				   json_pack("{ss sI sb so so so si}", "op", "look", "wait_ms",
					     (json_int_t)looks->wait_ms, "no_stacks",
					     looks->no_stacks, "key", jsonio_text(t->job->key),
					     "launcher", jsonio_text(t->job->source), "command",
					     jsonio_text(t->job->command), "size",
					     t->job->size),
				   "looked");
}

/* How long ranks have waited in the initialisation. */
static int64_t met_ms(const struct look *l)
{
	int64_t most = 0;

	for (int i = 0; i < l->ranks; i++)
		if (l->rank[i].phase == ROW_MEETING && l->rank[i].since_ms > most)
			most = l->rank[i].since_ms;
	return most;
}

/* Ranks without a process on their host, if that was sampled.  A rank whose host is not known
 * may still start, and runs elsewhere if the list of hosts is not @complete. */
static void find_gone(const struct remote *a, struct look *l, bool complete)
{
	bool is_long = met_ms(l) >= LONG_MS;
	struct row_rank *r;

	for (int rank = 0; rank < a->twice->job->size && rank < ROWS_RANKS; rank++) {
		r = look_find(l, rank);
		if (!r)
			r = look_rank(l, rank);
		if (r && r->state == ROW_UNSEEN &&
		    (*r->host ? is_sampled(a, r->host) : complete && is_long))
			r->state = ROW_GONE;
	}
}

static void remote_end(struct remote *a, const struct twice_how *looks)
{
	struct twice *t = a->twice;
	int64_t patience = a->how.start_ms ? a->how.start_ms : PATIENCE_MS;
	int64_t left = looks->wait_ms + patience - t->elapsed_ms;
	/* The launcher's own list of hosts, unlike that of an option. */
	bool complete = a->how.nodes == &a->nodes;
	char here[ROWS_NAME] = "";

	if (a->is_open) {
		agents_await(&a->agents, "hosts", left > 500 ? left : 500,
			     "no answer within the time limit");
		for (int i = 0; i < a->agents.n; i++) {
			bool lost = a->agents.m[i].lost;
			const char *why = lost ? a->agents.m[i].why : "";

			t->silent += lost;
			if (i < TWICE_HOSTS && a->is_empty[i])
				why = "no process of this job runs there";
			host_add(t, a->how.nodes->name[i], why);
		}
		agents_close(&a->agents);
		look_compare(&t->before);
		look_compare(&t->now);
		gethostname(here, sizeof(here) - 1);
		remote_sampled(a, here);
		find_gone(a, &t->before, complete && !t->silent);
		find_gone(a, &t->now, complete && !t->silent);
	}
	roster_free(&a->nodes);
}

void remote_look(struct twice *t, int n, const struct twice_how *how,
		 const struct agents_how *agents)
{
	struct remote *a = calloc((size_t)n, sizeof(*a));
	int i;

	for (i = 0; a && i < n; i++)
		remote_begin(&a[i], &t[i], agents, how);
	twice_look(t, n, how);
	for (i = 0; a && i < n; i++)
		remote_end(&a[i], how);
	for (i = 0; i < n; i++)
		twice_hint(&t[i], how);
	free(a);
}

void remote_take(struct twice *t, const json_t *answer)
{
	const json_t *before = json_object_get(answer, "before"),
		     *now = json_object_get(answer, "now");

	rows_load(&t->before, before);
	rows_load(&t->now, now);
	t->before.has_page |= json_is_true(json_object_get(before, "pages"));
	t->now.has_page |= json_is_true(json_object_get(now, "pages"));
	t->before.has_stack |= json_is_true(json_object_get(before, "stacks"));
	t->now.has_stack |= json_is_true(json_object_get(now, "stacks"));
	t->now.moved |= json_is_true(json_object_get(now, "moved"));
}

/* ---- the agent ---- */

/* The job on this host, or NULL.  MPICH's ranks have no name for their job: one with the same
 * command and size is taken for it. */
static const struct hang_job *choose(const struct hang_jobs *l, const json_t *ask)
{
	int size = 0;

	for (int i = 0; i < l->n; i++)
		if (*l->job[i].key && !strcmp(l->job[i].key, jsonio_string(ask, "key")))
			return &l->job[i];
	if (!jsonio_get_int(ask, "size", 0, ROWS_RANKS, 0, &size))
		return NULL;
	for (int i = 0; i < l->n; i++)
		if (l->job[i].size == size &&
		    !strcmp(l->job[i].source, jsonio_string(ask, "launcher")) &&
		    !strcmp(l->job[i].command, jsonio_string(ask, "command")))
			return &l->job[i];
	return NULL;
}

static json_t *look_save(const struct look *l)
{
	json_t *o = json_pack("{sb sb sb}", "pages", l->has_page, "stacks", l->has_stack,
			      "moved", l->moved);

	rows_save(l, o);
	return o;
}

static json_t *agent_look(const json_t *ask)
{
	struct twice_how how = { .no_stacks = json_is_true(json_object_get(ask, "no_stacks")) };
	struct hang_jobs l = { 0 };
	struct twice t = { 0 };
	char host[ROWS_NAME] = "";
	json_t *answer;
	int ms = 0;
	struct err e = { 0 };

	if (!jsonio_get_int(ask, "wait_ms", 0, MOST_WAIT_MS, 0, &ms) ||
	    strcmp(jsonio_string(ask, "op"), "look") != 0)
		return json_pack("{ss ss}", "op", "error", "why", "unknown request");
	how.wait_ms = ms;
	if (jobs_find(&l, NULL, 0, &e))
		return json_pack("{ss so}", "op", "error", "why", jsonio_text(e.text));
	t.job = choose(&l, ask);
	if (t.job)
		twice_look(&t, 1, &how);
	gethostname(host, sizeof(host) - 1);
	answer = json_pack("{ss so sb so so}", "op", "looked", "host", jsonio_text(host),
			   "found", t.job != NULL, "before", look_save(&t.before), "now",
			   look_save(&t.now));
	twice_free(&t);
	jobs_free(&l);
	return answer;
}

int remote_serve(int in, int out, struct err *e)
{
	json_t *ask, *answer;
	struct pollfd p = { in, POLLIN, 0 };
	struct talk t;
	int rc = 0, ended = 0;

	talk_open(&t, in, out);
	while (!rc && !ended) {
		poll(&p, 1, -1);
		ended = talk_read(&t, e);
		while (!rc && (rc = talk_next(&t, &ask, e)) > 0) {
			answer = agent_look(ask);
			json_decref(ask);
			rc = talk_say(&t, answer, e);
			while (rc > 0) {
				struct pollfd q = { out, POLLOUT, 0 };

				poll(&q, 1, -1);
				rc = talk_flush(&t, e);
			}
		}
	}
	talk_close(&t);
	return rc < 0 ? rc : 0;
}
