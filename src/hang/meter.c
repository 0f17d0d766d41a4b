/* meter.c - counters of a running job, read from its observation pages, for `ringup top`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "hang/jobs.h"
#include "wire/observe.h"

enum { MS = 1000000, SHARE = 10 };

struct reading {
	struct meter *meter;
	uint64_t *waited_for; /* by rank, of all pages */
	int rank, pid;
};

static struct meter_rank *row_of(struct meter *m, int rank)
{
	for (int i = 0; i < m->ranks; i++)
		if (m->rank[i].rank == rank)
			return &m->rank[i];
	return NULL;
}

static int as(const struct observed *x, int rank)
{
	return rank >= 0 && x->peers && rank < x->page.size ? x->peers[rank].as : -1;
}

/* A process may have several pages, one for each job that it is in. */
static void take_page(void *arg, int fd)
{
	struct reading *r = arg;
	struct meter_rank *row = row_of(r->meter, r->rank);
	const struct observe_wait *oldest = NULL;
	int64_t now = clock_ns(), idle;
	struct observed x;
	struct err e;

	if (!row || observe_read(fd, &x, &e))
		return;
	idle = (now - x.page.last_ns) / MS;
	row->idle_ms = row->samples && row->idle_ms < idle ? row->idle_ms : idle;
	row->operations += x.page.operations;
	row->bytes += x.page.bytes_moved;
	row->messages += x.page.messages;
	row->samples += x.page.samples;
	row->waited += x.page.waited;
	if (*x.page.host)
		snprintf(row->host, sizeof(row->host), "%s", x.page.host);
	for (int i = 0; i < x.page.waits; i++)
		if ((x.page.wait[i].flags & OBSERVE_AWAITED) &&
		    (!oldest || x.page.wait[i].since_ns < oldest->since_ns))
			oldest = &x.page.wait[i];
	if (x.page.phase == OBSERVE_MEETING) {
		snprintf(row->in, sizeof(row->in), "initialization");
		row->in_ms = (now - x.page.started_ns) / MS;
	}
	if (oldest) {
		memcpy(row->in, oldest->what, sizeof(row->in));
		row->in_ms = (now - oldest->since_ns) / MS;
		row->missing = as(&x, oldest->missing ? oldest->who[0] : oldest->peer);
	}
	for (int i = 0; x.peers && i < x.page.size; i++)
		r->waited_for[x.peers[i].as] += x.peers[i].waited_for;
	observe_free(&x);
}

void meter_read(struct meter *m, const struct hang_job *j)
{
	struct reading r = { .meter = m };

	*m = (struct meter){ .at_ns = clock_ns() };
	m->rank = calloc((size_t)j->ranks + 1, sizeof(*m->rank));
	r.waited_for = calloc(OBSERVE_RANKS, sizeof(*r.waited_for));
	for (int i = 0; m->rank && r.waited_for && i < j->ranks; i++) {
		if (!j->rank[i].has_page)
			continue;
		r.rank = j->rank[i].rank;
		r.pid = j->rank[i].pid;
		m->rank[m->ranks++] =
			(struct meter_rank){ .rank = r.rank, .pid = r.pid, .missing = -1 };
		/* A page has no host before ranks have met. */
		gethostname(m->rank[m->ranks - 1].host, sizeof(m->rank[0].host) - 1);
		if (observe_find(j->rank[i].pid, take_page, &r) <= 0)
			m->ranks--;
	}
	for (int i = 0; r.waited_for && i < m->ranks; i++)
		if (m->rank[i].rank >= 0 && m->rank[i].rank < OBSERVE_RANKS)
			m->rank[i].waited_for = r.waited_for[m->rank[i].rank];
	free(r.waited_for);
}

void meter_free(struct meter *m)
{
	free(m->rank);
	*m = (struct meter){ 0 };
}

const struct meter_rank *meter_find(const struct meter *m, int rank)
{
	for (int i = 0; i < m->ranks; i++)
		if (m->rank[i].rank == rank)
			return &m->rank[i];
	return NULL;
}

int meter_slowest(const struct meter *before, const struct meter *now)
{
	uint64_t most = 0, samples = 0, n;
	int slowest = -1;

	for (int i = 0; i < now->ranks; i++) {
		const struct meter_rank *r = &now->rank[i], *b = meter_find(before, r->rank);

		if (!b)
			continue;
		n = r->waited_for - b->waited_for;
		samples += r->samples - b->samples;
		if (n > most) {
			most = n;
			slowest = r->rank;
		}
	}
	return most * SHARE > samples ? slowest : -1;
}

/* ---- Prometheus ---- */

/* A value of a label: backslash, quote and newline are escaped, other control characters left
 * out. */
static void put_label(FILE *f, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', f);
		if (*text == '\n')
			fputs("\\n", f);
		else if ((unsigned char)*text >= ' ' && *text != 127)
			fputc(*text, f);
	}
}

struct metric {
	const char *name, *type, *help;
};

static double value_of(const struct meter_rank *r, size_t which)
{
	switch (which) {
	case 0:
		return (double)r->operations;
	case 1:
		return (double)r->bytes;
	case 2:
		return (double)r->messages;
	case 3:
		return (double)r->samples;
	case 4:
		return (double)r->waited;
	case 5:
		return (double)r->waited_for;
	case 6:
		return (double)r->idle_ms / 1e3;
	default:
		return *r->in ? (double)r->in_ms / 1e3 : 0;
	}
}

char *meter_metrics(const struct meter *m, const char *name, size_t *len)
{
	static const struct metric metrics[] = {
		{ "ringup_operations_total", "counter", "Collectives started by the rank." },
		{ "ringup_bytes_total", "counter",
		  "Bytes contributed to collectives by the rank." },
		{ "ringup_messages_total", "counter",
		  "Sends and receives started by the rank." },
		{ "ringup_samples_total", "counter", "Samples of the rank, two per second." },
		{ "ringup_waiting_samples_total", "counter",
		  "Samples in which the rank waited for other ranks." },
		{ "ringup_waited_for_samples_total", "counter",
		  "Samples in which another rank on the host waited for this rank." },
		{ "ringup_last_operation_seconds", "gauge",
		  "Seconds since the rank last started an operation." },
		{ "ringup_waiting_seconds", "gauge",
		  "Age of the oldest operation in which the rank waits; 0 if none." },
	};
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	for (size_t k = 0; f && k < sizeof(metrics) / sizeof(metrics[0]); k++) {
		fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", metrics[k].name, metrics[k].help,
			metrics[k].name, metrics[k].type);
		for (int i = 0; i < m->ranks; i++) {
			fprintf(f, "%s{job=\"", metrics[k].name);
			put_label(f, name);
			fprintf(f, "\",rank=\"%d\",host=\"", m->rank[i].rank);
			put_label(f, m->rank[i].host);
			fprintf(f, "\"} %.15g\n", value_of(&m->rank[i], k));
		}
	}
	if (f)
		fprintf(f,
			"# HELP ringup_last_update_timestamp_seconds When these metrics were "
			"written.\n# TYPE ringup_last_update_timestamp_seconds gauge\n"
			"ringup_last_update_timestamp_seconds{job=\"");
	if (f) {
		put_label(f, name);
		fprintf(f, "\"} %lld\n", (long long)time(NULL));
	}
	if (!f || fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
