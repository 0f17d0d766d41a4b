/* rows.h - a sample as JSON, for users' scripts and for inspecting multi-host jobs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_ROWS_H
#define HANG_ROWS_H

#include <jansson.h>

struct err;
struct look;

/* rows_save - "rows" and "waits" of @l, each a list of objects whose keys are told in
 * ringup-hang(1), as members of the object @to. */
void rows_save(const struct look *l, json_t *to);

/*
 * rows_load - add what rows_save() made to @l; what is in @from may be anybody's.
 *
 * Missing members are as in an empty row.  Texts are cut to their room and lose control
 * characters; a row whose rank or numbers are impossible is left out, and so is a rank of which
 * @l knows more than that it exists.
 */
void rows_load(struct look *l, const json_t *from);

#endif
