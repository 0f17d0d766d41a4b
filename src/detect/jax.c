/* jax.c - the description of JAX and its binary half, jaxlib. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "detect/framework.h"
#include "detect/rootfs.h"

static const struct edition editions[] = {
	{ "jax", "jax" },
	{ "jaxlib", "jaxlib" },
	{ NULL, NULL },
};

/* The names changed over time. */
static const char *const libs[] = { "libjax_common.so", "xla_extension.so", "_jax.so", NULL };
static const char *const spaces[] = { "3xla", "3tsl", "3jax", NULL };

/* Its foreign functions are plain C; nothing is compiled against its C++. */
static const struct standard_since standards[] = { { NULL, 0 } };
static const struct version_source versions[] = {
	{ "version.py", "__version__" },
	{ "version.py", "_version" },
	{ NULL, NULL },
};

/* CUDA support is a plug-in package: jax_cuda12_plugin next to jaxlib. */
static void jax_cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	struct names n = rootfs_names(fs, p->site, "jax_cuda");

	frameworks_cuda(p, out);
	for (size_t i = 0; i < n.count && !*out; i++)
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
	.standards = standards,
	.versions = versions,
	.version = frameworks_version,
	.cuda = jax_cuda,
};
