/* lead.c - find the last line that the program itself wrote before a launcher's message. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/lead.h"

#include <stddef.h>
#include <string.h>

enum { LINES = 64, RULE = 20 };

static bool lead_is_rule(const char *line, const char *end)
{
	const char *p = line;

	while (p < end && (*p == '-' || *p == '='))
		p++;
	return p - line >= RULE && (p == end || *p == '\r');
}

static bool lead_is_blank(const char *line, const char *end)
{
	while (line < end && ((unsigned char)*line <= ' ' || *line == '='))
		line++;
	return line == end;
}

static bool is_launchers(const char *line, const char *end)
{
	static const char *const heads[] = {
		"srun:",     "slurmstepd:", "mpirun",     "prterun",     "mpiexec",
		"[mpiexec@", "[proxy:",     "ringup run", "Primary job", "horovodrun",
		"+ ",        "salloc:",     "sbatch:",    "make: ***",   "Terminated",
		"Killed",    "W1",          "E1",         "[launch.py",  "Aborted",
	};
	size_t n, len = (size_t)(end - line);

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		n = strlen(heads[i]);
		if (len >= n && !memcmp(line, heads[i], n))
			return heads[i][1] != '1' || memmem(line, len, "torch/distributed", 17);
	}
	return memmem(line, len, "torch.distributed.elastic", 25) ||
	       memmem(line, len, "torch/distributed/elastic", 25) ||
	       memmem(line, len, "[launch.py:", 11);
}

const char *lead_find(const char *start, const char *at, bool is_boxed, const char **stop,
		      long *back)
{
	const char *end, *nl, *line;

	nl = memrchr(start, '\n', (size_t)(at - start));
	for (*back = 1; nl && *back < LINES; (*back)++) {
		end = nl;
		nl = end > start ? memrchr(start, '\n', (size_t)(end - start)) : NULL;
		line = nl ? nl + 1 : start;
		if (lead_is_rule(line, end)) {
			is_boxed = !is_boxed;
			continue;
		}
		if (is_boxed || lead_is_blank(line, end) || is_launchers(line, end))
			continue;
		*stop = end;
		return nl ? line : NULL;
	}
	return NULL;
}
