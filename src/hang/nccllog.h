/* nccllog.h - reads NCCL's log: the step and operation that each rank has reached. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HANG_NCCLLOG_H
#define HANG_NCCLLOG_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct ruling;

enum { NCCLLOG_COMMS = 4096, NCCLLOG_RANKS = 8192, NCCLLOG_ALL = 1 << 18 };

/* A rank of a communicator. */
struct nccllog_rank {
	char host[64];
	int pid;
	uint64_t pointer; /* how its process calls the communicator */
	bool begun, complete, ended;
	bool counts;
	uint64_t last; /* opCount of its last operation */
	char what[32]; /* "AllReduce" */
};

struct nccllog_comm {
	uint64_t id;
	int size;
	struct nccllog_rank *rank; /* size of them */
};

struct nccllog {
	struct nccllog_comm *comm;
	int comms;
	long lines;  /* of NCCL */
	long ranks;  /* of all communicators */
	long places; /* of the index that are taken */
	uint64_t *
		index; /* by process and pointer: 1 + the communicator, and the rank; 0: none */
};

/*
 * nccllog_line - take one line, which any program may have written and any launcher marked.
 * NCCL_DEBUG=INFO has the initialisation, NCCL_DEBUG_SUBSYS=INIT,COLL the operations as well.
 * nccllog_file - all lines of a log, packed or not.  nccllog_free - safe on a zeroed struct.
 */
void nccllog_line(struct nccllog *l, const char *line);
int nccllog_file(struct nccllog *l, const char *path, struct err *e);
void nccllog_free(struct nccllog *l);

/* nccllog_judge - the first communicator whose initialisation not all ranks have reached, or in
 * which some ranks have launched fewer operations than most.  The log is that of a hung job. */
void nccllog_judge(const struct nccllog *l, struct ruling *r);

#endif
