/* ras_report.c - a job's answers in place of NCCL RAS (wire/ras_server.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/ras_report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "engine/comm.h"
#include "engine/comms.h"
#include "engine/heartbeat.h"
#include "engine/ledger.h"
#include "wire/ranks.h"

enum { RAS_ROWS = 65536 };

/* NCCL's kinds, in its order, then those that it does not count. */
static const struct {
	const char *name;
	int kind; /* enum plan_kind; -1: there is none */
} kinds[] = {
	{ "Broadcast", PLAN_BROADCAST }, { "Reduce", -1 },
	{ "AllGather", PLAN_ALLGATHER }, { "ReduceScatter", PLAN_REDUCESCATTER },
	{ "AllReduce", PLAN_ALLREDUCE }, { "AlltoAll", PLAN_ALLTOALL },
	{ "Barrier", PLAN_BARRIER },     { "Bundle", OP_BUNDLE },
};

enum { RAS_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A reduction to one rank is an allreduce here, and a join moves nothing. */
_Static_assert(RAS_KINDS - 1 == OP_KINDS - 1, "each kind has a name, but a join");

/* A rank of a communicator. */
struct ras_row {
	int rank, world;
	bool here, silent;
	uint64_t count[RAS_KINDS];
};

struct part {
	uint64_t serial;
	int size, hosts, first; /* first: its first row */
};

struct sight {
	const struct ras_job *job;
	const struct topo *world;
	struct part part[ENGINE_COMMS];
	int parts, rows;
	struct ras_row *row; /* RAS_ROWS of them */
};

/* ---- looking ---- */

/* Rounds of @id that @rank has begun: at most one more or less than this rank. */
static uint32_t begun_by(const struct comm *c, uint32_t id, int local)
{
	uint32_t mine = ledger_round(c->ledger, id);

	if (local == c->topo.local_rank)
		return mine;
	if (ledger_has_begun(c->ledger, id, mine + 1, local))
		return mine + 1;
	return !mine || ledger_has_begun(c->ledger, id, mine, local) ? mine : mine - 1;
}

static void count_rank(const struct comm *c, struct ras_row *r)
{
	int local = c->topo.local_of ? c->topo.local_of[r->rank] : r->rank;
	uint32_t used = c->ledger ? ledger_used(c->ledger) : 0, kind;

	for (uint32_t id = 0; id < used && id < LEDGER_IDS; id++) {
		/* What this rank has not begun, it has no kind of. */
		kind = ledger_kind(c->ledger, id,
				   ledger_round(c->ledger, id) ? c->topo.local_rank : local);
		for (int k = 0; k < RAS_KINDS; k++)
			if (kinds[k].kind == (int)kind)
				r->count[k] += begun_by(c, id, local);
	}
}

static void see_comm(struct comm *c, void *arg)
{
	struct sight *s = arg;
	const struct heartbeats *local = s->job->local;
	struct part *p;

	if (s->parts == ENGINE_COMMS || c->topo.size > RAS_ROWS - s->rows)
		return;
	p = &s->part[s->parts++];
	*p = (struct part){ c->serial, c->topo.size, c->topo.hosts, s->rows };
	for (int i = 0; i < p->size; i++) {
		struct ras_row *r = &s->row[s->rows++];
		int at;

		*r = (struct ras_row){ .rank = i,
				       .world = ranks_in_world(c->ranks, i),
				       .here = comm_is_here(c, i) };
		at = s->world->local_of ? s->world->local_of[r->world] : r->world;
		r->silent = r->here && at >= 0 && at < local->count && local->of[at].late;
		if (r->here && !r->silent)
			count_rank(c, r);
	}
}

static bool is_present(const struct ras_row *r)
{
	return r->here && !r->silent;
}

static int count_present(const struct sight *s, const struct part *p)
{
	int n = 0;

	for (int i = 0; i < p->size; i++)
		n += is_present(&s->row[p->first + i]);
	return n;
}

/* A name of a host may have any bytes. */
static const char *host_of(const struct sight *s, const struct ras_row *r, char *out,
			   size_t size)
{
	snprintf(out, size, "%s", s->job->peer[r->world].host);
	for (char *at = out; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr(".-_:", *at))
			*at = '?';
	return out;
}

static int pid_of(const struct sight *s, const struct ras_row *r)
{
	return s->job->peer[r->world].pid;
}

static uint64_t hash_of(const struct sight *s, const struct part *p)
{
	const struct heartbeat_peer *first = &s->job->peer[0];
	uint64_t of[3] = { hash_bytes(first->host, strlen(first->host)), (uint64_t)first->pid,
			   p->serial };

	return hash_bytes(of, sizeof(of));
}

/* The rank's number on its host stands for the GPU that NCCL would tell. */
static int device_of(const struct sight *s, const struct ras_row *r)
{
	return s->world->local_of ? s->world->local_of[r->world] : r->world;
}

/* ---- JSON ---- */

static void put_process(FILE *f, const struct sight *s, const struct ras_row *r)
{
	char host[HEARTBEAT_HOST_BYTES];
	int device = device_of(s, r);

	fprintf(f,
		"        {\n          \"rank\": %d,\n          \"host\": \"%s\",\n          "
		"\"pid\": "
		"%d,\n          \"cuda_dev\": %d,\n          \"nvml_dev\": %d,\n",
		r->rank, host_of(s, r, host, sizeof(host)), pid_of(s, r), device, device);
}

static void put_present(FILE *f, const struct sight *s, const struct ras_row *r)
{
	put_process(f, s, r);
	fprintf(f, "          \"status\": {\"init_state\": 0, \"async_error\": 0, "
		   "\"finalize_called\": false, \"destroy_flag\": false, \"abort_flag\": "
		   "false},\n          \"collective_counts\": {");
	for (int k = 0; k < RAS_KINDS; k++)
		fprintf(f, "%s\"%s\": %" PRIu64, k ? ", " : "", kinds[k].name, r->count[k]);
	fprintf(f, "}\n        }");
}

static void put_missing(FILE *f, const struct sight *s, const struct ras_row *r)
{
	put_process(f, s, r);
	fprintf(f,
		"          \"status\": {\"unresponsive\": %s, \"considered_dead\": false}\n"
		"        }",
		r->silent ? "true" : "false");
}

static void put_rows(FILE *f, const struct sight *s, const struct part *p, bool present,
		     void (*put)(FILE *f, const struct sight *s, const struct ras_row *r))
{
	bool any = false;

	for (int i = 0; i < p->size; i++) {
		const struct ras_row *r = &s->row[p->first + i];

		if (is_present(r) != present)
			continue;
		fprintf(f, "%s\n", any ? "," : "");
		put(f, s, r);
		any = true;
	}
}

static void put_json(FILE *f, const struct sight *s)
{
	time_t now = time(NULL);
	struct tm tm;
	char stamp[32] = "";

	if (localtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(f,
		"{\n  \"nccl_version\": \"%s\",\n  \"engine\": \"ringup\",\n"
		"  \"cuda_runtime_version\": 0,\n  \"cuda_driver_version\": 0,\n"
		"  \"timestamp\": \"%s\",\n  \"communicators_count\": %d,\n"
		"  \"communicators\": [",
		PACKAGE_VERSION, stamp, s->parts);
	for (int i = 0; i < s->parts; i++) {
		const struct part *p = &s->part[i];
		int present = count_present(s, p);

		fprintf(f,
			"%s\n    {\n      \"hash\": \"0x%016" PRIx64
			"\",\n      \"secondary_hash\": \"0x0:0x%" PRIx64
			"\",\n      \"size\": %d,\n      \"ranks_count\": %d,\n"
			"      \"missing_ranks_count\": %d,\n      \"ranks\": [",
			i ? "," : "", hash_of(s, p), p->serial, p->size, present,
			p->size - present);
		put_rows(f, s, p, true, put_present);
		fprintf(f, "\n      ],\n      \"missing_ranks\": [");
		put_rows(f, s, p, false, put_missing);
		fprintf(f, "\n      ]\n    }");
	}
	fprintf(f,
		"\n  ],\n  \"ras\": {\"collection_time_sec\": 0, \"timeouts_count\": 0}\n}\n");
}

/* ---- text ---- */

static void put_rank(FILE *f, const struct sight *s, const struct ras_row *r, const char *what)
{
	char host[HEARTBEAT_HOST_BYTES];

	fprintf(f, "  Rank %d%s -- GPU %d managed by process %d on node %s\n", r->rank, what,
		device_of(s, r), pid_of(s, r), host_of(s, r, host, sizeof(host)));
}

static int level_count(const struct sight *s, const struct part *p, int kind, uint64_t count)
{
	int n = 0;

	for (int i = 0; i < p->size; i++)
		n += is_present(&s->row[p->first + i]) &&
		     s->row[p->first + i].count[kind] == count;
	return n;
}

static int by_count(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Of the counts of @kind that present ranks have, the most frequent, and the greatest of these;
 * false: all have the same. */
static bool find_level(const struct sight *s, const struct part *p, int kind, uint64_t *level)
{
	uint64_t *count = calloc((size_t)p->size, sizeof(*count));
	int n = 0, most = 0, run = 0;

	for (int i = 0; count && i < p->size; i++)
		if (is_present(&s->row[p->first + i]))
			count[n++] = s->row[p->first + i].count[kind];
	if (n)
		qsort(count, (size_t)n, sizeof(*count), by_count);
	for (int i = 0; i < n; i++) {
		run = i && count[i] == count[i - 1] ? run + 1 : 1;
		if (run < most)
			continue;
		most = run;
		*level = count[i];
	}
	free(count);
	return most < n;
}

static bool has_mismatch(const struct sight *s, const struct part *p)
{
	uint64_t level = 0;

	for (int k = 0; k < RAS_KINDS; k++)
		if (find_level(s, p, k, &level))
			return true;
	return false;
}

static void put_mismatch(FILE *f, const struct sight *s, int i)
{
	const struct part *p = &s->part[i];
	uint64_t level = 0;
	char what[64];

	if (!has_mismatch(s, p))
		return;
	fprintf(f, "\n#%d-0 (%016" PRIx64 ") MISMATCH\n", i, hash_of(s, p));
	for (int k = 0; k < RAS_KINDS; k++) {
		if (!find_level(s, p, k, &level))
			continue;
		fprintf(f, "  Communicator ranks have different %s operation counts\n",
			kinds[k].name);
		fprintf(f, "  %d ranks have launched up to operation %" PRIu64 "\n",
			level_count(s, p, k, level), level);
		for (int x = 0; x < p->size; x++) {
			const struct ras_row *r = &s->row[p->first + x];

			if (!is_present(r) || r->count[k] == level)
				continue;
			snprintf(what, sizeof(what), " has launched up to operation %" PRIu64,
				 r->count[k]);
			put_rank(f, s, r, what);
		}
	}
}

static void put_incomplete(FILE *f, const struct sight *s, int i)
{
	const struct part *p = &s->part[i];
	int missing = p->size - count_present(s, p);

	if (!missing)
		return;
	fprintf(f,
		"\n#%d-0 (%016" PRIx64
		") INCOMPLETE\n  Missing communicator data from %d rank%s\n",
		i, hash_of(s, p), missing, missing == 1 ? "" : "s");
	for (int x = 0; x < p->size; x++)
		if (!is_present(&s->row[p->first + x]))
			put_rank(f, s, &s->row[p->first + x],
				 s->row[p->first + x].here ? "" : " is on another host");
}

static void put_text(FILE *f, const struct sight *s)
{
	const struct topo *w = s->world;

	fprintf(f,
		"NCCL version %s: ringup, which answers as NCCL RAS does\n\nJob summary\n"
		"===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"
		"(total)   per node  per process    (total)  (total)\n"
		"%7d %10d %12d %10d %8d\n\nCommunicators... (0.000s)\n=============\n\n"
		"Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
		"    #  in group  per comm  per node  per comm  in group\n",
		PACKAGE_VERSION, w->hosts, w->local_size, 1, w->size, w->size);
	for (int i = 0; i < s->parts; i++) {
		const struct part *p = &s->part[i];
		int present = count_present(s, p);
		bool differ = has_mismatch(s, p);

		fprintf(f, "%5d %9d %9d %9d %9d %9d   RUNNING  %s%s%s\n", i, 1, p->hosts,
			present, p->size, present, present < p->size ? "INCOMPLETE" : "",
			differ ? (present < p->size ? ",MISMATCH" : "MISMATCH") : "",
			!differ && present == p->size ? "OK" : "");
	}
	fprintf(f, "\nErrors\n======\n");
	for (int i = 0; i < s->parts; i++)
		put_incomplete(f, s, i);
	fprintf(f, "\nWarnings\n========\n");
	for (int i = 0; i < s->parts; i++)
		put_mismatch(f, s, i);
	fprintf(f, "\n");
}

char *ras_report_make(void *arg, enum ras_format format, size_t *len)
{
	const struct ras_job *job = arg;
	const struct comm *world = comms_at(job->engine, 0);
	struct sight *s = calloc(1, sizeof(*s));
	char *out = NULL;
	FILE *f = NULL;

	*len = 0;
	if (s && world)
		s->row = calloc(RAS_ROWS, sizeof(*s->row));
	if (s && s->row)
		f = open_memstream(&out, len);
	if (f) {
		s->job = job;
		s->world = &world->topo;
		comms_visit(job->engine, see_comm, s);
		if (format == RAS_AS_JSON)
			put_json(f, s);
		else
			put_text(f, s);
		if (fclose(f)) {
			free(out);
			out = NULL;
		}
	}
	if (s)
		free(s->row);
	free(s);
	return out;
}
