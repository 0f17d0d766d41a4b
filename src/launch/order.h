/* order.h - the protocol between `ringup run` and the rank daemons of its hosts. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_ORDER_H
#define LAUNCH_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/secret.h"
#include "wire/shake.h"
#include "wire/stream.h"

struct err;

/*
 * Frames over a pair of pipes or a socket: length (4), kind (1), payload.  A daemon greets with
 * a line of text, ORDER_GREETING and its version.  Lines before the greeting are of a login
 * shell; the last one is kept in struct order, since it may say why there is no daemon.
 *
 * ssh encrypts its connections.  Any other connection between hosts has a key of its own, see
 * order_seal(), and is a sealed channel (wire/chan.h) from its first byte to its last.
 */
#define ORDER_GREETING "ringup-rankd/2 "

enum {
	ORDER_BYTES = 4 << 20, /* longest payload                    */
	ORDER_NOISE = 160,
	ORDER_VERSION = 32,
};

enum order_kind {
	/* From the launcher. */
	ORDER_SETUP = 1, /* struct order_setup, see there                       */
	ORDER_START,     /* worker, flags; its environment                      */
	ORDER_SIGNAL,    /* worker (ORDER_ALL), signal, enum order_whom         */
	ORDER_NOTICE,    /* generation, bits                                    */
	ORDER_READ,      /* number of bytes of output that have been passed on  */
	ORDER_FINISH,    /* end all ranks, then send ORDER_BYE                  */
	ORDER_PING,      /* empty: the launcher lives                           */
	/* From a rank daemon. */
	ORDER_HELLO,   /* after the setup: processors, time (8), pid, a free port;
			* host name, NUL, its address towards other hosts or "" */
	ORDER_STARTED, /* worker, pid                                           */
	ORDER_FAILED,  /* worker, code; a sentence: it could not be started     */
	ORDER_OUTPUT,  /* worker, stream (2: its report); bytes                 */
	ORDER_EXIT,    /* worker, code as in siginfo, status; a remark, or ""   */
	ORDER_NOTE,    /* the numbers of struct cause_note; the sentence        */
	ORDER_BYE,
	/* From the launcher to the program that has started it: see launch/parent.h. */
	ORDER_CONNECT, /* host name                                             */
	ORDER_REPORT,  /* worker, rank; bytes                                   */
	ORDER_ENDED,   /* worker, rank, pid, code, status, phase; host, NUL, a remark */
};

/* Recipients of a signal. */
enum order_whom {
	ORDER_RANK,       /* the rank itself                                    */
	ORDER_GROUP,      /* all processes of its group                         */
	ORDER_IF_STOPPED, /* all these get SIGKILL, but only if it is stopped    */
};

#define ORDER_ALL UINT32_MAX

/* Caller's storage; order_open() fills it. */
struct order {
	struct stream stream;        /* its descriptors are not closed here */
	bool greets;                 /* the greeting has still to come */
	char version[ORDER_VERSION]; /* of the daemon, after its greeting */
	char noise[ORDER_NOISE];
};

/* order_open - @greets: the other side is a rank daemon, whose greeting comes first. */
void order_open(struct order *o, int in, int out, bool greets);
void order_close(struct order *o);

/* order_seal - encrypt with this connection's key; called before any frame. */
int order_seal(struct order *o, const struct secret *key, enum shake_role role, struct err *e);

/* order_greet - send a rank daemon's greeting. */
int order_greet(struct order *o, struct err *e);

/*
 * order_say - queue a frame of @n numbers and @len bytes, and send as much as goes without
 * blocking.
 *
 * Returns 0, 1 if something is left (stream_flush() when poll(2) says so), RINGUP_EPEER,
 * RINGUP_ENOMEM.
 */
int order_say(struct order *o, enum order_kind kind, const uint32_t *numbers, int n,
	      const void *data, size_t len, struct err *e);

/*
 * order_next - the next whole frame: its kind, and its payload in *@datap and *@lenp, which are
 * valid until the next call with @o; 0 if there is none yet; RINGUP_EINVAL if the other side is
 * no rank daemon or launcher, RINGUP_EMISMATCH if it is of another version.
 */
int order_next(struct order *o, const unsigned char **datap, size_t *lenp, struct err *e);

/* order_numbers - the first @n numbers of a payload; false if it is shorter. */
bool order_numbers(const unsigned char **datap, size_t *lenp, uint32_t *numbers, int n);

/* order_text - copy text of another host to @to, of @size bytes; blanks replace control
 * characters, which a terminal would obey. */
void order_text(char *to, size_t size, const void *text, size_t len);

/* order_strings - a list of strings, each with its NUL, as an array that ends with NULL; the
 * caller frees it, but not the strings, which lie in @data.  NULL if the last has no end. */
char **order_strings(const unsigned char *data, size_t len);

#endif
