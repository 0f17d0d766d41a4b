/* jax.c - JAX and its binary half, jaxlib: where their evidence lies. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/framework.h"
#include "detect/rootfs.h"
#include "detect/text.h"

static const struct edition editions[] = {
	{ "jax", "jax" },
	{ "jaxlib", "jaxlib" },
	{ NULL, NULL },
};

/* Names changed over time. */
static const char *const libs[] = { "libjax_common.so", "xla_extension.so", "_jax.so", NULL };
static const char *const spaces[] = { "3xla", "3tsl", "3jax", NULL };

/* Its foreign functions are plain C; nothing is compiled against its C++. */
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

	data = rootfs_join(path, p->location, "version.py") ? rootfs_read(fs, path, 65536, &len)
							    : NULL;
	if (!data || (!text_assigned(data, len, "__version__", out, cap) &&
		      !text_assigned(data, len, "_version", out, cap)))
		*out = 0;
	free(data);
}

/* CUDA comes as a plug-in package: jax_cuda12_plugin next to jaxlib. */
static void cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	struct names n = rootfs_names(fs, p->site, "jax_cuda");
	size_t i;

	frameworks_cuda(p, out);
	for (i = 0; i < n.count && !*out; i++)
		if (strstr(n.at[i], "_plugin"))
			frameworks_dist_cuda(n.at[i], out);
	rootfs_names_free(&n);
}

const struct framework framework_jax = {
	.name = "jax",
	.title = "JAX",
	.editions = editions,
	.libs = libs,
	.spaces = spaces,
	.standard = standard,
	.version = version,
	.cuda = cuda,
};
