/* signkey.h - Ed25519 keys in openssl's file format, to sign small files and verify them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REBUILD_SIGNKEY_H
#define REBUILD_SIGNKEY_H

#include <stdbool.h>
#include <stddef.h>

struct err;

/*
 * The files are those of `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`, and a
 * signature equals that of `openssl pkeyutl -sign -rawin` with the same key: a node without
 * ringup verifies ringup's signatures with openssl.
 *
 * A key argument @from is a file (it holds a '/') or the base64 line between the BEGIN and the
 * END of one, which fits into a variable or a secret of a platform.
 */
enum { SIGNKEY_BYTES = 32, SIGNKEY_SIGNATURE_BYTES = 64, SIGNKEY_ID_BYTES = 65 };

struct signkey_public {
	unsigned char key[SIGNKEY_BYTES];
};

/* The private half, with its public one at the end; wipe it with signkey_wipe(). */
struct signkey_private {
	unsigned char key[2 * SIGNKEY_BYTES];
};

/* signkey_new - from the kernel's random numbers. */
int signkey_new(struct signkey_private *k, struct err *e);

/* signkey_read_private, signkey_read_public - RINGUP_ESYSTEM if the file cannot be read,
 * RINGUP_EINVAL if it holds anything but one Ed25519 key of that kind. */
int signkey_read_private(struct signkey_private *k, const char *from, struct err *e);
int signkey_read_public(struct signkey_public *k, const char *from, struct err *e);

/* signkey_public_of - the public half of @k. */
void signkey_public_of(const struct signkey_private *k, struct signkey_public *out);

/* signkey_write - both files of @k, the private one for its owner only; neither replaces
 * an existing file. */
int signkey_write(const struct signkey_private *k, const char *private_file,
		  const char *public_file, struct err *e);

/* signkey_line - the base64 line of the public file, into @out of SIGNKEY_ID_BYTES. */
void signkey_line(const struct signkey_public *k, char out[SIGNKEY_ID_BYTES]);

/* signkey_sign, signkey_verify - verify returns 0 if the signature is right, -1 if not. */
void signkey_sign(const struct signkey_private *k, const void *data, size_t len,
		  unsigned char out[SIGNKEY_SIGNATURE_BYTES]);
int signkey_verify(const struct signkey_public *k, const void *data, size_t len,
		   const unsigned char signature[SIGNKEY_SIGNATURE_BYTES]);

void signkey_wipe(struct signkey_private *k);

/* The key that signs, and the trusted ones. */
enum { SIGNKEY_MOST = 8 };

struct signkey_ring {
	struct signkey_private key; /* if can_sign */
	bool can_sign;
	struct signkey_public trust[SIGNKEY_MOST];
	int trusts;
};

/*
 * signkey_open_ring - read the private key @key, and the public ones in the list @trust.
 *
 * NULL or "": none.  @trust has white space or commas between,
 * and less than SIGNKEY_MOST different keys.  The public half of @key is trusted as well.
 * Returns 0, or RINGUP_EINVAL or RINGUP_ESYSTEM with the name of the wrong setting;
 * RINGUP_EINVAL if no key is given at all.
 */
int signkey_open_ring(struct signkey_ring *r, const char *key, const char *trust,
		      struct err *e);

/* signkey_close_ring - wipe the private key. */
void signkey_close_ring(struct signkey_ring *r);

#endif
