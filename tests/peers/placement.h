/* placement.h - measure how far apart the processors of a sample are. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_PLACEMENT_H
#define PEERS_PLACEMENT_H

struct err;

/*
 * Processors that share a cache pass a line to each other in a few tens of nanoseconds, others
 * take several times as long; and virtual machines move between the two while they run. Results
 * of both must not be mixed.
 */
enum placement_kind {
	PLACEMENT_NEAR,
	PLACEMENT_FAR,
	PLACEMENT_MIXED,   /* some of both       */
	PLACEMENT_UNKNOWN, /* one processor only */
	PLACEMENT_KINDS
};

struct placement;

/*
 * placement_open - start a thread on each of two processors, both asleep.
 *
 * They are the first and the last that this process may use.  With one processor only, every
 * probe is PLACEMENT_UNKNOWN.
 */
int placement_open(struct placement **pp, struct err *e);
void placement_close(struct placement *p);

/* placement_probe - measure the time of a cache line one way, in nanoseconds; takes about 10 us
 * of both processors' time.  Negative if it could not be measured. */
double placement_probe(struct placement *p);

/* placement_kind - the kind of one probe; placement_both - of two: mixed if they differ. */
enum placement_kind placement_kind(double ns);
enum placement_kind placement_both(enum placement_kind a, enum placement_kind b);

const char *placement_name(enum placement_kind kind);

#endif
