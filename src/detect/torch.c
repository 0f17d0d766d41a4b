/* torch.c - PyTorch: where its evidence lies. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/release.h"
#include "detect/framework.h"
#include "detect/rootfs.h"
#include "detect/text.h"

static const struct edition editions[] = {
	{ "torch", "torch" },       { "pytorch", "torch" },         { "pytorch-cpu", "torch" },
	{ "pytorch-gpu", "torch" }, { "pytorch-nightly", "torch" }, { NULL, NULL },
};

/* libc10 is small, built by one compiler, and full of std::string; libtorch_cpu
 * holds archives of several. */
static const char *const libs[] = { "lib/libc10.so", "lib/libtorch_cpu.so", "lib/libtorch.so",
				    NULL };
static const char *const spaces[] = { "3c10", "2at", "5torch", "5caffe2", NULL };

static int standard(const struct package *p)
{
	if (release_compare(p->version, "2.1") >= 0)
		return 17;
	return release_compare(p->version, "1.5") >= 0 ? 14 : *p->version ? 11 : 0;
}

/* torch/version.py is written by its build. */
static void from_version_py(struct rootfs *fs, const struct package *p, const char *name,
			    char *out, size_t cap)
{
	char path[PATH_MAX];
	char *data;
	size_t len;

	data = rootfs_join(path, p->location, "version.py") ? rootfs_read(fs, path, 65536, &len)
							    : NULL;
	if (!data || !text_assigned(data, len, name, out, cap) || !text_is_version(out))
		*out = 0;
	free(data);
}

static void version(struct rootfs *fs, const struct package *p, char *out, size_t cap)
{
	from_version_py(fs, p, "__version__", out, cap);
}

static void cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	from_version_py(fs, p, "cuda", out, CUDA_TEXT);
	if (!*out)
		frameworks_cuda(p, out);
}

const struct framework framework_torch = {
	.name = "torch",
	.title = "PyTorch",
	.editions = editions,
	.libs = libs,
	.spaces = spaces,
	.standard = standard,
	.version = version,
	.cuda = cuda,
};
