/* data.h - files of this program's own, in a build tree or where it was installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DATA_H
#define BASE_DATA_H

#include <limits.h>

struct err;

/*
 * data_find - where the file or folder @name of this program's data is, into @out.
 *
 * They belong to this program: in share/ringup beside it in a build tree, in ../share/ringup
 * where it was installed, wherever that has been moved.  RINGUP_TEST_DATA goes before these.
 */
int data_find(char out[PATH_MAX], const char *name, struct err *e);

#endif
