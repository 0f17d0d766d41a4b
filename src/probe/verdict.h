/* verdict.h - what is wrong with a network, from the facts of a check. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_VERDICT_H
#define PROBE_VERDICT_H

#include <stdbool.h>

#include "probe/facts.h"

/*
 * verdict_find - judge: fills in findings and verdict of @f, replacing those it has.
 *
 * Errors come first, causes before what they cause, and what a cause explains is not
 * said again.  The verdict is one line that names the node, interface, address or
 * direction that is wrong, or says that all is well.  Pure: nothing but @f counts.
 */
int verdict_find(struct probe_facts *f, struct err *e);

/* verdict_slow - how many paths are slower than the others or than their links promise. */
int verdict_slow(struct probe_facts *f, struct err *e);

/* verdict_is_well - no finding is worse than a note. */
bool verdict_is_well(const struct probe_facts *f);

#endif
