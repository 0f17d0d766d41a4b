/* edit.c - apply a recipe's edits to unpacked sources, exactly or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/edit.h"

#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

enum { EDIT_BYTES = 1 << 22, EDIT_GROUPS = 10 };

/* Writes @with for one match in @line, groups and escapes replaced. */
static void template_put(FILE *out, const char *with, const char *line, const regmatch_t *m)
{
	const char *p;

	for (p = with; *p; p++) {
		if (*p != '\\' || !p[1]) {
			putc(*p, out);
			continue;
		}
		p++;
		if (*p == 'n')
			putc('\n', out);
		else if (*p == 't')
			putc('\t', out);
		else if (*p >= '0' && *p <= '9' && m[*p - '0'].rm_so >= 0)
			fwrite(line + m[*p - '0'].rm_so, 1,
			       (size_t)(m[*p - '0'].rm_eo - m[*p - '0'].rm_so), out);
		else if (*p < '0' || *p > '9')
			putc(*p, out);
	}
}

/* Writes each line of @text to @out, edited; returns the number of matches. */
static int lines_replace(const regex_t *ere, const char *with, char *text, FILE *out)
{
	regmatch_t m[EDIT_GROUPS];
	char *line, *end;
	int times = 0;

	for (line = text; *line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end = 0;
		if (!regexec(ere, line, EDIT_GROUPS, m, 0)) {
			times++;
			fwrite(line, 1, (size_t)m[0].rm_so, out);
			template_put(out, with, line, m);
			fputs(line + m[0].rm_eo, out);
		} else {
			fputs(line, out);
		}
		if (!end)
			break;
		putc('\n', out);
		end++;
	}
	return times;
}

int edit_text(const struct recipe_edit *d, const char *text, size_t len, char **outp,
	      struct err *e)
{
	char *copy = strndup(text, len), *made = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&made, &size);
	regex_t ere;
	int times;

	if (!copy || !out || regcomp(&ere, d->match, REG_EXTENDED)) {
		free(copy);
		if (out)
			fclose(out);
		free(made);
		return fail(e, RINGUP_ENOMEM, "edit %s: no memory", d->name);
	}
	times = strlen(copy) == len ? lines_replace(&ere, d->with, copy, out) : -1;
	regfree(&ere);
	free(copy);
	if (fclose(out) || times != d->times) {
		free(made);
		if (times < 0)
			return fail(e, RINGUP_EINVAL, "edit %s: %s is no text", d->name,
				    d->file);
		return fail(
			e, RINGUP_EINVAL,
			"edit %s: %d lines of %s match, not %d: these are not the sources that "
			"the recipe knows",
			d->name, times, d->file, d->times);
	}
	*outp = made;
	return 0;
}

static const struct recipe_edit *edit_find(const struct recipe *r, const char *name)
{
	for (int i = 0; i < r->nedits; i++)
		if (!strcmp(r->edits[i].name, name))
			return &r->edits[i];
	return NULL;
}

static int edit_make(const struct recipe_edit *d, const char *dir, struct err *e)
{
	char *text, *made;
	char path[PATH_MAX];
	size_t len;
	int rc;

	if (snprintf(path, sizeof(path), "/%s", d->file) >= (int)sizeof(path))
		return fail(e, RINGUP_EINVAL, "edit %s: too long a path", d->name);
	rc = file_read(dir, path, EDIT_BYTES, &text, &len, e);
	if (rc)
		return fail_in(e, "edit %s: these are not the sources that the recipe knows",
			       d->name);
	rc = edit_text(d, text, len, &made, e);
	free(text);
	if (rc)
		return rc;
	rc = file_write(dir, path, 0644, made, strlen(made), e);
	free(made);
	return rc;
}

/* Copies a file from beside the recipe into the sources. */
static int file_lay_over(const struct recipe *r, const char *from, const char *to,
			 const char *dir, struct err *e)
{
	const char *slash = strrchr(r->path, '/');
	char path[PATH_MAX], target[PATH_MAX];
	size_t len;
	char *text;
	int rc;

	snprintf(target, sizeof(target), "/%s", to);
	if (snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - r->path + 1) : 0,
		     r->path, from) >= (int)sizeof(path))
		return fail(e, RINGUP_EINVAL, "%s: too long a path", from);
	rc = file_read(NULL, path, EDIT_BYTES, &text, &len, e);
	if (rc)
		return rc;
	rc = file_write(dir, target, 0644, text, len, e);
	free(text);
	return rc;
}

int edit_apply(const struct recipe *r, const struct recipe_decision *decided, const char *dir,
	       struct err *e)
{
	int rc = 0;

	for (int i = 0; !rc && i < decided->edits.count; i++) {
		const char *name = decided->edits.at[i].name;
		const struct recipe_edit *d = edit_find(r, name);

		rc = d ? edit_make(d, dir, e)
		       : fail(e, RINGUP_EINVAL, "%s: no edit %s", r->path, name);
	}
	for (int i = 0; !rc && i < decided->adds.count; i++)
		rc = file_lay_over(r, decided->adds.at[i].text, decided->adds.at[i].name, dir,
				   e);
	return rc;
}
