/* exam.h - what an examination of a node has found, line by line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_EXAM_H
#define DOCTOR_EXAM_H

#include <jansson.h>
#include <stdbool.h>

struct conf;
struct err;

/* GOOD needs nothing, NOTE may be meant so, BAD keeps a job from running as it should. */
enum exam_state { EXAM_GOOD, EXAM_NOTE, EXAM_BAD };

struct exam {
	const char *root; /* of the tree; "" is this node, and only then what the
			   * running system says counts, too */
	const struct conf *conf;
	const json_t *facts; /* of find_all()                    */
	const char *section; /* whose findings are being added   */
	json_t *findings;    /* [{section, state, text, why, todo}] */
	int bad;
};

/* exam_is_live - is it this node that is examined? */
bool exam_is_live(const struct exam *x);

/* exam_add - one more line. */
void exam_add(struct exam *x, enum exam_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* exam_why - why the line added last matters, and what to do: a command, or words; each
 * may be NULL. */
void exam_why(struct exam *x, const char *why, const char *todo);

/* The parts, in the order of the page; each adds its lines and fails only without memory. */
#define EXAMS(X)      \
	X(engine)     \
	X(frameworks) \
	X(drift)      \
	X(network)    \
	X(limits)     \
	X(gpus)       \
	X(init)

#define X(name) int exam_##name(struct exam *x, struct err *e);
EXAMS(X)
#undef X

#endif
