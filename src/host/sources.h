/* sources.h - the source lines of network settings, in files and the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_SOURCES_H
#define HOST_SOURCES_H

#include <stddef.h>

struct err;

/* The grammar of a source, by the program that reads it. */
enum sources_grammar {
	SOURCES_ENVIRONMENT,
	SOURCES_NCCL,
	SOURCES_MCA,
	SOURCES_SHELL, /* scripts that set the environment; never run, only read */
	SOURCES_GRAMMARS
};

struct sources_line {
	int number; /* from 1; 0 in the environment */
	char *text; /* without its newline, but with its CR */
};

struct sources_file {
	enum sources_grammar grammar;
	char *path; /* "environment", "/etc/nccl.conf" */
	struct sources_line *lines;
	int nlines;
};

/* In the order of their readers: the first is the strongest. */
struct sources {
	struct sources_file *files;
	int nfiles;
};

/*
 * sources_read - the environment, the scripts that set it (/etc/environment,
 * /etc/profile.d, Spark's spark-env.sh), NCCL's files, Open MPI's files, below @root.
 *
 * Only lines about the network are kept, also misspelt ones, and passwords in
 * URLs are masked: users attach this to tickets.  A file that cannot be read is
 * left out, as its readers do.
 *
 * Ownership: the contents are the caller's until sources_free(), also on failure.
 */
int sources_read(struct sources *s, const char *root, struct err *e);

/* sources_add - the lines of @text that are about the network, as a new file. */
int sources_add(struct sources *s, enum sources_grammar g, const char *path, const char *text,
		struct err *e);

/* sources_file, sources_line - append an empty file, or one line to @f. */
struct sources_file *sources_file(struct sources *s, enum sources_grammar g, const char *path,
				  struct err *e);
int sources_line(struct sources_file *f, int number, const char *text, size_t len,
		 struct err *e);

void sources_free(struct sources *s);

/*
 * sources_meant - the variable that a line was meant to set, even with mistakes:
 * "export", blanks, quotes, a byte order mark, OMPI_MCA_ in a file.
 *
 * Returns the bytes of @line in front of its value's '=' or blank; *@out is "" in
 * a comment and in a line that names nothing.
 */
enum { SOURCES_NAME = 80 };
size_t sources_meant(enum sources_grammar g, const char *line, size_t len,
		     char out[SOURCES_NAME]);

/*
 * sources_shell_value - the value of the text behind NAME= in a shell, up to the end of the
 * word: quotes and backslashes taken away, nothing evaluated.
 *
 * Returns it, for the caller to free, or NULL if there is something to evaluate ($, `, *,
 * a line that goes on) or no memory.
 */
char *sources_shell_value(const char *text);

#endif
