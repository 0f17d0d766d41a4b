/* lookup.c - look up entries in the facts of find_all(). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/lookup.h"

#include <string.h>

#include "base/jsonio.h"

const json_t *lookup_entry(const json_t *facts, const char *kind, const char *python,
			   const char *name)
{
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(facts, kind), i, o)
		if (!strcmp(jsonio_string(o, "name"), name) &&
		    !strcmp(jsonio_string(o, "python"), python))
			return o;
	return NULL;
}

const json_t *lookup_extension(const json_t *engine, const char *name)
{
	const json_t *o, *faulty = NULL;
	size_t i;

	json_array_foreach(json_object_get(engine, "extensions"), i, o) {
		if (strcmp(jsonio_string(o, "framework"), name))
			continue;
		if (!*jsonio_string(o, "fault"))
			return o;
		faulty = faulty ? faulty : o;
	}
	return faulty;
}

const char *lookup_mpi_title(const char *flavour)
{
	static const char *const titles[][2] = {
		{ "openmpi", "Open MPI" },
		{ "mpich", "MPICH" },
		{ "mvapich", "MVAPICH" },
		{ "intelmpi", "Intel MPI" },
	};

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		if (!strcmp(titles[i][0], flavour))
			return titles[i][1];
	return flavour;
}
