/* faults.h - for tests: a list of faults in an environment variable, "oom@3,slow_copy=50". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* faults_find - the text behind @name and its sign in the list of @variable; NULL: not there.
 */
static inline const char *faults_find(const char *variable, const char *name)
{
	const char *at = getenv(variable);
	size_t len = strlen(name);

	while (at && *at) {
		if (!strncmp(at, name, len) && strchr("=@,", at[len]))
			return at + len + (at[len] == '=' || at[len] == '@');
		at = strchr(at, ',');
		if (at)
			at++;
	}
	return NULL;
}

/* faults_number - that as a number; @otherwise: not there. */
static inline long faults_number(const char *variable, const char *name, long otherwise)
{
	const char *text = faults_find(variable, name);

	return text ? strtol(text, NULL, 10) : otherwise;
}

#endif
