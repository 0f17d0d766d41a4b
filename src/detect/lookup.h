/* lookup.h - look up entries in the facts of find_all(). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LOOKUP_H
#define DETECT_LOOKUP_H

#include <jansson.h>

/* lookup_entry - the first of @facts' "frameworks" or "engines" (@kind) with name @name and
 * Python @python, "" for an entry without one; NULL if there is none. */
const json_t *lookup_entry(const json_t *facts, const char *kind, const char *python,
			   const char *name);

/* lookup_extension - the extension of @engine for the framework @name, or NULL; one without a
 * fault takes precedence. */
const json_t *lookup_extension(const json_t *engine, const char *name);

/* lookup_mpi_title - "Open MPI" for the flavour openmpi; others are returned as they are. */
const char *lookup_mpi_title(const char *flavour);

#endif
