/* fields.c - match the rest of a signature's text and extract its fields. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "diagnose/wrap.h"
#include "host/iface.h"

/* INNER: bytes between a mark and another behind it. */
enum { ON_LINE = 512, IN_MESSAGE = 1024, BOX_LINES = 24, WORD = 256, INNER = 40 };

static bool fields_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_host(char c)
{
	return is_letter(c) || num_is_digit(c) || c == '.' || c == '-' || c == '_' || c == ':';
}

static void fields_keep(char *out, size_t size, const char *at, size_t len)
{
	if (len >= size)
		len = size - 1;
	memcpy(out, at, len);
	out[len] = 0;
}

void fields_init(struct fields *f)
{
	/* Not all of it: this runs for every possible match. */
	f->address[0] = f->interface[0] = f->value[0] = 0;
	f->hosts = 0;
	f->port = f->rank = f->status = -1;
	f->signal = 0;
}

void fields_host(struct fields *f, const char *at, size_t len)
{
	if (!len || len >= sizeof(f->host[0]) || f->hosts == FIELDS_HOSTS)
		return;
	for (int i = 0; i < f->hosts; i++)
		if (strlen(f->host[i]) == len && !memcmp(f->host[i], at, len))
			return;
	fields_keep(f->host[f->hosts++], sizeof(f->host[0]), at, len);
}

/* ---- typed fields: each returns the place after it, or NULL ---- */

static const char *fields_number(const char *p, const char *end, int *out)
{
	const char *start = p;
	long v = 0;

	while (p < end && num_is_digit(*p) && p - start < 10)
		v = 10 * v + (*p++ - '0');
	if (p == start || (p < end && num_is_digit(*p)) || v > 0x7fffffff)
		return NULL;
	*out = (int)v;
	return p;
}

/* Parses 10.0.0.1 even if :PORT follows; otherwise IPv6, whose scope may be a name. */
static const char *address(const char *p, const char *end, char out[64])
{
	struct iface_ip ip;
	const char *start = p, *scope;
	char text[64];

	while (p < end && p - start < 46 && (num_is_digit(*p) || *p == '.'))
		p++;
	if (p < end && (is_letter(*p) || (*p == ':' && p - start < 5)))
		while (p < end && p - start < 46 &&
		       (num_is_digit(*p) || *p == '.' || *p == ':' ||
			((*p | 32) >= 'a' && (*p | 32) <= 'f')))
			p++;
	fields_keep(text, sizeof(text), start, (size_t)(p - start));
	scope = p;
	if (p < end && *p == '%')
		for (p++; p < end && p - scope < 17 && (is_letter(*p) || num_is_digit(*p)); p++)
			;
	if (!iface_parse(&ip, text))
		return NULL;
	memcpy(out, text, sizeof(text));
	return p;
}

static bool is_loopback(const char *text)
{
	return !strncmp(text, "127.", 4) || !strcmp(text, "::1");
}

static bool is_link_local(const char *text)
{
	return !strncmp(text, "169.254.", 8) || !strncmp(text, "fe80:", 5);
}

/* The first two networks that docker assigns by default. */
static bool is_docker(const char *text)
{
	return !strcmp(text, "172.17.0.1") || !strcmp(text, "172.18.0.1");
}

static const char *name(const char *p, const char *end, size_t most, bool (*is)(char))
{
	const char *start = p;

	while (p < end && (size_t)(p - start) < most && is(*p))
		p++;
	return p > start ? p : NULL;
}

static bool is_interface(char c)
{
	return is_letter(c) || num_is_digit(c) || c == '.' || c == '-' || c == '_' || c == '@';
}

/* Interfaces whose addresses matter only within their node. */
static bool is_local(const char *p, size_t len)
{
	static const char *const names[] = { "docker",  "br-",   "virbr",  "cni",
					     "flannel", "cali",  "veth",   "podman",
					     "lxc",     "tun",   "tap",    "wg",
					     "kube",    "weave", "cilium", "usb" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (len >= strlen(names[i]) && !memcmp(p, names[i], strlen(names[i])))
			return true;
	return false;
}

static bool is_word(char c)
{
	return !fields_is_blank(c) && c;
}

static const char *line_end(const char *p, const char *end, size_t most)
{
	const char *stop = (size_t)(end - p) < most ? end : p + most;
	const char *at = memchr(p, '\n', (size_t)(stop - p));

	return at ? at : stop;
}

static const char *skip_blanks(const char *p, const char *end);

/* Skips "(Worker pid=41)", which Ray puts before other programs' lines. */
static const char *skip_actor(const char *p, const char *end)
{
	const char *close = p < end && *p == '(' ? memchr(p, ')', (size_t)(end - p)) : NULL;

	if (!close || !memmem(p, (size_t)(close - p), "pid=", 4))
		return p;
	return skip_blanks(close + 1, end);
}

static const char *value(const char *p, const char *end, char out[FIELDS_TEXT])
{
	const char *stop, *last, *quote, *next = wrap_next(p, end, &last);
	int rank;

	p = next ? next : p;
	stop = line_end(p, end, ON_LINE);
	if (!next || last > stop)
		last = stop;
	quote = memmem(p, (size_t)(last - p), "\\n\"", 3);
	if (quote)
		last = quote;
	else if (last - p > 1 && !memcmp(last - 2, "\"}", 2))
		last -= 2;
	p = skip_actor(skip_blanks(p, stop), stop);
	p = skip_blanks(fields_unmark(p, stop, &rank), stop);
	quote = p < last ? memchr(p, 0x1b, (size_t)(last - p)) : NULL;
	if (quote)
		last = quote;
	while (last > p && fields_is_blank(last[-1]))
		last--;
	fields_keep(out, FIELDS_TEXT, p, last > p ? (size_t)(last - p) : 0);
	return stop;
}

static const char *host(const char *p, const char *end, struct fields *f)
{
	const char *stop = name(p, end, 64, is_host);
	struct iface_ip ip;
	char text[65];

	if (!stop)
		return NULL;
	while (stop > p + 1 && (stop[-1] == ':' || stop[-1] == '.'))
		stop--;
	fields_host(f, p, (size_t)(stop - p));
	fields_keep(text, sizeof(text), p, (size_t)(stop - p));
	if (iface_parse(&ip, text) && strlen(text) < sizeof(f->address))
		memcpy(f->address, text, strlen(text) + 1);
	return stop;
}

/* Parses 9, SIGKILL, or Killed. */
static const char *signal_number(const char *p, const char *end, int *out)
{
	static const struct {
		const char *name;
		int signal;
	} signals[] = {
		{ "SIGHUP", 1 },
		{ "SIGINT", 2 },
		{ "SIGQUIT", 3 },
		{ "SIGILL", 4 },
		{ "SIGTRAP", 5 },
		{ "SIGABRT", 6 },
		{ "SIGBUS", 7 },
		{ "SIGFPE", 8 },
		{ "SIGKILL", 9 },
		{ "SIGSEGV", 11 },
		{ "SIGPIPE", 13 },
		{ "SIGTERM", 15 },
		{ "Killed", 9 },
		{ "Bus error", 7 },
		{ "Segmentation fault", 11 },
		{ "Floating point exception", 8 },
		{ "Illegal instruction", 4 },
	};
	size_t n;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		n = strlen(signals[i].name);
		if ((size_t)(end - p) >= n && !memcmp(p, signals[i].name, n)) {
			*out = signals[i].signal;
			return p + n;
		}
	}
	return fields_number(p, end, out);
}

/* Parses 137 of shells, or -9 of Python. */
static const char *status(const char *p, const char *end, struct fields *f)
{
	bool negative = p < end && *p == '-';
	int n;

	p = fields_number(p + negative, end, &n);
	if (!p || !n)
		return NULL; /* 0 is no failure */
	if (negative ? n < 65 : n > 128 && n < 128 + 65)
		f->signal = negative ? n : n - 128;
	f->status = n;
	return p;
}

/* Parses HOST:PORT, whose host may be an IPv6 address. */
static const char *endpoint(const char *p, const char *end, struct fields *f)
{
	const char *stop = name(p, end, 80, is_host), *colon;

	if (!stop)
		return NULL;
	while (stop > p + 1 && !num_is_digit(stop[-1]))
		stop--;
	for (colon = stop; colon > p && num_is_digit(colon[-1]); colon--)
		;
	if (colon < p + 2 || colon[-1] != ':' || !fields_number(colon, stop, &f->port))
		return NULL;
	return host(p, colon - 1, f) ? stop : NULL;
}

static const char *interface(const char *p, const char *end, char out[32])
{
	const char *stop = name(p, end, 31, is_interface);

	if (stop)
		fields_keep(out, 32, p, (size_t)(stop - p));
	return stop;
}

/* ---- literals ---- */

/* Decodes JSON's form of a byte into *@c: returns the place after it, or NULL if it is another
 * byte. */
static const char *unescape(const char *p, const char *end, char *c)
{
	static const struct {
		const char *text;
		char byte;
	} escapes[] = {
		{ "\\u003c", '<' }, { "\\u003e", '>' }, { "\\u0026", '&' }, { "\\\"", '"' },
		{ "\\u003C", '<' }, { "\\u003E", '>' }, { "\\u0027", 39 },  { "\\t", ' ' },
		{ "\\n", ' ' },     { "\\r", ' ' },
	};
	size_t n;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		n = strlen(escapes[i].text);
		if ((size_t)(end - p) >= n && !memcmp(p, escapes[i].text, n)) {
			*c = escapes[i].byte;
			return p + n;
		}
	}
	return NULL;
}

static bool is_colour(const char *p, const char *end)
{
	return end - p > 2 && p[0] == 0x1b && p[1] == '[';
}

/* Terminal colours and the JSON between two messages count as blanks. */
static const char *skip_blanks(const char *p, const char *end)
{
	const char *after, *stop;
	char c;

	for (;;) {
		if (p < end && fields_is_blank(*p))
			p++;
		else if (is_colour(p, end))
			for (p += 2; p < end && !is_letter(*p++);)
				;
		else if (p < end && *p == '"' && (after = wrap_next(p, end, &stop)))
			p = after;
		else if (p < end && *p == '\\' && (after = unescape(p, end, &c)) && c == ' ')
			p = after;
		else
			return p;
	}
}

/* Matches the literal beginning of @text; a blank matches blanks and ends of lines. */
static const char *literal(const char **text, const char *p, const char *end)
{
	const char *t = *text, *after, *stop;
	char c;

	for (; *t != '{' && *t != '\n'; t++) {
		if (p >= end)
			return NULL;
		after = p + 1;
		c = *p;
		if (c == '\\' && *t != c && !(after = unescape(p, end, &c)))
			return NULL;
		if (*t == ' ' ? !fields_is_blank(c) && !is_colour(p, end) &&
					!wrap_next(p, end, &stop)
			      : *t != c)
			return NULL;
		p = *t == ' ' ? skip_blanks(fields_is_blank(c) ? after : p, end) : after;
	}
	*text = t;
	return p;
}

/* The limit that {*} or {**} may not pass. */
static const char *reach(bool lines, const char *p, const char *end)
{
	const char *stop, *dashes;

	if (!lines)
		return line_end(p, end, ON_LINE);
	stop = end - p < IN_MESSAGE ? end : p + IN_MESSAGE;
	dashes = memmem(p, (size_t)(stop - p), "-----", 5);
	return dashes ? dashes : stop;
}

/* The first place before @stop where the literal matches. */
static const char *fields_find(const char **text, const char *p, const char *stop,
			       const char *end)
{
	const char *after, *t;

	for (; p < stop; p++) {
		if (**text != ' ' && **text != '<' && **text != '>' && **text != '"') {
			p = memchr(p, **text, (size_t)(stop - p));
			if (!p)
				return NULL;
		}
		t = *text;
		after = literal(&t, p, end);
		if (after) {
			*text = t;
			return after;
		}
	}
	return NULL;
}

/* ---- a whole text ---- */

static bool names(const char *field, size_t len, const char *what)
{
	return strlen(what) == len && !memcmp(field, what, len);
}

static const char *field(const char *which, size_t len, const char *p, const char *end,
			 struct fields *f)
{
	const char *start = p;
	int ignored;

	if (names(which, len, "ip"))
		return address(p, end, f->address);
	if (names(which, len, "loopback")) {
		p = address(p, end, f->address);
		return p && is_loopback(f->address) ? p : NULL;
	}
	if (names(which, len, "linklocal")) {
		p = address(p, end, f->address);
		return p && is_link_local(f->address) ? p : NULL;
	}
	if (names(which, len, "docker")) {
		p = address(p, end, f->address);
		return p && is_docker(f->address) ? p : NULL;
	}
	if (names(which, len, "port"))
		return fields_number(p, end, &f->port);
	if (names(which, len, "rank"))
		return fields_number(p, end, &f->rank);
	if (names(which, len, "errno"))
		return fields_number(p, end, &ignored);
	if (names(which, len, "signal"))
		return signal_number(p, end, &f->signal);
	if (names(which, len, "status"))
		return status(p, end, f);
	if (names(which, len, "host"))
		return host(p, end, f);
	if (names(which, len, "endpoint"))
		return endpoint(p, end, f);
	if (names(which, len, "if"))
		return interface(p, end, f->interface);
	if (names(which, len, "local")) {
		p = interface(p, end, f->interface);
		return p && is_local(start, (size_t)(p - start)) ? p : NULL;
	}
	if (names(which, len, "value"))
		return value(p, end, f->value);
	return name(p, end, WORD, is_word);
}

const char *fields_literal(const char **rest, const char *at, const char *end, size_t *looked)
{
	const char *after = literal(rest, at, end);

	*looked += after ? (size_t)(after - at) : 1;
	return after;
}

bool fields_match(const char *rest, const char *at, const char *end, struct fields *f,
		  size_t *looked)
{
	const char *close, *stop;
	size_t len;

	while (at && *rest != '\n') {
		if (*rest != '{') {
			at = literal(&rest, at, end);
			continue;
		}
		close = strchr(rest, '}');
		len = (size_t)(close - rest) - 1;
		if (rest[1] != '*') {
			at = field(rest + 1, len, at, end, f);
			rest = close + 1;
			continue;
		}
		rest = close + 1;
		stop = reach(len == 2, at, end);
		*looked += (size_t)(stop - at);
		at = fields_find(&rest, at, stop, end);
	}
	return at != NULL;
}

/* ---- display ---- */

void fields_show(char *out, size_t size, const char *text, size_t len)
{
	size_t i;

	while (len && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	while (len && (unsigned char)text[len - 1] <= ' ')
		len--;
	for (i = 0; i < len && i < size - 1; i++)
		out[i] = text[i] >= ' ' && text[i] < 127      ? text[i]
			 : text[i] == '\t' || text[i] == '\n' ? ' '
							      : '?';
	out[i] = 0;
	if (i < len && size > 4)
		memcpy(out + i - 3, "...", 3);
}

size_t fields_elide(char *out, size_t size, const char *line, const char *end)
{
	size_t len = (size_t)(end - line), tail = size * 3 / 10, head = size - tail - 5;
	const char *last = end - tail;

	if (len <= size || !memmem(last, tail, ": ", 2)) {
		len = len < size ? len : size;
		memcpy(out, line, len);
		return len;
	}
	memcpy(out, line, head);
	memcpy(out + head, " ... ", 5);
	memcpy(out + head + 5, last, tail);
	return size;
}

/* ---- marks and boxes ---- */

/* The mark of torch, or of a program, behind a launcher's, whose number is one within a host,
 * or a host's: "[default3]:[rank11]:" of torchrun, "1: [rank11]:" of srun with a torchrun on
 * each host, "1: [10:14:03][rank 11] ". */
static const char *inner_mark(const char *at, const char *end, int *rank)
{
	static const char dated[] = " []0123456789:-.,T/";
	const char *p = at, *stop = end - at < INNER ? end : at + INNER, *after;
	int n;

	while (p < stop && (p = memchr(p, '[', (size_t)(stop - p))) && end - p > 6 &&
	       ((p[1] | 0x20) != 'r' || memcmp(p + 2, "ank", 3) != 0))
		p++;
	if (!p || p >= stop || end - p < 7)
		return at;
	for (after = at; after < p; after++)
		if (!*after || !strchr(dated, *after))
			return at;
	after = fields_number(p + (p[5] == ' ' ? 6 : 5), end, &n);
	if (!after || after == end || *after != ']')
		return at;
	*rank = n;
	after++;
	return after < end && *after == ':' ? after + 1 : after;
}

/* The number in "3]" of mpirun, and in "mpirank:3,algo-1]" of SageMaker's. */
static const char *mpi_rank(const char *p, const char *end, int *n)
{
	static const char key[] = "mpirank:";
	const size_t len = sizeof(key) - 1;

	if ((size_t)(end - p) <= len || memcmp(p, key, len) != 0)
		return fields_number(p, end, n);
	p = fields_number(p + len, end, n);
	return p ? memchr(p, ']', (size_t)(end - p)) : NULL;
}

const char *fields_label(const char *at, const char *end, int *n)
{
	/* srun pads all labels to equal width. */
	while (end - at > 1 && *at == ' ')
		at++;
	at = fields_number(at, end, n);
	return at && end - at > 1 && at[0] == ':' && at[1] == ' ' ? at + 2 : NULL;
}

/* The number in "rank3]", "rank 3]", "default3]" and "worker-3]:". */
static const char *named_number(const char *p, const char *end, int *n)
{
	if (end - p > 5 && (*p | 0x20) == 'r' && !memcmp(p + 1, "ank", 3))
		return fields_number(p + (p[4] == ' ' || p[4] == '-' ? 5 : 4), end, n);
	if (end - p > 7 && !memcmp(p, "default", 7))
		return fields_number(p + 7, end, n);
	if (end - p < 10 || memcmp(p, "worker-", 7) != 0)
		return fields_number(p, end, n);
	p = fields_number(p + 7, end, n);
	return p && end - p > 1 && p[1] == ':' ? p : NULL;
}

/* "[default3]:" of torchrun behind srun's label; the number is one within a host. */
static const char *skip_local(const char *at, const char *end)
{
	const char *after;
	int n;

	if (end - at < 11 || memcmp(at, "[default", 8) != 0)
		return at;
	after = fields_number(at + 8, end, &n);
	return after && end - after > 1 && after[0] == ']' && after[1] == ':' ? after + 2 : at;
}

/* [1,3]<stderr>: of mpirun, [3]<stderr>: of horovodrun, [rank3]: of torch, [rank 3] of
 * programs, [worker-3]: of scripts, [3] of ringup, "3: " of srun. */
const char *fields_unmark(const char *at, const char *end, int *rank)
{
	const char *p = at, *after;
	int n = -1;

	if (p < end && *p == '[') {
		after = named_number(p + 1, end, &n);
		if (after && after < end && *after == ',')
			after = mpi_rank(after + 1, end, &n);
		if (!after || after == end || *after != ']')
			return at;
		p = after + 1;
		if (end - p > 8 && (!memcmp(p, "<stderr>", 8) || !memcmp(p, "<stdout>", 8)))
			p += 8;
		if (p < end && *p == ':')
			p++;
	} else {
		p = fields_label(p, end, &n);
		if (!p)
			return at;
	}
	*rank = n;
	after = skip_local(p, end);
	at = inner_mark(after, end, rank);
	return at > after ? at : p;
}

static void box_line(const char *p, const char *end, struct fields *f)
{
	static const char *const hosts[] = { "Local host:", "Remote host:", "Peer hostname:" };
	static const char on_host[] = "is on host: ";
	const char *at;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if ((size_t)(end - p) > strlen(hosts[i]) &&
		    !memcmp(p, hosts[i], strlen(hosts[i]))) {
			for (p += strlen(hosts[i]); p < end && fields_is_blank(*p); p++)
				;
			at = name(p, end, 64, is_host);
			fields_host(f, p, at ? (size_t)(at - p) : 0);
			return;
		}
	if (end - p > 6 && !memcmp(p, "Value:", 6))
		value(p + 6, end, f->value);
	else if (end - p > 12 && !memcmp(p, "Value given:", 12))
		value(p + 12, end, f->value);
	else if (end - p > 20 && !memcmp(p, "Source IP of socket:", 20)) {
		for (p += 20; p < end && fields_is_blank(*p); p++)
			;
		address(p, end, f->address);
	} else {
		at = memmem(p, (size_t)(end - p), on_host, sizeof(on_host) - 1);
		p = at ? at + sizeof(on_host) - 1 : p;
		at = at ? name(p, end, 64, is_host) : NULL;
		fields_host(f, p, at ? (size_t)(at - p) : 0);
	}
}

void fields_box(const char *at, const char *end, struct fields *f, size_t *looked)
{
	const char *start = at, *stop = end - at < IN_MESSAGE ? end : at + IN_MESSAGE, *eol;
	int rank;

	for (int i = 0; i < BOX_LINES && at < stop; i++) {
		eol = memchr(at, '\n', (size_t)(stop - at));
		if (!eol)
			eol = stop;
		at = fields_unmark(at, eol, &rank);
		while (at < eol && fields_is_blank(*at))
			at++;
		if (eol - at >= 5 && !memcmp(at, "-----", 5))
			break;
		box_line(at, eol, f);
		at = eol + 1;
	}
	*looked += (size_t)((at < stop ? at : stop) - start);
}
