/* request.h - a caller's request for a collective. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "engine/op_signature.h"

struct ringup_op;

/* A caller's request. */
struct request {
	const char *name; /* NULL: matched by order */
	size_t name_len;  /* 0: it ends with a NUL */
	struct op_signature signature;
	const void *in;
	void *out;
	void *stream;                   /* of a device, or NULL */
	uint64_t rows;                  /* allgather, join */
	void **outp;                    /* allgather, all-to-all */
	void *into;                     /* the same: the caller's memory for the result, */
	uint64_t into_bytes;            /* used if it fits */
	uint64_t *counts;               /* allgather, all-to-all: rows of, or from, each rank */
	const uint64_t *splits;         /* all-to-all: rows for each rank; copied */
	const struct request *members;  /* a bundle's: signature.members of them; copied */
	const struct ringup_op *copies; /* the same, once they have been copied */
	int *last;                      /* join: set to the last rank to join */
};

/* request_init - a request with a name and buffers only; the signature is not set. */
static inline void request_init(struct request *q, const char *name, const void *in, void *out)
{
	q->name = name;
	q->name_len = 0;
	q->in = in;
	q->out = out;
	q->stream = NULL;
	q->rows = 0;
	q->outp = NULL;
	q->into = NULL;
	q->into_bytes = 0;
	q->counts = NULL;
	q->splits = NULL;
	q->members = NULL;
	q->copies = NULL;
	q->last = NULL;
}

#endif
