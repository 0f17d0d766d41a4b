/* shake.h - the handshake: both sides prove that they know the job's secret. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SHAKE_H
#define WIRE_SHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/secret.h"

struct err;

/*
 * Every connection starts with it, and nothing else is looked at before it has
 * succeeded.  Four messages of fixed length, hence nothing to allocate:
 *
 *	client to server  hello (64 bytes)
 *	server to client  hello, proof (64 + 32)
 *	client to server  proof (32)
 *	server to client  verdict: a status code and its proof (1 + 32)
 *
 * A hello is: magic (8), protocol (2), role (1), channel (1), rank (4), version
 * of the library as text (16), job (16), nonce (16).  Magic, protocol and version
 * keep their places in all protocols to come, so that versions can be named.
 * The job is a number derived from the secret.  A proof is an HMAC, under a key
 * derived from the secret, of the letter S, C or V and of everything sent so
 * far; so a proof is good for one connection, one direction and one purpose.
 *
 * Both sides then have a key for each direction, fresh for this connection.
 */
enum {
	SHAKE_PROTOCOL = 2,
	SHAKE_HELLO = 64,
	SHAKE_PROOF = 32,
	SHAKE_VERDICT = 1 + SHAKE_PROOF,
	SHAKE_MS = 2000, /* a server's time limit for a whole handshake */
	SHAKE_VERSION = 16,
};

enum shake_role { SHAKE_CLIENT = 1, SHAKE_SERVER = 2 };
enum shake_channel {
	SHAKE_MEET = 1,
	SHAKE_RING = 2,
	SHAKE_CONTROL = 3,
	SHAKE_AGENT = 4,
	SHAKE_LOBBY = 5,
	SHAKE_P2P = 6,
	SHAKE_TASK = 7, /* a task of Spark, or an actor of Ray, to the driver */
};

/* Stands for a rank where the meeting point, which has none, takes part. */
#define SHAKE_NO_RANK UINT32_MAX

struct shake_who {
	uint8_t channel;
	uint32_t rank;
	char version[SHAKE_VERSION + 1];
};

/* The keys of one connection, as this side uses them. */
struct shake_keys {
	unsigned char send[32], recv[32];
};

/* Caller's storage; fields below "private" are shake.c's. */
struct shake {
	struct shake_who me, peer; /* peer is true after SHAKE_PROVED or SHAKE_DONE */
	struct shake_keys keys;    /* valid after SHAKE_DONE                        */
	short events;              /* what to poll for after SHAKE_MORE             */
	/* private */
	enum shake_role role;
	int state, refusal;
	uint32_t expect;
	unsigned char proof_key[32], session_key[32];
	unsigned char hello[2][SHAKE_HELLO]; /* the client's, the server's */
	unsigned char proof[2][SHAKE_PROOF]; /* the server's, the client's */
	unsigned char in[SHAKE_HELLO], out[SHAKE_HELLO + SHAKE_PROOF];
	size_t in_len, in_want, out_len, out_sent;
};

/*
 * shake_init - take part as @me.channel and @me.rank.
 *
 * A client passes in @peer_rank the rank that it means to reach, and accepts no other;
 * a server passes SHAKE_NO_RANK and judges later.  A server learns the channel
 * from the client.
 */
void shake_init(struct shake *h, enum shake_role role, enum shake_channel channel,
		uint32_t rank, uint32_t peer_rank, const struct secret *s);

/* shake_version - of this library, as it goes into a hello. */
void shake_version(char out[SHAKE_VERSION + 1]);

/* shake_read_version - the other side's version, from SHAKE_VERSION bytes of a hello;
 * bytes that are not printable become '?'. */
void shake_read_version(char out[SHAKE_VERSION + 1], const unsigned char *in);

enum shake_progress { SHAKE_MORE = 0, SHAKE_DONE = 1, SHAKE_PROVED = 2 };

/*
 * shake_step - as far as @fd, which is non-blocking, allows.
 *
 * Takes from the socket the bytes of the handshake and no more.
 * Returns SHAKE_MORE; SHAKE_DONE; on a server SHAKE_PROVED, once: h->peer is
 * proved, and shake_answer() must come next; or a negative code:
 *   RINGUP_EAUTH      the other side does not know the secret, or is no ringup
 *   RINGUP_EMISMATCH  the protocols or libraries differ; both are named
 *   RINGUP_EPEER      the connection ended
 *   others            the server's verdict: see shake_answer()
 */
int shake_step(struct shake *h, int fd, struct err *e);

/*
 * shake_answer - the server's verdict: 0, or a RINGUP_E code with which both
 * this side's next shake_step() and the client's fail; RINGUP_EBUSY for a rank
 * that is connected already, RINGUP_EINVAL for one that does not belong here.
 */
void shake_answer(struct shake *h, int code);

/* shake_agree - RINGUP_EMISMATCH if the other side runs another version of the library. */
int shake_agree(const struct shake *h, struct err *e);

/*
 * shake_keys_from - the keys of a connection without a handshake: both sides were given @s,
 * which is good for this connection alone.
 * shake_keys_next - such a secret, for what the two sides say after they have used @k, which
 * are the keys of @role.
 */
void shake_keys_from(struct shake_keys *k, const struct secret *s, enum shake_role role);
void shake_keys_next(struct secret *s, const struct shake_keys *k, enum shake_role role);

void shake_wipe(struct shake *h);

/*
 * shake_take, shake_give - the handshake without a socket, for tests.
 *
 * shake_take() is given received bytes, at most shake_wants(), and returns as
 * shake_step() does; shake_give() puts the bytes to be sent into @out, of
 * SHAKE_HELLO + SHAKE_PROOF, and returns their number.
 */
size_t shake_wants(const struct shake *h);
int shake_take(struct shake *h, const void *data, size_t len, struct err *e);
size_t shake_give(struct shake *h, void *out);

#endif
