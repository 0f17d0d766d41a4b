/* torch.c - the description of PyTorch. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/framework.h"
#include "detect/text.h"

static const struct edition editions[] = {
	{ "torch", "torch" },       { "pytorch", "torch" },         { "pytorch-cpu", "torch" },
	{ "pytorch-gpu", "torch" }, { "pytorch-nightly", "torch" }, { NULL, NULL },
};

/* libc10 is small, built by one compiler, and full of std::string; libtorch_cpu contains
 * archives of several. */
static const char *const libs[] = { "lib/libc10.so", "lib/libtorch_cpu.so", "lib/libtorch.so",
				    NULL };
static const char *const spaces[] = { "3c10", "2at", "5torch", "5caffe2", NULL };

static const struct standard_since standards[] = {
	{ "2.1", 17 },
	{ "1.5", 14 },
	{ "0", 11 },
	{ NULL, 0 },
};

/* Its build writes torch/version.py. */
static const struct version_source versions[] = {
	{ "version.py", "__version__" },
	{ NULL, NULL },
};

static void torch_cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	frameworks_assigned(fs, p, "version.py", "cuda", out, CUDA_TEXT);
	if (!text_is_version(out))
		frameworks_cuda(p, out);
}

const struct framework framework_torch = {
	.name = "torch",
	.title = "PyTorch",
	.editions = editions,
	.libs = libs,
	.spaces = spaces,
	.standards = standards,
	.versions = versions,
	.version = frameworks_version,
	.cuda = torch_cuda,
};
