/* fuzz_timeline.c - any bytes as timelines to be merged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/fuzz.h"
#include "trace/merge.h"

enum { FILES = 2 };

/* A file that has no name but this. */
static int make_file(char *path, size_t size, const void *data, size_t len)
{
	int fd = memfd_create("timeline", MFD_CLOEXEC);

	fuzz_require(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	snprintf(path, size, "/proc/self/fd/%d", fd);
	return fd;
}

/* What has been merged is a timeline. */
static void check_merged(const char *text, size_t len)
{
	json_t *j = json_loadb(text, len, 0, NULL);

	fuzz_require(json_is_array(j));
	json_decref(j);
}

/* Two files: the first half and the second, or the same twice. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *second = memchr(data, 0, len);
	size_t first = second ? (size_t)(second - data) : len;
	char path[FILES][32], *text = NULL;
	const char *const paths[FILES] = { path[0], path[1] };
	struct err e = { 0 };
	struct merge m;
	size_t size = 0;
	int fd[FILES], k;
	FILE *f;

	fd[0] = make_file(path[0], sizeof(path[0]), data, first);
	fd[1] = make_file(path[1], sizeof(path[1]), second ? second + 1 : data,
			  second ? len - first - 1 : 0);
	for (k = 1; k <= FILES; k++) {
		if (!merge_read(&m, paths, k, &e)) {
			f = open_memstream(&text, &size);
			fuzz_require(f && !merge_print(&m, f, &e));
			fclose(f);
			check_merged(text, size);
			free(text);
		} else {
			fuzz_require(e.code && *e.text);
		}
		merge_free(&m);
	}
	close(fd[0]);
	close(fd[1]);
	return 0;
}
