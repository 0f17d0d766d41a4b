/* output.h - forward the ranks' output, line by line, with the rank in front. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_OUTPUT_H
#define LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct pollfd;

/* Longer lines are shown in pieces of this size. */
enum { OUTPUT_LINE_BYTES = 65536 };

/* The prefix of each line; 0 for none. */
enum {
	OUTPUT_RANK = 1, /* "[RANK] "                                             */
	OUTPUT_TAG = 2,  /* "[RANK]<stdout>:" or "[RANK]<stderr>:", as horovodrun */
	OUTPUT_TIME = 4, /* with one of these: the time in front of it            */
};

/*
 * Each rank has a pipe for stdout and one for stderr.  Whole lines of them are
 * passed on to the launcher's own stdout and stderr, and all bytes, as they
 * are, to files if there is a directory for them.  Nothing here blocks: if the
 * reader of the launcher's output is slow, the ranks have to wait for it; if
 * it has gone away, output is dropped and the ranks do not notice.
 *
 * What ends with '\r' is passed on at once, as a line is: progress bars move.
 */
struct output;

/*
 * output_open - for @size ranks.
 *
 * @prefix: of OUTPUT_*; the rank is in colour on a terminal, and a last line without an
 * end gets one.  With 0 every byte is passed on unchanged.
 * @dir: also write dir/rank.N/stdout and dir/rank.N/stderr; NULL for not.  With OUTPUT_TAG
 * the numbers have leading zeros, so that they sort.
 */
int output_open(struct output **op, int size, unsigned prefix, const char *dir, struct err *e);

/* output_open_log - of streams without a pipe: lines of both streams of all ranks go to @fd,
 * with OUTPUT_TAG. */
int output_open_log(struct output **op, int fd, struct err *e);

/* output_pipes - the descriptors for rank @rank to write to; output_started()
 * closes them here. */
int output_pipes(struct output *o, int rank, int *out, int *err, struct err *e);
void output_started(struct output *o, int rank);

/*
 * Streams without a pipe here, such as those of ranks on other hosts.
 *
 * output_grow - room for @size stream pairs in all; existing ones stay.
 * output_label - stream pair @i is rank @rank's from now on; -1: of a worker without a rank.
 * output_feed - bytes of pair @i's stdout (@stream 0) or stderr (1).
 * output_end - the pair gets no more bytes.
 * output_is_full - too many bytes wait to be written: the caller should not feed more.
 */
int output_grow(struct output *o, int size, struct err *e);
void output_label(struct output *o, int i, int rank);
void output_feed(struct output *o, int i, int stream, const char *data, size_t len);
void output_end(struct output *o, int i);
bool output_is_full(const struct output *o);

/* output_say - one line of the launcher's own, on stderr, in order with the ranks' output. */
void output_say(struct output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* output_poll - put the descriptors to wait for into @p, of output_poll_count();
 * returns how many. */
size_t output_poll_count(const struct output *o);
size_t output_poll(const struct output *o, struct pollfd *p);

/* output_move - read and write as far as possible without blocking. */
void output_move(struct output *o);

/* output_drain - read the rest of the output of a rank that has ended. */
void output_drain(struct output *o, int rank);

/* output_finish - no rank will write any more: pass on the last, unfinished lines. */
void output_finish(struct output *o);

/* output_is_idle - has everything been passed on? */
bool output_is_idle(const struct output *o);

/* output_check - RINGUP_ESYSTEM if a part of the output could not be written, as on a full
 * disk; a reader that has gone away is no error.  @o may be NULL. */
int output_check(const struct output *o, struct err *e);

/* output_close - @o may be NULL. */
void output_close(struct output *o);

#endif
