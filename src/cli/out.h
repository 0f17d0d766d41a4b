/* out.h - results on stdout: text, aligned tables, or one JSON object. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <jansson.h>

struct err;

/*
 * Only results go here; remarks for the user go to stderr.  Failures of stdout are not reported
 * by each call but once, by out_end(), which cmd.c calls after every command.  Control
 * characters are shown as '?' (out_text() and out_look() let tab and newline pass), since names
 * and values come from untrusted files.
 */

/* The look of a word on a terminal; elsewhere, or with NO_COLOR, plain. */
enum out_look { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_GOOD, OUT_WARN, OUT_BAD };

/* out_start - make sure that 0, 1 and 2 are open, and decide on colour. */
void out_start(void);

/* out_text - printf to stdout. */
void out_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* out_look - the same in colour. */
void out_look(enum out_look look, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* out_width - the columns of the terminal on stdout; 0: no terminal. */
int out_width(void);

/*
 * out_fold - printf of a line's rest, its end included, folded at the terminal's width.
 *
 * @at columns of the line are already printed; folded lines begin at column @indent.  Folds
 * only at blanks: a path or a command stays whole.  Without a terminal it does not fold.
 */
void out_fold(enum out_look look, int at, int indent, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* out_note - printf a remark for the user to stderr; control characters become '?' but for the
 * final newline. */
void out_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * A table: add cells row by row, then print it with aligned columns.  A column of numbers
 * (right) is aligned to the right.  The last column is never padded, and is folded on a
 * terminal.
 */
enum { OUT_COLUMNS = 16 };

struct out_cell {
	char *text;
	enum out_look look;
};

struct out_table {
	int columns;
	const char *head[OUT_COLUMNS];
	unsigned right;        /* bit c: column c is aligned to the right */
	struct out_cell *cell; /* rows * columns */
	int cells;
	int failed; /* memory ran out; out_table_print() reports it */
};

/* out_table_init - set the columns' headings, e.g. "NAME", "VALUE", NULL. */
void out_table_init(struct out_table *t, const char *const *heads);

/* out_table_cell - add the next cell, left to right, then down; text is copied. */
void out_table_cell(struct out_table *t, enum out_look look, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* out_table_print - print the headings and every whole row; frees the cells. */
int out_table_print(struct out_table *t, struct err *e);

/*
 * out_json - print @object, indented, keys in the order in which they were set.
 *
 * Ownership: takes the reference @object, also on failure; NULL is reported as lack of memory,
 * so the result of json_pack() may be passed unchecked.
 */
int out_json(json_t *object, struct err *e);

/*
 * out_string - @text as a JSON string, whatever its bytes.
 *
 * JSON holds only UTF-8 and jansson refuses anything else, but a path or a variable may be any
 * bytes: U+FFFD replaces invalid ones.
 *
 * Ownership: the caller's reference, usually passed to "o" of json_pack().
 */
json_t *out_string(const char *text);

/* out_string_or_null - the same, or null for NULL or "". */
json_t *out_string_or_null(const char *text);

/* out_end - flush; fails if any write to stdout has failed since the start. */
int out_end(struct err *e);

#endif
