/* fuzz_elfinfo.c - any bytes as a shared library. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/elfinfo.h"
#include "detect/elflink.h"
#include "fuzz/fuzz.h"

static bool see(void *arg, const char *name)
{
	(void)arg;
	fuzz_require(!strpbrk(name, "\033\n"));
	return true;
}

/* What it wants and gives is printable, and asking for symbols ends. */
static void link_part(int fd)
{
	struct elflink *l;
	struct err e = { 0 };
	size_t i;

	if (elflink_open(fd, &l, &e)) {
		fuzz_require(*e.text);
		return;
	}
	for (i = 0; i < l->want_count; i++)
		fuzz_require(!strpbrk(l->wants[i].version, "\033\n"));
	elflink_undefined(l, see, NULL);
	elflink_defines(l, "_ZN3c105shoutERKSs");
	free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char *const spaces[] = { "3c10", "5torch", NULL };
	struct elfinfo info;
	struct err e = { 0 };
	int fd = memfd_create("fuzz", MFD_CLOEXEC), rc;

	fuzz_require(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	rc = elfinfo_read(fd, spaces, &info, &e);
	link_part(fd);
	close(fd);
	/* A refusal has its sentence; an answer is printable. */
	fuzz_require(rc <= 0 && !rc == !*e.text);
	fuzz_require(!strpbrk(info.compiler, "\033\n"));
	fuzz_require(info.needed_count <= ELFINFO_NEEDED);
	return 0;
}
