/* test_memory.c - shared memory under a limit for files: an error, and nobody is killed. */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"
#include "wire/memory.h"

static void limit(rlim_t bytes)
{
	struct rlimit r;

	getrlimit(RLIMIT_FSIZE, &r);
	r.rlim_cur = bytes;
	setrlimit(RLIMIT_FSIZE, &r);
}

int main(void)
{
	struct err e;
	struct stat st;
	int fd = memfd_create("test", MFD_CLOEXEC), code;
	char *p;

	/* A file may hold the results, so they are written without a limit. */
	signal(SIGXFSZ, SIG_DFL);
	ok(fd >= 0 && !memory_size(fd, 1 << 20, &e) && !fstat(fd, &st) && st.st_size == 1 << 20,
	   "a mebibyte");
	limit(4 << 20);
	ok(memory_size(fd, 5 << 20, &e) == RINGUP_ESYSTEM &&
		   strstr(e.text, "5120 KiB of memory to share: files are limited to 4096 KiB"),
	   "too much under the limit");
	ok(!memory_size(fd, 4 << 20, &e), "as much as it permits");
	close(fd);
	limit(0);
	code = memory_permit(1, "something", &e);
	limit(RLIM_INFINITY);
	ok(code == RINGUP_ESYSTEM &&
		   strstr(e.text, "1 KiB of something: files are limited to 0 KiB"),
	   "nothing permitted, not even a byte: %s", e.text);
	limit(0);
	code = memory_permit(0, "something", &e);
	limit(RLIM_INFINITY);
	ok(!code, "but none");
	/* ringup_alloc()'s arena is as large as may be. */
	limit(100 << 20);
	p = ringup_alloc(1 << 20);
	ok(p != NULL, "memory that others can reach, under a limit");
	if (p)
		memset(p, 1, 1 << 20);
	ringup_free(p);
	ok(!ringup_alloc(101 << 20), "not more than that");
	return tap_done();
}
