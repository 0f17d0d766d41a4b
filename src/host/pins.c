/* pins.c - pinned NCCL settings, with which libnccl-env-ringup.so answers NCCL. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/pins.h"

#include <stdbool.h>
#include <string.h>

/* The marks around pins, as nicpick/fixfile.c writes them. */
static const char begins[] = "# >>> ringup", ends[] = "# <<< ringup";

static bool line_starts(const char *line, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && !memcmp(line, with, n);
}

/* NCCL reads the two others before it loads a plug-in, so they cannot be pinned. */
static bool is_pinnable(const char *name)
{
	return !strncmp(name, "NCCL_", 5) && strcmp(name, "NCCL_ENV_PLUGIN") != 0 &&
	       strcmp(name, "NCCL_CONF_FILE") != 0;
}

/* A line without its newline; one that sets nothing, or that does not fit, is passed over. */
static void pin_add(struct pins *p, const char *line, size_t len, int number)
{
	const char *eq = memchr(line, '=', len);
	char *name = p->text + p->used;

	if (!eq || *line == '#' || memchr(line, 0, len) || p->n == PINS_MOST ||
	    len >= sizeof(p->text) - p->used)
		return;
	memcpy(name, line, len);
	name[len] = 0;
	name[eq - line] = 0;
	if (!is_pinnable(name) || pins_get(p, name))
		return;
	p->used += len + 1;
	p->at[p->n++] =
		(struct pin){ .name = name, .value = name + (eq - line) + 1, .line = number };
}

void pins_parse(struct pins *p, const char *text, size_t len)
{
	bool ours = false;
	size_t end;
	int number = 1;

	p->n = 0;
	p->used = 0;
	for (size_t at = 0; at < len; at = end + 1, number++) {
		const char *newline = memchr(text + at, '\n', len - at);

		end = newline ? (size_t)(newline - text) : len;
		if (line_starts(text + at, end - at, begins))
			ours = true;
		else if (line_starts(text + at, end - at, ends))
			ours = false;
		else if (ours)
			pin_add(p, text + at, end - at, number);
	}
}

const char *pins_get(const struct pins *p, const char *name)
{
	for (int i = 0; i < p->n; i++)
		if (!strcmp(p->at[i].name, name))
			return p->at[i].value;
	return NULL;
}
