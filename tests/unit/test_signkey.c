/* test_signkey.c - keys and signatures as openssl has them, and nothing else is taken. */
#include "rebuild/signkey.h"

#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "ringup.h"
#include "tap.h"

/* `openssl genpkey -algorithm ed25519`, and what `openssl pkeyutl -sign -rawin` made
 * with it.
 */
static const char known_key[] =
	"MC4CAQAwBQYDK2VwBCIEIGiKkKU3WCIA+yFYVNOz5kkTacd46EIixzRa/sadZTnt";
static const char known_text[] = "sum and average";
static const char known_signature[] =
	"f2b18f9adad07128066262bd27eceffc90e636b377dce255ad91426d66625316"
	"a8600e378e97e53cc4934876a124be5c82ad54c8914fb512a72bc7d8f1ed3b00";
static const char key_of_x25519[] =
	"MC4CAQAwBQYDK2VuBCIEIFi5W+8fxNB3z2mlVuopGdBoAECxwmKLVyywFyMGWZxr";

static void write_text(const char *path, const char *text)
{
	if (file_write(NULL, path, 0600, text, strlen(text), NULL))
		abort();
}

static void test_openssl(void)
{
	unsigned char sig[SIGNKEY_SIGNATURE_BYTES];
	char hex[2 * SIGNKEY_SIGNATURE_BYTES + 1];
	struct signkey_public pub;
	struct signkey_private k;
	struct err e = { 0 };

	ok(!signkey_read_private(&k, known_key, &e), "a base64 line is a key: %s", e.text);
	signkey_sign(&k, known_text, strlen(known_text), sig);
	sodium_bin2hex(hex, sizeof(hex), sig, sizeof(sig));
	ok(!strcmp(hex, known_signature), "it signs as openssl does");
	signkey_public_of(&k, &pub);
	ok(!signkey_verify(&pub, known_text, strlen(known_text), sig), "which can be checked");
	ok(signkey_verify(&pub, known_text, strlen(known_text) - 1, sig), "another text");
	sig[40] ^= 1;
	ok(signkey_verify(&pub, known_text, strlen(known_text), sig), "another signature");
	signkey_wipe(&k);
	ok(sodium_is_zero(k.key, sizeof(k.key)), "wiped");
}

static void test_files(void)
{
	struct signkey_public pub, again;
	struct signkey_private k, l;
	char line[SIGNKEY_ID_BYTES];
	struct err e = { 0 };
	struct stat st;

	ok(!signkey_new(&k, &e) && !signkey_write(&k, "./key", "./pub", &e),
	   "a pair of files: %s", e.text);
	ok(!stat("key", &st) && (st.st_mode & 0777) == 0600, "the private one is private");
	ok(!signkey_read_private(&l, "./key", &e) && !memcmp(&k, &l, sizeof(k)),
	   "it is read back: %s", e.text);
	signkey_public_of(&k, &pub);
	ok(!signkey_read_public(&again, "./pub", &e) && !memcmp(&pub, &again, sizeof(pub)),
	   "and so is the public one: %s", e.text);
	signkey_line(&pub, line);
	memset(&again, 0, sizeof(again));
	ok(!signkey_read_public(&again, line, &e) && !memcmp(&pub, &again, sizeof(pub)),
	   "or its line alone: %s", e.text);
	ok(signkey_write(&l, "./key", "./pub2", &e) == RINGUP_EINVAL && access("pub2", F_OK),
	   "no key is replaced: %s", e.text);
	ok(signkey_write(&l, "./key2", "./pub", &e) == RINGUP_EINVAL && access("key2", F_OK),
	   "nor is half a pair left: %s", e.text);
	ok(signkey_write(&l, "./none/key", "./pub2", &e) == RINGUP_ESYSTEM, "no folder: %s",
	   e.text);
}

static void test_bad(void)
{
	struct signkey_private k;
	struct signkey_public pub;
	struct err e = { 0 };

	ok(signkey_read_private(&k, "./pub", &e) == RINGUP_EINVAL, "halves are told apart: %s",
	   e.text);
	ok(signkey_read_public(&pub, "./key", &e) == RINGUP_EINVAL, "both ways: %s", e.text);
	ok(signkey_read_private(&k, "./gone", &e) == RINGUP_ESYSTEM, "no file: %s", e.text);
	ok(signkey_read_private(&k, key_of_x25519, &e) == RINGUP_EINVAL, "not of Ed25519");
	ok(!strstr(e.text, "MC4C"), "what may be a key is not repeated: %s", e.text);
	ok(signkey_read_private(&k, "MC4CAQAwBQYDK2VwBCIEIGiKkKU3", &e) == RINGUP_EINVAL,
	   "cut off");
	ok(signkey_read_public(&pub, "", &e) == RINGUP_EINVAL, "empty");
	write_text("./open", "-----BEGIN PRIVATE KEY-----\nMC4CAQAw");
	ok(signkey_read_private(&k, "./open", &e) == RINGUP_EINVAL, "no end: %s", e.text);
	write_text("./other", "-----BEGIN PRIVATE KEY-----\nMIICdwIBADANBgkq\n"
			      "-----END PRIVATE KEY-----\n");
	ok(signkey_read_private(&k, "./other", &e) == RINGUP_EINVAL, "another kind: %s",
	   e.text);
	ok(!mkdir("dir", 0700) && signkey_read_private(&k, "./dir", &e) == RINGUP_EINVAL,
	   "a folder: %s", e.text);
}

int main(void)
{
	char top[] = "/tmp/test_signkey.XXXXXX";

	if (!mkdtemp(top) || chdir(top))
		return 1;
	test_openssl();
	test_files();
	test_bad();
	folder_remove(top, NULL);
	return tap_done();
}
