/* op_text.c - describe an operation in words, and begin errors with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/op_text.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "engine/ledger.h"
#include "engine/name_table.h"
#include "engine/op_state.h"
#include "ringup.h"

enum {
	NAME_LEAST = 16, /* of a name that an error shows, however long its reason is */
	NAME_SAME = 32,  /* so much of a name tells whether a reason contains it      */
};

static const char *kind_name(uint32_t kind)
{
	if (kind == OP_BUNDLE)
		return "group";
	return kind == OP_KINDS ? "" : collective_word(kind);
}

static const char group_text[] = "adding or removing a group";

/* The library's own names are not shown to the user. */
const char *op_text_what(uint32_t kind, const char *name, char out[OP_TEXT_WHAT])
{
	if (!strcmp(name, NAME_GROUP))
		return group_text;
	if (kind == OP_JOIN)
		name = "";
	snprintf(out, OP_TEXT_WHAT, "%s%s%.*s", kind_name(kind),
		 *name && kind != OP_KINDS ? " " : "", OP_TEXT_NAME, name);
	return out;
}

/* An unnamed one has a number behind a NUL. */
const char *op_text_entry(const struct name_entry *t)
{
	return *t->name || t->len < 2 ? t->name : t->name + 1;
}

const char *op_text_name(const struct ringup_op *op)
{
	return op_text_entry(op->entry);
}

void op_text_message(const struct p2p_op *m, const struct op_signature *s, char *out,
		     size_t len)
{
	char rank[32] = "any rank";

	if (m->peer >= 0)
		snprintf(rank, sizeof(rank), "rank %d", m->peer);
	snprintf(out, len, "%s of %llu %s %s %s with tag %d", m->is_send ? "send" : "receive",
		 (unsigned long long)s->count, reduce_dtype_name((enum ringup_dtype)s->dtype),
		 m->is_send ? "to" : "from", rank, m->tag);
}

/* ---- errors ---- */

/* What the caller has asked for, in a word: "reduce", "gather", "allreduce". */
static const char *word_of(const struct op_signature *s)
{
	if (s->kind == PLAN_ALLREDUCE && s->digest == OP_TO_ROOT)
		return "reduce";
	if (s->kind == PLAN_ALLTOALL && s->digest)
		return s->digest == OP_TO_ROOT ? "gather" : "scatter";
	return collective_word(s->kind);
}

/* All members of a bundle are of one kind. */
static const struct op_signature *one_of(const struct request *r)
{
	if (r->signature.kind != OP_BUNDLE)
		return &r->signature;
	if (r->members)
		return &r->members->signature;
	return r->copies ? &r->copies->ask.signature : &r->signature;
}

/* Is @what in @text, and, if @whole, not a part of a longer word? */
static bool says(const char *text, const char *what, bool whole)
{
	const char *at = text;
	size_t len = strlen(what);

	while ((at = strstr(at, what)) && whole && !strchr(" ',:;", at[len]))
		at++;
	return at != NULL;
}

/* A deadlock is about operations of all ranks, and its sentence has no room to spare. */
static void fail_once(struct err *e, const char *what)
{
	if (e->code != RINGUP_EDEADLOCK && !says(e->text, what, true))
		fail_in(e, "%s", what);
}

/* As this file quotes it, or as stalls are described. */
static bool has_named(const struct err *e, const char *word, uint32_t kind, const char *name)
{
	char quoted[NAME_SAME + 32], what[OP_TEXT_WHAT];

	snprintf(quoted, sizeof(quoted), "%s '%.*s", word, NAME_SAME, name);
	return e->code == RINGUP_EDEADLOCK ||
	       says(e->text, quoted, strlen(name) <= NAME_SAME) ||
	       says(e->text, op_text_what(kind, name, what), true);
}

/* @name: of the request, or "", or a number that is not @given by the caller. */
static void put_in_front(const struct request *r, const char *name, bool given, struct err *e)
{
	const char *word = word_of(one_of(r)), *quote = given ? "'" : "";
	const char *many = r->signature.kind == OP_BUNDLE ? "grouped " : "";
	size_t len = strlen(name), used = strlen(many) + strlen(word) + strlen(" '': ");
	size_t left = sizeof(e->text) - 1 - strlen(e->text), room;

	if (has_named(e, word, r->signature.kind, name))
		return;
	if (r->signature.kind == OP_JOIN || !len) {
		fail_in(e, "%s%s", many, word);
		return;
	}
	room = left > used + NAME_LEAST ? left - used : NAME_LEAST;
	room = room > OP_TEXT_NAME ? OP_TEXT_NAME : room;
	if (len > room)
		fail_in(e, "%s%s %s...%s%s", many, word, quote, name + len - (room - 3), quote);
	else
		fail_in(e, "%s%s %s%s%s", many, word, quote, name, quote);
}

void op_text_fail(const struct ringup_op *op, struct err *e)
{
	if (!op->entry)
		op_text_fail_message(&op->p2p, &op->ask.signature, e);
	else if (!strcmp(op->entry->name, NAME_GROUP))
		fail_once(e, group_text);
	else
		put_in_front(&op->ask, op_text_name(op), *op->entry->name, e);
}

void op_text_fail_request(const struct request *r, struct err *e)
{
	char name[NAME_BYTES + 1] = "";

	if (r->name)
		snprintf(name, sizeof(name), "%.*s",
			 r->name_len ? (int)r->name_len : NAME_BYTES, r->name);
	if (!strcmp(name, NAME_GROUP))
		fail_once(e, group_text);
	else
		put_in_front(r, name, *name, e);
}

void op_text_fail_message(const struct p2p_op *m, const struct op_signature *s, struct err *e)
{
	char what[128];

	op_text_message(m, s, what, sizeof(what));
	fail_once(e, what);
}
