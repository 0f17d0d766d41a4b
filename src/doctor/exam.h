/* exam.h - the list of an examination's findings, built line by line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_EXAM_H
#define DOCTOR_EXAM_H

#include <jansson.h>
#include <stdbool.h>

struct conf;
struct err;
struct iface_list;

/* GOOD needs no action, NOTE may be intended, BAD keeps a job from running properly. */
enum exam_state { EXAM_GOOD, EXAM_NOTE, EXAM_BAD };

struct exam {
	const char *root; /* of the tree; "" is this node, whose running system is examined
			   * as well */
	const struct conf *conf;
	const json_t *facts; /* of find_all()                    */
	const char *section; /* the section of the findings being added */
	json_t *findings;    /* [{section, state, text, why, todo}] */
	int bad;
	bool imports_too;                   /* frameworks are imported as well */
	json_t *imports;                    /* of imports_add() */
	void (*progress)(const char *what); /* as in struct doctor_how */
};

/* exam_is_live - is this node examined, not a tree? */
bool exam_is_live(const struct exam *x);

/* exam_add - append a finding. */
void exam_add(struct exam *x, enum exam_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* exam_why - set for the last finding the reason why it matters, and the remedy: a command, or
 * words; each may be NULL. */
void exam_why(struct exam *x, const char *why, const char *todo);

/* exam_places - add variables that name a file or folder which does not exist; live only. */
void exam_places(struct exam *x);

/* exam_launcher - add an mpirun of Open MPI that has no remote shell; live only. */
void exam_launcher(struct exam *x);

/* exam_java - add a Java that is missing, or that the installed Spark cannot run on. */
void exam_java(struct exam *x);

/* exam_extensions - add the locks in torch's folders of compiled extensions that jobs wait for;
 * live only. */
void exam_extensions(struct exam *x);

/* exam_proxies - add hosts of a job, or of the networks in @l, that gRPC would reach only
 * through an HTTP proxy; live only. */
void exam_proxies(struct exam *x, const struct iface_list *l);

/* The sections, in the order of the page; each adds its lines and fails only without memory. */
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
