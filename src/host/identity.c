/* identity.c - a hash that identifies this host, independent of its name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/identity.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static void identity_add_file(crypto_generichash_state *h, const char *path)
{
	char *text;
	size_t len;

	if (file_read("", path, 4096, &text, &len, NULL))
		return;
	crypto_generichash_update(h, (const unsigned char *)text, len);
	free(text);
}

static void add_namespace(crypto_generichash_state *h, const char *path)
{
	unsigned long long v[2] = { 0, 0 };
	struct stat st;

	if (!stat(path, &st)) {
		v[0] = st.st_dev;
		v[1] = st.st_ino;
	}
	crypto_generichash_update(h, (const unsigned char *)v, sizeof(v));
}

void identity_get(unsigned char out[IDENTITY_BYTES], const char *node)
{
	crypto_generichash_state h;
	uid_t uid = geteuid();

	crypto_generichash_init(&h, NULL, 0, IDENTITY_BYTES);
	identity_add_file(&h, "/etc/machine-id");
	identity_add_file(&h, "/proc/sys/kernel/random/boot_id");
	add_namespace(&h, "/proc/self/ns/pid");
	add_namespace(&h, "/proc/self/ns/net");
	add_namespace(&h, "/proc/self/ns/user");
	crypto_generichash_update(&h, (const unsigned char *)&uid, sizeof(uid));
	if (node && *node)
		crypto_generichash_update(&h, (const unsigned char *)node, strlen(node));
	crypto_generichash_final(&h, out, IDENTITY_BYTES);
}
