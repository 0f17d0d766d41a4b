/* lookup.h - reading what find_all() has found. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETECT_LOOKUP_H
#define DETECT_LOOKUP_H

#include <jansson.h>

/* lookup_entry - the first of @facts' "frameworks" or "engines" (@kind) that is called @name
 * and is @python's, "" being nobody's; NULL if there is none. */
const json_t *lookup_entry(const json_t *facts, const char *kind, const char *python,
			   const char *name);

/* lookup_extension - the extension of @engine for the framework @name, or NULL; one with a
 * fault only where there is none without. */
const json_t *lookup_extension(const json_t *engine, const char *name);

/* lookup_mpi_title - "Open MPI" for the flavour openmpi; what is no flavour stays as it is. */
const char *lookup_mpi_title(const char *flavour);

#endif
