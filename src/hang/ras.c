/* ras.c - NCCL RAS: ask a running job for its communicators, and read the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/ras.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "base/pidstat.h"
#include "hang/look.h"
#include "ringup.h"

enum {
	CONNECT_MS = 2000, /* a process that has not greeted by then is stopped */
	ANSWER_MS = 15000, /* RAS itself waits 10 s for processes that do not answer */
	TRIES = 6,
	ENVIRON = 256 << 10,
	WINDOW = 1 << 20,
};

/* ---- rows ---- */

/* The row of the process @pid on @host, or of @rank if there is no such row yet. */
static struct row_rank *row_of(struct look *l, int rank, int pid, const char *host)
{
	struct row_rank *r = look_find(l, rank);

	if (r && r->pid == pid && !strcmp(r->host, host))
		return r;
	for (int i = 0; i < l->ranks; i++)
		if (l->rank[i].pid == pid && !strcmp(l->rank[i].host, host))
			return &l->rank[i];
	/* A rank of a smaller communicator whose process no larger one has. */
	while (rank < ROWS_RANKS && look_find(l, rank))
		rank++;
	r = look_rank(l, rank);
	if (r) {
		r->pid = pid;
		snprintf(r->host, sizeof(r->host), "%.60s", host);
		r->state = ROW_ALIVE;
	}
	return r;
}

static void add_launched(struct look *l, int rank, const char *group, const char *what,
			 uint64_t launched, bool starting, int size)
{
	struct row_count *c = look_count(l, rank);

	if (!c)
		return;
	snprintf(c->group, sizeof(c->group), "%.60s", group);
	snprintf(c->what, sizeof(c->what), "%.60s", what);
	c->launched = launched;
	c->starting = starting;
	c->size = size;
}

/* ---- JSON ---- */

/* NCCL 2.28.9 leaves out a comma between two objects of a list: puts it in.  @out has room for
 * twice the bytes. */
static size_t mend(const char *text, size_t len, char *out)
{
	bool quoted = false;
	char last = 0;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '"' && (i == 0 || text[i - 1] != '\\'))
			quoted = !quoted;
		if (!quoted && c == '{' && last == '}')
			out[n++] = ',';
		if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
			last = c;
		out[n++] = c;
	}
	return n;
}

static json_t *ras_load(const char *text, size_t len)
{
	json_t *j = json_loadb(text, len, JSON_DISABLE_EOF_CHECK, NULL);
	char *mended = j ? NULL : malloc(2 * len + 1);

	if (mended)
		j = json_loadb(mended, mend(text, len, mended), JSON_DISABLE_EOF_CHECK, NULL);
	free(mended);
	return j;
}

static int int_of(const json_t *j, const char *key, int least, int otherwise)
{
	int n;

	return jsonio_get_int(j, key, least, INT_MAX, otherwise, &n) ? n : otherwise;
}

static void take_rank(struct look *l, const json_t *x, const char *group, int size)
{
	enum { IN_PROGRESS = 7 }; /* an ncclResult */
	const char *host = jsonio_string(x, "host"), *name;
	struct row_rank *r = row_of(l, int_of(x, "rank", 0, 0), int_of(x, "pid", 0, 0), host);
	json_t *counts = json_object_get(x, "collective_counts"), *count;
	bool starting = int_of(json_object_get(x, "status"), "init_state", 0, 0) == IN_PROGRESS;

	if (!r)
		return;
	json_object_foreach(counts, name, count)
		if (json_is_integer(count) && json_integer_value(count) >= 0)
			add_launched(l, r->rank, group, name,
				     (uint64_t)json_integer_value(count), starting, size);
}

/* A job of ringup tells its host's ranks only (engine/ras_report.h). */
static enum row_state missing_state(const json_t *x, bool by_host)
{
	const json_t *status = json_object_get(x, "status");

	return by_host && json_is_false(json_object_get(status, "unresponsive")) ? ROW_UNSEEN
										 : ROW_SILENT;
}

static void take_comm(struct look *l, const json_t *comm, bool by_host)
{
	const char *group = jsonio_string(comm, "hash");
	int size = int_of(comm, "size", 0, 0);
	const json_t *x;
	struct row_rank *r;
	size_t i;

	group += !strncmp(group, "0x", 2) ? 2 : 0;
	json_array_foreach(json_object_get(comm, "ranks"), i, x)
		take_rank(l, x, group, size);
	json_array_foreach(json_object_get(comm, "missing_ranks"), i, x) {
		r = row_of(l, int_of(x, "rank", 0, 0), int_of(x, "pid", 0, 0),
			   jsonio_string(x, "host"));
		if (r)
			r->state = missing_state(x, by_host);
	}
}

static int parse_json(struct look *l, const char *text, size_t len, char *version,
		      struct err *e)
{
	json_t *j = ras_load(text, len), *comms = json_object_get(j, "communicators"), *x;
	int most = 0;
	bool by_host = !strcmp(jsonio_string(j, "engine"), "ringup");
	size_t i, largest = 0;

	if (!json_is_array(comms)) {
		json_decref(j);
		return fail(e, RINGUP_EINVAL, "not a report of NCCL RAS: broken JSON");
	}
	snprintf(version, RAS_VERSION, "%.30s", jsonio_string(j, "nccl_version"));
	/* It numbers the ranks. */
	json_array_foreach(comms, i, x)
		if (int_of(x, "size", 0, 0) > most) {
			most = int_of(x, "size", 0, 0);
			largest = i;
		}
	l->size = most < ROWS_RANKS ? most : ROWS_RANKS;
	take_comm(l, json_array_get(comms, largest), by_host);
	json_array_foreach(comms, i, x)
		if (i != largest)
			take_comm(l, x, by_host);
	json_decref(j);
	return 0;
}

/* ---- text ---- */

/* The line at @at, without its end, cut to @size; returns the next one, or NULL. */
static const char *next_line(const char *at, const char *end, char *line, size_t size)
{
	const char *stop = memchr(at, '\n', (size_t)(end - at));
	size_t len = (size_t)((stop ? stop : end) - at);

	len = len < size ? len : size - 1;
	memcpy(line, at, len);
	line[len] = 0;
	if (len && line[len - 1] == '\r')
		line[len - 1] = 0;
	return stop && stop + 1 < end ? stop + 1 : NULL;
}

struct text {
	struct look *look;
	int size;             /* ranks of the communicator of the last table row */
	char group[32];       /* hash; "": outside of a block                   */
	bool missing, status; /* the block lists missing ranks, or ranks' status */
	char what[32];        /* the collective whose counts differ; "": none   */
};

/* Text gives no rows for ranks that are as the others are: makes them. */
static void make_ranks(struct text *t)
{
	for (int r = 0; r < t->size && r < ROWS_RANKS; r++) {
		struct row_rank *x = look_find(t->look, r) ? NULL : look_rank(t->look, r);

		if (x)
			x->state = ROW_ALIVE;
	}
	if (t->look->size < t->size)
		t->look->size = t->size < ROWS_RANKS ? t->size : ROWS_RANKS;
}

static void set_count(struct text *t, int rank, uint64_t launched, bool starting)
{
	const char *what = *t->what ? t->what : "operation";

	for (int i = 0; i < t->look->counts; i++) {
		struct row_count *c = &t->look->count[i];

		if (c->rank == rank && !strcmp(c->group, t->group) && !strcmp(c->what, what)) {
			c->launched = launched;
			c->starting = starting;
			return;
		}
	}
	add_launched(t->look, rank, t->group, what, launched, starting, t->size);
}

static void name_process(struct text *t, int rank, const char *line)
{
	struct row_rank *r = look_find(t->look, rank);
	const char *process = strstr(line, "process "), *node = strstr(line, " on node ");

	if (!r)
		return;
	if (process)
		r->pid = (int)strtol(process + 8, NULL, 10);
	if (node)
		snprintf(r->host, sizeof(r->host), "%.60s", node + 9);
	if (t->missing)
		r->state = strstr(line, " is on another host ") ? ROW_UNSEEN : ROW_SILENT;
}

/* "#0-0 (1f2e3d4c5b6a7988) MISMATCH" */
static void begin_block(struct text *t, const char *line)
{
	const char *open = strchr(line, '('), *close = open ? strchr(open, ')') : NULL;

	t->missing = strstr(line, "INCOMPLETE") != NULL;
	*t->what = *t->group = 0;
	if (close)
		snprintf(t->group, sizeof(t->group), "%.*s",
			 (int)(close - open - 1 < 31 ? close - open - 1 : 31), open + 1);
	make_ranks(t);
}

/* "  Rank 1 has launched up to operation 40 -- GPU 1 managed by process 3003 on node 127.0.0.1"
 */
static void take_one(struct text *t, const char *line)
{
	unsigned long long launched = 0;
	char status[32] = "";
	int rank;

	if (sscanf(line, " Rank %d", &rank) != 1 || !*t->group)
		return;
	name_process(t, rank, line);
	if (t->missing || !look_find(t->look, rank))
		return;
	if (sscanf(line, " Rank %*d has status %31s", status) == 1)
		set_count(t, rank, 0, !strcmp(status, "INIT"));
	else if (strstr(line, "not launched any") ||
		 sscanf(line, " Rank %*d has launched up to operation %llu", &launched) == 1)
		set_count(t, rank, launched, false);
}

/* "  3 ranks have launched up to operation 41": all that are not listed behind it. */
static void take_many(struct text *t, const char *line)
{
	unsigned long long launched = 0;
	char status[32] = "";
	int n;
	bool is_status = sscanf(line, " %d ranks have status %31s", &n, status) == 2;

	if (!is_status &&
	    sscanf(line, " %d ranks have launched up to operation %llu", &n, &launched) != 2)
		return;
	/* Of several such lines the first is of the most ranks. */
	for (int i = 0; i < t->look->counts; i++)
		if (!strcmp(t->look->count[i].group, t->group) &&
		    !strcmp(t->look->count[i].what, *t->what ? t->what : "operation"))
			return;
	for (int r = 0; r < t->size && r < ROWS_RANKS; r++)
		if (look_find(t->look, r) && look_find(t->look, r)->state == ROW_ALIVE)
			set_count(t, r, launched, is_status && !strcmp(status, "INIT"));
}

static void take_line(struct text *t, const char *line)
{
	char word[32];
	int size;

	if (*line == '#') {
		begin_block(t, line);
	} else if (sscanf(line, " Communicator ranks have different %31s operation", word) ==
			   1 &&
		   strcmp(word, "status") != 0) {
		snprintf(t->what, sizeof(t->what), "%s",
			 strcmp(word, "operation") != 0 ? word : "operation");
	} else if (sscanf(line, " %*d %*d %*s %*s %d %*d", &size) == 1 &&
		   (strstr(line, "RUNNING") || strstr(line, "INIT") ||
		    strstr(line, "FINALIZE") || strstr(line, "ABORT") ||
		    strstr(line, "NOCOMM"))) {
		t->size = size > t->size ? size : t->size;
		make_ranks(t);
	} else if (!strncmp(line, "  Rank ", 7)) {
		take_one(t, line);
	} else {
		take_many(t, line);
	}
}

static int parse_text(struct look *l, const char *text, size_t len, char *version,
		      struct err *e)
{
	static const char is[] = "NCCL version ";
	const char *end = text + len;
	struct text t = { .look = l };
	char line[512];

	*version = 0;
	for (const char *at = len ? text : NULL; at;) {
		at = next_line(at, end, line, sizeof(line));
		if (!strncmp(line, is, sizeof(is) - 1) && !*version)
			(void)sscanf(line + sizeof(is) - 1, "%31[0-9.]", version);
		take_line(&t, line);
	}
	return *version ? 0 : fail(e, RINGUP_EINVAL, "not a report of NCCL RAS");
}

/* ---- either ---- */

bool ras_is_answer(const char *text, size_t len)
{
	size_t look = len < 4096 ? len : 4096;

	return memmem(text, look, "\"nccl_version\"", 14) ||
	       (memmem(text, look, "NCCL version ", 13) &&
		memmem(text, look, "Job summary", 11));
}

int ras_parse(struct look *l, const char *text, size_t len, char *version, struct err *e)
{
	const char *open = memchr(text, '{', len < 64 ? len : 64);

	*version = 0;
	return open ? parse_json(l, open, len - (size_t)(open - text), version, e)
		    : parse_text(l, text, len, version, e);
}

/* ---- the client ---- */

static int connect_to(const char *where, struct err *e)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *list = NULL, *a;
	const char *colon = strrchr(where, ':');
	char host[128];
	int fd = -1;

	if (!colon || colon == where || (size_t)(colon - where) >= sizeof(host))
		return fail(e, RINGUP_EINVAL, "%.80s: not HOST:PORT", where);
	/* "[::1]:28028" */
	snprintf(host, sizeof(host), "%.*s", (int)(colon - where), where);
	if (*host == '[' && colon[-1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)(colon - where - 2), where + 1);
	if (getaddrinfo(host, colon + 1, &want, &list))
		return fail(e, RINGUP_ESYSTEM, "%.80s: no such address", where);
	for (a = list; a && fd < 0; a = a->ai_next) {
		struct timeval limit = { CONNECT_MS / 1000, 0 };

		fd = file_lift(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		if (fd < 0)
			continue;
		/* Linux limits connect(2), too, by this. */
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		if (connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	return fd < 0 ? fail_os(e, "connect to NCCL RAS at %.80s", where) : fd;
}

/* Reads until a newline (@whole: until the end) or the deadline; returns the bytes, or -1. */
static ssize_t hear(int fd, char *out, size_t cap, bool whole, int64_t deadline)
{
	size_t len = 0;
	ssize_t n;

	while (len + 1 < cap) {
		struct pollfd p = { fd, POLLIN, 0 };

		if (poll(&p, 1, clock_left_ms(deadline)) <= 0)
			return -1;
		n = read(fd, out + len, cap - 1 - len);
		if (n < 0)
			return -1;
		len += (size_t)n;
		out[len] = 0;
		if (!n || (!whole && out[len - 1] == '\n'))
			return (ssize_t)len;
	}
	return -1;
}

static bool say(int fd, const char *line)
{
	size_t len = strlen(line);

	return send(fd, line, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* One conversation; 1: this process hears nothing, so try another. */
static int ras_converse(int fd, char *out, ssize_t *len, int64_t until_ns, struct err *e)
{
	char line[256];
	int64_t soon = clock_deadline(CONNECT_MS), late = clock_deadline(ANSWER_MS);

	clock_sooner(&soon, until_ns);
	clock_sooner(&late, until_ns);
	if (!say(fd, "CLIENT PROTOCOL 2\n") || hear(fd, line, sizeof(line), false, soon) <= 0)
		return 1;
	if (strncmp(line, "SERVER PROTOCOL", 15) != 0)
		return fail(e, RINGUP_EINVAL, "not NCCL RAS: the server answered %.40s", line);
	/* Before 2.28.7 there is no JSON, and the text is taken. */
	if (!say(fd, "SET FORMAT json\n") || hear(fd, line, sizeof(line), false, soon) <= 0)
		return 1;
	if (!say(fd, "VERBOSE STATUS\n"))
		return 1;
	*len = hear(fd, out, RAS_MOST, true, late);
	return *len > 0 ? 0 : 1;
}

int ras_fetch(const char *where, int64_t until_ns, char **outp, size_t *lenp, struct err *e)
{
	char *out = malloc(RAS_MOST);
	ssize_t len = 0;
	int fd, rc = 1;

	if (!out)
		return fail(e, RINGUP_ENOMEM, "no memory for an answer of NCCL RAS");
	for (int i = 0; i < TRIES && rc == 1 && clock_ns() < until_ns; i++) {
		fd = connect_to(where, e);
		rc = fd < 0 ? fd : ras_converse(fd, out, &len, until_ns, e);
		if (fd >= 0)
			close(fd);
	}
	if (rc == 1)
		rc = fail(e, RINGUP_ETIMEDOUT, "NCCL RAS at %.80s does not answer", where);
	if (rc) {
		free(out);
		return rc;
	}
	*outp = out;
	*lenp = (size_t)len;
	return 0;
}

int ras_ask(struct look *l, const char *where, char *version, struct err *e)
{
	char *out = NULL;
	size_t len = 0;
	int rc = ras_fetch(where, INT64_MAX, &out, &len, e);

	*version = 0;
	if (!rc)
		rc = ras_parse(l, out, len, version, e);
	free(out);
	return rc;
}

/* ---- which NCCL ---- */

const char *ras_hazard(const char *version, int size)
{
	int major, minor, patch;

	if (sscanf(version, "%d.%d.%d", &major, &minor, &patch) != 3)
		return "some versions crash when they are queried";
	if (major != 2)
		return NULL;
	if (minor < 24)
		return "this version has no RAS";
	if (minor == 26 && patch >= 2 && patch <= 5)
		return "a RAS query during initialization crashes the job (NCCL issue 1669)";
	if (minor == 27 && patch == 3)
		return "a RAS query corrupts memory (NCCL issue 1762)";
	if (minor == 27 && patch == 7)
		return "a RAS query crashes the job (NCCL issue 1996)";
	if (((minor == 29 && patch >= 7) || minor == 30) && (size >= 256 || !size))
		return "a RAS query may crash a job of 256 GPUs or more (NCCL issue 2346)";
	return NULL;
}

/* A library says its version somewhere in its text. */
static void find_version(pid_t pid, const char *library, char *version)
{
	static const char is[] = "NCCL version ";
	char path[PATH_MAX + 32], *window = malloc(WINDOW), *at;
	ssize_t n, kept = 0;
	int fd;

	*version = 0;
	/* Through the process, which may have another root. */
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, library);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	while (window && fd >= 0 && !*version &&
	       (n = read(fd, window + kept, (size_t)(WINDOW - kept))) > 0) {
		n += kept;
		for (at = window;
		     (at = memmem(at, (size_t)(window + n - at), is, sizeof(is) - 1)); at++) {
			if (at + sizeof(is) + RAS_VERSION >= window + n)
				break;
			if (at[sizeof(is) - 1] >= '0' && at[sizeof(is) - 1] <= '9') {
				(void)sscanf(at + sizeof(is) - 1, "%31[0-9.]", version);
				break;
			}
		}
		kept = n > 128 ? 128 : n;
		memmove(window, window + n - kept, (size_t)kept);
	}
	if (fd >= 0)
		close(fd);
	free(window);
}

bool ras_of(pid_t pid, char *version, char *where)
{
	char *maps = malloc(4 << 20), *env = malloc(ENVIRON), *at;
	char library[PATH_MAX] = "";
	const char *value;
	ssize_t len;

	*version = *where = 0;
	if (maps && env && pidstat_file(pid, "maps", maps, 4 << 20) > 0 &&
	    (at = strstr(maps, "/libnccl.so"))) {
		while (at > maps && at[-1] != '\n' && at[-1] != ' ')
			at--;
		snprintf(library, sizeof(library), "%.*s", (int)strcspn(at, "\n"), at);
		find_version(pid, library, version);
		len = pidstat_file(pid, "environ", env, ENVIRON); /* /proc/PID/environ */
		value = len > 0 ? pidstat_variable(env, (size_t)len, "NCCL_RAS_ENABLE") : NULL;
		if (!value || strcmp(value, "0") != 0) {
			value = len > 0 ? pidstat_variable(env, (size_t)len, "NCCL_RAS_ADDR")
					: NULL;
			snprintf(where, 128, "%.100s", value ? value : "localhost:28028");
		}
	}
	free(maps);
	free(env);
	return *library != 0;
}
