/* pickle.c - reads flight-recorder pickles as JSON values; rejects any that would run code. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/pickle.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "ringup.h"

enum { STACK = 1 << 20, MEMO = 1 << 22, DEEPEST = 32 };

struct item {
	json_t *value; /* NULL: a mark */
	int depth;     /* of its containers */
	bool recalled; /* it also is elsewhere, so it must not change */
	size_t kept;   /* 1 + its place in the memo; 0: it has none */
};

struct pickle {
	const unsigned char *at, *end;
	struct item *stack, *memo;
	size_t depth, room, memos, memo_room;
	const char *why;
};

static bool refuse(struct pickle *p, const char *why)
{
	p->why = p->why ? p->why : why;
	return false;
}

static bool take(struct pickle *p, void *out, size_t n)
{
	if ((size_t)(p->end - p->at) < n)
		return refuse(p, "it is cut off");
	memcpy(out, p->at, n);
	p->at += n;
	return true;
}

/* Takes the reference @value. */
static bool push(struct pickle *p, json_t *value, int depth, bool recalled)
{
	struct item *more;
	size_t room = p->room ? 2 * p->room : 64;

	if (p->depth == p->room) {
		more = room > STACK ? NULL : realloc(p->stack, room * sizeof(*more));
		if (!more) {
			json_decref(value);
			return refuse(p, "it is too large");
		}
		p->stack = more;
		p->room = room;
	}
	p->stack[p->depth++] = (struct item){ value, depth, recalled, 0 };
	return true;
}

static bool push_new(struct pickle *p, json_t *value)
{
	return value ? push(p, value, 0, false) : refuse(p, "it has a value that JSON lacks");
}

static bool push_text(struct pickle *p, size_t len)
{
	char *text;
	json_t *value;

	if ((size_t)(p->end - p->at) < len)
		return refuse(p, "it is cut off");
	text = strndup((const char *)p->at, len);
	p->at += len;
	value = text ? jsonio_text(text) : NULL;
	free(text);
	return push_new(p, value);
}

/* Little endian, two's complement, of up to eight bytes. */
static bool push_long(struct pickle *p, size_t len)
{
	unsigned char b[8] = { 0 };
	uint64_t v = 0;

	if (len > sizeof(b))
		return refuse(p, "it has a number of more than 64 bits");
	if (!take(p, b, len))
		return false;
	if (len && b[len - 1] & 0x80)
		memset(b + len, 0xff, sizeof(b) - len);
	for (size_t i = sizeof(b); i--;)
		v = v << 8 | b[i];
	return push_new(p, json_integer((json_int_t)v));
}

static bool push_double(struct pickle *p)
{
	unsigned char b[8];
	uint64_t v = 0;
	double d;

	if (!take(p, b, sizeof(b)))
		return false;
	for (size_t i = 0; i < sizeof(b); i++)
		v = v << 8 | b[i];
	memcpy(&d, &v, sizeof(d));
	return push_new(p, d - d == 0 ? json_real(d) : json_null());
}

/* ---- the memo ---- */

static bool memo_put(struct pickle *p, size_t at)
{
	struct item *more;
	size_t room = p->memo_room ? p->memo_room : 64;

	if (!p->depth || !p->stack[p->depth - 1].value || p->stack[p->depth - 1].kept ||
	    at >= MEMO)
		return refuse(p, "it keeps what is not there, or twice");
	while (room <= at)
		room *= 2;
	if (room > p->memo_room) {
		more = realloc(p->memo, room * sizeof(*more));
		if (!more)
			return refuse(p, "it is too large");
		memset(more + p->memo_room, 0, (room - p->memo_room) * sizeof(*more));
		p->memo = more;
		p->memo_room = room;
	}
	json_decref(p->memo[at].value);
	p->memo[at] = p->stack[p->depth - 1];
	p->stack[p->depth - 1].kept = at + 1;
	json_incref(p->memo[at].value);
	p->memos = at >= p->memos ? at + 1 : p->memos;
	return true;
}

static bool is_container(const json_t *j)
{
	return json_is_array(j) || json_is_object(j);
}

static bool memo_get(struct pickle *p, size_t at)
{
	json_t *v = at < p->memos ? p->memo[at].value : NULL;

	if (!v)
		return refuse(p, "it recalls what it has not kept");
	/* Complete from now on, or it could be made to contain itself. */
	for (size_t i = p->depth; is_container(v) && i--;)
		p->stack[i].recalled |= p->stack[i].value == v;
	return push(p, json_incref(v), p->memo[at].depth, true);
}

/* ---- containers ---- */

/* The place behind the last mark; SIZE_MAX: there is none. */
static size_t mark_of(const struct pickle *p)
{
	for (size_t i = p->depth; i--;)
		if (!p->stack[i].value)
			return i + 1;
	return SIZE_MAX;
}

static bool can_change(struct pickle *p, size_t into, bool list)
{
	struct item *x = into < p->depth ? &p->stack[into] : NULL;

	if (!x || x->recalled || !(list ? json_is_array(x->value) : json_is_object(x->value)))
		return refuse(p, "it changes what is no container of its own");
	return true;
}

static bool deepen(struct pickle *p, struct item *into, const struct item *of)
{
	int depth = of->depth + 1;

	into->depth = depth > into->depth ? depth : into->depth;
	/* The memo has it from when it was empty. */
	if (into->kept && p->memo[into->kept - 1].depth < into->depth)
		p->memo[into->kept - 1].depth = into->depth;
	return into->depth <= DEEPEST || refuse(p, "it is too deep");
}

/* Moves the items from @from on into the list at @into. */
static bool pickle_append(struct pickle *p, size_t from, size_t into)
{
	if (!can_change(p, into, true))
		return false;
	for (size_t i = from; i < p->depth; i++) {
		if (!p->stack[i].value || !deepen(p, &p->stack[into], &p->stack[i]))
			return refuse(p, "a list has a mark in it");
		json_array_append(p->stack[into].value, p->stack[i].value);
	}
	while (p->depth > from)
		json_decref(p->stack[--p->depth].value);
	return true;
}

static bool set_items(struct pickle *p, size_t from, size_t into)
{
	char number[32];

	if (!can_change(p, into, false) || (p->depth - from) % 2)
		return refuse(p, "a dict has a key without a value");
	for (size_t i = from; i < p->depth; i += 2) {
		const json_t *key = p->stack[i].value;
		json_t *value = p->stack[i + 1].value;

		if (!key || !value || !deepen(p, &p->stack[into], &p->stack[i + 1]))
			return refuse(p, "a dict has a mark in it");
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(key));
		if (!json_is_string(key) && !json_is_integer(key))
			return refuse(p,
				      "a dict has a key that is neither a string nor a number");
		json_object_set(p->stack[into].value,
				json_is_string(key) ? json_string_value(key) : number, value);
	}
	while (p->depth > from)
		json_decref(p->stack[--p->depth].value);
	return true;
}

static bool make_tuple(struct pickle *p, size_t count)
{
	json_t *list;
	struct item made = { 0 };

	if (count > p->depth)
		return refuse(p, "a tuple is too long");
	list = json_array();
	for (size_t i = p->depth - count; i < p->depth; i++) {
		if (!p->stack[i].value || !deepen(p, &made, &p->stack[i])) {
			json_decref(list);
			return refuse(p, "a tuple has a mark in it");
		}
		json_array_append(list, p->stack[i].value);
	}
	while (count--)
		json_decref(p->stack[--p->depth].value);
	return list ? push(p, list, made.depth, false) : refuse(p, "it is too large");
}

static bool with_mark(struct pickle *p, unsigned char op)
{
	size_t from = mark_of(p), count;

	if (from == SIZE_MAX)
		return refuse(p, "there is no mark");
	if (op == 't') {
		count = p->depth - from;
		if (!make_tuple(p, count))
			return false;
		/* The tuple takes the place of the mark. */
		p->stack[from - 1] = p->stack[from];
		p->depth--;
		return true;
	}
	if (from < 2)
		return refuse(p, "there is nothing to add to");
	if (!(op == 'e' ? pickle_append(p, from, from - 2) : set_items(p, from, from - 2)))
		return false;
	p->depth--; /* the mark */
	return true;
}

/* ---- opcodes ---- */

static bool step_number(struct pickle *p, unsigned char op)
{
	unsigned char b[4] = { 0 };
	size_t len = op == 'K' ? 1 : op == 'M' ? 2 : 4;

	if (!take(p, b, len))
		return false;
	return push_new(p, json_integer(op == 'J' ? (int32_t)((uint32_t)b[3] << 24 |
							      b[2] << 16 | b[1] << 8 | b[0])
						  : b[1] << 8 | b[0]));
}

/* The argument of @n bytes, little endian. */
static size_t argument(struct pickle *p, size_t n)
{
	unsigned char b[8] = { 0 };
	size_t v = 0;

	if (!take(p, b, n))
		return SIZE_MAX;
	for (size_t i = n; i--;)
		v = v << 8 | b[i];
	return v;
}

static bool step(struct pickle *p, unsigned char op)
{
	size_t n;

	switch (op) {
	case 0x80: /* PROTO */
		return argument(p, 1) <= 5 || refuse(p, "its protocol is not known");
	case 0x95: /* FRAME */
		return argument(p, 8) != SIZE_MAX;
	case '(':
		return push(p, NULL, 0, false);
	case '}':
		return push_new(p, json_object());
	case ']':
		return push_new(p, json_array());
	case ')':
		return push_new(p, json_array());
	case 'N':
		return push_new(p, json_null());
	case 0x88:
		return push_new(p, json_true());
	case 0x89:
		return push_new(p, json_false());
	case 'J':
	case 'K':
	case 'M':
		return step_number(p, op);
	case 0x8a:
		n = argument(p, 1);
		return n != SIZE_MAX && push_long(p, n);
	case 'G':
		return push_double(p);
	case 'X':
		n = argument(p, 4);
		return n != SIZE_MAX && push_text(p, n);
	case 0x8c:
		n = argument(p, 1);
		return n != SIZE_MAX && push_text(p, n);
	case 'q':
		n = argument(p, 1);
		return n != SIZE_MAX && memo_put(p, n);
	case 'r':
		n = argument(p, 4);
		return n != SIZE_MAX && memo_put(p, n);
	case 0x94:
		return memo_put(p, p->memos); /* MEMOIZE */
	case 'h':
		n = argument(p, 1);
		return n != SIZE_MAX && memo_get(p, n);
	case 'j':
		n = argument(p, 4);
		return n != SIZE_MAX && memo_get(p, n);
	case 0x85:
	case 0x86:
	case 0x87:
		return make_tuple(p, (size_t)op - 0x84);
	case 'a':
		return p->depth >= 2 ? pickle_append(p, p->depth - 1, p->depth - 2)
				     : refuse(p, "there is nothing to add to");
	case 's':
		return p->depth >= 3 ? set_items(p, p->depth - 2, p->depth - 3)
				     : refuse(p, "there is nothing to add to");
	case 't':
	case 'e':
	case 'u':
		return with_mark(p, op);
	default:
		return refuse(p, "it would create objects or call functions, which no flight "
				 "record does");
	}
}

json_t *pickle_load(const void *data, size_t len, struct err *e)
{
	struct pickle p = { .at = data, .end = (const unsigned char *)data + len };
	json_t *value = NULL;
	bool good = true;

	while (good && p.at < p.end && *p.at != '.') {
		unsigned char op = *p.at++;

		good = step(&p, op);
	}
	if (good && p.at == p.end)
		good = refuse(&p, "it is cut off");
	if (good && (p.depth != 1 || !p.stack[0].value))
		good = refuse(&p, "it has no value, or several");
	if (good)
		value = json_incref(p.stack[0].value);
	while (p.depth)
		json_decref(p.stack[--p.depth].value);
	for (size_t i = 0; i < p.memos; i++)
		json_decref(p.memo[i].value);
	free(p.stack);
	free(p.memo);
	if (!good)
		fail(e, RINGUP_EINVAL, "not a flight record: %s", p.why);
	return value;
}
