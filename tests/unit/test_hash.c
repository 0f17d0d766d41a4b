/* test_hash.c - the published values of FNV-1a. */
#include "base/hash.h"
#include "tap.h"

int main(void)
{
	ok(hash_bytes("", 0) == 0xcbf29ce484222325u, "nothing");
	ok(hash_bytes("a", 1) == 0xaf63dc4c8601ec8cu, "a");
	ok(hash_bytes("foobar", 6) == 0x85944171f73967e8u, "foobar");
	ok(hash_bytes("\0a", 2) != hash_bytes("a", 1), "a NUL counts");
	return tap_done();
}
