/* keras.c - the description of Keras: pure Python, so only the version matters. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/framework.h"

/* keras 3 and tf_keras (the continued Keras 2) can coexist. */
static const struct edition editions[] = {
	{ "keras", "keras" },
	{ "keras-nightly", "keras" },
	{ "tf-keras", "tf_keras" },
	{ "tf-keras-nightly", "tf_keras" },
	{ NULL, NULL },
};

static const char *const nothing[] = { NULL };

static const struct standard_since standards[] = { { NULL, 0 } };
static const struct version_source versions[] = {
	{ "src/version.py", "__version__" },
	{ "__init__.py", "__version__" },
	{ NULL, NULL },
};

static void keras_cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
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
	.standards = standards,
	.versions = versions,
	.version = frameworks_version,
	.cuda = keras_cuda,
};
