/* shell.c - quote words for a shell. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shell.h"

#include <stdio.h>
#include <string.h>

const char *shell_word(const char *word, char *out, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./:,=^@%+-";
	size_t at;

	if (*word && !word[strspn(word, plain)]) {
		snprintf(out, size, "%s", word);
		return out;
	}
	snprintf(out, size, "'");
	for (at = strlen(out); *word; word++, at += strlen(out + at))
		if (*word == '\'')
			snprintf(out + at, size - at, "'\\''");
		else
			snprintf(out + at, size - at, "%c", *word);
	snprintf(out + at, size - at, "'");
	return out;
}
