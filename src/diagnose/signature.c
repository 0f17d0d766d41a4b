/* signature.c - the table of signatures.def. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/signature.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

enum {
	BOX = SIGNATURE_BOX,
	SHARED = SIGNATURE_SHARED,
	UNLESS_WELL = SIGNATURE_UNLESS_WELL,
	WELL = SIGNATURE_WELL,
	LATER = SIGNATURE_LATER,
	REASON = SIGNATURE_REASON,
	VAGUE = SIGNATURE_VAGUE,
	BARE = SIGNATURE_BARE,
	SHELL = SIGNATURE_SHELL,
	DONE = SIGNATURE_DONE,
	BEHIND = SIGNATURE_BEHIND,
	AGAIN = SIGNATURE_AGAIN,
	WAITS = SIGNATURE_WAITS,
	FINAL = SIGNATURE_FINAL,
	TABLE = SIGNATURE_TABLE,
	STILL = SIGNATURE_STILL,
	MISSING = SIGNATURE_MISSING,
	KILLS = SIGNATURE_KILLS,
};

#define TEXT(text) text "\n"
#define EXPLAINS(cause, results)
#define SIGNATURE(id, library, kind, flags, texts, cause, remedy, command) \
	{ id, library, SIGNATURE_##kind, flags, texts, cause, remedy, command },
static const struct signature builtin[] = {
#include "diagnose/signatures.def"
};
#undef SIGNATURE
#undef TEXT
#undef EXPLAINS

enum { BUILTIN = sizeof(builtin) / sizeof(builtin[0]) };

const struct signature *signatures = builtin;
int signature_count = BUILTIN;

/* The signatures of the user. */
static struct signature *extended;
static char *const *extra;
static int extras;

int signature_extend(const struct signature *more, int n, char *const *explains, struct err *e)
{
	struct signature *all = NULL;

	if (n) {
		all = calloc((size_t)n + BUILTIN, sizeof(*all));
		if (!all)
			return fail(e, RINGUP_ENOMEM, "no memory for the signatures");
		memcpy(all, more, (size_t)n * sizeof(*all));
		memcpy(all + n, builtin, sizeof(builtin));
	}
	free(extended);
	extended = all;
	extra = explains;
	extras = n;
	signatures = n ? all : builtin;
	signature_count = BUILTIN + n;
	return 0;
}

const struct signature *signature_find(const char *id)
{
	for (int i = 0; i < signature_count; i++)
		if (!strcmp(signatures[i].id, id))
			return &signatures[i];
	return NULL;
}

static const struct {
	const char *cause, *results; /* ids, each between blanks */
} explanations[] = {
#define SIGNATURE(id, library, kind, flags, texts, cause, remedy, command)
#define EXPLAINS(cause, results) { cause, " " results " " },
#include "diagnose/signatures.def"
#undef SIGNATURE
#undef EXPLAINS
};

bool signature_explains(const struct signature *cause, const struct signature *result)
{
	char word[32], own[512];
	int at = (int)(cause - signatures);

	snprintf(word, sizeof(word), " %s ", result->id);
	if (at >= 0 && at < extras) {
		snprintf(own, sizeof(own), " %s ", extra[at] ? extra[at] : "");
		return strstr(own, word);
	}
	for (size_t i = 0; i < sizeof(explanations) / sizeof(explanations[0]); i++)
		if (!strcmp(explanations[i].cause, cause->id) &&
		    strstr(explanations[i].results, word))
			return true;
	return false;
}
