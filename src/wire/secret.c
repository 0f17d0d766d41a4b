/* secret.c - the job's key: made, handed to children, derived from, wiped. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "wire/memory.h"

int secret_ready(struct err *e)
{
	return sodium_init() < 0
		       ? fail(e, RINGUP_ESYSTEM, "libsodium has no source of random numbers")
		       : 0;
}

int secret_new(struct secret *s, struct err *e)
{
	int rc = secret_ready(e);

	if (!rc)
		randombytes_buf(s->key, sizeof(s->key));
	return rc;
}

/* A file of this size is written in one go or not at all. */
static int fill_and_seal(int fd, const struct secret *s)
{
	ssize_t n = pwrite(fd, s->key, sizeof(s->key), 0);

	if (n != (ssize_t)sizeof(s->key)) {
		if (n >= 0)
			errno = ENOSPC;
		return -1;
	}
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

int secret_to_fd(const struct secret *s, struct err *e)
{
	int rc = memory_permit(sizeof(s->key), "memory for the job's secret", e), fd;

	if (rc)
		return rc;
	fd = memfd_create("ringup-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return fail_os(e, "memory file for the job's secret");
	if (fill_and_seal(fd, s)) {
		fail_os(e, "memory file for the job's secret");
		close(fd);
		return RINGUP_ESYSTEM;
	}
	return fd;
}

bool secret_is(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size == SECRET_BYTES &&
	       fcntl(fd, F_GET_SEALS) > 0;
}

int secret_from_fd(struct secret *s, int fd, struct err *e)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return fail_os(e, "job's secret, descriptor %d", fd);
	if (!S_ISREG(st.st_mode) || st.st_size != SECRET_BYTES)
		return fail(
			e, RINGUP_EINVAL,
			"job's secret, descriptor %d: not a file of %d bytes; it must be the "
			"one that the launcher left open",
			fd, SECRET_BYTES);
	do
		n = pread(fd, s->key, sizeof(s->key), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fail_os(e, "job's secret, descriptor %d", fd);
	if (n != SECRET_BYTES) {
		secret_wipe(s);
		return fail(e, RINGUP_EINVAL, "job's secret, descriptor %d: cut short", fd);
	}
	return secret_check(s, e);
}

void secret_wipe(struct secret *s)
{
	sodium_memzero(s, sizeof(*s));
}

int secret_check(const struct secret *s, struct err *e)
{
	if (!sodium_is_zero(s->key, sizeof(s->key)))
		return secret_ready(e);
	return fail(e, RINGUP_EINVAL, "the job has no secret");
}

void secret_mac(unsigned char out[32], const unsigned char key[32],
		const struct secret_part *parts)
{
	crypto_auth_hmacsha256_state h;

	crypto_auth_hmacsha256_init(&h, key, 32);
	for (; parts->data; parts++)
		crypto_auth_hmacsha256_update(&h, parts->data, parts->len);
	crypto_auth_hmacsha256_final(&h, out);
	sodium_memzero(&h, sizeof(h));
}

void secret_hkdf(void *out, size_t out_len, struct secret_part ikm, struct secret_part salt,
		 const struct secret_part *info)
{
	unsigned char prk[32], block[32], *to = out;
	crypto_auth_hmacsha256_state h;
	const struct secret_part *p;
	unsigned char count = 1;
	size_t n;

	crypto_auth_hmacsha256_init(&h, salt.data, salt.len);
	crypto_auth_hmacsha256_update(&h, ikm.data, ikm.len);
	crypto_auth_hmacsha256_final(&h, prk);
	for (; out_len; out_len -= n, to += n, count++) {
		crypto_auth_hmacsha256_init(&h, prk, sizeof(prk));
		if (count > 1)
			crypto_auth_hmacsha256_update(&h, block, sizeof(block));
		for (p = info; p->data; p++)
			crypto_auth_hmacsha256_update(&h, p->data, p->len);
		crypto_auth_hmacsha256_update(&h, &count, 1);
		crypto_auth_hmacsha256_final(&h, block);
		n = out_len < sizeof(block) ? out_len : sizeof(block);
		memcpy(to, block, n);
	}
	sodium_memzero(&h, sizeof(h));
	sodium_memzero(prk, sizeof(prk));
	sodium_memzero(block, sizeof(block));
}
