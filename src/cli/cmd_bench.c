/* cmd_bench.c - `ringup bench`: time a collective. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/argv.h"
#include "base/conf.h"
#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "bench/groups.h"
#include "bench/measure.h"
#include "bench/task.h"
#include "bench/timing.h"
#include "cli/cmd.h"
#include "cli/scoreboard.h"
#include "ringup.h"
#include "wire/discover.h"

enum { MOST_SIZES = 128, MOST_RANKS = 65536, WORDS_BYTES = 1 << 20 };

static int ranks = INT_MIN, iterations, seconds = 1, check, as_json, factor = 2, shared, uneven,
	   members = 1;
static uint64_t min_bytes, max_bytes;
static const char *sizes = "8,128,2K,32K,512K,8M,64M";
static const char *dtype = "f32", *op = "sum", *backend = "", *in_place = "no",
		  *group_words = "";

extern const struct cmd cmd_bench;

static const struct opt opts[] = {
	{ OPT_INT, 'n', "ranks", "N", &ranks, "number of ranks to start (2)" },
	{ OPT_INT, 0, "np", "N", &ranks, "the same, as in mpirun" },
	{ OPT_STR, 's', "sizes", "LIST", &sizes, "sizes in bytes, or FROM:TO:FACTOR (@)" },
	{ OPT_SIZE, 'b', "min-bytes", "SIZE", &min_bytes, "smallest size, instead of --sizes" },
	{ OPT_SIZE, 'e', "max-bytes", "SIZE", &max_bytes, "largest size" },
	{ OPT_INT, 'f', "factor", "N", &factor, "ratio of each size to the previous one (@)" },
	{ OPT_STR, 'd', "dtype", "TYPE", &dtype, "type of the elements (@)" },
	{ OPT_STR, 'o', "op", "OP", &op, "sum, average, min, max, product or adasum (sum)" },
	{ OPT_STR, 0, "in-place", "WHICH", &in_place,
	  "result replaces input: yes, no or both (no)" },
	{ OPT_FLAG, 0, "uneven", NULL, &uneven,
	  "use blocks of different lengths (allgather, reducescatter, alltoall)" },
	{ OPT_INT, 0, "members", "N", &members,
	  "N tensors per call, for allreduce, allgather, reducescatter (@)" },
	{ OPT_STR, 'g', "groups", "GROUPS", &group_words,
	  "split ranks into N groups, or into these: 0,1/1,2 (1)" },
	{ OPT_FLAG, 'a', "alloc", NULL, &shared, "use buffers from ringup_alloc()" },
	{ OPT_STR, 0, "backend", "NAME", &backend, "use only this back end" },
	{ OPT_INT, 't', "seconds", "N", &seconds, "approximate seconds per size (@)" },
	{ OPT_INT, 'i', "iterations", "N", &iterations,
	  "take N samples of each size, without a time limit" },
	{ OPT_FLAG, 'c', "check", NULL, &check,
	  "verify every result; exit with status 1 if one is wrong" },
	{ OPT_FLAG, 0, "json", NULL, &as_json, "print one JSON object per line" },
	{ 0 },
};

/* The parsed request. */
struct request {
	struct task task;
	uint64_t sizes[MOST_SIZES];
	int count;
	bool places[2]; /* out of place, in place */
	struct groups groups;
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
		return cmd_misuse(e, "sizes from %llu to %llu by %llu: empty range",
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

/* Lists the known names: " allreduce broadcast ...". */
static const char *known(void)
{
	static char names[256];
	size_t n = 0;

	for (int i = 0; task_names(i) && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, " %s", task_names(i));
	return names;
}

static int parse_task(const char *collective, struct request *q, struct err *e)
{
	int type = task_dtype(dtype), redop = task_redop(op);
	const char *why;

	if (!task_find(&q->task, collective))
		return cmd_misuse(e, "%.80s is none of:%s", collective, known());
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
		return cmd_misuse(e, "--in-place=%s: %s does not support this", in_place,
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
				  "--members=%d: only allreduce, allgather and reducescatter "
				  "support this, not %s",
				  members, task_name(t));
	if (uneven && !task_has_blocks(t))
		return cmd_misuse(e,
				  "--uneven: only allgather, reducescatter and alltoall "
				  "support this, not %s",
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
	if (rc)
		return rc;
	if (*backend && !backend_find(backend))
		return cmd_misuse(e, "--backend=%.80s: no such back end", backend);
	if (iterations < 0 || iterations > TIMING_SAMPLES)
		return cmd_misuse(e, "--iterations=%d: not 0 to %d", iterations,
				  TIMING_SAMPLES);
	if (seconds < 0 || (ranks != INT_MIN && (ranks < 1 || ranks > MOST_RANKS)))
		return cmd_misuse(e, "--%s: out of range", seconds < 0 ? "seconds" : "ranks");
	if (q->task.what == TASK_BARRIER || q->task.what == TASK_SET) {
		q->count = 1;
		return 0;
	}
	return parse_sizes(q, e);
}

/* -- as one rank ---------------------------------------------------------- */

/* Measures each size of the request.  Only rank 0 prints, and tells of wrong elements by its
 * status: a rank that ended before it would end the job. */
static int measure_all(struct request *q, const struct scoreboard *s, struct measure *m,
		       bool prints, struct err *e)
{
	struct timing_options how = { iterations, seconds, check };
	struct timing x;
	bool is_wrong = false;
	int rc = prints ? scoreboard_head(s, &q->task, e) : 0;

	for (int i = 0; i < q->count && !rc; i++)
		for (int place = 0; place < 2 && !rc; place++) {
			if (!q->places[place])
				continue;
			q->task.in_place = place;
			task_resize(&q->task, q->sizes[i], s->group_ranks);
			rc = timing_take(m, &q->task, &how, &x, e);
			is_wrong |= !rc && x.wrong > 0;
			if (!rc && prints)
				rc = scoreboard_row(s, &q->task, &x, e);
		}
	return rc ? rc : is_wrong && prints ? CMD_NO : CMD_YES;
}

static int be_rank(struct request *q, struct err *e)
{
	struct measure_options how = { &q->groups, shared };
	struct ringup *r = NULL;
	struct measure *m = NULL;
	int rc;

	/* Set before the library reads it, and before there is a second thread. */
	if (*backend && setenv("RINGUP_BACKEND", backend, 1))
		return fail_os(e, "RINGUP_BACKEND=%s", backend);
	rc = ringup_init(NULL, &r);
	if (rc)
		fail(e, rc, "%s", ringup_error());
	if (!rc)
		rc = parse_groups(&q->groups, ringup_size(ringup_world(r)), e);
	if (!rc)
		rc = measure_open(r, &how, &m, e);
	if (!rc) {
		struct ringup_group *g = ringup_world(r);
		struct scoreboard s = {
			.json = as_json,
			.shared = shared,
			.ranks = ringup_size(g),
			.groups = q->groups.count ? q->groups.count : 1,
			.group_ranks = q->groups.count ? q->groups.size[0] : ringup_size(g),
			.nodes = ringup_host_count(r),
			.backend = ringup_backend(g),
		};

		rc = measure_all(q, &s, m, ringup_rank(g) == 0, e);
	}
	measure_close(m);
	ringup_fini(r);
	return rc;
}

/* Becomes `ringup run` of this same command; returns if that fails. */
static int start_ranks(struct err *e)
{
	struct argv words = { 0 };
	char self[PATH_MAX], *text = NULL, *const * argv;
	size_t size = 0, at;

	if (data_program(self, e) ||
	    file_read(NULL, "/proc/self/cmdline", WORDS_BYTES, &text, &size, e))
		return e->code;
	argv_put(&words, self, "run", NULL);
	argv_add(&words, "--ranks=%d", ranks);
	argv_put(&words, "--no-prefix", "--", self, NULL);
	for (at = strlen(text) + 1; at < size; at += strlen(text + at) + 1)
		argv_put(&words, text + at, NULL);
	argv = argv_words(&words, e);
	if (argv) {
		execv(self, argv);
		fail_os(e, "%s", self);
	}
	argv_free(&words);
	free(text);
	return e->code;
}

static int cmd_bench_run(int argc, char **argv, struct err *e)
{
	struct request q = { 0 };
	struct discovery d;
	int rc;

	if (!argc)
		return cmd_misuse(e, "which collective?");
	if (argc > 1)
		return cmd_misuse(e, "unexpected %.80s: name one collective", argv[1]);
	rc = cmd_bench_parse(argv[0], &q, e);
	if (!rc)
		rc = discover(&d, e);
	if (rc)
		return rc;
	if (strcmp(d.source, "none")) {
		if (ranks != INT_MIN && ranks != d.size)
			return cmd_misuse(e, "--ranks=%d, but %s has started %d", ranks,
					  d.source, d.size);
		return be_rank(&q, e);
	}
	if (ranks == INT_MIN)
		ranks = 2;
	rc = parse_groups(&q.groups, ranks, e);
	if (rc)
		return rc;
	return ranks == 1 ? be_rank(&q, e) : start_ranks(e);
}

const struct cmd cmd_bench = {
	.name = "bench",
	.operands = "COLLECTIVE",
	.summary = "measure collectives, and check the results",
	.examples = "ringup bench allreduce -np 4 --check\n"
		    "ringup bench allreduce -np 2 --sizes 8,2K,512K,64M\n"
		    "ringup bench alltoall -np 3 --uneven --check\n"
		    "ringup bench allreduce -np 2 --members 16 --sizes 64K,1M\n"
		    "ringup bench resnet50 -np 4 --json\n"
		    "mpirun -np 4 ringup bench allreduce --dtype bf16",
	.opts = opts,
	.min = 0,
	.max = -1,
	.run = cmd_bench_run,
};
