/* hvdbuild.h - the list that `horovodrun --check-build` prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HVDBUILD_H
#define CLI_HVDBUILD_H

struct err;

/* The release of Horovod whose interface this implements. */
#define HVDBUILD_VERSION "0.28.1"

/*
 * hvdbuild_print - print available frameworks, controllers and operations, in upstream's
 * layout.
 *
 * A framework is available if @python (a program or an environment; NULL or "": the first
 * python or python3 in PATH) has it and the part of the package horovod for it.  Looks at
 * files, and runs no Python.
 */
int hvdbuild_print(const char *python, struct err *e);

#endif
