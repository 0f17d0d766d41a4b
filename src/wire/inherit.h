/* inherit.h - the launcher's descriptors in a process that a program in between has started. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RINGUP_WIRE_INHERIT_H
#define RINGUP_WIRE_INHERIT_H

/*
 * inherit - find the launcher's descriptors again if a parent closed them before exec(), as
 * Python's subprocess and `conda run` do.
 *
 * If *@secret is not the job's secret here, but is in an ancestor of the same user, all three
 * become descriptors of this process that lead to that ancestor's; -1 stays -1.  They are
 * opened once and stay open.  Otherwise all stay as they are.  Safe in any thread.
 */
void inherit(int *secret, int *notice, int *cause);

#endif
