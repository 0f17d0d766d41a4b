/* mxnet.c - Apache MXNet: where its evidence lies. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "detect/framework.h"
#include "detect/rootfs.h"
#include "detect/text.h"

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

/* Archived; which standard its last headers want has not been verified. */
static int standard(const struct package *p)
{
	(void)p;
	return 0;
}

static void version(struct rootfs *fs, const struct package *p, char *out, size_t cap)
{
	char path[PATH_MAX];
	char *data;
	size_t len;

	data = rootfs_join(path, p->location, "libinfo.py") ? rootfs_read(fs, path, 65536, &len)
							    : NULL;
	if (!data || !text_assigned(data, len, "__version__", out, cap))
		*out = 0;
	free(data);
}

static void cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
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
	.standard = standard,
	.version = version,
	.cuda = cuda,
};
