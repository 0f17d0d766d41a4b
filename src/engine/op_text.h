/* op_text.h - describe an operation in words, and begin errors with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_OP_TEXT_H
#define ENGINE_OP_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/liveness.h"

struct err;
struct name_entry;
struct op_signature;
struct p2p_op;
struct request;
struct ringup_op;

enum { OP_TEXT_NAME = LIVENESS_NAME, OP_TEXT_WHAT = OP_TEXT_NAME + 16 };

/* op_text_what - "allreduce grad/fc1"; @kind OP_KINDS: @name is the text of a message. */
const char *op_text_what(uint32_t kind, const char *name, char out[OP_TEXT_WHAT]);

/* op_text_name - the name of a collective, or its number; op_text_entry - likewise. */
const char *op_text_name(const struct ringup_op *op);
const char *op_text_entry(const struct name_entry *t);

/* op_text_message - "receive of 10 f32 from rank 2 with tag 7". */
void op_text_message(const struct p2p_op *m, const struct op_signature *s, char *out,
		     size_t len);

/*
 * op_text_fail - put the operation in front of the reason why it fails: "allreduce 'grad/fc1':
 * rank 1 (process 7 on b) died".  No effect if the reason names it.  The end of a long name is
 * kept, and a long reason loses its end.
 *
 * op_text_fail_request, op_text_fail_message - likewise before there is an operation.
 */
void op_text_fail(const struct ringup_op *op, struct err *e);
void op_text_fail_request(const struct request *r, struct err *e);
void op_text_fail_message(const struct p2p_op *m, const struct op_signature *s, struct err *e);

#endif
