/* signkey.c - Ed25519 keys in openssl's file format, to sign small files and verify them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/signkey.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "ringup.h"
#include "wire/secret.h"

/* RFC 8410: the constant bytes before the 32 bytes of a key. */
static const unsigned char private_head[] = { 0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
					      0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20 };
static const unsigned char public_head[] = { 0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
					     0x2b, 0x65, 0x70, 0x03, 0x21, 0x00 };

struct form {
	const char *label; /* as in -----BEGIN label----- */
	const unsigned char *head;
	size_t head_len;
};
static const struct form form_private = { "PRIVATE KEY", private_head, sizeof(private_head) };
static const struct form form_public = { "PUBLIC KEY", public_head, sizeof(public_head) };

enum { LARGEST_FILE = 4096, LARGEST_DER = 64 };

/* The text between the lines BEGIN and END of @text, or NULL. */
static const char *body(const char *text, const char *label, size_t *len)
{
	char mark[64];
	const char *from, *to;

	snprintf(mark, sizeof(mark), "-----BEGIN %s-----", label);
	from = strstr(text, mark);
	if (!from)
		return NULL;
	from += strlen(mark);
	snprintf(mark, sizeof(mark), "-----END %s-----", label);
	to = strstr(from, mark);
	if (!to)
		return NULL;
	*len = (size_t)(to - from);
	return from;
}

/* Decodes the key of a base64 line, which may be broken; -1 if it is not of this form. */
static int decode(const struct form *f, const char *line, size_t len,
		  unsigned char out[SIGNKEY_BYTES])
{
	unsigned char der[LARGEST_DER];
	size_t n;
	int rc = -1;

	if (!sodium_base642bin(der, sizeof(der), line, len, " \r\n\t", &n, NULL,
			       sodium_base64_VARIANT_ORIGINAL) &&
	    n == f->head_len + SIGNKEY_BYTES && !memcmp(der, f->head, f->head_len)) {
		memcpy(out, der + f->head_len, SIGNKEY_BYTES);
		rc = 0;
	}
	sodium_memzero(der, sizeof(der));
	return rc;
}

static int read_file(const struct form *f, const char *from, unsigned char out[SIGNKEY_BYTES],
		     struct err *e)
{
	const char *line;
	size_t len, line_len;
	char *text;
	int rc = file_read(NULL, from, LARGEST_FILE, &text, &len, e);

	if (rc)
		return fail_in(e, "key");
	line = body(text, f->label, &line_len);
	if (!line || decode(f, line, line_len, out))
		rc = fail(e, RINGUP_EINVAL,
			  "%s contains no Ed25519 %s; `ringup cache keygen` creates a pair",
			  from, f == &form_private ? "private key" : "public key");
	sodium_memzero(text, len);
	free(text);
	return rc;
}

/* A value that is no file is never repeated in a message: it may be the key itself. */
static int read_key(const struct form *f, const char *from, unsigned char out[SIGNKEY_BYTES],
		    struct err *e)
{
	int rc = secret_ready(e);

	if (rc)
		return rc;
	/* '/' is a digit of base64 as well, but no key begins with it. */
	if (*from == '/' || *from == '.')
		return read_file(f, from, out, e);
	if (!decode(f, from, strlen(from), out))
		return 0;
	if (file_exists(NULL, from) && strchr(from, '/'))
		return read_file(f, from, out, e);
	return fail(e, RINGUP_EINVAL,
		    "%s is neither a file, whose name must begin with / or ., nor the base64 "
		    "line of a key",
		    f == &form_private ? "the private key" : "the public key");
}

int signkey_new(struct signkey_private *k, struct err *e)
{
	unsigned char pub[SIGNKEY_BYTES];
	int rc = secret_ready(e);

	if (!rc)
		crypto_sign_keypair(pub, k->key);
	return rc;
}

int signkey_read_private(struct signkey_private *k, const char *from, struct err *e)
{
	unsigned char seed[SIGNKEY_BYTES], pub[SIGNKEY_BYTES];
	int rc = read_key(&form_private, from, seed, e);

	if (!rc)
		crypto_sign_seed_keypair(pub, k->key, seed);
	sodium_memzero(seed, sizeof(seed));
	return rc;
}

int signkey_read_public(struct signkey_public *k, const char *from, struct err *e)
{
	return read_key(&form_public, from, k->key, e);
}

void signkey_public_of(const struct signkey_private *k, struct signkey_public *out)
{
	memcpy(out->key, k->key + SIGNKEY_BYTES, SIGNKEY_BYTES);
}

/* Writes BEGIN, the base64 line, END. */
static int write_file(const struct form *f, const unsigned char key[SIGNKEY_BYTES],
		      const char *path, mode_t mode, struct err *e)
{
	unsigned char der[LARGEST_DER];
	char line[LARGEST_DER * 2], text[LARGEST_DER * 4];
	int fd, rc = 0, n;

	memcpy(der, f->head, f->head_len);
	memcpy(der + f->head_len, key, SIGNKEY_BYTES);
	sodium_bin2base64(line, sizeof(line), der, f->head_len + SIGNKEY_BYTES,
			  sodium_base64_VARIANT_ORIGINAL);
	n = snprintf(text, sizeof(text), "-----BEGIN %s-----\n%s\n-----END %s-----\n", f->label,
		     line, f->label);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0 && errno == EEXIST)
		rc = fail(e, RINGUP_EINVAL, "%s already exists; keys are never replaced", path);
	else if (fd < 0)
		rc = fail_os(e, "%s", path);
	else if (file_put(fd, text, (size_t)n) || fsync(fd))
		rc = fail_os(e, "%s", path);
	if (fd >= 0 && close(fd) && !rc)
		rc = fail_os(e, "%s", path);
	if (fd >= 0 && rc)
		unlink(path);
	sodium_memzero(der, sizeof(der));
	sodium_memzero(line, sizeof(line));
	sodium_memzero(text, sizeof(text));
	return rc;
}

int signkey_write(const struct signkey_private *k, const char *private_file,
		  const char *public_file, struct err *e)
{
	unsigned char seed[SIGNKEY_BYTES];
	int rc;

	if (file_exists(NULL, public_file))
		return fail(e, RINGUP_EINVAL, "%s already exists; keys are never replaced",
			    public_file);
	crypto_sign_ed25519_sk_to_seed(seed, k->key);
	rc = write_file(&form_private, seed, private_file, 0600, e);
	sodium_memzero(seed, sizeof(seed));
	if (rc)
		return rc;
	rc = write_file(&form_public, k->key + SIGNKEY_BYTES, public_file, 0644, e);
	if (rc)
		unlink(private_file);
	return rc;
}

void signkey_line(const struct signkey_public *k, char out[SIGNKEY_ID_BYTES])
{
	unsigned char der[sizeof(public_head) + SIGNKEY_BYTES];

	memcpy(der, public_head, sizeof(public_head));
	memcpy(der + sizeof(public_head), k->key, SIGNKEY_BYTES);
	sodium_bin2base64(out, SIGNKEY_ID_BYTES, der, sizeof(der),
			  sodium_base64_VARIANT_ORIGINAL);
}

void signkey_sign(const struct signkey_private *k, const void *data, size_t len,
		  unsigned char out[SIGNKEY_SIGNATURE_BYTES])
{
	crypto_sign_detached(out, NULL, data, len, k->key);
}

int signkey_verify(const struct signkey_public *k, const void *data, size_t len,
		   const unsigned char signature[SIGNKEY_SIGNATURE_BYTES])
{
	return crypto_sign_verify_detached(signature, data, len, k->key);
}

void signkey_wipe(struct signkey_private *k)
{
	sodium_memzero(k, sizeof(*k));
}
