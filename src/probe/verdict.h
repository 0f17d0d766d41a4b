/* verdict.h - derive findings and a verdict from the facts of a check. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_VERDICT_H
#define PROBE_VERDICT_H

#include <stdbool.h>

#include "probe/facts.h"

/*
 * verdict_find - fill in findings and verdict of @f, replacing those it has.
 *
 * Errors come first, causes before their effects, and an effect is not reported again.  The
 * verdict is one line that names the node, interface, address or direction at fault, or says
 * that all is well.  Pure: it depends on @f only.
 */
int verdict_find(struct probe_facts *f, struct err *e);

/* verdict_slow - count the paths slower than the others or than their links promise. */
int verdict_slow(struct probe_facts *f, struct err *e);

/* verdict_is_well - true if no finding is worse than a note. */
bool verdict_is_well(const struct probe_facts *f);

#endif
