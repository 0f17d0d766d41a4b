/* mxnet.c - the description of Apache MXNet. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/framework.h"

/* The CUDA version is part of the distribution's name. */
#define MX(name)              \
	{                     \
		name, "mxnet" \
	}
static const struct edition editions[] = {
	MX("mxnet"),         MX("mxnet-mkl"),      MX("mxnet-native"),   MX("mxnet-cu90"),
	MX("mxnet-cu92"),    MX("mxnet-cu100"),    MX("mxnet-cu101"),    MX("mxnet-cu102"),
	MX("mxnet-cu110"),   MX("mxnet-cu112"),    MX("mxnet-cu116"),    MX("mxnet-cu117"),
	MX("mxnet-cu92mkl"), MX("mxnet-cu100mkl"), MX("mxnet-cu101mkl"), { NULL, NULL },
};

static const char *const libs[] = { "libmxnet.so", NULL };
static const char *const spaces[] = { "5mxnet", "4dmlc", "4nnvm", "7mshadow", NULL };

/* Archived; the standard of its last headers has not been verified. */
static const struct standard_since standards[] = { { NULL, 0 } };
static const struct version_source versions[] = {
	{ "libinfo.py", "__version__" },
	{ NULL, NULL },
};

static void mxnet_cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	(void)fs;
	frameworks_cuda(p, out);
	if (!*out && p->dist)
		frameworks_dist_cuda(p->dist->name, out);
}

const struct framework framework_mxnet = {
	.name = "mxnet",
	.title = "MXNet",
	.editions = editions,
	.libs = libs,
	.spaces = spaces,
	.standards = standards,
	.versions = versions,
	.version = frameworks_version,
	.cuda = mxnet_cuda,
};
