/* replay.c - run a fuzz target on its seeds, and on each of them with changes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "tap.h"

enum { MOST = 8192, CHANGES = 200 };

/* The input in memory of just its size, so that a sanitizer sees what is read behind it. */
static void run(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len);

	fuzz_require(copy);
	memcpy(copy, data, len);
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

/* Cut, then flip a bit or overwrite a byte: little, but on each machine and at
 * each `make check`, where no fuzzer is. */
static void run_changed(const uint8_t *seed, size_t len, unsigned number)
{
	uint8_t data[MOST];
	size_t n = len;

	memcpy(data, seed, len);
	srand(number);
	if (n && number % 3 == 0)
		n = (size_t)rand() % n;
	if (n && number % 2)
		data[(size_t)rand() % n] ^= (uint8_t)(1 << rand() % 8);
	else if (n)
		data[(size_t)rand() % n] = (uint8_t)rand();
	run(data, n);
}

static int replay(const char *dir, const char *name)
{
	uint8_t data[MOST];
	char path[4500];
	unsigned i;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f)
		return 0;
	n = fread(data, 1, sizeof(data), f);
	fclose(f);
	run(data, n);
	for (i = 0; i < CHANGES; i++)
		run_changed(data, n, i);
	return 1;
}

/* replay_chan replays the seeds in the folder chan. */
int main(int argc, char **argv)
{
	const char *src = getenv("srcdir"), *name = strrchr(argv[0], '_');
	char dir[4000];
	struct dirent *d;
	DIR *seeds;

	snprintf(dir, sizeof(dir), "%s/tests/fuzz/seeds/%s", src ? src : ".",
		 name ? name + 1 : "");
	if (argc > 1)
		snprintf(dir, sizeof(dir), "%s", argv[1]);
	seeds = opendir(dir);
	ok(seeds != NULL, "%s", dir);
	while (seeds && (d = readdir(seeds)))
		if (d->d_name[0] != '.')
			ok(replay(dir, d->d_name), "seed %s and %d changes of it", d->d_name,
			   CHANGES);
	ok(tap_count > 1, "there are seeds");
	if (seeds)
		closedir(seeds);
	return tap_done();
}
