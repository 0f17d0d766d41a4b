/* cmd_bench.c - `ringup bench`: time a collective, and check what it computes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/conf.h"
#include "base/err.h"
#include "bench/measure.h"
#include "cli/cmd.h"
#include "cli/out.h"
#include "coll/reduce.h"
#include "launch/crew.h"
#include "ringup.h"
#include "wire/discover.h"

enum { MOST_SIZES = 64, MOST_RANKS = 65536 };

static int ranks = INT_MIN, iterations, check, as_json;
static const char *sizes = "8,128,2K,32K,512K,8M,64M";
static const char *dtype = "f32", *op = "sum", *backend = "";

extern const struct cmd cmd_bench;

static const struct opt opts[] = {
	{ OPT_INT, 'n', "ranks", "N", &ranks, "how many ranks to start (2)" },
	{ OPT_STR, 's', "sizes", "LIST", &sizes, "bytes (8,128,2K,32K,512K,8M,64M)" },
	{ OPT_STR, 'd', "dtype", "TYPE", &dtype, "u8 i8 i32 i64 f16 bf16 f32 f64 (f32)" },
	{ OPT_STR, 0, "op", "OP", &op, "sum average min max product (sum)" },
	{ OPT_STR, 'b', "backend", "NAME", &backend, "use this back end only" },
	{ OPT_INT, 'i', "iterations", "N", &iterations, "samples of each size" },
	{ OPT_FLAG, 'c', "check", NULL, &check,
	  "compare every result; status 1 if any is wrong" },
	{ OPT_FLAG, 0, "json", NULL, &as_json, "one JSON object a size" },
	{ 0 },
};

/* What the words mean. */
struct request {
	struct measure m;
	uint64_t sizes[MOST_SIZES];
	int count;
};

static int parse_sizes(struct request *q, struct err *e)
{
	char word[32];
	const char *at = sizes;

	for (;;) {
		size_t len = strcspn(at, ",");

		if (len >= sizeof(word) || q->count == MOST_SIZES)
			return cmd_misuse(e, "--sizes=%.80s: at most %d sizes", sizes,
					  MOST_SIZES);
		memcpy(word, at, len);
		word[len] = 0;
		if (conf_size(word, &q->sizes[q->count]) || !q->sizes[q->count])
			return cmd_misuse(
				e, "--sizes=%.80s: \"%s\" is not a size such as 8, 64K or 2M",
				sizes, word);
		q->count++;
		if (!at[len])
			return 0;
		at += len + 1;
	}
}

static int parse(const char *collective, struct request *q, struct err *e)
{
	int what = measure_find(collective), i;

	if (what < 0)
		return cmd_misuse(e, "%.80s: not allreduce, broadcast, allgather or barrier",
				  collective);
	q->m.what = (enum measure_what)what;
	for (i = 0;
	     i < RINGUP_DTYPE_COUNT && strcmp(dtype, reduce_dtype_name((enum ringup_dtype)i));)
		i++;
	if (i == RINGUP_DTYPE_COUNT)
		return cmd_misuse(e, "--dtype=%.80s: not u8 i8 i32 i64 f16 bf16 f32 or f64",
				  dtype);
	q->m.dtype = (enum ringup_dtype)i;
	for (i = 0;
	     i < RINGUP_REDOP_COUNT && strcmp(op, reduce_redop_name((enum ringup_redop)i));)
		i++;
	if (i == RINGUP_REDOP_COUNT)
		return cmd_misuse(e, "--op=%.80s: not sum, average, min, max or product", op);
	q->m.redop = (enum ringup_redop)i;
	if (*backend && !backend_find(backend))
		return cmd_misuse(e, "--backend=%.80s: there is none of that name", backend);
	if (iterations < 0 || (ranks != INT_MIN && (ranks < 1 || ranks > MOST_RANKS)))
		return cmd_misuse(e, "--%s: out of range",
				  iterations < 0 ? "iterations" : "ranks");
	q->m.samples = iterations;
	q->m.check = check;
	if (what == MEASURE_BARRIER) {
		q->count = 1;
		return 0;
	}
	return parse_sizes(q, e);
}

/* What does not apply is "none", as readers of such tables expect. */
static const char *op_of(const struct request *q)
{
	return q->m.what == MEASURE_ALLREDUCE ? op : "none";
}

static const char *dtype_of(const struct request *q)
{
	return q->m.what == MEASURE_BARRIER ? "none" : dtype;
}

static int print_json(struct ringup *r, const struct request *q, const struct measured *t,
		      struct err *e)
{
	struct ringup_group *g = ringup_world(r);
	json_t *row = json_pack("{ss ss ss ss sI sI si si sf sf sf sf sf si so}", "collective",
				measure_name(q->m.what), "dtype", dtype_of(q), "op", op_of(q),
				"backend", ringup_backend(g), "bytes", (json_int_t)t->bytes,
				"count", (json_int_t)t->count, "ranks", ringup_size(g), "nodes",
				ringup_host_count(r), "us", t->median, "min_us", t->min,
				"max_us", t->max, "algbw_gbs", t->algbw, "busbw_gbs", t->busbw,
				"samples", t->samples, "wrong",
				check ? json_integer((json_int_t)t->wrong) : json_null());
	char *text = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;

	json_decref(row);
	if (!text)
		return fail(e, RINGUP_ENOMEM, "no memory for a line of JSON");
	out_text("%s\n", text);
	free(text);
	return 0;
}

static void print_head(struct ringup *r, const struct request *q)
{
	struct ringup_group *g = ringup_world(r);

	out_text("%s, %d ranks on %d host%s, back end %s; times in us of the slowest rank\n",
		 measure_name(q->m.what), ringup_size(g), ringup_host_count(r),
		 ringup_host_count(r) == 1 ? "" : "s", ringup_backend(g));
	out_text("%12s %12s %6s %8s %10s %10s %10s %8s %8s %7s\n", "BYTES", "COUNT", "TYPE",
		 "OP", "MIN", "MEDIAN", "MAX", "ALGBW", "BUSBW", "WRONG");
}

static void print_row(const struct request *q, const struct measured *t)
{
	char wrong[24] = "-";

	if (check)
		snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)t->wrong);
	out_text("%12llu %12llu %6s %8s %10.2f %10.2f %10.2f %8.2f %8.2f %7s\n",
		 (unsigned long long)t->bytes, (unsigned long long)t->count, dtype_of(q),
		 op_of(q), t->min, t->median, t->max, t->algbw, t->busbw, wrong);
}

/* As one rank of the job.  Only rank 0 prints. */
static int be_rank(struct request *q, struct err *e)
{
	struct ringup *r = NULL;
	uint64_t wrong = 0;
	int i, rc = 0;

	/* Before anything reads it, and before there is a second thread. */
	if (*backend && setenv("RINGUP_BACKEND", backend, 1))
		return fail_os(e, "RINGUP_BACKEND=%s", backend);
	rc = ringup_init(NULL, &r);
	if (rc)
		return fail(e, rc, "%s", ringup_error());
	for (i = 0; i < q->count && !rc; i++) {
		struct measured t;
		int first = ringup_rank(ringup_world(r)) == 0;

		q->m.bytes = q->sizes[i];
		if (first && !as_json && i == 0)
			print_head(r, q);
		rc = measure_run(r, &q->m, &t, e);
		if (rc)
			break;
		wrong += t.wrong;
		if (first && as_json)
			rc = print_json(r, q, &t, e);
		else if (first)
			print_row(q, &t);
		fflush(stdout);
	}
	ringup_fini(r);
	return rc ? rc : wrong ? CMD_NO : CMD_YES;
}

/* Start this program again as each of the ranks: the same words, less how many. */
static int start_ranks(char *collective, struct err *e)
{
	char self[PATH_MAX], number[16];
	char name[] = "bench", with_sizes[] = "--sizes", with_dtype[] = "--dtype",
	     with_op[] = "--op";
	char with_backend[] = "--backend", with_iterations[] = "--iterations";
	char with_check[] = "--check", with_json[] = "--json";
	char *argv[] = {
		self,
		name,
		collective,
		with_sizes,
		(char *)(uintptr_t)sizes,
		with_dtype,
		(char *)(uintptr_t)dtype,
		with_op,
		(char *)(uintptr_t)op,
		with_iterations,
		number,
		NULL,
		NULL,
		NULL,
		NULL,
		NULL,
	};
	struct crew crew = { .size = ranks, .argv = argv, .name = "bench", .grace_ms = 5000 };
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int n = 11;

	if (len < 0)
		return fail_os(e, "/proc/self/exe");
	self[len] = 0;
	snprintf(number, sizeof(number), "%d", iterations);
	if (*backend) {
		argv[n++] = with_backend;
		argv[n++] = (char *)(uintptr_t)backend;
	}
	if (check)
		argv[n++] = with_check;
	if (as_json)
		argv[n++] = with_json;
	return crew_run(&crew, e);
}

static int run(int argc, char **argv, struct err *e)
{
	struct request q = { 0 };
	struct discovery d;
	struct err why = { 0 };
	int rest, rc;

	/* Options may follow the collective, which is no program of its own. */
	rc = opt_parse(opts, argc, argv, &rest, &why);
	if (rc == OPT_HELP) {
		cmd_usage(NULL, &cmd_bench, stdout);
		return CMD_YES;
	}
	if (rc)
		return cmd_misuse(e, "%s", why.text);
	if (rest < argc)
		return cmd_misuse(e, "one collective at a time, not also %.80s", argv[rest]);
	rc = parse(argv[0], &q, e);
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
	return ranks == 1 ? be_rank(&q, e) : start_ranks(argv[0], e);
}

const struct cmd cmd_bench = {
	.name = "bench",
	.operands = "COLLECTIVE",
	.summary = "time a collective, and check what it computes",
	.examples = "ringup bench allreduce -n 4 --check\n"
		    "ringup bench allgather --backend tcp --sizes 64K,1M --json\n"
		    "mpirun -np 4 ringup bench allreduce --dtype bf16",
	.opts = opts,
	.min = 1,
	.max = -1,
	.run = run,
};
