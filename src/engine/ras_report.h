/* ras_report.h - a job's answers in place of NCCL RAS (wire/ras_server.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RAS_REPORT_H
#define ENGINE_RAS_REPORT_H

#include <stddef.h>

#include "wire/ras_server.h"

struct engine;
struct heartbeat_peer;
struct heartbeats;

/* What the report is made from. */
struct ras_job {
	struct engine *engine;
	const struct heartbeat_peer *peer; /* of each rank of the world        */
	const struct heartbeats *local;    /* of each rank of this host: which are late */
};

/*
 * ras_report_make - the communicators of this rank and, of each of their ranks, how many
 * collectives it has begun, in one of NCCL's formats; @arg is a struct ras_job.
 *
 * The counts are read from the memory that the ranks of a host share.  Ranks of other hosts are
 * listed as missing, but not as unresponsive: their hosts tell their counts.  A rank whose
 * process is frozen is unresponsive.
 */
char *ras_report_make(void *arg, enum ras_format format, size_t *len);

#endif
