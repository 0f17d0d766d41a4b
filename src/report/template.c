/* template.c - data files with @fields@ in them, and their substitution. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "report/template.h"

#include <limits.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/file.h"
#include "ringup.h"

enum { FILE_CAP = 1 << 20 };

int template_load(char **textp, const char *name, struct err *e)
{
	char relative[64], path[PATH_MAX];
	size_t len;
	int rc;

	*textp = NULL;
	snprintf(relative, sizeof(relative), "report/%s", name);
	rc = data_find(path, relative, e);
	return rc ? rc : file_read(NULL, path, FILE_CAP, textp, &len, e);
}

/* The length of "@name@" at @s, or 0. */
static size_t field_length(const char *s)
{
	size_t n = strspn(s + 1, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n && s[n + 1] == '@' ? n + 2 : 0;
}

static const char *field_text(const char *name, size_t len, const struct template_field *fields,
			      int n)
{
	for (int i = 0; i < n; i++)
		if (strlen(fields[i].name) == len && !memcmp(fields[i].name, name, len))
			return fields[i].text;
	return NULL;
}

int template_put(FILE *out, const char *text, const struct template_field *fields, int n,
		 struct err *e)
{
	const char *found;
	size_t len;

	while (*text) {
		len = strcspn(text, "@");
		fwrite(text, 1, len, out);
		text += len;
		if (!*text)
			break;
		len = field_length(text);
		if (!len) {
			fputc(*text++, out);
			continue;
		}
		found = field_text(text + 1, len - 2, fields, n);
		if (!found)
			return fail(e, RINGUP_EINVAL, "\"%.*s\" is no field", (int)len, text);
		fputs(found, out);
		text += len;
	}
	return 0;
}
