/* test_secret.c - the job's key travels in a sealed file; HKDF matches RFC 5869. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/secret.h"

static size_t from_hex(const char *hex, unsigned char *out)
{
	size_t n = strlen(hex) / 2, i;
	unsigned v;

	for (i = 0; i < n; i++) {
		sscanf(hex + 2 * i, "%2x", &v);
		out[i] = (unsigned char)v;
	}
	return n;
}

static int hkdf_gives(const char *ikm, const char *salt, const char *info, const char *okm)
{
	unsigned char k[128], s[128], i[128], want[128], got[128];
	size_t kn = from_hex(ikm, k), sn = from_hex(salt, s), in = from_hex(info, i);
	size_t n = from_hex(okm, want);

	secret_hkdf(got, n, (struct secret_part){ k, kn }, (struct secret_part){ s, sn },
		    (struct secret_part[]){ { i, in }, { NULL, 0 } });
	return !memcmp(got, want, n);
}

static void test_hkdf(void)
{
	ok(hkdf_gives("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
		      "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
		      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
		      "34007208d5b887185865"),
	   "RFC 5869 test case 1");
	ok(hkdf_gives("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
		      "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
		      "404142434445464748494a4b4c4d4e4f",
		      "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f"
		      "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"
		      "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
		      "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecf"
		      "d0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeef"
		      "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
		      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
		      "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
		      "cc30c58179ec3e87c14c01d5c1f3434f1d87"),
	   "RFC 5869 test case 2");
	ok(hkdf_gives("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
		      "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
		      "9d201395faa4b61a96c8"),
	   "RFC 5869 test case 3");
}

/* Two children read the same open file; the offset they share must not matter. */
static void test_children(const struct secret *s, int fd)
{
	int i, status;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		pid = fork();
		if (pid == 0) {
			struct secret t = { 0 };

			_exit(secret_from_fd(&t, fd, NULL) || memcmp(&t, s, sizeof(t)));
		}
		ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
		   "child %d reads the secret", i);
	}
}

int main(void)
{
	struct secret s = { 0 }, t = { 0 };
	struct err e = { 0 };
	struct stat st;
	int fd, ends[2];
	FILE *f;

	ok(secret_check(&s, &e) == RINGUP_EINVAL, "no secret is refused: %s", e.text);
	ok(secret_new(&s, &e) == 0 && secret_check(&s, &e) == 0, "a secret is made");
	ok(secret_new(&t, &e) == 0 && memcmp(&s, &t, sizeof(s)), "the next one differs");

	fd = secret_to_fd(&s, &e);
	ok(fd >= 0, "it goes into a file: %s", e.text);
	ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "that is not inherited by accident");
	ok(fstat(fd, &st) == 0 && st.st_nlink == 0, "that has no name");
	ok(fcntl(fd, F_GET_SEALS) == (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
	   "that is sealed");
	ok(pwrite(fd, "x", 1, 0) < 0, "that cannot be changed");
	test_children(&s, fd);
	ok(secret_from_fd(&t, fd, &e) == 0 && !memcmp(&s, &t, sizeof(s)),
	   "and can be read again here");
	close(fd);

	ok(secret_from_fd(&t, fd, &e) == RINGUP_ESYSTEM, "a closed descriptor: %s", e.text);
	ok(pipe(ends) == 0 && secret_from_fd(&t, ends[0], &e) == RINGUP_EINVAL, "a pipe: %s",
	   e.text);
	close(ends[0]);
	close(ends[1]);
	f = tmpfile();
	ok(f && fputs("too short", f) > 0 && !fflush(f) &&
		   secret_from_fd(&t, fileno(f), &e) == RINGUP_EINVAL,
	   "a file of another size: %s", e.text);
	if (f)
		fclose(f);

	secret_wipe(&s);
	ok(secret_check(&s, &e) == RINGUP_EINVAL, "wiped is wiped");
	test_hkdf();
	return tap_done();
}
