/* drift.h - builds that no longer fit what is installed, and what makes them fit. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_DRIFT_H
#define REBUILD_DRIFT_H

#include <jansson.h>

struct err;

/*
 * drift_find - compare every build of an engine below @root with @facts, of find_all().
 *
 * Builds are the modules for MPI, and in each Python the package ringup or a Horovod, with a
 * stamp of ours or the note that Horovod's own build leaves.  Into *@out an array of
 * {place, text, command}: what was and is, as a sentence, and the one command that cures
 * it.  Several that one command cures are several entries with equal commands.  A build
 * without a note is not judged, but for the package, which shows its release.
 *
 * Ownership: *@out is the caller's to json_decref().
 * Returns 0 or RINGUP_ENOMEM.
 */
int drift_find(const char *root, const json_t *facts, json_t **out, struct err *e);

/*
 * drift_command - the command that builds the Horovod in @location again, into @command.
 *
 * @location is the folder of its package below @root, and @python its Python's path.  A
 * stamp of ours says which advisories it was built in spite of, and the command accepts
 * them again; without a stamp the build is for @framework alone.
 */
void drift_command(char *command, size_t size, const char *root, const char *location,
		   const char *python, const char *framework);

#endif
