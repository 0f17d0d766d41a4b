/* test_ldcache.c - the loader's cache, in both of its forms, whole and damaged. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "detect/ldcache.h"
#include "tap.h"

#if defined(__aarch64__)
enum { FLAGS = 0x0a03 };
#else
enum { FLAGS = 0x0303 };
#endif

struct entry {
	int32_t flags;
	uint32_t name, path, version;
	uint64_t hwcap;
};

struct cache {
	char magic[20];
	uint32_t count, texts, unused[5];
	struct entry at[3];
	char text[128];
};

/* libx.so of another kind of machine, then of this one, then liby.so. */
static void cache_make(struct cache *c)
{
	static const char text[] =
		"libx.so\0/other/libx.so\0/here/libx.so\0liby.so\0/here/liby.so";
	uint32_t base = (uint32_t)((char *)c->text - (char *)c);

	memset(c, 0, sizeof(*c));
	memcpy(c->magic, "glibc-ld.so.cache1.1", 20);
	c->count = 3;
	c->texts = sizeof(c->text);
	memcpy(c->text, text, sizeof(text));
	c->at[0] = (struct entry){ .flags = 0x0800, .name = base, .path = base + 8 };
	c->at[1] = (struct entry){ .flags = FLAGS, .name = base, .path = base + 23 };
	c->at[2] = (struct entry){ .flags = FLAGS, .name = base + 37, .path = base + 45 };
}

static bool finds(const void *data, size_t len, const char *name, const char *path)
{
	const char *found = ldcache_find(data, len, name);

	return path ? found && !strcmp(found, path) : !found;
}

static void test_older(const struct cache *c)
{
	struct {
		char magic[12];
		uint32_t count;
		char entries[3 * 12];
		char gap[4];
		struct cache new;
	} both = { .magic = "ld.so-1.7.0", .count = 3, .new = *c };

	ok(finds(&both, sizeof(both), "libx.so", "/here/libx.so"), "behind the older form");
	both.count = UINT32_MAX;
	ok(finds(&both, sizeof(both), "libx.so", NULL), "whose number is nonsense");
}

/* Every length, each in memory of exactly that size, for the sanitizers to watch. */
static void test_cut(const struct cache *c)
{
	bool wrong = false;
	size_t len;

	for (len = 0; len < sizeof(*c); len++) {
		char *copy = malloc(len ? len : 1);
		const char *found;

		memcpy(copy, c, len);
		found = ldcache_find(copy, len, "liby.so");
		wrong |= found && (found < copy || found >= copy + len);
		free(copy);
	}
	ok(!wrong, "cut anywhere");
}

int main(void)
{
	struct cache c;

	cache_make(&c);
	ok(finds(&c, sizeof(c), "libx.so", "/here/libx.so"), "of this kind of machine");
	ok(finds(&c, sizeof(c), "liby.so", "/here/liby.so"), "another");
	ok(finds(&c, sizeof(c), "libz.so", NULL), "none");
	ok(finds(&c, sizeof(c), "lib", NULL), "a name is whole");
	test_older(&c);
	test_cut(&c);
	c.at[1].path = UINT32_MAX;
	ok(finds(&c, sizeof(c), "libx.so", NULL), "a path outside the file");
	c.count = UINT32_MAX;
	ok(finds(&c, sizeof(c), "liby.so", NULL), "a number that is nonsense");
	return tap_done();
}
