/* secret.h - the key that all ranks of one job share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_SECRET_H
#define WIRE_SECRET_H

struct err;

enum { SECRET_BYTES = 32 };

/* Kept out of core dumps where that can be done; wipe it with secret_wipe(). */
struct secret {
	unsigned char key[SECRET_BYTES];
};

/* secret_new - from the kernel's random numbers. */
int secret_new(struct secret *s, struct err *e);

/* secret_to_fd - a sealed memfd that holds @s, for a child to inherit; each
 * child may read it from its start, since it is read by offset.  The caller
 * closes it.  Returns the descriptor or a negative code. */
int secret_to_fd(const struct secret *s, struct err *e);

/* secret_from_fd - read what secret_to_fd() made.  Leaves @fd open. */
int secret_from_fd(struct secret *s, int fd, struct err *e);

void secret_wipe(struct secret *s);

#endif
