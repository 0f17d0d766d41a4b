/* keras.c - Keras: Python alone, so all there is to know is which one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "detect/framework.h"
#include "detect/rootfs.h"
#include "detect/text.h"

/* keras 3 and tf_keras (Keras 2, carried on) live side by side. */
static const struct edition editions[] = {
	{ "keras", "keras" },
	{ "keras-nightly", "keras" },
	{ "tf-keras", "tf_keras" },
	{ "tf-keras-nightly", "tf_keras" },
	{ NULL, NULL },
};

static const char *const nothing[] = { NULL };

static int standard(const struct package *p)
{
	(void)p;
	return 0;
}

static void version(struct rootfs *fs, const struct package *p, char *out, size_t cap)
{
	static const char *const files[] = { "src/version.py", "__init__.py" };
	char path[PATH_MAX];
	char *data;
	size_t len, i;

	*out = 0;
	for (i = 0; i < 2 && !*out; i++) {
		data = rootfs_join(path, p->location, files[i])
			       ? rootfs_read(fs, path, 1 << 20, &len)
			       : NULL;
		if (data && !text_assigned(data, len, "__version__", out, cap))
			*out = 0;
		free(data);
	}
}

static void cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	(void)fs;
	(void)p;
	*out = 0;
}

const struct framework framework_keras = {
	.name = "keras",
	.title = "Keras",
	.editions = editions,
	.libs = nothing,
	.spaces = nothing,
	.standard = standard,
	.version = version,
	.cuda = cuda,
};
