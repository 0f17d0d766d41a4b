/* ldcache.c - the loader's list of libraries, /etc/ld.so.cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/ldcache.h"

#include <stdint.h>
#include <string.h>

/* The form that glibc's ldconfig writes since 2.2, alone or after the older one: a head, an
 * entry for each library with offsets of its name and path from the head, texts. */
static const char magic[] = "glibc-ld.so.cache1.1";
static const char older[] = "ld.so-1.7.0";

struct cache_head {
	char magic[20];
	uint32_t count, texts;
	uint32_t unused[5];
};

struct cache_entry {
	int32_t flags;
	uint32_t name, path, version;
	uint64_t hwcap;
};

struct older_head {
	char magic[12];
	uint32_t count;
};

enum { OLDER_ENTRY = 12 };

/* The flags of libraries for this kind of machine: ELF of glibc 2, 64 bits. */
#if defined(__x86_64__)
enum { CACHE_FLAGS = 0x0303 };
#elif defined(__aarch64__)
enum { CACHE_FLAGS = 0x0a03 };
#else
enum { CACHE_FLAGS = 0x0003 };
#endif

/* The offset of the newer head, or @len. */
static size_t cache_head_at(const char *data, size_t len)
{
	struct older_head h;
	size_t at;

	if (len >= sizeof(magic) - 1 && !memcmp(data, magic, sizeof(magic) - 1))
		return 0;
	if (len < sizeof(h) || memcmp(data, older, sizeof(older) - 1))
		return len;
	memcpy(&h, data, sizeof(h));
	if (h.count > len / OLDER_ENTRY)
		return len;
	at = sizeof(h) + (size_t)h.count * OLDER_ENTRY;
	at = (at + 7) & ~(size_t)7;
	return at <= len && len - at >= sizeof(magic) - 1 &&
			       !memcmp(data + at, magic, sizeof(magic) - 1)
		       ? at
		       : len;
}

/* A text that ends within the file, or NULL. */
static const char *cache_text(const char *data, size_t len, uint32_t at)
{
	return at < len && memchr(data + at, 0, len - at) ? data + at : NULL;
}

const char *ldcache_find(const void *data, size_t len, const char *name)
{
	size_t at = cache_head_at(data, len), i;
	const char *base = (const char *)data + at, *text;
	struct cache_entry x;
	struct cache_head h;

	len -= at;
	if (len < sizeof(h))
		return NULL;
	memcpy(&h, base, sizeof(h));
	if (h.count > (len - sizeof(h)) / sizeof(x))
		return NULL;
	for (i = 0; i < h.count; i++) {
		memcpy(&x, base + sizeof(h) + i * sizeof(x), sizeof(x));
		text = x.flags == CACHE_FLAGS ? cache_text(base, len, x.name) : NULL;
		if (text && !strcmp(text, name))
			return cache_text(base, len, x.path);
	}
	return NULL;
}
