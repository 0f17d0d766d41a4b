/* data.h - find this program's data files, in a build tree or installed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DATA_H
#define BASE_DATA_H

#include <limits.h>

struct err;

/* data_program - the real path of this program, into @out; "" after an error. */
int data_program(char out[PATH_MAX], struct err *e);

/*
 * data_find - where the file or folder @name of this program's data is, into @out.
 *
 * The folders are relative to the program: share/ringup beside it in a build tree, and
 * ../share/ringup where it is installed, even if moved.  RINGUP_TEST_DATA goes before these.
 */
int data_find(char out[PATH_MAX], const char *name, struct err *e);

#endif
