/* secret.h - the key that all ranks of one job share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SECRET_H
#define WIRE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum { SECRET_BYTES = 32 };

/* Kept out of core dumps where that can be done; wipe it with secret_wipe(). */
struct secret {
	unsigned char key[SECRET_BYTES];
};

/* secret_ready - prepare libsodium; secret_check() and the other functions do it, too. */
int secret_ready(struct err *e);

/* secret_new - from the kernel's random numbers. */
int secret_new(struct secret *s, struct err *e);

/* secret_to_fd - a sealed memfd that holds @s, for children to inherit; all may
 * read it, since secret_from_fd() reads by offset.  The caller closes it.
 * Returns the descriptor or a negative code. */
int secret_to_fd(const struct secret *s, struct err *e);

/* secret_is - is @fd a file of secret_to_fd()? */
bool secret_is(int fd);

/* secret_from_fd - read the secret from a file of secret_to_fd().  Leaves @fd open. */
int secret_from_fd(struct secret *s, int fd, struct err *e);

void secret_wipe(struct secret *s);

/* secret_check - refuse a secret of zeros, which was never set: a job always has one. */
int secret_check(const struct secret *s, struct err *e);

/* A piece of input; lists of them end with data == NULL. */
struct secret_part {
	const void *data;
	size_t len;
};

/* secret_mac - HMAC-SHA256 over @parts, one after the other, with a 32-byte key. */
void secret_mac(unsigned char out[32], const unsigned char key[32],
		const struct secret_part *parts);

/*
 * secret_hkdf - HKDF-SHA256 (RFC 5869): @out_len <= 8160 bytes from the input
 * key @ikm, for the purpose and with the public inputs that @info lists.
 */
void secret_hkdf(void *out, size_t out_len, struct secret_part ikm, struct secret_part salt,
		 const struct secret_part *info);

#endif
