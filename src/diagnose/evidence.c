/* evidence.c - what was seen in all logs, a finding for each signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/evidence.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* Bytes between what is taken for one message. */
enum { SAME_MESSAGE = 512 };

int evidence_open(struct evidence *v, struct err *e)
{
	memset(v, 0, sizeof(*v));
	v->of = calloc((size_t)signature_count, sizeof(*v->of));
	return v->of ? 0 : fail(e, RINGUP_ENOMEM, "no memory for the findings");
}

void evidence_close(struct evidence *v)
{
	free(v->of);
	v->of = NULL;
}

/* Bytes as they may be shown: what a terminal obeys, or is no UTF-8, is '?'. */
static void plain(char *out, size_t size, const char *text, size_t len)
{
	size_t i;

	while (len && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	while (len && (unsigned char)text[len - 1] <= ' ')
		len--;
	for (i = 0; i < len && i < size - 1; i++)
		out[i] = text[i] >= ' ' && text[i] < 127 ? text[i]
			 : text[i] == '\t'               ? ' '
							 : '?';
	out[i] = 0;
	if (i < len && size > 4)
		memcpy(out + i - 3, "...", 3);
}

static void add_text(char *list, int *n, int most, size_t size, const char *text)
{
	int i;

	if (!*text)
		return;
	for (i = 0; i < *n; i++)
		if (!strcmp(list + (size_t)i * size, text))
			return;
	if (*n < most)
		plain(list + (size_t)(*n)++ * size, size, text, strlen(text));
}

static void add_rank(struct finding *f, int rank)
{
	int i;

	for (i = 0; i < f->ranks; i++)
		if (f->rank[i] == rank)
			return;
	if (rank >= 0 && f->ranks < EVIDENCE_RANKS)
		f->rank[f->ranks++] = rank;
}

static void begin(struct finding *f, const struct signature *s, const struct sighting *at)
{
	memset(f, 0, sizeof(*f));
	f->signature = s;
	f->file = at->file;
	f->last_file = -1;
	f->line = at->line;
	f->time = at->origin.time;
	f->port = -1;
	plain(f->proof, sizeof(f->proof), at->text, at->len);
}

/* What a library has got over. */
static void mark_well(struct evidence *v, const struct signature *s, int file)
{
	int i;

	for (i = 0; i < signature_count; i++)
		if (v->of[i].count && v->of[i].last_file == file &&
		    signatures[i].flags & SIGNATURE_UNLESS_WELL &&
		    !strcmp(signatures[i].library, s->library))
			v->of[i].well = true;
}

/* Of what one message says the strongest counts, once, and what it leads to.  Is there a
 * stronger one than @s? */
static bool is_told(struct evidence *v, const struct signature *s, const struct sighting *at)
{
	const struct sighting *last = &v->last_at;
	struct finding *f;

	if (!v->last || last->file != at->file || last->line != at->line ||
	    at->at - last->at > SAME_MESSAGE || strcmp(v->last->library, s->library) != 0)
		return false;
	if (v->last == s || (v->last->kind < s->kind && s->kind != SIGNATURE_RESULT))
		return true;
	if (v->last->kind <= s->kind || v->last->kind == SIGNATURE_RESULT)
		return false;
	f = &v->of[v->last - signatures];
	f->count -= f->count > 0;
	return false;
}

void evidence_add(struct evidence *v, const struct signature *s, const struct sighting *at)
{
	struct finding *f = &v->of[s - signatures];
	int i;

	if (s->flags & SIGNATURE_WELL)
		mark_well(v, s, at->file);
	if (s->kind == SIGNATURE_FACT || is_told(v, s, at))
		return;
	v->last = s;
	v->last_at = *at;
	if (!f->count)
		begin(f, s, at);
	f->count++;
	f->well = false;
	f->files += f->last_file != at->file;
	f->last_file = at->file;
	if (f->port < 0)
		f->port = at->fields.port;
	if (!*f->value)
		plain(f->value, sizeof(f->value), at->fields.value, strlen(at->fields.value));
	if (!*f->interface)
		plain(f->interface, sizeof(f->interface), at->fields.interface,
		      strlen(at->fields.interface));
	add_text(f->address[0], &f->addresses, EVIDENCE_ADDRESSES, sizeof(f->address[0]),
		 at->fields.address);
	add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]), at->origin.host);
	for (i = 0; i < at->fields.hosts; i++)
		add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]),
			 at->fields.host[i]);
	add_rank(f, at->fields.rank >= 0 ? at->fields.rank : at->origin.rank);
}
