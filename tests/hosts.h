/* hosts.h - several hosts with their ledgers in one process, for tests of agreement. */
#ifndef HOSTS_H
#define HOSTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/backend.h"
#include "base/err.h"
#include "engine/agree.h"
#include "engine/host_queue.h"
#include "engine/inline.h"
#include "engine/ledger.h"
#include "engine/progress.h"
#include "wire/segment.h"

enum { HOSTS_RANKS = 1024, HOSTS_LOCAL = 4, HOSTS_NAMES = 2 * BATCH_ITEMS + 1 };

/* One rank, with its own view of its host's memory. */
struct rank {
	int host, local;
	struct segment segment;
	struct ledger *ledger;
	struct agree agree; /* without a tree, unless a test says otherwise */
	struct host_queue host_queue;
	struct topo topo;
	uint32_t id[HOSTS_NAMES], age[HOSTS_NAMES]; /* of names that post() has used */
	char known[HOSTS_NAMES];
	int taken; /* names in batches so far */
};

static struct hosts {
	int ranks, hosts;
	uint64_t eager_bytes; /* set before hosts_open(): what may travel; see inline.h */
	int host_of[HOSTS_RANKS], local_of[HOSTS_RANKS], leader[HOSTS_RANKS];
	int local_size[HOSTS_RANKS];
	void *memory[HOSTS_RANKS];
	struct progress progress[HOSTS_RANKS][HOSTS_LOCAL]; /* by host */
	size_t bytes;
	struct rank rank[HOSTS_RANKS];
} hosts;

/* hosts_open - @ranks of them, on hosts as @host_of says. */
static inline int hosts_open(int ranks, const int *host_of)
{
	struct segment all;
	uint64_t eager_bytes = hosts.eager_bytes;
	size_t extra;
	struct err e;
	int r, h;

	memset(&hosts, 0, sizeof(hosts));
	hosts.eager_bytes = eager_bytes;
	hosts.ranks = ranks;
	for (r = 0; r < ranks; r++) {
		h = hosts.host_of[r] = host_of[r];
		hosts.local_of[r] = hosts.local_size[h]++;
		if (!hosts.local_of[r])
			hosts.leader[h] = r;
		if (h >= hosts.hosts)
			hosts.hosts = h + 1;
	}
	extra = ledger_bytes(HOSTS_LOCAL) + host_queue_bytes(ranks);
	segment_lay_out(&all, NULL, 0, HOSTS_LOCAL, 0, extra);
	hosts.bytes = all.bytes;
	for (h = 0; h < hosts.hosts; h++) {
		hosts.memory[h] = mmap(NULL, hosts.bytes, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (hosts.memory[h] == MAP_FAILED)
			return -1;
	}
	for (r = 0; r < ranks; r++) {
		struct rank *k = &hosts.rank[r];
		struct segment *s = &k->segment;

		k->host = host_of[r];
		k->local = hosts.local_of[r];
		segment_lay_out(s, hosts.memory[k->host], k->local, hosts.local_size[k->host],
				0, extra);
		k->topo = (struct topo){ .rank = r,
					 .size = ranks,
					 .host = k->host,
					 .hosts = hosts.hosts,
					 .local_rank = k->local,
					 .local_size = s->ranks,
					 .host_of = hosts.host_of,
					 .local_of = hosts.local_of,
					 .segment = s };
		k->ledger = calloc(1, sizeof(*k->ledger));
		if (!k->ledger || ledger_open(k->ledger, s, eager_bytes, &e) ||
		    host_queue_open(&k->host_queue, k->ledger, hosts.progress[k->host],
				    &k->topo, &e))
			return -1;
		k->agree = (struct agree){ .ledger = k->ledger, .host_queue = &k->host_queue };
	}
	return 0;
}

static inline void hosts_close(void)
{
	int i;

	for (i = 0; i < hosts.ranks; i++) {
		host_queue_close(&hosts.rank[i].host_queue);
		ledger_close(hosts.rank[i].ledger);
		free(hosts.rank[i].ledger);
	}
	for (i = 0; i < hosts.hosts; i++)
		munmap(hosts.memory[i], hosts.bytes);
}

/* hosts_submit - rank @r submits name @n, "n3" or so, as the engine would: held until
 * hosts_next() has given it back.  @changed: it wants something else than before.  @data: of
 * what all have agreed on before; or NULL. */
static inline int hosts_submit(int r, int n, const struct op_signature *s, const void *data,
			       uint64_t rows, bool changed, struct err *e)
{
	struct rank *k = &hosts.rank[r];
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "n%d", n);
	if (!k->known[n] || !ledger_hold(k->ledger, k->id[n], k->age[n])) {
		rc = ledger_find(k->ledger, name, strlen(name), s, &k->id[n], &k->age[n], e);
		if (rc)
			return rc;
		k->known[n] = 1;
		changed = true;
	}
	ledger_begin(k->ledger, k->id[n]);
	if (data && !changed)
		inline_put(k->ledger, k->id[n], s, data);
	agree_post(&k->agree, k->id[n], s, rows, changed, false);
	return 0;
}

/* hosts_post - the same without data. */
static inline int hosts_post(int r, int n, const struct op_signature *s, uint64_t rows,
			     bool changed, struct err *e)
{
	return hosts_submit(r, n, s, NULL, rows, changed, e);
}

/* hosts_put - the same as hosts_post() of what all have agreed on before, with data. */
static inline int hosts_put(int r, int n, const struct op_signature *s, const void *data,
			    struct err *e)
{
	return hosts_submit(r, n, s, data, 0, false, e);
}

/* hosts_next - the next batch of rank @r, in names: how many, 0 if there is none.
 * *@items is what the ledger gave. */
static inline int hosts_next(int r, int *names, struct item *items)
{
	struct rank *k = &hosts.rank[r];
	int n = agree_next(&k->agree, 0, items), i;

	for (i = 0; i < n; i++)
		names[i] = atoi(ledger_name(k->ledger, items[i].id) + 1);
	return n;
}

/* hosts_done - rank @r has carried that batch out. */
static inline void hosts_done(int r, const struct item *items, int n)
{
	struct rank *k = &hosts.rank[r];
	int i;

	for (i = 0; i < n; i++)
		ledger_drop(k->ledger, items[i].id);
	agree_done(&k->agree);
	k->taken += n;
}

#endif
