/* evidence.c - the evidence from all logs, one finding for each signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/evidence.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* Bytes between matches that count as one message. */
enum { SAME_MESSAGE = 512 };

int evidence_open(struct evidence *v, struct err *e)
{
	memset(v, 0, sizeof(*v));
	v->of = calloc((size_t)signature_count, sizeof(*v->of));
	v->unknown = calloc(EVIDENCE_UNKNOWN, sizeof(*v->unknown));
	return v->of && v->unknown ? 0 : fail(e, RINGUP_ENOMEM, "no memory for the findings");
}

void evidence_reset(struct evidence *v)
{
	memset(v->of, 0, sizeof(*v->of) * (size_t)signature_count);
	v->unknowns = 0;
	v->unkept = 0;
	v->last = NULL;
}

void evidence_close(struct evidence *v)
{
	free(v->of);
	free(v->unknown);
	v->of = NULL;
	v->unknown = NULL;
}

/* Copies bytes for display: '?' replaces control characters and invalid UTF-8. */
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
	if (!*text)
		return;
	for (int i = 0; i < *n; i++)
		if (!strcmp(list + (size_t)i * size, text))
			return;
	if (*n < most)
		plain(list + (size_t)(*n)++ * size, size, text, strlen(text));
}

static void add_rank(struct finding *f, int rank)
{
	for (int i = 0; i < f->ranks; i++)
		if (f->rank[i] == rank)
			return;
	if (rank >= 0 && f->ranks < EVIDENCE_RANKS)
		f->rank[f->ranks++] = rank;
}

static void evidence_begin(struct finding *f, const struct signature *s,
			   const struct sighting *at)
{
	memset(f, 0, sizeof(*f));
	f->signature = s;
	f->file = at->file;
	f->last_file = -1;
	f->line = at->line;
	f->time = at->origin.time;
	f->port = f->status = -1;
	plain(f->proof, sizeof(f->proof), at->text, at->len);
}

/* Marks failures that a library has overcome. */
static void mark_well(struct evidence *v, const struct signature *s, int file)
{
	for (int i = 0; i < signature_count; i++)
		if (v->of[i].count && v->of[i].last_file == file &&
		    signatures[i].flags & SIGNATURE_UNLESS_WELL &&
		    !strcmp(signatures[i].library, s->library))
			v->of[i].well = true;
}

/* Of one message's matches only the strongest counts, once, and its result.  Is there a
 * stronger one than @s? */
static bool evidence_is_told(struct evidence *v, const struct signature *s,
			     const struct sighting *at)
{
	const struct sighting *last = &v->last_at;
	struct finding *f;
	uint64_t far = at->at > last->at ? at->at - last->at : last->at - at->at;

	if (!v->last || last->file != at->file || last->line != at->line || far > SAME_MESSAGE)
		return false;
	/* ringup's own sentences quote other programs. */
	if (!strcmp(v->last->library, "ringup") && strcmp(v->last->library, s->library) != 0)
		return true;
	if (v->last == s || (v->last->kind <= s->kind && s->kind != SIGNATURE_RESULT))
		return true;
	if (v->last->kind <= s->kind || v->last->kind == SIGNATURE_RESULT)
		return false;
	f = &v->of[v->last - signatures];
	f->count -= f->count > 0;
	return false;
}

/* Adds the values that the message holds. */
static void see_fields(struct finding *f, const struct sighting *at)
{
	if (f->port < 0)
		f->port = at->fields.port;
	if (f->status < 0 && !f->signal) {
		f->signal = at->fields.signal;
		f->status = at->fields.status;
	}
	if (!*f->value)
		plain(f->value, sizeof(f->value), at->fields.value, strlen(at->fields.value));
	if (!*f->interface)
		plain(f->interface, sizeof(f->interface), at->fields.interface,
		      strlen(at->fields.interface));
	add_text(f->address[0], &f->addresses, EVIDENCE_ADDRESSES, sizeof(f->address[0]),
		 at->fields.address);
	add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]), at->origin.host);
	for (int i = 0; i < at->fields.hosts; i++)
		add_text(f->host[0], &f->hosts, EVIDENCE_HOSTS, sizeof(f->host[0]),
			 at->fields.host[i]);
	add_rank(f, at->fields.rank >= 0 ? at->fields.rank : at->origin.rank);
}

static void see(struct finding *f, const struct signature *s, const struct sighting *at)
{
	if (!f->count)
		evidence_begin(f, s, at);
	f->count++;
	f->well = false;
	f->files += f->last_file != at->file;
	f->last_file = at->file;
	see_fields(f, at);
}

void evidence_add(struct evidence *v, const struct signature *s, const struct sighting *at)
{
	if (s->flags & SIGNATURE_WELL)
		mark_well(v, s, at->file);
	if (s->kind == SIGNATURE_FACT)
		return;
	if (evidence_is_told(v, s, at)) {
		/* A longer match of the same signature has more values. */
		if (v->last == s)
			see_fields(&v->of[s - signatures], at);
		return;
	}
	v->last = s;
	v->last_at = *at;
	see(&v->of[s - signatures], s, at);
}

void evidence_add_unknown(struct evidence *v, enum evidence_unknown what, uint64_t form,
			  const struct sighting *at)
{
	static const struct signature unknown[] = {
		[EVIDENCE_KILLED] = { "X1", "any", SIGNATURE_DEATH, 0, "",
				      "a signal ended a process; the line does not say which "
				      "process",
				      "look in the kernel's log of that node for memory that "
				      "ran out, "
				      "and at the last lines of the process",
				      "" },
		[EVIDENCE_ERROR] = { "X2", "any", SIGNATURE_ERROR, 0, "",
				     "an error that no signature knows, the first of its "
				     "process",
				     "read it and the lines around it; what the process says "
				     "later "
				     "follows from it",
				     "" },
		[EVIDENCE_WARNING] = { "X3", "any", SIGNATURE_NOTE, 0, "",
				       "a warning that no signature knows, of something that "
				       "failed",
				       "if the job failed, read it and the lines around it",
				       "" },
	};
	struct unknown_finding *u;

	for (int i = 0; i < v->unknowns; i++) {
		u = &v->unknown[i];
		if (u->form == form && u->what == what) {
			see(&u->finding, &unknown[what], at);
			return;
		}
	}
	if (v->unknowns == EVIDENCE_UNKNOWN) {
		v->unkept++;
		return;
	}
	u = &v->unknown[v->unknowns++];
	memset(u, 0, sizeof(*u));
	u->what = what;
	u->form = form;
	see(&u->finding, &unknown[what], at);
}
