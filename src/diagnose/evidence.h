/* evidence.h - what was seen in all logs, a finding for each signature. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_EVIDENCE_H
#define DIAGNOSE_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diagnose/fields.h"
#include "diagnose/origin.h"
#include "diagnose/signature.h"

struct err;

enum {
	EVIDENCE_PROOF = 240,
	EVIDENCE_ADDRESSES = 16,
	EVIDENCE_HOSTS = 32,
	EVIDENCE_RANKS = 32,
	EVIDENCE_UNKNOWN = 32
};

/* Everything that was seen of one signature; the first time stands for all. */
struct finding {
	const struct signature *signature;
	long count; /* 0: not seen */
	int file;   /* position in the list of logs */
	long line;
	int64_t time;               /* see origin.h */
	char proof[EVIDENCE_PROOF]; /* what it says there, fit to be shown */
	char value[FIELDS_TEXT];
	char interface[32];
	int port;
	int signal; /* that ended a process, or 0 */
	int status; /* of a process that ended, or -1 */
	char address[EVIDENCE_ADDRESSES][64];
	int addresses;
	char host[EVIDENCE_HOSTS][65];
	int hosts;
	int rank[EVIDENCE_RANKS];
	int ranks;
	int files;     /* logs in which it was seen */
	int last_file; /* the last of them */
	bool well;     /* what it fears did not come about */
};

/* One occurrence. */
struct sighting {
	int file;
	long line;
	uint64_t at; /* bytes before it in the log */
	struct origin origin;
	struct fields fields;
	const char *text; /* the line, not terminated */
	size_t len;
};

/* What no signature knows; these stand for signatures of such findings. */
enum evidence_unknown { EVIDENCE_KILLED, EVIDENCE_ERROR, EVIDENCE_WARNING };

struct unknown_finding {
	struct finding finding;
	enum evidence_unknown what;
	uint64_t form; /* the same for lines that differ in numbers only */
};

struct evidence {
	struct finding *of; /* one for each of signatures[] */
	struct unknown_finding *unknown;
	int unknowns;
	long unkept; /* of other forms than these */
	const struct signature *last;
	struct sighting last_at; /* text is not kept */
};

int evidence_open(struct evidence *v, struct err *e);
void evidence_close(struct evidence *v);

/* evidence_add - @s was seen. */
void evidence_add(struct evidence *v, const struct signature *s, const struct sighting *at);

/* evidence_add_unknown - a complaint was seen that no signature fits. */
void evidence_add_unknown(struct evidence *v, enum evidence_unknown what, uint64_t form,
			  const struct sighting *at);

/* evidence_reset - nothing was seen. */
void evidence_reset(struct evidence *v);

#endif
