/* cmd_bench.c - `ringup bench`: time a collective, beside peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/argv.h"
#include "base/conf.h"
#include "base/data.h"
#include "base/err.h"
#include "base/log.h"
#include "bench/contender.h"
#include "bench/contest.h"
#include "bench/groups.h"
#include "bench/hog.h"
#include "bench/measure.h"
#include "bench/peer.h"
#include "bench/serve.h"
#include "bench/task.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "cli/scoreboard.h"
#include "report/plot.h"
#include "ringup.h"
#include "wire/discover.h"

enum { MOST_SIZES = 128, MOST_RANKS = 65536, MOST_HOGS = 1024, START_MS = 90000 };
enum { SAMPLE_US = 200, BESIDE_HOGS_US = 50000 };

static int ranks = INT_MIN, iterations, seconds = 1, check, as_json, factor = 2, hogs, pin,
	   shared, uneven, members = 1;
static uint64_t min_bytes, max_bytes;
static const char *sizes = "8,128,2K,32K,512K,8M,64M";
static const char *dtype = "f32", *op = "sum", *backend = "", *in_place = "no";
static const char *peer_list = "", *python, *level = "c", *group_words = "", *under = "",
		  *door_path, *plot_path;

extern const struct cmd cmd_bench;

static const struct opt opts[] = {
	{ OPT_INT, 'n', "ranks", "N", &ranks, "how many ranks to start (2)" },
	{ OPT_INT, 0, "np", "N", &ranks, "the same, as mpirun spells it" },
	{ OPT_STR, 's', "sizes", "LIST", &sizes,
	  "bytes, or FROM:TO:FACTOR (8,128,2K,32K,512K,8M,64M)" },
	{ OPT_SIZE, 'b', "min-bytes", "SIZE", &min_bytes, "instead of --sizes: from here" },
	{ OPT_SIZE, 'e', "max-bytes", "SIZE", &max_bytes, "to here" },
	{ OPT_INT, 'f', "factor", "N", &factor, "each size N times the one before (2)" },
	{ OPT_STR, 'd', "dtype", "TYPE", &dtype, "type of the elements (f32)" },
	{ OPT_STR, 'o', "op", "OP", &op, "sum average min max product adasum (sum)" },
	{ OPT_STR, 0, "in-place", "WHICH", &in_place,
	  "result replaces input: no yes both (no)" },
	{ OPT_FLAG, 0, "uneven", NULL, &uneven,
	  "blocks of different lengths: allgather reducescatter alltoall" },
	{ OPT_INT, 0, "members", "N", &members,
	  "N tensors together: allreduce allgather reducescatter (1)" },
	{ OPT_STR, 'g', "groups", "GROUPS", &group_words,
	  "in N groups, or in these: 0,1/1,2 (all ranks in one)" },
	{ OPT_FLAG, 'a', "alloc", NULL, &shared, "use buffers from ringup_alloc()" },
	{ OPT_STR, 0, "backend", "NAME", &backend, "use this back end only" },
	{ OPT_STR, 'p', "peer", "LIST", &peer_list,
	  "measure beside: openmpi openmpi-tuned mpich gloo horovod" },
	{ OPT_STR, 0, "python", "FILE", &python,
	  "the Python for peers that need one (python3)" },
	{ OPT_STR, 'l', "level", "LEVEL", &level, "c, or torch: through horovod.torch (c)" },
	{ OPT_INT, 't', "seconds", "N", &seconds, "about how long to measure each size (1)" },
	{ OPT_INT, 'i', "iterations", "N", &iterations, "samples of each size, however long" },
	{ OPT_FLAG, 'c', "check", NULL, &check,
	  "compare every result; status 1 if any is wrong" },
	{ OPT_FLAG, 0, "json", NULL, &as_json, "one JSON object a line" },
	{ OPT_STR, 0, "plot", "FILE", &plot_path,
	  "also draw times over sizes, as SVG or as .html" },
	{ OPT_STR, 'u', "under", "PROGRAM", &under,
	  "start each rank by PROGRAM, with the rank's command as its arguments" },
	{ OPT_INT, 0, "hog", "N", &hogs, "let N processes burn a processor each meanwhile" },
	{ OPT_FLAG, 0, "pin", NULL, &pin,
	  "bind rank r of everybody to the r-th processor, counting around" },
	{ OPT_STR, 0, "join", "SOCKET", &door_path, "be a rank of a contest that waits there" },
	{ 0 },
};

/* The parsed request. */
struct request {
	struct task task;
	uint64_t sizes[MOST_SIZES];
	int count;
	bool places[2]; /* out of place, in place */
	const struct peer *peer[CONTEST_PLAYERS];
	int peers;
	struct groups groups;
	struct plot *plot; /* or NULL */
	bool unchecked;    /* a result of ours was not compared, though checks are on */
};

/* -- parsing -------------------------------------------------------------- */

static int add_size(struct request *q, uint64_t bytes, struct err *e)
{
	if (q->count == MOST_SIZES)
		return cmd_misuse(e, "--sizes=%.80s: at most %d sizes", sizes, MOST_SIZES);
	q->sizes[q->count++] = bytes;
	return 0;
}

static int add_range(struct request *q, uint64_t from, uint64_t to, uint64_t times,
		     struct err *e)
{
	int rc = 0;

	if (!from || from > to || times < 2)
		return cmd_misuse(e, "sizes from %llu to %llu by %llu: nothing to measure",
				  (unsigned long long)from, (unsigned long long)to,
				  (unsigned long long)times);
	for (; from <= to && !rc; from *= times) {
		rc = add_size(q, from, e);
		if (from > to / times)
			break;
	}
	return rc;
}

/* Parses "8", "2K" or "2K:64M:4". */
static int add_word(struct request *q, char *word, struct err *e)
{
	char *parts[3] = { word, NULL, NULL };
	uint64_t n[3] = { 0, 0, 2 };

	for (int i = 1; i < 3 && (parts[i] = strchr(parts[i - 1], ':')); i++)
		*parts[i]++ = 0;
	for (int i = 0; i < 3 && parts[i]; i++)
		if (conf_size(parts[i], &n[i]) || !n[i])
			return cmd_misuse(
				e, "--sizes=%.80s: \"%s\" is not a size such as 8, 64K or 2M",
				sizes, parts[i]);
	return parts[1] ? add_range(q, n[0], n[1], n[2], e) : add_size(q, n[0], e);
}

static int parse_sizes(struct request *q, struct err *e)
{
	const char *at = sizes;
	char word[64];
	int rc;

	if (min_bytes || max_bytes)
		return add_range(q, min_bytes ? min_bytes : 4,
				 max_bytes ? max_bytes : min_bytes,
				 (uint64_t)(factor > 0 ? factor : 0), e);
	for (;;) {
		size_t len = strcspn(at, ",");

		snprintf(word, sizeof(word), "%.*s", (int)len, at);
		rc = add_word(q, word, e);
		if (rc || !at[len])
			return rc;
		at += len + 1;
	}
}

/* Lists the known names: " openmpi openmpi-tuned ...". */
static const char *known(const char *(*name)(int i))
{
	static char names[256];
	size_t n = 0;

	for (int i = 0; name(i) && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, " %s", name(i));
	return names;
}

static const char *peer_name(int i)
{
	return peers[i].name;
}

static int parse_peers(struct request *q, struct err *e)
{
	const char *at = peer_list;
	char word[64];

	while (*at) {
		size_t len = strcspn(at, ",");

		snprintf(word, sizeof(word), "%.*s", (int)len, at);
		if (q->peers == CONTEST_PLAYERS - 1)
			return cmd_misuse(e, "--peer=%.80s: at most %d", peer_list,
					  CONTEST_PLAYERS - 1);
		q->peer[q->peers] = peer_find(word);
		if (!q->peer[q->peers++])
			return cmd_misuse(e, "--peer=%.80s: %s is none of:%s", peer_list, word,
					  known(peer_name));
		at += len + (at[len] == ',');
	}
	return 0;
}

static int parse_task(const char *collective, struct request *q, struct err *e)
{
	int type = task_dtype(dtype), redop = task_redop(op);
	const char *why;

	if (!task_find(&q->task, collective))
		return cmd_misuse(e, "%.80s is none of:%s", collective, known(task_names));
	if (type < 0)
		return cmd_misuse(
			e, "--dtype=%.80s: not u8 i8 u16 i16 i32 i64 f16 bf16 f32 f64 or bool",
			dtype);
	if (redop < 0)
		return cmd_misuse(e, "--op=%.80s: not sum average min max product or adasum",
				  op);
	q->task.dtype = (enum ringup_dtype)type;
	q->task.redop = (enum ringup_redop)redop;
	why = task_cannot(&q->task);
	return why ? cmd_misuse(e, "--op=%s --dtype=%s: %s", op, dtype, why) : 0;
}

/* Chooses in place, out of place or both; a task may have only one. */
static int parse_places(struct request *q, struct err *e)
{
	bool both = !strcmp(in_place, "both");

	q->places[0] = both || !strcmp(in_place, "no");
	q->places[1] = both || !strcmp(in_place, "yes");
	if (!q->places[0] && !q->places[1])
		return cmd_misuse(e, "--in-place=%.80s: not no, yes or both", in_place);
	if (task_has_place(&q->task) && q->task.what != TASK_SET)
		return 0;
	if (!q->places[0] && q->task.what != TASK_SET)
		return cmd_misuse(e, "--in-place=%s: %s has no such form", in_place,
				  task_name(&q->task));
	q->places[1] = q->task.what == TASK_SET;
	q->places[0] = !q->places[1];
	return 0;
}

static int parse_form(struct task *t, struct err *e)
{
	t->uneven = uneven;
	t->members = members;
	if (members < 1 || members > TASK_MEMBERS)
		return cmd_misuse(e, "--members=%d: not 1 to %d", members, TASK_MEMBERS);
	if (members > 1 && !task_has_many(t))
		return cmd_misuse(e,
				  "--members=%d: %s has no such form; allreduce, allgather and "
				  "reducescatter have",
				  members, task_name(t));
	if (uneven && !task_has_blocks(t))
		return cmd_misuse(e,
				  "--uneven: %s has no blocks; allgather, reducescatter and "
				  "alltoall have",
				  task_name(t));
	return 0;
}

static int parse_groups(struct groups *g, int among, struct err *e)
{
	struct err why = { 0 };

	if (groups_parse(g, group_words, among, &why))
		return cmd_misuse(e, "--groups=%.80s: %s", group_words, why.text);
	return 0;
}

static int cmd_bench_parse(const char *collective, struct request *q, struct err *e)
{
	int rc = parse_task(collective, q, e);

	if (!rc)
		rc = parse_places(q, e);
	if (!rc)
		rc = parse_form(&q->task, e);
	if (!rc)
		rc = parse_peers(q, e);
	if (rc)
		return rc;
	if (strcmp(level, "c") != 0 && strcmp(level, "torch") != 0)
		return cmd_misuse(e, "--level=%.80s: not c or torch", level);
	if (!strcmp(level, "torch") && (shared || *group_words))
		return cmd_misuse(e, "--level=torch has neither --alloc nor --groups");
	if (q->peers && *group_words)
		return cmd_misuse(
			e, "--groups: a peer has one group of all ranks; leave --peer out");
	if (!strcmp(level, "torch") && q->places[1] && task_has_blocks(&q->task))
		return cmd_misuse(e, "--level=torch --in-place=%s: %s has no such form there",
				  in_place, task_name(&q->task));
	if (*backend && !backend_find(backend))
		return cmd_misuse(e, "--backend=%.80s: there is none of that name", backend);
	if (hogs < 0 || hogs > MOST_HOGS)
		return cmd_misuse(e, "--hog=%d: not 0 to %d", hogs, MOST_HOGS);
	if (iterations < 0 || iterations > CONTEST_SAMPLES)
		return cmd_misuse(e, "--iterations=%d: not 0 to %d", iterations,
				  CONTEST_SAMPLES);
	if (seconds < 0 || (ranks != INT_MIN && (ranks < 1 || ranks > MOST_RANKS)))
		return cmd_misuse(e, "--%s: out of range", seconds < 0 ? "seconds" : "ranks");
	if (plot_path && q->task.what == TASK_BARRIER)
		return cmd_misuse(e, "--plot=%.80s: a barrier has no sizes to draw", plot_path);
	if (q->task.what == TASK_BARRIER || q->task.what == TASK_SET) {
		q->count = 1;
		return 0;
	}
	return parse_sizes(q, e);
}

/* -- the contests --------------------------------------------------------- */

static void show_progress(void *ctx, int turn, int turns)
{
	const struct task *t = ctx;

	fprintf(stderr, "\r\033[K%s, %llu bytes: turn %d of %d", task_name(t),
		(unsigned long long)t->bytes, turn + 1, turns);
}

/* Adds a point to the curve of each contender and placement. */
static void draw(struct plot *to, const struct scoreboard *s, const struct task *t,
		 const struct contest_result *r)
{
	char name[PLOT_NAME];

	for (int i = 0; i < s->count; i++) {
		if (!r->score[i].played)
			continue;
		snprintf(name, sizeof(name), "%s%s%s%s", s->players[i].name,
			 t->in_place && !strcmp(in_place, "both") ? ", in place" : "",
			 r->place == PLACEMENT_UNKNOWN ? "" : ", ",
			 r->place == PLACEMENT_UNKNOWN ? "" : placement_name(r->place));
		plot_add(to, name, (double)t->bytes, r->score[i].median);
	}
	plot_add_row(to, scoreboard_json(s, t, r));
}

static void name_plot(struct plot *p, const struct scoreboard *s, const struct task *t)
{
	char form[TASK_FORM];

	task_form(t, form);
	snprintf(p->title, sizeof(p->title), "%s, %s, %d ranks on %d node%s%s", task_name(t),
		 dtype, s->ranks, s->nodes, s->nodes == 1 ? "" : "s", form);
}

/* Prepares the plot, if one is wanted; fails early if it cannot be written. */
static int open_plot(struct request *q, struct err *e)
{
	if (!plot_path)
		return 0;
	q->plot = calloc(1, sizeof(*q->plot));
	return q->plot ? plot_try(plot_path, e) : fail(e, RINGUP_ENOMEM, "a plot");
}

/* Writes the plot after all ranks have ended: a FIFO's reader may be slow.  @rc: so far. */
static int close_plot(struct request *q, int rc, struct err *e)
{
	int bad = q->plot && rc >= 0 ? plot_write(q->plot, plot_path, e) : 0;

	if (q->plot)
		plot_free(q->plot);
	free(q->plot);
	return bad ? bad : rc;
}

/* Wrong elements of all players. */
static uint64_t count_wrong(const struct contest_result *r, int players)
{
	uint64_t wrong = 0;

	for (int i = 0; i < players; i++)
		if (r->score[i].wrong > 0)
			wrong += (uint64_t)r->score[i].wrong;
	return wrong;
}

static int measure_one(struct request *q, const struct scoreboard *s, struct contest *c,
		       bool prints, uint64_t *wrong, struct err *e)
{
	struct contest_result results[PLACEMENT_KINDS];
	int i, count, rc = contest_run(c, results, &count, e);

	if (c->progress)
		fputs("\r\033[K", stderr);
	for (i = 0; i < count && !rc; i++) {
		*wrong += count_wrong(&results[i], s->count);
		q->unchecked |= check && results[i].score[0].wrong < 0;
		if (q->plot)
			draw(q->plot, s, &q->task, &results[i]);
		if (prints)
			rc = scoreboard_row(s, &q->task, &results[i], e);
	}
	return rc;
}

/* Measures each size and placement of the request; returns an exit status. */
static int measure_all(struct request *q, const struct scoreboard *s, struct player *players,
		       struct placement *placement, bool prints, struct err *e)
{
	struct contest c = {
		.players = players,
		.count = s->count,
		.task = &q->task,
		.placement = placement,
		.samples = iterations,
		.seconds = seconds,
		.sample_us = hogs ? BESIDE_HOGS_US : SAMPLE_US,
		.check = check,
		.progress = prints && isatty(STDERR_FILENO) ? show_progress : NULL,
		.ctx = &q->task,
	};
	uint64_t wrong = 0;
	int rc = 0;

	if (prints)
		rc = scoreboard_head(s, &q->task, e);
	for (int i = 0; i < q->count && !rc; i++)
		for (int place = 0; place < 2 && !rc; place++) {
			if (!q->places[place])
				continue;
			q->task.in_place = place;
			task_resize(&q->task, q->sizes[i], s->group_ranks);
			rc = measure_one(q, s, &c, prints, &wrong, e);
		}
	if (q->plot)
		name_plot(q->plot, s, &q->task);
	if (q->unchecked)
		log_warn("--check: --level=torch compares sums of f32 only; of this nothing "
			 "was compared");
	return rc ? rc : wrong ? CMD_NO : CMD_YES;
}

/* -- as one rank ---------------------------------------------------------- */

static int join_job(struct ringup **rp, struct err *e)
{
	int rc;

	/* Set before the library reads it, and before there is a second thread. */
	if (*backend && setenv("RINGUP_BACKEND", backend, 1))
		return fail_os(e, "RINGUP_BACKEND=%s", backend);
	rc = ringup_init(NULL, rp);
	return rc ? fail(e, rc, "%s", ringup_error()) : 0;
}

/* Runs as a rank of a job that was started elsewhere.  Only rank 0 prints. */
static int be_rank(struct request *q, struct err *e)
{
	struct measure_how how = { &q->groups, shared };
	struct ringup *r = NULL;
	struct measure *m = NULL;
	int rc = join_job(&r, e);

	if (!rc)
		rc = parse_groups(&q->groups, ringup_size(ringup_world(r)), e);
	if (!rc && ringup_rank(ringup_world(r)) == 0)
		rc = open_plot(q, e);
	if (!rc)
		rc = measure_open(r, &how, &m, e);
	if (!rc) {
		struct ringup_group *g = ringup_world(r);
		struct player p = measure_player(m);
		struct scoreboard s = {
			.json = as_json,
			.shared = shared,
			.ranks = ringup_size(g),
			.groups = q->groups.count ? q->groups.count : 1,
			.group_ranks = q->groups.count ? q->groups.size[0] : ringup_size(g),
			.nodes = ringup_host_count(r),
			.backend = ringup_backend(g),
			.players = &p,
			.count = 1,
		};

		rc = measure_all(q, &s, &p, NULL, ringup_rank(g) == 0, e);
	}
	measure_close(m);
	ringup_fini(r);
	return close_plot(q, rc, e);
}

static int be_contender(struct request *q, struct err *e)
{
	struct measure_how how = { &q->groups, shared };
	struct ringup *r = NULL;
	int rc = join_job(&r, e);

	if (!rc)
		rc = parse_groups(&q->groups, ringup_size(ringup_world(r)), e);
	if (!rc)
		rc = serve_run(r, &how, door_path, e);
	ringup_fini(r);
	return rc;
}

/* -- as the conductor of the contest -------------------------------------- */

struct arena {
	char self[PATH_MAX], data[PATH_MAX];
	struct contender_door door;
	struct contender *contender[CONTEST_PLAYERS];
	struct player player[CONTEST_PLAYERS];
	int count, stop_fd;
	sigset_t signals; /* blocked before */
	struct placement *placement;
	struct hog *hog;
};

static int find_data(struct arena *a, struct err *e)
{
	ssize_t len = readlink("/proc/self/exe", a->self, sizeof(a->self) - 1);

	if (len < 0)
		return fail_os(e, "/proc/self/exe");
	a->self[len] = 0;
	return data_find(a->data, "bench", e);
}

/* Finds the shared library, in a build tree or where it was installed with this program. */
static bool find_library(const struct arena *a, char *out, size_t size)
{
	static const char *const beside[] = { ".libs", "../lib" };
	int dir = (int)(strrchr(a->self, '/') - a->self);

	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
		if (snprintf(out, size, "%.*s/%s/libringup.so.0", dir, a->self, beside[i]) <
			    (int)size &&
		    !access(out, R_OK))
			return true;
	return false;
}

/* Receives ending signals by descriptor, together with the contenders' answers, so that no
 * process or file is left behind. */
static int take_signals(struct arena *a, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, &a->signals))
		return fail_os(e, "signals");
	a->stop_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return a->stop_fd < 0 ? fail_os(e, "signalfd") : 0;
}

static int cmd_bench_start(struct arena *a, const char *name, const struct argv *words,
			   struct err *e)
{
	struct contender_how how = {
		.name = name,
		.argv = argv_words(words, e),
		.ranks = ranks,
		.timeout_ms = START_MS,
		.door = &a->door,
		.stop_fd = a->stop_fd,
		.pin = pin,
	};
	int rc = how.argv ? contender_start(&how, &a->contender[a->count], e) : RINGUP_ENOMEM;

	if (rc)
		return rc;
	a->player[a->count] = contender_player(a->contender[a->count]);
	a->count++;
	return 0;
}

static void add_under(struct argv *words)
{
	argv_put(words, "--", NULL);
	if (*under)
		argv_put(words, under, NULL);
}

static void add_c(const struct arena *a, struct argv *words)
{
	add_under(words);
	argv_put(words, a->self, "bench", NULL);
	argv_add(words, "--backend=%s", backend);
	argv_add(words, "--groups=%s", group_words);
	if (shared)
		argv_put(words, "--alloc", NULL);
	argv_add(words, "--join=%s", a->door.path);
}

static const char *python_or_default(void)
{
	return python ? python : "python3";
}

/* Puts this program's own packages and library before others. */
static void add_torch(const struct arena *a, struct argv *words)
{
	const char *path = conf_env("PYTHONPATH");
	char library[PATH_MAX];

	if (*backend)
		argv_add(words, "--export=RINGUP_BACKEND=%s", backend);
	argv_add(words, "--export=PYTHONPATH=%s/../compat/python%s%s", a->data,
		 path && *path ? ":" : "", path && *path ? path : "");
	if (!conf_env("RINGUP_LIBRARY") && find_library(a, library, sizeof(library)))
		argv_add(words, "--export=RINGUP_LIBRARY=%s", library);
	add_under(words);
	argv_put(words, python_or_default(), NULL);
	argv_add(words, "%s/peer_torch.py", a->data);
	argv_put(words, "horovod", a->door.path, NULL);
}

static int start_ours(struct arena *a, struct err *e)
{
	struct argv words = { 0 };
	int rc;

	argv_put(&words, a->self, "run", NULL);
	argv_add(&words, "--ranks=%d", ranks);
	argv_put(&words, "--no-prefix", NULL);
	if (!strcmp(level, "torch"))
		add_torch(a, &words);
	else
		add_c(a, &words);
	rc = cmd_bench_start(a, "ringup", &words, e);
	argv_free(&words);
	return rc;
}

static int start_peer(struct arena *a, const struct peer *p, struct err *e)
{
	struct peer_setup setup = {
		.ranks = ranks,
		.self = a->self,
		.door = a->door.path,
		.dir = a->door.dir,
		.data = a->data,
		.python = python_or_default(),
		.under = under,
	};
	struct argv words = { 0 };
	int rc = p->command(&setup, &words, e);

	if (!rc)
		rc = cmd_bench_start(a, p->name, &words, e);
	argv_free(&words);
	return rc;
}

/* Leaves a missing peer out, unless no peer would remain. */
static int start_peers(struct arena *a, const struct request *q, struct err *e)
{
	struct err why = { 0 };

	for (int i = 0; i < q->peers; i++) {
		if (!start_peer(a, q->peer[i], &why))
			continue;
		if (why.code == RINGUP_EABORTED || (q->peers == 1)) {
			*e = why;
			return why.code;
		}
		log_warn("%s is left out: %s", q->peer[i]->name, why.text);
	}
	if (q->peers && a->count == 1)
		return fail(e, RINGUP_ENOBACKEND, "--peer=%.80s: none of them is here",
			    peer_list);
	return 0;
}

static int open_arena(struct arena *a, const struct request *q, struct err *e)
{
	int rc = find_data(a, e);

	if (!rc)
		rc = take_signals(a, e);
	if (!rc)
		rc = contender_listen(&a->door, e);
	if (!rc)
		rc = start_ours(a, e);
	if (!rc)
		rc = start_peers(a, q, e);
	/* All players have connected, so the socket and its folder can go. */
	contender_hush(&a->door);
	if (!rc && hogs)
		rc = hog_start(hogs, &a->hog, e);
	return rc ? rc : placement_open(&a->placement, e);
}

static int hold_contest(struct request *q, struct err *e)
{
	struct arena a = { .stop_fd = -1, .door.fd = -1 };
	struct scoreboard s = {
		.json = as_json,
		.shared = shared,
		.ranks = ranks,
		.groups = q->groups.count ? q->groups.count : 1,
		.group_ranks = q->groups.count ? q->groups.size[0] : ranks,
		.players = a.player,
	};
	char name[32] = "?";
	int rc = open_plot(q, e), i;

	if (!rc)
		rc = open_arena(&a, q, e);
	if (!rc) {
		/* Our ranks' description of themselves; see serve.c. */
		if (sscanf(a.player[0].about, "%31s %d", name, &s.nodes) != 2)
			rc = fail(e, RINGUP_EINVAL, "ringup: \"%s\"", a.player[0].about);
		s.backend = name;
		s.count = a.count;
	}
	if (!rc)
		rc = measure_all(q, &s, a.player, a.placement, true, e);
	hog_stop(a.hog);
	placement_close(a.placement);
	for (i = 0; i < a.count; i++)
		contender_end(a.contender[i]);
	if (a.stop_fd >= 0)
		close(a.stop_fd);
	/* All that a signal could leave behind is gone. */
	if (rc >= 0)
		sigprocmask(SIG_SETMASK, &a.signals, NULL);
	return close_plot(q, rc, e);
}

/* An option that works only for ranks started here, or NULL. */
static const char *needs_start(const struct request *q)
{
	return q->peers                  ? "--peer"
	       : strcmp(level, "c") != 0 ? "--level=torch"
	       : python                  ? "--python"
	       : *under                  ? "--under"
	       : hogs                    ? "--hog"
	       : pin                     ? "--pin"
					 : NULL;
}

static int cmd_bench_run(int argc, char **argv, struct err *e)
{
	struct request q = { 0 };
	struct discovery d;
	int rc;

	if (door_path)
		return be_contender(&q, e);
	if (!argc)
		return cmd_misuse(e, "which collective?");
	if (argc > 1)
		return cmd_misuse(e, "one collective at a time, not also %.80s", argv[1]);
	rc = cmd_bench_parse(argv[0], &q, e);
	if (!rc)
		rc = discover(&d, e);
	if (rc)
		return rc;
	if (strcmp(d.source, "none")) {
		if (ranks != INT_MIN && ranks != d.size)
			return cmd_misuse(e, "--ranks=%d, but %s has started %d", ranks,
					  d.source, d.size);
		if (needs_start(&q))
			return cmd_misuse(e,
					  "%s: %s has started this; that is for ranks that "
					  "ringup bench starts itself",
					  needs_start(&q), d.source);
		return be_rank(&q, e);
	}
	if (ranks == INT_MIN)
		ranks = 2;
	rc = parse_groups(&q.groups, ranks, e);
	if (rc)
		return rc;
	return ranks == 1 && !needs_start(&q) ? be_rank(&q, e) : hold_contest(&q, e);
}

const struct cmd cmd_bench = {
	.name = "bench",
	.operands = "COLLECTIVE",
	.summary = "measure collectives, compare with other libraries, check the results",
	.examples = "ringup bench allreduce -np 4 --check\n"
		    "ringup bench allreduce -np 2 --sizes 8,2K,512K,64M --peer openmpi,mpich\n"
		    "ringup bench alltoall -np 3 --uneven --check\n"
		    "ringup bench allreduce -np 2 --members 16 --sizes 64K,1M\n"
		    "ringup bench resnet50 -np 4 --json\n"
		    "mpirun -np 4 ringup bench allreduce --dtype bf16",
	.opts = opts,
	.min = 0,
	.max = -1,
	.run = cmd_bench_run,
};
