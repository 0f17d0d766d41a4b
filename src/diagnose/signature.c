/* signature.c - the table of signatures.def. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/signature.h"

#include <stddef.h>
#include <string.h>

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
};

#define TEXT(text) text "\n"
#define SIGNATURE(id, library, kind, flags, texts, cause, remedy, command) \
	{ id, library, SIGNATURE_##kind, flags, texts, cause, remedy, command },
const struct signature signatures[] = {
#include "diagnose/signatures.def"
};
#undef SIGNATURE
#undef TEXT

const int signature_count = sizeof(signatures) / sizeof(signatures[0]);

const struct signature *signature_find(const char *id)
{
	for (int i = 0; i < signature_count; i++)
		if (!strcmp(signatures[i].id, id))
			return &signatures[i];
	return NULL;
}
