/* neigh.h - hardware addresses that this machine has for its neighbours. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROBE_NEIGH_H
#define PROBE_NEIGH_H

#include <stdbool.h>

#include "probe/facts.h"

/* neigh_find - the MAC of the IPv4 address in a table such as /proc/net/arp; false: none. */
bool neigh_find(const char *table, const char *address, char out[FACTS_WORD]);

/* neigh_read - fill in the neighbours of the paths that failed. */
void neigh_read(struct probe_path *paths, int n);

/* neigh_overflows - how often the table of neighbours has been full, on all processors, from
 * the text of /proc/net/stat/arp_cache; 0 where it does not say. */
unsigned long neigh_overflows(const char *stat);

/* neigh_count_overflows - the same of this machine, now. */
unsigned long neigh_count_overflows(void);

#endif
