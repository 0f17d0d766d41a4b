/* nccllog.c - reads NCCL's log: the step and operation that each rank has reached. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/nccllog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "diagnose/read.h"
#include "hang/ruling.h"
#include "ringup.h"

enum {
	LINE = 4096,
	BLOCK = 1 << 16,
	INDEX = 2 * NCCLLOG_ALL, /* each rank has a place at most, so half is free */
};

/* ---- lines ---- */

/* "node-a:4711:4720 [0] NCCL INFO text": who says it, and the text; NULL: it is no such line.
 */
static const char *read_head(const char *line, char *host, size_t size, int *pid)
{
	const char *mark = strstr(line, " NCCL INFO "), *at, *colon;
	int tid;

	if (!mark)
		return NULL;
	/* Launchers put marks in front, so the last word with two colons counts. */
	at = mark;
	while (at > line && at[-1] != ' ')
		at--;
	if (*at == '[') { /* the device */
		at -= at > line;
		while (at > line && at[-1] != ' ')
			at--;
	}
	/* "[1,3]<stdout>:" without a blank */
	for (colon = at; colon < mark && *colon != ' '; colon++)
		if (*colon == '>' || *colon == ']')
			at = colon + 1 + (colon[1] == ':');
	colon = at < mark ? memchr(at, ':', (size_t)(mark - at)) : NULL;
	if (!colon || sscanf(colon, ":%d:%d", pid, &tid) != 2)
		return NULL;
	snprintf(host, size, "%.*s", (int)(colon - at), at);
	return mark + strlen(" NCCL INFO ");
}

/* The number behind @label; false: there is none. */
static bool number_behind(const char *text, const char *label, int base, uint64_t *out)
{
	const char *at = strstr(text, label);
	char *end;

	if (!at)
		return false;
	at += strlen(label);
	*out = strtoull(at, &end, base);
	return end > at;
}

/* The latest communicator of that name: one may be made again under the same. */
static struct nccllog_comm *comm_for(struct nccllog *l, uint64_t id, int size)
{
	struct nccllog_comm *c;

	for (int i = l->comms; i--;)
		if (l->comm[i].id == id && l->comm[i].size == size)
			return &l->comm[i];
	if (!l->comm)
		l->comm = calloc(NCCLLOG_COMMS, sizeof(*l->comm));
	if (!l->comm || l->comms == NCCLLOG_COMMS || l->ranks + size > NCCLLOG_ALL)
		return NULL;
	c = &l->comm[l->comms];
	*c = (struct nccllog_comm){ .id = id, .size = size };
	c->rank = calloc((size_t)size, sizeof(*c->rank));
	if (!c->rank)
		return NULL;
	l->comms++;
	l->ranks += size;
	return c;
}

/* The place in the index for the communicator that a process calls @pointer. */
static uint64_t *index_place(struct nccllog *l, const char *host, int pid, uint64_t pointer)
{
	struct {
		char host[64];
		uint64_t pid, pointer;
	} key = { .pid = (uint64_t)pid, .pointer = pointer };
	const struct nccllog_rank *x;
	uint64_t at, *place;

	if (!l->index)
		l->index = calloc(INDEX, sizeof(*l->index));
	if (!l->index)
		return NULL;
	snprintf(key.host, sizeof(key.host), "%.60s", host);
	for (at = hash_bytes(&key, sizeof(key));; at++) {
		place = &l->index[at % INDEX];
		if (!*place)
			return place;
		x = &l->comm[(*place >> 32) - 1].rank[(uint32_t)*place];
		if (x->pointer == pointer && x->pid == pid && !strcmp(x->host, key.host))
			return place;
	}
}

static struct nccllog_rank *rank_by_pointer(struct nccllog *l, const char *host, int pid,
					    uint64_t pointer)
{
	uint64_t *place = index_place(l, host, pid, pointer);
	struct nccllog_rank *x;

	if (!place || !*place)
		return NULL;
	x = &l->comm[(*place >> 32) - 1].rank[(uint32_t)*place];
	return x->ended ? NULL : x;
}

/* "comm 0x.. rank 3 nranks 8 cudaDev 3 busId .. commId 0x.. - Init COMPLETE" */
static void take_init(struct nccllog *l, const char *text, const char *host, int pid)
{
	uint64_t pointer, rank, size, id = 0;
	struct nccllog_comm *c;
	struct nccllog_rank *x;
	uint64_t *place;

	if (!number_behind(text, "comm 0x", 16, &pointer) ||
	    !number_behind(text, " rank ", 10, &rank) ||
	    !number_behind(text, " nranks ", 10, &size) || !size || size > NCCLLOG_RANKS ||
	    rank >= size)
		return;
	/* A split communicator has no name in some versions: its parent's does not tell. */
	if (!number_behind(text, " commId 0x", 16, &id) && strstr(text, " parent "))
		return;
	c = comm_for(l, id, (int)size);
	if (!c)
		return;
	x = &c->rank[rank];
	/* A communicator may be made again under the same name, but not before it has ended. */
	if (x->begun && !x->ended && (x->pid != pid || x->pointer != pointer))
		return;
	place = index_place(l, host, pid, pointer);
	if (!place || (!*place && ++l->places > NCCLLOG_ALL))
		return;
	x->complete &= !x->ended;
	*place = ((uint64_t)(c - l->comm) + 1) << 32 | rank;
	snprintf(x->host, sizeof(x->host), "%.60s", host);
	x->pid = pid;
	x->pointer = pointer;
	x->begun = true;
	x->ended = false;
	x->complete |= strstr(text, "COMPLETE") != NULL;
}

/* "AllReduce: opCount 4b2 sendbuff .. comm 0x55.. [nranks=8] stream 0x.." */
static void take_operation(struct nccllog *l, const char *text, const char *host, int pid)
{
	uint64_t count, pointer;
	struct nccllog_rank *x;

	if (!number_behind(text, "opCount ", 16, &count) ||
	    !number_behind(text, " comm 0x", 16, &pointer))
		return;
	x = rank_by_pointer(l, host, pid, pointer);
	if (!x)
		return;
	x->counts = true;
	x->last = count;
	snprintf(x->what, sizeof(x->what), "%.*s", (int)strcspn(text, ":"), text);
}

void nccllog_line(struct nccllog *l, const char *line)
{
	const char *text;
	struct nccllog_rank *x;
	uint64_t pointer;
	char host[64];
	int pid;

	text = read_head(line, host, sizeof(host), &pid);
	if (!text)
		return;
	l->lines++;
	if (strstr(text, "Init START") || strstr(text, "Init COMPLETE"))
		take_init(l, text, host, pid);
	else if (strstr(text, ": opCount "))
		take_operation(l, text, host, pid);
	else if ((strstr(text, "Destroy COMPLETE") || strstr(text, "Abort COMPLETE") ||
		  strstr(text, "Finalize COMPLETE")) &&
		 number_behind(text, "comm 0x", 16, &pointer) &&
		 (x = rank_by_pointer(l, host, pid, pointer)))
		x->ended = true;
}

/* Cuts what it reads into lines; what a line has beyond LINE bytes is dropped. */
int nccllog_file(struct nccllog *l, const char *path, struct err *e)
{
	char *block = malloc(BLOCK), line[LINE];
	struct reader r;
	size_t len = 0;
	ssize_t n = 0;
	int rc = read_open(&r, path, e);

	if (!block)
		rc = fail(e, RINGUP_ENOMEM, "no memory for a log");
	while (!rc && (n = read_some(&r, block, BLOCK, e)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (block[i] == '\n') {
				line[len] = 0;
				nccllog_line(l, line);
				len = 0;
			} else if (len + 1 < sizeof(line)) {
				line[len++] = block[i] ? block[i] : ' ';
			}
		}
	line[len] = 0;
	if (!rc && len)
		nccllog_line(l, line);
	if (n < 0)
		rc = e->code;
	if (!rc)
		rc = read_end(&r, e);
	read_close(&r);
	free(block);
	return rc;
}

void nccllog_free(struct nccllog *l)
{
	for (int i = 0; i < l->comms; i++)
		free(l->comm[i].rank);
	free(l->comm);
	free(l->index);
	memset(l, 0, sizeof(*l));
}

/* ---- judging ---- */

static void nccllog_blame(struct ruling *r, int rank)
{
	r->culprit[rank] = true;
	r->culprits++;
}

static void name_comm(struct ruling *r, const struct nccllog_comm *c)
{
	snprintf(r->group, sizeof(r->group), "communicator %016" PRIx64, c->id);
	r->size = c->size;
}

/* Ranks that have not come to the initialisation, while others are in it. */
static bool judge_init(const struct nccllog_comm *c, struct ruling *r)
{
	int begun = 0, complete = 0, ended = 0;

	for (int i = 0; i < c->size; i++) {
		begun += c->rank[i].begun;
		complete += c->rank[i].complete;
		ended += c->rank[i].ended;
	}
	if (!begun || complete == c->size || ended)
		return false;
	name_comm(r, c);
	if (begun == c->size) {
		r->kind = RULING_UNSURE;
		r->status = 3;
		snprintf(r->why, sizeof(r->why),
			 "all %d ranks have begun the initialisation of %.40s, and %d have not "
			 "ended it",
			 c->size, r->group, c->size - complete);
		return true;
	}
	r->kind = RULING_INIT;
	r->status = 1;
	for (int i = 0; i < c->size; i++)
		if (!c->rank[i].begun)
			nccllog_blame(r, i);
		else
			r->waiting[i] = true;
	return true;
}

/* Ranks whose last operation comes before that of most. */
static bool judge_counts(const struct nccllog_comm *c, struct ruling *r)
{
	const struct nccllog_rank *x, *ahead = NULL;
	int behind = 0, level = 0;

	for (int i = 0; i < c->size; i++) {
		x = &c->rank[i];
		/* Without NCCL_DEBUG_SUBSYS=COLL there are none, and of a rank without any
		 * nothing is known. */
		if (!x->counts || x->ended)
			return false;
		ahead = !ahead || x->last > ahead->last ? x : ahead;
	}
	for (int i = 0; i < c->size; i++) {
		behind += c->rank[i].last < ahead->last;
		level += c->rank[i].last == ahead->last;
	}
	if (!behind || behind >= level)
		return false;
	name_comm(r, c);
	r->kind = RULING_BEHIND;
	r->status = 1;
	snprintf(r->what, sizeof(r->what), "%.30s, opCount %" PRIx64, ahead->what, ahead->last);
	for (int i = 0; i < c->size; i++)
		if (c->rank[i].last < ahead->last)
			nccllog_blame(r, i);
		else
			r->waiting[i] = true;
	return true;
}

void nccllog_judge(const struct nccllog *l, struct ruling *r)
{
	memset(r, 0, sizeof(*r));
	r->waited_ms = -1;
	for (int i = 0; i < l->comms; i++)
		if (judge_init(&l->comm[i], r))
			return;
	for (int i = 0; i < l->comms; i++)
		if (judge_counts(&l->comm[i], r))
			return;
	for (int i = 0; i < l->comms; i++)
		r->size = l->comm[i].size > r->size ? l->comm[i].size : r->size;
	r->kind = RULING_UNSURE;
	r->status = 3;
	snprintf(r->why, sizeof(r->why), "%s",
		 l->comms ? "all ranks have finished initialization; to log operations, set "
			    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL"
			  : "the logs name no communicator: set NCCL_DEBUG=INFO");
}
