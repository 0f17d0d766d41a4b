/* fuzz_elfinfo.c - any bytes as a shared library. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/elfinfo.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char *const spaces[] = { "3c10", "5torch", NULL };
	struct elfinfo info;
	struct err e = { 0 };
	int fd = memfd_create("fuzz", MFD_CLOEXEC), rc;

	fuzz_require(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	rc = elfinfo_read(fd, spaces, &info, &e);
	close(fd);
	/* A refusal has its sentence; an answer is printable. */
	fuzz_require(rc <= 0 && !rc == !*e.text);
	fuzz_require(!strpbrk(info.compiler, "\033\n"));
	fuzz_require(info.needed_count <= ELFINFO_NEEDED);
	return 0;
}
