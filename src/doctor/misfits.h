/* misfits.h - find what breaks a framework's import, and packages incompatible with it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_MISFITS_H
#define DOCTOR_MISFITS_H

#include <jansson.h>

struct err;
struct exam;

/*
 * misfits_add - add what keeps each framework of @list, as find_all() has them, from being
 * imported, or what it does not fit.
 *
 * @reported gets the location of each framework with a bad finding (false), and the paths of
 * the files and packages that findings explain (true).
 */
int misfits_add(struct exam *x, const json_t *list, json_t *reported, struct err *e);

#endif
