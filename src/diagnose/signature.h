/* signature.h - signatures of known messages: their text, meaning, remedy and command. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SIGNATURE_H
#define DIAGNOSE_SIGNATURE_H

#include <stdbool.h>

/* The kinds are in the order of the report, causes before their results.  An echo is reported
 * only if nothing better is known, a fact never. */
enum signature_kind {
	SIGNATURE_DEATH,   /* a process was killed: by a signal, for memory or time */
	SIGNATURE_SETTING, /* names nothing, or too much                        */
	SIGNATURE_ADDRESS, /* an address or interface that is not the node's alone */
	SIGNATURE_EXIT,    /* a process or a node ended, perhaps because of the above */
	SIGNATURE_PATH,    /* a connection that fails                           */
	SIGNATURE_ERROR,   /* a complaint that matches no signature             */
	SIGNATURE_RESULT,  /* a result of those                                 */
	SIGNATURE_NOTE,    /* harmless by itself                                */
	SIGNATURE_ECHO,    /* the end of another rank, as this one sees it      */
	SIGNATURE_FACT,    /* no finding                                        */
};

enum signature_flag {
	SIGNATURE_BOX = 1,         /* further lines "Local host: x" follow         */
	SIGNATURE_SHARED = 2,      /* an address of several nodes is behind it     */
	SIGNATURE_UNLESS_WELL = 4, /* no finding if WELL of its library follows    */
	SIGNATURE_WELL = 8,        /* the library has its connections              */
	SIGNATURE_LATER = 16,      /* repeats earlier messages of its library and kind */
	SIGNATURE_REASON = 32,     /* the reason is in an earlier line                  */
	SIGNATURE_VAGUE = 64,      /* an echo that is reported only if it is the only one */
	SIGNATURE_BARE = 128,      /* messages of the system: see bare_fits()           */
	SIGNATURE_SHELL = 256,     /* such messages, on a line of a shell               */
	SIGNATURE_DONE = 512,    /* a process of the job ended well; with WELL, the whole job */
	SIGNATURE_BEHIND = 1024, /* a rank waited for another one: say for which      */
	SIGNATURE_AGAIN = 2048,  /* the job, or a part of it, starts again            */
	SIGNATURE_WAITS = 4096,  /* over once WELL of its library follows, come what may */
	SIGNATURE_FINAL = 8192,  /* on the whole job: its output may follow the message   */
	SIGNATURE_TABLE = 16384, /* a record or table of a scheduler: see jobstate_read()  */
	SIGNATURE_STILL = 65536, /* a process was seen to stand still                   */
	SIGNATURE_MISSING = 32768, /* "3: [tensor, ...]" of ranks that others wait for follow */
	SIGNATURE_KILLS = 131072,  /* ends processes by SIGKILL, which launchers then report */
};

/*
 * A text is literal but for these fields; a blank is any blanks and line breaks.
 *
 *	{ip} {port} {host} {if} {rank}	typed, and kept for the report
 *	{loopback} {docker} {linklocal}	an {ip} of that kind; nothing else fits
 *	{local}				an {if} of containers, machines, tunnels
 *	{endpoint}			a {host}:{port}
 *	{errno} {word}			digits; any non-blanks
 *	{status} {signal}		of a process that ended, kept; 137 is 128 + signal 9
 *	{value}				the rest of the line, kept
 *	{*} {**}			anything up to the next part: on the same line,
 *					or within the same message
 *
 * A text begins with at least SIGNATURE_ANCHOR literal bytes, of which the first is no
 * blank and a blank is one blank, and after {*} or {**} something literal follows.  The first
 * place that fits is taken and never given back, so the time is linear in the log's length.
 */
enum { SIGNATURE_ANCHOR = 7 };

struct signature {
	const char *id;
	const char *library;
	enum signature_kind kind;
	unsigned flags;
	const char *texts; /* each ends with a newline */
	const char *cause, *remedy;
	const char *command; /* {hosts}, {port}; or "" */
};

/* The table in use: the built-in one, after the rules of the user. */
extern const struct signature *signatures;
extern int signature_count;

struct err;

/* signature_extend - put @n signatures before the built-in ones, and @explains[i], ids that the
 * i-th explains, or NULL; with 0 only the built-in ones are left.  All are the caller's. */
int signature_extend(const struct signature *more, int n, char *const *explains, struct err *e);

/* signature_explains - is @result, if both are found, a consequence of @cause? */
bool signature_explains(const struct signature *cause, const struct signature *result);

/* signature_find - by id, or NULL. */
const struct signature *signature_find(const char *id);

#endif
