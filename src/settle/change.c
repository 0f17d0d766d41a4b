/* change.c - the effect that choosing an interface has on a node's files and libraries. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "settle/change.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "ringup.h"
#include "settle/diff.h"

static const char *file_change(const struct fix_file *f)
{
	if (!fixfile_changes(f))
		return "unchanged";
	if (!f->after)
		return "removed";
	return f->before ? "changed" : "made";
}

static int file_make(struct change_file *d, const struct fix_file *f, const char *root,
		     struct err *e)
{
	char path[PATH_MAX];

	snprintf(d->path, sizeof(d->path), "%s", f->path);
	snprintf(d->change, sizeof(d->change), "%s", file_change(f));
	snprintf(path, sizeof(path), "%s%s", root, f->path);
	return diff_make(&d->patch, path, f->before, f->after, e);
}

int change_make(struct change *d, const struct fix *plan, const char *root,
		const struct outcome *o, struct err *e)
{
	int rc = 0;

	change_free(d);
	for (int i = 0; !rc && i < plan->n; i++)
		rc = file_make(&d->file[d->nfiles++], &plan->file[i], root, e);
	d->nconflicts = plan->nconflicts;
	memcpy(d->conflict, plan->conflict, sizeof(d->conflict));
	for (int i = 0; i < o->n; i++) {
		struct change_row *row = &d->row[d->nrows++];

		row->library = o->row[i].library;
		row->agrees = o->row[i].agrees;
		snprintf(row->role, sizeof(row->role), "%s", o->row[i].role);
		memcpy(row->takes, o->row[i].takes, sizeof(row->takes));
		memcpy(row->why, o->row[i].why, sizeof(row->why));
	}
	return rc;
}

int change_count(const struct change *d)
{
	int n = 0;

	for (int i = 0; i < d->nfiles; i++)
		n += d->file[i].patch != NULL;
	return n;
}

int change_strays(const struct change *d)
{
	int n = 0;

	for (int i = 0; i < d->nrows; i++)
		n += !d->row[i].agrees;
	return n;
}

json_t *change_json(const struct change *d)
{
	json_t *files = json_array(), *conflicts = json_array(), *rows = json_array();

	for (int i = 0; i < d->nfiles; i++)
		json_array_append_new(files, json_pack("{so ss so}", "path",
						       jsonio_text(d->file[i].path), "change",
						       d->file[i].change, "patch",
						       jsonio_text(d->file[i].patch)));
	for (int i = 0; i < d->nconflicts; i++)
		json_array_append_new(conflicts, jsonio_text(d->conflict[i]));
	for (int i = 0; i < d->nrows; i++)
		json_array_append_new(
			rows,
			json_pack("{ss ss so sb so}", "library", d->row[i].library->name,
				  "role", d->row[i].role, "takes", jsonio_text(d->row[i].takes),
				  "agrees", d->row[i].agrees, "why",
				  d->row[i].agrees ? json_null() : jsonio_text(d->row[i].why)));
	return json_pack("{so so so}", "files", files, "conflicts", conflicts, "libraries",
			 rows);
}

static int file_parse(struct change_file *f, const json_t *one, struct err *e)
{
	const char *patch = json_string_value(json_object_get(one, "patch"));

	snprintf(f->path, sizeof(f->path), "%s", jsonio_string(one, "path"));
	snprintf(f->change, sizeof(f->change), "%s", jsonio_string(one, "change"));
	f->patch = patch ? strdup(patch) : NULL;
	return patch && !f->patch ? fail(e, RINGUP_ENOMEM, "no memory for a patch") : 0;
}

static int row_parse(struct change_row *row, const json_t *one, struct err *e)
{
	const char *library = jsonio_string(one, "library");
	int i;

	for (i = 0; pickers[i] && strcmp(pickers[i]->name, library) != 0; i++)
		;
	if (!pickers[i])
		return fail(e, RINGUP_EINVAL, "\"%.40s\" is not a library", library);
	row->library = pickers[i];
	row->agrees = json_is_true(json_object_get(one, "agrees"));
	snprintf(row->role, sizeof(row->role), "%s", jsonio_string(one, "role"));
	snprintf(row->takes, sizeof(row->takes), "%s", jsonio_string(one, "takes"));
	snprintf(row->why, sizeof(row->why), "%s", jsonio_string(one, "why"));
	return 0;
}

int change_parse(struct change *d, const json_t *json, struct err *e)
{
	const json_t *files = json_object_get(json, "files");
	const json_t *conflicts = json_object_get(json, "conflicts");
	const json_t *rows = json_object_get(json, "libraries"), *one;
	size_t i;
	int rc = 0;

	change_free(d);
	if (!json_is_array(files) || json_array_size(files) > FIX_FILES ||
	    !json_is_array(conflicts) || json_array_size(conflicts) > FIX_CONFLICTS ||
	    !json_is_array(rows) || json_array_size(rows) > OUTCOME_ROWS)
		return fail(e, RINGUP_EINVAL, "not a list of files and libraries");
	json_array_foreach(files, i, one) {
		rc = rc ? rc : file_parse(&d->file[d->nfiles++], one, e);
	}
	json_array_foreach(conflicts, i, one) {
		const char *line = json_string_value(one);

		snprintf(d->conflict[d->nconflicts++], FIX_TEXT, "%s", line ? line : "");
	}
	json_array_foreach(rows, i, one) {
		rc = rc ? rc : row_parse(&d->row[d->nrows++], one, e);
	}
	if (rc)
		change_free(d);
	return rc;
}

void change_free(struct change *d)
{
	for (int i = 0; i < d->nfiles; i++)
		free(d->file[i].patch);
	memset(d, 0, sizeof(*d));
}
