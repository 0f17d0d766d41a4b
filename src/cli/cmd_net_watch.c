/* cmd_net_watch.c - `ringup net watch`: report changes to the network and their effects. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "detect/netfacts.h"
#include "host/linkwatch.h"
#include "ringup.h"

/* One cause makes many messages: all within this time are one change. */
enum { SETTLE_MS = 100, MEANING = 240 };

static int as_json, seconds;

static const struct opt opts[] = {
	{ OPT_INT, 0, "for", "SECONDS", &seconds, "exit after this time (0: never)" },
	{ OPT_FLAG, 'j', "json", NULL, &as_json, "print one JSON object per line" },
	{ 0 },
};

/* The report of one change: the events, then their effects. */
struct report {
	json_t *changes, *meanings;
	bool is_change; /* not the start */
};

static void cmd_net_watch_hear(void *data, const char *what)
{
	struct report *r = data;

	json_array_append_new(r->changes, out_string(what));
}

/* "eth0 10.0.0.5, eth1 10.0.1.5", or "nothing". */
static void picks_text(const struct pick_role *r, char *out, size_t size)
{
	size_t len = 0;

	snprintf(out, size, "nothing");
	for (int i = 0; i < r->npicks && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s %s", i ? ", " : "",
					r->picks[i].interface, r->picks[i].address);
}

static void compare_roles(struct report *r, const struct picker *k, const struct picked *was,
			  const struct picked *is)
{
	char before[MEANING], after[MEANING], line[2 * MEANING + 100];

	for (int i = 0; i < is->nroles && i < was->nroles; i++) {
		if (*is->roles[i].unknown || *was->roles[i].unknown)
			continue;
		picks_text(&was->roles[i], before, sizeof(before));
		picks_text(&is->roles[i], after, sizeof(after));
		if (!strcmp(before, after))
			continue;
		snprintf(line, sizeof(line), "%s (%s) would now pick %s instead of %s",
			 k->title, is->roles[i].name, after, before);
		json_array_append_new(r->meanings, out_string(line));
	}
}

/* Finds libraries whose choice has changed. */
static int compare_picks(struct report *r, const struct snapshot *was,
			 const struct snapshot *is, struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && pickers[i]; i++) {
		struct picked before = { 0 }, after = { 0 };

		rc = picker_run(pickers[i], &was->ifaces, &was->settings, &before, e);
		if (!rc)
			rc = picker_run(pickers[i], &is->ifaces, &is->settings, &after, e);
		if (!rc)
			compare_roles(r, pickers[i], &before, &after);
		picker_free(&before);
		picker_free(&after);
	}
	return rc;
}

static void now_text(char out[32])
{
	struct timespec now;
	struct tm tm;
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	len = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + len, 32 - len, ".%03ldZ", now.tv_nsec / 1000000);
}

static void print_texts(const char *time, const struct report *r)
{
	const json_t *one;
	size_t i;

	json_array_foreach(r->changes, i, one)
		out_text("%s %s\n", time, json_string_value(one));
	json_array_foreach(r->meanings, i, one) {
		out_text("%s ", time);
		out_look(OUT_WARN, "%s\n", json_string_value(one));
	}
	if (r->is_change && !json_array_size(r->meanings))
		out_text("%s no library would pick another interface\n", time);
}

static int print(const struct report *r, struct err *e)
{
	char time[32];
	json_t *j;
	int rc = 0;

	now_text(time);
	if (!as_json) {
		print_texts(time, r);
	} else {
		j = json_pack("{ss ss sO sO}", "schema", "ringup.net.watch/1", "time", time,
			      "changes", r->changes, "meanings", r->meanings);
		if (!j || json_dumpf(j, stdout, JSON_COMPACT) || putchar('\n') == EOF)
			rc = fail(e, RINGUP_ESYSTEM, "cannot write the change");
		json_decref(j);
	}
	/* The reader of a pipe needs it now. */
	if (!rc && fflush(stdout))
		rc = fail_os(e, "cannot write the change");
	return rc;
}

/* Prints the first line, which tells the reader of a log since when it records. */
static int print_start(const struct snapshot *s, struct err *e)
{
	struct report r = { json_array(), json_array(), false };
	char text[64];
	int rc;

	snprintf(text, sizeof(text), "watching %d interfaces", s->ifaces.nifaces);
	cmd_net_watch_hear(&r, text);
	rc = print(&r, e);
	json_decref(r.changes);
	json_decref(r.meanings);
	return rc;
}

/* Reads the facts again, reports the difference, and keeps the new ones. */
static int cmd_net_watch_look(struct snapshot *was, struct err *e)
{
	struct netfacts_from from = { .root = cmd_conf()->root, .resolve = true };
	struct report r = { json_array(), json_array(), true };
	struct snapshot is;
	int rc = netfacts_read(&is, &from, e);

	if (!rc) {
		linkwatch_compare(&was->ifaces, &is.ifaces, cmd_net_watch_hear, &r);
		rc = compare_picks(&r, was, &is, e);
	}
	if (!rc && json_array_size(r.changes))
		rc = print(&r, e);
	json_decref(r.changes);
	json_decref(r.meanings);
	snapshot_free(was);
	*was = is;
	return rc;
}

static int watch(int changes, int signals, struct snapshot *s, struct err *e)
{
	struct pollfd wait[] = { { signals, POLLIN, 0 }, { changes, POLLIN, 0 } };
	int64_t end = clock_deadline(seconds ? seconds * (int64_t)1000 : -1);
	int rc = 0;

	while (!rc) {
		if (poll(wait, 2, clock_left_ms(end)) < 0 && errno != EINTR)
			return fail_os(e, "cannot wait for changes");
		if (wait[0].revents || !clock_left_ms(end))
			break;
		if (!wait[1].revents)
			continue;
		if (poll(wait, 1, SETTLE_MS) > 0)
			break;
		linkwatch_drain(changes);
		rc = cmd_net_watch_look(s, e);
	}
	return rc;
}

/* Turns signals into a descriptor, so that none is missed between reading and waiting. */
static int catch_signals(struct err *e)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	fd = sigprocmask(SIG_BLOCK, &set, NULL) ? -1 : signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		fail_os(e, "cannot wait for signals");
	return fd;
}

static int cmd_net_watch_run(int argc, char **argv, struct err *e)
{
	struct netfacts_from from = { .root = cmd_conf()->root, .resolve = true };
	struct snapshot s = { 0 };
	int signals, changes, rc;

	(void)argc;
	(void)argv;
	if (seconds < 0)
		return cmd_misuse(e, "--for=%d: must be 0 or more seconds", seconds);
	signals = catch_signals(e);
	changes = signals < 0 ? -1 : linkwatch_open(e);
	rc = changes < 0 ? RINGUP_ESYSTEM : netfacts_read(&s, &from, e);
	if (!rc)
		rc = print_start(&s, e);
	if (!rc)
		rc = watch(changes, signals, &s, e);
	snapshot_free(&s);
	if (changes >= 0)
		close(changes);
	if (signals >= 0)
		close(signals);
	return rc;
}

const struct cmd cmd_net_watch = {
	.name = "watch",
	.operands = "",
	.summary = "report changes to links, addresses and routes, and the jobs they affect",
	.examples = "ringup net watch\n"
		    "ringup net watch --json --for 3600 >> network.log",
	.opts = opts,
	.run = cmd_net_watch_run,
};
