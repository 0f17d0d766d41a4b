/* shake.c - the handshake: two hellos, two proofs, a verdict. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/shake.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/build.h"
#include "base/err.h"
#include "ringup.h"
#include "wire/pack.h"

/* Where things are in a hello. */
enum {
	AT_MAGIC = 0,
	AT_PROTOCOL = 8,
	AT_ROLE = 10,
	AT_CHANNEL = 11,
	AT_RANK = 12,
	AT_VERSION = 16,
	AT_JOB = 32,
	AT_NONCE = 48,
	JOB_BYTES = 16,
	NONCE_BYTES = 16,
};

/* Not text at its start, so no HTTP or TLS client sends it by chance. */
static const unsigned char magic[8] = { 0xf5, 'r', 'i', 'n', 'g', 'u', 'p', '\n' };

/* The message that this side waits for. */
enum state { WANT_HELLO, WANT_PROOF, WANT_JUDGE, WANT_VERDICT, OVER };

enum { OF_CLIENT, OF_SERVER }; /* index of hello[] */
enum { BY_SERVER, BY_CLIENT }; /* index of proof[] */

void shake_version(char out[SHAKE_VERSION + 1])
{
	memset(out, 0, SHAKE_VERSION + 1);
	snprintf(out, SHAKE_VERSION + 1, "%s", build_version());
}

static void send_out(struct shake *h, const void *data, size_t len)
{
	memcpy(h->out + h->out_len, data, len);
	h->out_len += len;
}

static void want(struct shake *h, enum state state, size_t len)
{
	h->state = state;
	h->in_len = 0;
	h->in_want = len;
}

static void make_hello(struct shake *h, unsigned char *p)
{
	memcpy(p + AT_MAGIC, magic, sizeof(magic));
	pack_put16(p + AT_PROTOCOL, SHAKE_PROTOCOL);
	p[AT_ROLE] = (unsigned char)h->role;
	p[AT_CHANNEL] = h->me.channel;
	pack_put32(p + AT_RANK, h->me.rank);
	memcpy(p + AT_VERSION, h->me.version, SHAKE_VERSION);
}

void shake_init(struct shake *h, enum shake_role role, enum shake_channel channel,
		uint32_t rank, uint32_t peer_rank, const struct secret *s)
{
	static const char purpose[] = "ringup handshake";
	unsigned char *mine = h->hello[role == SHAKE_CLIENT ? OF_CLIENT : OF_SERVER];
	unsigned char made[32 + 32 + JOB_BYTES];

	memset(h, 0, sizeof(*h));
	h->role = role;
	h->expect = peer_rank;
	h->me.channel = (uint8_t)channel;
	h->me.rank = rank;
	shake_version(h->me.version);
	secret_hkdf(made, sizeof(made), (struct secret_part){ s->key, sizeof(s->key) },
		    (struct secret_part){ "", 0 },
		    (struct secret_part[]){ { purpose, sizeof(purpose) }, { NULL, 0 } });
	memcpy(h->proof_key, made, 32);
	memcpy(h->session_key, made + 32, 32);
	memcpy(mine + AT_JOB, made + 64, JOB_BYTES);
	sodium_memzero(made, sizeof(made));
	randombytes_buf(mine + AT_NONCE, NONCE_BYTES);
	want(h, WANT_HELLO, SHAKE_HELLO);
}

static void prove(const struct shake *h, char letter, const unsigned char *code,
		  unsigned char out[SHAKE_PROOF])
{
	/* A proof covers the messages before it; later ones have length 0 here. */
	size_t server = letter == 'S' ? 0 : SHAKE_PROOF;
	size_t client = letter == 'V' ? SHAKE_PROOF : 0;
	const struct secret_part parts[] = {
		{ &letter, 1 },
		{ h->hello[OF_CLIENT], SHAKE_HELLO },
		{ h->hello[OF_SERVER], SHAKE_HELLO },
		{ h->proof[BY_SERVER], server },
		{ h->proof[BY_CLIENT], client },
		{ code, 1 },
		{ NULL, 0 },
	};

	secret_mac(out, h->proof_key, parts);
}

static bool is_proof(const struct shake *h, char letter, const unsigned char *code,
		     const unsigned char *claim)
{
	unsigned char right[SHAKE_PROOF];
	bool same;

	prove(h, letter, code, right);
	same = !sodium_memcmp(right, claim, SHAKE_PROOF);
	sodium_memzero(right, sizeof(right));
	return same;
}

/* @made: the key of what the client sends, then that of what the server sends. */
static void keys_give(struct shake_keys *k, enum shake_role role, const unsigned char made[64])
{
	bool client = role == SHAKE_CLIENT;

	memcpy(client ? k->send : k->recv, made, 32);
	memcpy(client ? k->recv : k->send, made + 32, 32);
}

void shake_keys_from(struct shake_keys *k, const struct secret *s, enum shake_role role)
{
	static const char purpose[] = "ringup connection";
	unsigned char made[64];

	secret_hkdf(made, sizeof(made), (struct secret_part){ s->key, sizeof(s->key) },
		    (struct secret_part){ "", 0 },
		    (struct secret_part[]){ { purpose, sizeof(purpose) }, { NULL, 0 } });
	keys_give(k, role, made);
	sodium_memzero(made, sizeof(made));
}

void shake_keys_next(struct secret *s, const struct shake_keys *k, enum shake_role role)
{
	static const char purpose[] = "ringup connection, next";
	bool client = role == SHAKE_CLIENT;

	secret_hkdf(s->key, sizeof(s->key),
		    (struct secret_part){ client ? k->send : k->recv, 32 },
		    (struct secret_part){ client ? k->recv : k->send, 32 },
		    (struct secret_part[]){ { purpose, sizeof(purpose) }, { NULL, 0 } });
}

static void make_keys(struct shake *h)
{
	static const char purpose[] = "ringup session";
	unsigned char salt[2 * NONCE_BYTES], made[64];

	memcpy(salt, h->hello[OF_CLIENT] + AT_NONCE, NONCE_BYTES);
	memcpy(salt + NONCE_BYTES, h->hello[OF_SERVER] + AT_NONCE, NONCE_BYTES);
	secret_hkdf(made, sizeof(made), (struct secret_part){ h->session_key, 32 },
		    (struct secret_part){ salt, sizeof(salt) },
		    (struct secret_part[]){ { purpose, sizeof(purpose) },
					    { h->hello[OF_CLIENT], SHAKE_HELLO },
					    { h->hello[OF_SERVER], SHAKE_HELLO },
					    { NULL, 0 } });
	keys_give(&h->keys, h->role, made);
	sodium_memzero(made, sizeof(made));
}

void shake_read_version(char out[SHAKE_VERSION + 1], const unsigned char *in)
{
	memset(out, 0, SHAKE_VERSION + 1);
	for (int i = 0; i < SHAKE_VERSION && in[i]; i++)
		out[i] = in[i] > ' ' && in[i] < 0x7f ? (char)in[i] : '?';
}

static void read_hello(struct shake *h, const unsigned char *p)
{
	h->peer.channel = p[AT_CHANNEL];
	h->peer.rank = pack_get32(p + AT_RANK);
	shake_read_version(h->peer.version, p + AT_VERSION);
}

static int fail_secret(struct err *e)
{
	return fail(e, RINGUP_EAUTH, "the peer does not know this job's secret");
}

int shake_agree(const struct shake *h, struct err *e)
{
	if (!strcmp(h->me.version, h->peer.version))
		return 0;
	return fail(e, RINGUP_EMISMATCH, "ringup %s here, ringup %s on the other side",
		    h->me.version, h->peer.version);
}

static int fail_protocol(const struct shake *h, unsigned theirs, struct err *e)
{
	return fail(e, RINGUP_EMISMATCH,
		    "ringup %s with protocol %d here, ringup %s with protocol %u on the other "
		    "side",
		    h->me.version, SHAKE_PROTOCOL, h->peer.version, theirs);
}

/* The verdict was no. */
static int fail_refused(const struct shake *h, struct err *e)
{
	uint32_t rank = h->role == SHAKE_CLIENT ? h->me.rank : h->peer.rank;

	if (h->refusal == RINGUP_EMISMATCH && shake_agree(h, e))
		return RINGUP_EMISMATCH;
	if (h->refusal == RINGUP_EBUSY)
		return fail(e, RINGUP_EBUSY, "rank %u is connected already", rank);
	if (h->refusal == RINGUP_EINVAL)
		return fail(e, RINGUP_EINVAL, "rank %u is not expected there", rank);
	return fail(e, h->refusal, "refused: %s", ringup_strerror(h->refusal));
}

static int server_hello(struct shake *h, struct err *e)
{
	unsigned char *mine = h->hello[OF_SERVER], *theirs = h->hello[OF_CLIENT];
	unsigned protocol;

	memcpy(theirs, h->in, SHAKE_HELLO);
	if (memcmp(theirs, magic, sizeof(magic)) || theirs[AT_ROLE] != SHAKE_CLIENT)
		return fail(e, RINGUP_EAUTH, "the peer does not speak ringup's protocol");
	read_hello(h, theirs);
	h->me.channel = h->peer.channel;
	make_hello(h, mine);
	send_out(h, mine, SHAKE_HELLO);
	protocol = pack_get16(theirs + AT_PROTOCOL);
	if (protocol != SHAKE_PROTOCOL) {
		h->refusal = RINGUP_EMISMATCH;
		want(h, OVER, 0);
		return SHAKE_MORE;
	}
	prove(h, 'S', (const unsigned char *)"", h->proof[BY_SERVER]);
	send_out(h, h->proof[BY_SERVER], SHAKE_PROOF);
	want(h, WANT_PROOF, SHAKE_PROOF);
	return SHAKE_MORE;
}

static int server_proof(struct shake *h, struct err *e)
{
	memcpy(h->proof[BY_CLIENT], h->in, SHAKE_PROOF);
	if (!is_proof(h, 'C', (const unsigned char *)"", h->proof[BY_CLIENT]))
		return fail_secret(e);
	want(h, WANT_JUDGE, 0);
	return SHAKE_PROVED;
}

void shake_answer(struct shake *h, int code)
{
	unsigned char verdict[SHAKE_VERDICT];

	h->refusal = code;
	verdict[0] = (unsigned char)(signed char)code;
	prove(h, 'V', verdict, verdict + 1);
	send_out(h, verdict, sizeof(verdict));
	want(h, OVER, 0);
	if (!code)
		make_keys(h);
}

static int client_hello(struct shake *h, struct err *e)
{
	unsigned char *mine = h->hello[OF_CLIENT], *theirs = h->hello[OF_SERVER];
	unsigned protocol;

	memcpy(theirs, h->in, SHAKE_HELLO);
	if (memcmp(theirs, magic, sizeof(magic)))
		return fail(e, RINGUP_EAUTH, "the peer does not speak ringup's protocol");
	read_hello(h, theirs);
	protocol = pack_get16(theirs + AT_PROTOCOL);
	if (protocol != SHAKE_PROTOCOL)
		return fail_protocol(h, protocol, e);
	/* Not a reflection of this side's own hello. */
	if (theirs[AT_ROLE] != SHAKE_SERVER ||
	    !memcmp(mine + AT_NONCE, theirs + AT_NONCE, NONCE_BYTES))
		return fail(e, RINGUP_EAUTH, "the peer only echoes messages");
	if (memcmp(mine + AT_JOB, theirs + AT_JOB, JOB_BYTES))
		return fail_secret(e);
	want(h, WANT_PROOF, SHAKE_PROOF);
	return SHAKE_MORE;
}

static int client_proof(struct shake *h, struct err *e)
{
	memcpy(h->proof[BY_SERVER], h->in, SHAKE_PROOF);
	if (!is_proof(h, 'S', (const unsigned char *)"", h->proof[BY_SERVER]))
		return fail_secret(e);
	if (h->peer.rank != h->expect || h->peer.channel != h->me.channel)
		return fail(e, RINGUP_EPEER, "rank %u's address now belongs to rank %u",
			    h->expect, h->peer.rank);
	/* A server of another version refuses only after this proof, so that both name it. */
	prove(h, 'C', (const unsigned char *)"", h->proof[BY_CLIENT]);
	send_out(h, h->proof[BY_CLIENT], SHAKE_PROOF);
	want(h, WANT_VERDICT, SHAKE_VERDICT);
	return SHAKE_MORE;
}

static int client_verdict(struct shake *h, struct err *e)
{
	int rc;

	if (!is_proof(h, 'V', h->in, h->in + 1))
		return fail_secret(e);
	h->refusal = (signed char)h->in[0];
	if (h->refusal > 0)
		return fail(e, RINGUP_EAUTH, "the peer does not speak ringup's protocol");
	if (h->refusal)
		return fail_refused(h, e);
	rc = shake_agree(h, e);
	if (rc)
		return rc;
	make_keys(h);
	want(h, OVER, 0);
	return SHAKE_DONE;
}

static int shake_settle(const struct shake *h, struct err *e)
{
	unsigned theirs = pack_get16(h->hello[OF_CLIENT] + AT_PROTOCOL);

	if (!h->refusal)
		return SHAKE_DONE;
	if (theirs != SHAKE_PROTOCOL)
		return fail_protocol(h, theirs, e);
	return fail_refused(h, e);
}

/* A whole message has arrived. */
static int advance(struct shake *h, struct err *e)
{
	bool client = h->role == SHAKE_CLIENT;

	switch ((enum state)h->state) {
	case WANT_HELLO:
		return client ? client_hello(h, e) : server_hello(h, e);
	case WANT_PROOF:
		return client ? client_proof(h, e) : server_proof(h, e);
	case WANT_VERDICT:
		return client_verdict(h, e);
	case WANT_JUDGE:
		return SHAKE_PROVED;
	case OVER:
		break;
	}
	return shake_settle(h, e);
}

/* A client sends its hello first, with the version that h->me has by then. */
static void shake_begin(struct shake *h)
{
	if (h->role != SHAKE_CLIENT || h->hello[OF_CLIENT][AT_ROLE])
		return;
	make_hello(h, h->hello[OF_CLIENT]);
	send_out(h, h->hello[OF_CLIENT], SHAKE_HELLO);
}

size_t shake_wants(const struct shake *h)
{
	return h->in_want - h->in_len;
}

int shake_take(struct shake *h, const void *data, size_t len, struct err *e)
{
	if (len > shake_wants(h))
		return fail(e, RINGUP_EINVAL, "too many bytes in the handshake");
	if (len)
		memcpy(h->in + h->in_len, data, len);
	h->in_len += len;
	return shake_wants(h) ? SHAKE_MORE : advance(h, e);
}

size_t shake_give(struct shake *h, void *out)
{
	size_t n;

	shake_begin(h);
	n = h->out_len - h->out_sent;
	memcpy(out, h->out + h->out_sent, n);
	h->out_len = h->out_sent = 0;
	return n;
}

/* 1 when all is sent, 0 when the socket takes no more. */
static int flush(struct shake *h, int fd, struct err *e)
{
	shake_begin(h);
	while (h->out_sent < h->out_len) {
		ssize_t n = send(fd, h->out + h->out_sent, h->out_len - h->out_sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return fail(e, RINGUP_EPEER, "handshake: %s", strerror(errno));
		h->out_sent += (size_t)n;
	}
	h->out_len = h->out_sent = 0;
	return 1;
}

int shake_step(struct shake *h, int fd, struct err *e)
{
	unsigned char data[SHAKE_HELLO];
	int rc;

	for (;;) {
		ssize_t n;

		rc = flush(h, fd, e);
		h->events = POLLOUT;
		if (rc <= 0)
			return rc ? rc : SHAKE_MORE;
		h->events = POLLIN;
		if (!shake_wants(h))
			return advance(h, e);
		n = recv(fd, data, shake_wants(h), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return SHAKE_MORE;
		if (n < 0)
			return fail(e, RINGUP_EPEER, "handshake: %s", strerror(errno));
		if (n == 0)
			return fail(e, RINGUP_EPEER,
				    "handshake: the other side closed the connection");
		rc = shake_take(h, data, (size_t)n, e);
		if (rc)
			return rc;
	}
}

void shake_wipe(struct shake *h)
{
	sodium_memzero(h, sizeof(*h));
}
