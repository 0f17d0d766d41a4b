/* starter.h - start an agent on another node, with ssh, mpirun or srun. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_STARTER_H
#define LAUNCH_STARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum starter_kind { STARTER_SSH, STARTER_MPIRUN, STARTER_SRUN };

struct starter_options {
	enum starter_kind kind;
	const char *shell;      /* instead of ssh: words, of which "%h" is replaced by the node;
				 * without one the node follows.  NULL: ssh      */
	const char *ringup;     /* the program there; NULL: this one's own path  */
	const char *command[3]; /* ringup's arguments; NULL: net agent       */
	int port;               /* ssh's; 0: its own choice                  */
	const char *identity;   /* a file with ssh's key; NULL: its own      */
	bool keeps_alive;       /* ssh shall notice that the host is gone    */
};

/* A child process of this one that connects to an agent. */
struct starter {
	pid_t pid; /* 0: none; leads a group */
	int pidfd;
	int fd;     /* a socket: its stdin and stdout */
	int errors; /* its stderr                     */
};

enum { STARTER_WORDS = 64 };

/*
 * starter_words - the words of the command for @node into @argv; texts go to @buf.
 *
 * RINGUP_EINVAL if a shell in between would not take a word literally.
 */
int starter_words(const struct starter_options *how, const char *node,
		  char *argv[STARTER_WORDS], char *buf, size_t size, struct err *e);

int starter_begin(struct starter *s, const struct starter_options *how, const char *node,
		  struct err *e);

/* starter_hang_up - close its stdin, which ends the agent. */
void starter_hang_up(struct starter *s);

/* starter_end - wait until @deadline_ns for its end, then kill it. */
void starter_end(struct starter *s, int64_t deadline_ns);

#endif
