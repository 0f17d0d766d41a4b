/* signature.h - what is known of a message: how to tell it, what it means, what cures it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SIGNATURE_H
#define DIAGNOSE_SIGNATURE_H

/*
 * Causes before what they lead to: the kinds stand in the order in which findings are
 * told.  An echo is told only if nothing better is known, a fact never.
 */
enum signature_kind {
	SIGNATURE_DEATH,   /* a process was killed: by a signal, for memory or time */
	SIGNATURE_SETTING, /* names nothing, or too much                        */
	SIGNATURE_ADDRESS, /* an address or interface that is not the node's alone */
	SIGNATURE_EXIT,    /* a process or a node ended, perhaps for what stands above */
	SIGNATURE_PATH,    /* a connection that does not come about             */
	SIGNATURE_ERROR,   /* a complaint that no signature knows               */
	SIGNATURE_RESULT,  /* what those lead to                                */
	SIGNATURE_NOTE,    /* harmless by itself                                */
	SIGNATURE_ECHO,    /* how the end of another rank looks from here       */
	SIGNATURE_FACT,    /* no finding                                        */
};

enum signature_flag {
	SIGNATURE_BOX = 1,         /* further lines "Local host: x" follow         */
	SIGNATURE_SHARED = 2,      /* an address of several nodes is behind it     */
	SIGNATURE_UNLESS_WELL = 4, /* no finding if WELL of its library follows    */
	SIGNATURE_WELL = 8,        /* the library has got its connections          */
	SIGNATURE_LATER = 16,      /* says what others of its library and kind said before */
	SIGNATURE_REASON = 32,     /* what leads to it stands in a line before          */
	SIGNATURE_VAGUE = 64,      /* an echo that is told only where there is no other */
	SIGNATURE_BARE = 128,      /* words of the system: see bare_fits()              */
	SIGNATURE_SHELL = 256,     /* such words, on a line of a shell                  */
};

/*
 * A text is literal but for these fields; a blank is any blanks and line breaks.
 *
 *	{ip} {port} {host} {if} {rank}	typed, and kept for the report
 *	{loopback} {docker} {linklocal}	an {ip} of that kind; nothing else fits
 *	{local}				an {if} of containers, machines, tunnels
 *	{endpoint}			a {host}:{port}
 *	{errno} {word}			digits; what is no blank
 *	{status} {signal}		of a process that ended, kept; 137 is 128 + signal 9
 *	{value}				the rest of the line, kept
 *	{*} {**}			anything up to what follows: on the same line,
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

extern const struct signature signatures[];
extern const int signature_count;

/* signature_find - by id, or NULL. */
const struct signature *signature_find(const char *id);

#endif
