/* rankenv.h - the environment in which a rank starts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_RANKENV_H
#define LAUNCH_RANKENV_H

#include <stdbool.h>

struct err;

/* The settings that a job's ranks have in common, and the place of one of them. */
struct rankenv {
	int size;
	/* For a job on several hosts; all 0: there is one. */
	int local_rank, local_size, host_rank, host_count;
	bool elastic;       /* then rank and size are those of the start         */
	int worker;         /* its number in an elastic job                      */
	const char *host;   /* its name                                          */
	const char *job;    /* unique among jobs                                 */
	const char *meet;   /* of meet_where(), or NULL with one rank            */
	int secret_fd;      /* or -1                                             */
	int cause_fd;       /* or 0: see wire/cause.h                            */
	int master_port;    /* for torch.distributed                             */
	const char *master; /* its host; NULL: this one                          */
	int threads;        /* OMP_NUM_THREADS                                   */
	char *const *base;  /* the launcher's own environment                    */
	char *const *extra; /* "VAR=VALUE", overrides all; NULL-terminated, or NULL     */
};

/*
 * rankenv_make - the environment of rank @rank.
 *
 * base without another launcher's variables about this process, plus ringup's,
 * Horovod's and torch.distributed's variables.  The user's values in base win
 * only where they make sense for all ranks: MASTER_ADDR, MASTER_PORT,
 * OMP_NUM_THREADS, PYTHONUNBUFFERED.
 *
 * Ownership: *@envp is the caller's, for rankenv_free().
 */
int rankenv_make(const struct rankenv *r, int rank, char ***envp, struct err *e);
void rankenv_free(char **env);

/*
 * rankenv_overlay - the environment of a rank whose rank daemon has one of its own for it.
 *
 * @base is that environment, @list the launcher's.  @list wins except for the four variables
 * above, for which the launcher has only defaults.  Both end with NULL.
 *
 * Ownership: *@envp is the caller's, for rankenv_free().
 */
int rankenv_overlay(char *const *base, char *const *list, char ***envp, struct err *e);

enum { RANKENV_MARK = 96 };

/* rankenv_mark - "RINGUP_JOB=NAME.RANDOM" for a job called @name; NULL and "" mean "run". */
int rankenv_mark(char mark[RANKENV_MARK], const char *name, struct err *e);

/*
 * rankenv_port - a port of the kernel's choice for torch.distributed's own store.
 *
 * The socket *@fdp stays bound, so that no other process gets the port, but does not listen, so
 * that rank 0 can: both sides set SO_REUSEADDR.  It is bound on all addresses, as the store
 * will be: else another process may get the port on another address.
 *
 * Ownership: *@fdp is the caller's to close, also after a failure; -1 if there is none.
 */
int rankenv_port(int *fdp, int *port, struct err *e);

/* rankenv_is_foreign - is @var ("NAME=..." or "NAME") another launcher's variable about
 * a process's place in its job? */
bool rankenv_is_foreign(const char *var);

/* rankenv_is_ours - may only ringup's launcher set @var? */
bool rankenv_is_ours(const char *var);

#endif
