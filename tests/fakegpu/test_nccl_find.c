/* test_nccl_find.c - which NCCL a process uses: its own, its framework's, the loader's. */
/* tests: src/backend/nccl_lib.c tests/fakegpu */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/gpu_ranks.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/nccl_lib.h"

static char fakes[PATH_MAX], node[] = "/tmp/ringup-nccl-find-XXXXXX";

static const char *path_of(const char *folder, const char *name)
{
	static char path[32][PATH_MAX * 2];
	static int next;
	char *at = path[next++ % 32];

	snprintf(at, sizeof(path[0]), "%s/%s", folder, name);
	return at;
}

static void copy(const char *from, const char *to)
{
	char command[PATH_MAX * 5];

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\" && cp '%s' '%s'", to,
		 from, to);
	if (system(command))
		gpu_die("cannot copy a fake", 0);
}

/* The version that a process finds once it has loaded @loaded; 0: none. */
static int found(const char *loaded, const char *wanted)
{
	int status = 0, ends[2], number = 0;
	pid_t child = -1;

	if (pipe(ends) || (child = fork()) < 0)
		gpu_die("no process", 0);
	if (!child) {
		const struct nccl_lib *lib = NULL;
		struct err e = { 0 };

		if (!loaded || dlopen(loaded, RTLD_NOW))
			lib = nccl_lib_get(wanted, &e);
		else
			printf("# %s\n", dlerror());
		number = lib ? lib->number : 0;
		if (!lib)
			printf("# %s\n", e.text);
		fflush(stdout);
		_exit(write(ends[1], &number, sizeof(number)) != sizeof(number));
	}
	close(ends[1]);
	if (read(ends[0], &number, sizeof(number)) != sizeof(number))
		number = -1;
	close(ends[0]);
	(void)waitpid(child, &status, 0);
	return status ? -1 : number;
}

int main(int argc, char **argv)
{
	static const char wheel[] = "lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";
	static const char part[] = "lib/python3.11/site-packages/jaxlib/libjax.so";
	static const char torch[] = "lib/python3.11/site-packages/torch/lib/libtorch_cuda.so";
	static const char other[] = "opt/jaxlib/libjax.so";
	char command[PATH_MAX], *end;
	const char *mapped;

	(void)argc;
	setenv("GPU_RANKS_NCCL", "2.30.7", 1);
	gpu_main(argv);
	snprintf(fakes, sizeof(fakes), "%s", getenv("LD_LIBRARY_PATH"));
	end = strstr(fakes, "/cuda:");
	if (!end || !mkdtemp(node))
		gpu_die("where are the fakes?", 0);
	*end = 0;
	mapped = path_of(fakes, "nccl-2.18.3/libnccl.so.2");
	copy(path_of(fakes, "nccl-2.27.7/libnccl.so.2"), path_of(node, wheel));
	copy(path_of(fakes, "cuda/libcuda.so.1"), path_of(node, part));
	copy(path_of(fakes, "cuda/libcuda.so.1"), path_of(node, other));
	ok(found(NULL, "") == 23007, "the loader's, if no framework is there");
	ok(found(path_of(node, other), "") == 23007, "also beside a library outside a Python");
	ok(found(path_of(node, part), "") == 22707, "the wheel's beside a framework");
	ok(found(mapped, "") == 21803, "the one that is loaded already");
	ok(found(path_of(node, part), mapped) == 21803, "the one that is told");
	ok(found(NULL, path_of(node, "none")) == 0, "the one that is told or none");
	unlink(path_of(node, wheel));
	ok(found(path_of(node, part), "") == 23007,
	   "the loader's beside a framework without it");
	copy(path_of(fakes, "nccl-2.29.7/libnccl.so.2"), path_of(node, "lib/libnccl.so.2"));
	ok(found(path_of(node, part), "") == 22907, "conda's beside a framework");
	copy(mapped, path_of(node, torch));
	ok(found(path_of(node, torch), "") == 21803, "torch's own, if it is linked with it");
	snprintf(command, sizeof(command), "rm -r '%s'", node);
	ok(!system(command), "nothing is left");
	return tap_done();
}
