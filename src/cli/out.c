/* out.c - results on stdout: text, aligned tables, or one JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/array.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/utf8.h"
#include "ringup.h"

static bool has_colour;
static int broken; /* errno of the first failure of stdout */

/* Notes a write failure as soon as it shows; later errno would no longer tell its cause. */
static void stdout_watch(void)
{
	if (!broken && ferror(stdout))
		broken = errno ? errno : EIO;
}

/*
 * A program started with stdout closed would get that number for the next file or socket it
 * opens, and print into it.  A descriptor opened for the wrong direction occupies the number
 * and fails every use.
 */
static void descriptor_occupy(int fd, int flags)
{
	if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags) < 0)
		_exit(3);
}

void out_start(void)
{
	const char *no = conf_env("NO_COLOR"), *term = conf_env("TERM");

	descriptor_occupy(0, O_WRONLY);
	descriptor_occupy(1, O_RDONLY);
	descriptor_occupy(2, O_RDWR);
	has_colour = isatty(1) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

static const char *look_colour(enum out_look look)
{
	static const char *const codes[] = { "", "1", "2", "32", "33", "31" };

	return codes[look];
}

/* Filters control characters: C0 except @pass, DEL, and C1 (U+0080-9F) in UTF-8. */
static void text_filter(char *s, const char *pass)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)s[0], next = (unsigned char)s[1];

		if ((c < ' ' && !strchr(pass, c)) || c == 127)
			*s = '?';
		else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
			s[0] = s[1] = '?';
	}
}

static void look_print(enum out_look look, const char *fmt, va_list ap)
{
	bool paint = has_colour && look != OUT_PLAIN;
	char *s;

	if (vasprintf(&s, fmt, ap) < 0)
		return;
	text_filter(s, "\n\t");
	if (paint)
		printf("\033[%sm%s\033[0m", look_colour(look), s);
	else
		fputs(s, stdout);
	stdout_watch();
	free(s);
}

void out_text(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	look_print(OUT_PLAIN, fmt, ap);
	va_end(ap);
}

void out_look(enum out_look look, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	look_print(look, fmt, ap);
	va_end(ap);
}

int out_width(void)
{
	struct winsize w;

	return !ioctl(1, TIOCGWINSZ, &w) ? w.ws_col : 0;
}

/* The end of the words of @s that fit into @room columns; the first one always does. */
static char *fold_at(char *s, int room)
{
	char *end = NULL, *p;
	int n = 0;

	for (p = s; *p; p++) {
		if (*p == ' ' && p > s && (n <= room || !end))
			end = p;
		n += ((unsigned char)*p & 0xc0) != 0x80;
		if (n > room && end)
			return end;
	}
	return p;
}

/* Less room than this on a line is not worth folding for. */
enum { FOLD_LEAST = 24 };

void out_fold(enum out_look look, int at, int indent, const char *fmt, ...)
{
	int columns = out_width();
	char *s, *rest, *end, was;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	if (columns - indent < FOLD_LEAST)
		columns = 0;
	for (rest = s; rest; rest = was ? end + 1 : NULL) {
		end = columns ? fold_at(rest, columns - at) : rest + strlen(rest);
		was = *end;
		*end = 0;
		out_look(look, "%s", rest);
		out_text("\n%*s", was ? indent : 0, "");
		at = indent;
	}
	free(s);
}

void out_note(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	text_filter(s, "\n");
	fflush(stdout); /* so that it comes after earlier output */
	stdout_watch();
	fputs(s, stderr);
	free(s);
}

void out_table_init(struct out_table *t, const char *const *heads)
{
	memset(t, 0, sizeof(*t));
	for (; heads[t->columns] && t->columns < OUT_COLUMNS; t->columns++)
		t->head[t->columns] = heads[t->columns];
}

void out_table_cell(struct out_table *t, enum out_look look, const char *fmt, ...)
{
	struct out_cell *one;
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = t->failed ? -1 : vasprintf(&s, fmt, ap);
	va_end(ap);
	one = n < 0 ? NULL : array_more(&t->cell, &t->cells, sizeof(*one));
	if (one) {
		text_filter(s, "");
		*one = (struct out_cell){ s, look };
		return;
	}
	t->failed = 1;
	if (n >= 0)
		free(s);
}

static void print_cell(const struct out_table *t, int column, const char *text,
		       enum out_look look, const int rooms[OUT_COLUMNS])
{
	int pad = rooms[column] - utf8_count(text), at = 0, i;
	bool right = t->right >> column & 1, last = column == t->columns - 1;

	if (last && !right) {
		for (i = 0; i < column; i++)
			at += rooms[i] + 2;
		out_fold(look, at, at, "%s", text);
		return;
	}
	if (right)
		printf("%*s", pad, "");
	if (look != OUT_PLAIN)
		out_look(look, "%s", text);
	else
		fputs(text, stdout);
	if (!right && !last)
		printf("%*s", pad, "");
	fputs(last ? "\n" : "  ", stdout);
	stdout_watch();
}

int out_table_print(struct out_table *t, struct err *e)
{
	int whole = t->cells - t->cells % t->columns;
	int room[OUT_COLUMNS] = { 0 };
	int rc = 0;

	if (t->failed) {
		rc = fail(e, RINGUP_ENOMEM, "no memory for a table");
		goto out;
	}
	for (int c = 0; c < t->columns; c++)
		room[c] = utf8_count(t->head[c]);
	for (int i = 0; i < whole; i++)
		if (utf8_count(t->cell[i].text) > room[i % t->columns])
			room[i % t->columns] = utf8_count(t->cell[i].text);
	for (int c = 0; c < t->columns; c++)
		print_cell(t, c, t->head[c], OUT_BOLD, room);
	for (int i = 0; i < whole; i++)
		print_cell(t, i % t->columns, t->cell[i].text, t->cell[i].look, room);
out:
	for (int i = 0; i < t->cells; i++)
		free(t->cell[i].text);
	free(t->cell);
	t->cell = NULL;
	t->cells = 0;
	return rc;
}

int out_json(json_t *object, struct err *e)
{
	int rc;

	if (!object)
		return fail(e, RINGUP_ENOMEM, "out of memory for the JSON object");
	rc = json_dumpf(object, stdout, JSON_INDENT(2));
	stdout_watch();
	json_decref(object);
	/* out_end() reports a failure of stdout. */
	if (rc && !ferror(stdout))
		return fail(e, RINGUP_EINVAL, "the result is not valid JSON");
	putchar('\n');
	return 0;
}

json_t *out_string(const char *text)
{
	return jsonio_text(text);
}

json_t *out_string_or_null(const char *text)
{
	return text && *text ? out_string(text) : json_null();
}

int out_end(struct err *e)
{
	fflush(stdout);
	stdout_watch();
	if (!broken)
		return 0;
	clearerr(stdout);
	errno = broken;
	broken = 0;
	return fail_os(e, "cannot write the result to stdout");
}
