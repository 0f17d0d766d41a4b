/* events.c - read the events of a Chrome trace, one after the other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

enum { READ_BYTES = 1 << 20 };

int events_open(struct events *v, const char *path, struct err *e)
{
	struct stat st;

	*v = (struct events){ .path = path, .fd = -1 };
	v->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (v->fd < 0)
		return fail_os(e, "%s", path);
	if (fstat(v->fd, &st) || !S_ISREG(st.st_mode)) {
		events_close(v);
		return fail(e, RINGUP_EINVAL, "%s: not a regular file", path);
	}
	v->size = READ_BYTES + EVENTS_BYTES;
	v->text = malloc(v->size);
	if (v->text)
		return 0;
	events_close(v);
	return fail(e, RINGUP_ENOMEM, "no memory to read %s", path);
}

int events_of(struct events *v, const void *text, size_t len, struct err *e)
{
	*v = (struct events){ .path = "text", .fd = -1, .len = len };
	v->text = malloc(len ? len : 1);
	if (!v->text)
		return fail(e, RINGUP_ENOMEM, "no memory for %zu bytes", len);
	memcpy(v->text, text, len);
	return 0;
}

void events_close(struct events *v)
{
	if (v->path && v->fd >= 0)
		close(v->fd);
	free(v->text);
	*v = (struct events){ .fd = -1 };
}

/* Drop the text that has been used, and read more: 1, 0 at the end, or an error. */
static int refill(struct events *v, struct err *e)
{
	ssize_t n;

	if (v->fd < 0)
		return 0;
	memmove(v->text, v->text + v->at, v->len - v->at);
	v->len -= v->at;
	v->at = 0;
	if (v->len == v->size)
		return 0;
	do
		n = read(v->fd, v->text + v->len, v->size - v->len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fail_os(e, "%s", v->path);
	v->len += (size_t)n;
	return n > 0;
}

static bool events_is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The next character that is no blank, without taking it: 1, 0 at the end, or an error. */
static int events_look(struct events *v, char *c, struct err *e)
{
	int rc;

	for (;;) {
		while (v->at < v->len && events_is_blank(v->text[v->at]))
			v->at++;
		if (v->at < v->len) {
			*c = v->text[v->at];
			return 1;
		}
		rc = refill(v, e);
		if (rc <= 0)
			return rc;
	}
}

/* The length of the object at v->at; 0: the text ends before it. */
static size_t object_bytes(const struct events *v)
{
	bool quoted = false;
	int depth = 0;

	for (size_t i = v->at; i < v->len && i - v->at < EVENTS_BYTES; i++) {
		char c = v->text[i];

		if (quoted && c == '\\') {
			i++;
			continue;
		}
		if (c == '"')
			quoted = !quoted;
		if (quoted)
			continue;
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		if (!depth)
			return i + 1 - v->at;
	}
	return 0;
}

static int bad(const struct events *v, const char *why, struct err *e)
{
	return fail(e, RINGUP_EINVAL, "%.100s: event %llu: %s", v->path,
		    (unsigned long long)v->count + 1, why);
}

static int take_object(struct events *v, json_t **event, struct err *e)
{
	json_error_t why;
	size_t len = object_bytes(v);
	int rc;

	while (!len) {
		if (v->len - v->at >= EVENTS_BYTES)
			return bad(v, "longer than an event may be", e);
		rc = refill(v, e);
		if (rc < 0)
			return rc;
		if (!rc) {
			v->cut = true;
			return 0;
		}
		len = object_bytes(v);
	}
	*event = json_loadb(v->text + v->at, len, 0, &why);
	if (!*event)
		return bad(v, why.text, e);
	if (!json_is_object(*event)) {
		json_decref(*event);
		return bad(v, "not an object", e);
	}
	v->at += len;
	v->count++;
	return 1;
}

int events_next(struct events *v, json_t **event, struct err *e)
{
	char c = 0;
	int rc = events_look(v, &c, e);

	*event = NULL;
	if (rc > 0 && !v->begun) {
		if (c != '[')
			return fail(e, RINGUP_EINVAL,
				    "%.100s: not a timeline: it does not begin with [",
				    v->path);
		v->begun = true;
		v->at++;
		rc = events_look(v, &c, e);
	}
	if (rc > 0 && v->count && c == ',') {
		v->at++;
		rc = events_look(v, &c, e);
	}
	if (rc < 0)
		return rc;
	if (!rc) {
		v->cut = true;
		return 0;
	}
	if (c == ']')
		return 0;
	return c == '{' ? take_object(v, event, e) : bad(v, "not an object", e);
}
