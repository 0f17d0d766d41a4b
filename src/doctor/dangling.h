/* dangling.h - find files of a framework that are links to files which are gone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_DANGLING_H
#define DOCTOR_DANGLING_H

#include <jansson.h>
#include <stdbool.h>

struct exam;
struct rootfs;

/*
 * dangling_add - add a finding if Python files or libraries of framework @f, or its package's
 * notes, are such links.
 *
 * @reported gets the package's folder of notes, whose damage this explains.
 */
bool dangling_add(struct exam *x, struct rootfs *fs, const json_t *f, json_t *reported);

#endif
