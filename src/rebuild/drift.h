/* drift.h - find builds that no longer fit the installed software, and how to fix them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_DRIFT_H
#define REBUILD_DRIFT_H

#include <jansson.h>

struct err;

/*
 * drift_find - compare every build of an engine below @root with @facts, of find_all().
 *
 * Builds are the modules for MPI, and in each Python the package ringup or a Horovod, with a
 * stamp of ours or the note that Horovod's own build leaves.  *@out becomes an array of {place,
 * text, command}: a sentence about the difference, and the one command that rebuilds.
 * Differences that one command fixes are separate entries with equal commands.  A build without
 * a note is not judged, except the package, which shows its release.
 *
 * Ownership: *@out is the caller's to json_decref().
 * Returns 0 or RINGUP_ENOMEM.
 */
int drift_find(const char *root, const json_t *facts, json_t **out, struct err *e);

/*
 * drift_command - write the command that rebuilds the Horovod in @location to @command.
 *
 * @location is the folder of its package below @root, and @python its Python's path.  A stamp
 * of ours lists the advisories that the build accepted, and the command accepts them again;
 * without a stamp the build is for @framework alone.
 */
void drift_command(char *command, size_t size, const char *root, const char *location,
		   const char *python, const char *framework);

#endif
