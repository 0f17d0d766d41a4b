/* evidence.h - the evidence from all logs, one finding for each signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_EVIDENCE_H
#define DIAGNOSE_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/fields.h"
#include "diagnose/origin.h"
#include "diagnose/procs.h"
#include "diagnose/signature.h"

struct err;

enum {
	EVIDENCE_PROOF = 240,
	EVIDENCE_ADDRESSES = 16,
	EVIDENCE_HOSTS = 32,
	EVIDENCE_RANKS = 32,
	EVIDENCE_UNKNOWN = 32,
	EVIDENCE_TASKS = 64
};

/* All matches of one signature; the first one stands for all. */
struct finding {
	const struct signature *signature;
	long count; /* 0: not seen */
	int file;   /* position in the list of logs */
	long line;
	int64_t time;               /* see origin.h */
	char proof[EVIDENCE_PROOF]; /* the matching line, fit for display */
	char value[FIELDS_TEXT];
	char interface[32];
	int port;
	int signal; /* the signal that ended a process, or 0 */
	int status; /* of an ended process, or -1 */
	char address[EVIDENCE_ADDRESSES][64];
	int addresses;
	char host[EVIDENCE_HOSTS][65];
	int hosts;
	int rank[EVIDENCE_RANKS];
	int ranks;
	int files;             /* logs with a match */
	int last_file;         /* the last of them */
	bool well;             /* the feared failure did not come */
	bool is_uncaught;      /* an exception that ended its process */
	bool is_caught;        /* a logger wrote it */
	bool is_warned;        /* torch wrote all matches as warnings: its process goes on */
	int task;              /* the task of srun that starts the rank, or -1 */
	uint64_t first_at;     /* place of the match that is shown */
	uint64_t last_at;      /* place of the last match, in the last log */
	int last_rank;         /* that its line states, or -1 */
	struct proc_line lead; /* what the program wrote before the end of a process */
};

/* One match. */
struct sighting {
	int file;
	long line;
	uint64_t at; /* bytes before it in the log */
	struct origin origin;
	struct fields fields;
	const char *text; /* the line, not terminated */
	size_t len;
	bool is_uncaught; /* the traceback begins with the program's outermost line */
	bool is_caught;   /* a logger wrote it, with a level */
	bool is_script;   /* what ended well is a batch script */
	bool is_warned;   /* torch wrote it as a warning */
	int task; /* of srun, which starts ranks: its label, or what Slurm says; or -1 */
	struct proc *process;        /* that wrote the line, or NULL */
	const char *lead, *lead_end; /* the line before it, where it tells of an end; or NULL */
	long lead_line;
};

/* Complaints that match no signature; these kinds replace signatures in their findings. */
enum evidence_unknown { EVIDENCE_KILLED, EVIDENCE_ERROR, EVIDENCE_WARNING };

struct unknown_finding {
	struct finding finding;
	enum evidence_unknown what;
	uint64_t form; /* equal for lines that differ in numbers only */
};

/* The host of a task of srun. */
struct task_host {
	int file, task;
	char host[65];
};

struct evidence {
	struct finding *of; /* one for each of signatures[] */
	struct unknown_finding *unknown;
	int unknowns;
	long unkept; /* complaints of other forms than these */
	const struct signature *last;
	struct sighting last_at; /* text is not kept */
	struct procs *procs;
	struct task_host task[EVIDENCE_TASKS];
	int tasks;
	int status; /* of the whole job, as its user knows it, or -1 */
};

int evidence_open(struct evidence *v, struct err *e);
void evidence_close(struct evidence *v);

/* evidence_add - record a match of @s.  It takes the hosts that a weaker match of the same
 * message names. */
void evidence_add(struct evidence *v, const struct signature *s, struct sighting *at);

/* evidence_add_unknown - record a complaint that matches no signature. */
void evidence_add_unknown(struct evidence *v, enum evidence_unknown what, uint64_t form,
			  const struct sighting *at);

/* evidence_reset - clear all evidence. */
void evidence_reset(struct evidence *v);

#endif
