/* procs.h - the processes of a job: what each wrote last, how far it got, how it ended. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_PROCS_H
#define DIAGNOSE_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct links;

enum {
	PROCS = 1024,
	PROCS_TEXT = 240,
	PROCS_LINES = 3,
	PROCS_STEPS = 4,
	PROCS_MARK = 65,
	PROCS_SUITES = 8,
	PROCS_WORLD = 4096
};

/* A line of a log; its text is raw until procs_finish(). */
struct proc_line {
	uint64_t at; /* bytes before it in the log */
	long line;   /* 0: none */
	int64_t time;
	uint64_t shape; /* its words: see routine.h; 0: not looked at.  Of a step without the
			   mark */
	char text[PROCS_TEXT];
};

/* A run of tests: from its first line, or 0 if that is not known, to behind its summary. */
struct proc_suite {
	uint64_t from, to;
	bool has_passed;
	long tests; /* 0: not stated */
};

/* The ranks that began to set up the last communicator of NCCL. */
struct procs_start {
	uint64_t id;
	long world;
	uint64_t begun[PROCS_WORLD / 64];
};

/*
 * A process: a log, and in it the rank or name that a launcher, kubectl or the journal puts
 * before its lines.  Lines without such a mark are one process, unless the log's own name
 * states a rank.
 */
struct proc {
	int file, rank; /* -1: not stated */
	char host[PROCS_MARK];
	struct proc_line first;             /* its first complaint */
	struct proc_line last[PROCS_LINES]; /* its last lines, the very last first */
	struct proc_line step_line;
	long step;                     /* the last one, or -1 */
	uint64_t step_at[PROCS_STEPS]; /* of its last different steps, the last first */
	int steps;                     /* how many of these */
	long plan;                     /* steps that it announced, or 0 */
	long epoch, epochs;            /* the last "Epoch 3/10", or 0 */
	uint64_t ended_well;           /* place of a message about success, or 0 */
	uint64_t own_end;              /* the same, by the process and not by its script */
	uint64_t passed, failed;       /* places behind the summaries of a test runner, or 0 */
	struct proc_suite suite[PROCS_SUITES];
	int suites;
	struct proc_line failure; /* the first test that failed, or the summary */
	uint64_t job_well;        /* the same of the whole job, by its launcher */
	uint64_t runs;            /* place of a scheduler's word that the job runs, or 0 */
	long unset;               /* communicators of NCCL that it began and did not complete */
	uint64_t again;           /* place of a message about another start, or 0 */
	long sequence;            /* of the last collective that it started, or -1 */
	int signal, status;       /* of its end: 0, -1: not stated */
};

struct procs;

/* Bytes of a log: lines that end in @block[from..to); @line is the number of the line at @to,
 * and @before bytes came before @block. */
struct procs_piece {
	const char *block;
	size_t from, to;
	uint64_t before;
	long line;
	bool is_last;
};

int procs_open(struct procs **pp, struct err *e);
void procs_close(struct procs *p);
void procs_reset(struct procs *p);

/* procs_begin - start log number @file, whose path may state a rank. */
void procs_begin(struct procs *p, int file, const char *path);

/*
 * procs_read - take the last lines of each process from the piece.
 *
 * A piece is read from its end, only until each process has been seen, so that the cost does
 * not grow with the log; the first and the last piece of a log are read whole.
 */
void procs_read(struct procs *p, const struct procs_piece *piece);

/*
 * procs_look - look in a block for lines that torch or the program marks behind srun's label:
 * "1: [rank5]:".
 *
 * Each task of srun then starts several ranks, and the number in the label is no rank.
 */
void procs_look(struct procs *p, const char *block, const char *end);

/* procs_has_tasks - are the tasks of srun in the current log other things than ranks? */
bool procs_has_tasks(const struct procs *p);

/* procs_is_of_task - is the label of such a task the only mark of the line? */
bool procs_is_of_task(const struct procs *p, const char *line, const char *end);

/* procs_find - the process that wrote the line, which is added if need be, or NULL. */
struct proc *procs_find(struct procs *p, int file, const char *line, const char *end);

/* procs_of_rank - a process of @rank, in @file if possible; NULL if no line states it. */
struct proc *procs_of_rank(const struct procs *p, int file, int rank);

/* procs_add_rank - the same, but added if no line states it. */
struct proc *procs_add_rank(struct procs *p, int file, int rank);

/* procs_unmarked - the process of lines without a mark in @file, or NULL. */
struct proc *procs_unmarked(const struct procs *p, int file);

/* procs_line - keep a line. */
void procs_line(struct proc_line *l, uint64_t at, long number, const char *line,
		const char *end);

/* procs_words - a number for the words of a line, without the mark of its process. */
uint64_t procs_words(const struct proc_line *l);

/* procs_finish - make all texts fit for display, and read the times of lines. */
void procs_finish(struct procs *p);

/* procs_list - all processes, by log and rank. */
struct proc *procs_list(struct procs *p, int *n);

/* procs_all_went_on - how many different steps each process of the log that writes steps
 * reached after the place @at, at least; at most PROCS_STEPS. */
int procs_all_went_on(const struct procs *p, int file, uint64_t at);

/*
 * procs_is_routine - did the process of @rank, or if no line states that rank the one that
 * wrote last, go back after the place @at to lines that it had written before?
 *
 * These are lines of the same words with other numbers, such as requests served and rates;
 * its very last line has to be of a kind that it wrote twice or more.  After a complaint that
 * @is_caught, by a logger or the program, such lines may be new ones, or others follow them.
 */
bool procs_is_routine(const struct procs *p, int file, int rank, uint64_t at, bool is_caught);

const struct procs_start *procs_start(const struct procs *p);

/* procs_links - which rank is which process on which host. */
const struct links *procs_links(const struct procs *p);

/* procs_began - the place behind the start of the first line in the words of the last step of
 * @x, if it is among the last lines and @x has written many of these; or 0. */
uint64_t procs_began(const struct procs *p, const struct proc *x);

/* procs_ended - how often lines of one kind followed those in the words of the last line of @x,
 * each time but the last; or 0. */
long procs_ended(const struct procs *p, const struct proc *x);

/* procs_repeats - how often @x has written each of its last PROCS_LINES lines, at least. */
long procs_repeats(const struct procs *p, const struct proc *x);

/*
 * procs_went_on - how many different steps the process of @rank, or if it is not known to write
 * steps, any process of the log, reached after the place @at; at most PROCS_STEPS.
 *
 * The ranks of a job reach steps together, so the others' steps are those of a silent one, too.
 */
int procs_went_on(const struct procs *p, int file, int rank, uint64_t at);

#endif
