/* tensorflow.c - the description of TensorFlow. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "detect/framework.h"
#include "detect/text.h"

#define TF(name)                   \
	{                          \
		name, "tensorflow" \
	}
static const struct edition editions[] = {
	TF("tensorflow"),         TF("tensorflow-cpu"),
	TF("tensorflow-gpu"),     TF("tensorflow-rocm"),
	TF("tensorflow-aarch64"), TF("tensorflow-cpu-aws"),
	TF("tensorflow-intel"),   TF("tensorflow-base"), /* conda's */
	TF("intel-tensorflow"),   TF("intel-tensorflow-avx512"),
	TF("tf-nightly"),         TF("tf-nightly-cpu"),
	TF("tf-nightly-gpu"),     TF("tf-nightly-intel"),
	TF("tensorflow-macos"),   { NULL, NULL },
};

static const char *const libs[] = { "libtensorflow_framework.so.2",
				    "libtensorflow_framework.so.1",
				    "libtensorflow_framework.so", "libtensorflow_cc.so.2",
				    NULL };
static const char *const spaces[] = { "10tensorflow", "3tsl", "3xla", NULL };

static const struct standard_since standards[] = {
	{ "2.10", 17 },
	{ "1.15", 14 },
	{ "0", 11 },
	{ NULL, 0 },
};

/* The generated __init__.py lacks the version, a hand-written one may have it. */
static const struct version_source versions[] = {
	{ "__init__.py", "__version__" },
	{ NULL, NULL },
};

/* A copy of the run-time parts alone has no header. */
static void tensorflow_version(struct rootfs *fs, const struct package *p, char *out,
			       size_t cap)
{
	static const char header[] = "include/tensorflow/core/public/release_version.h";
	char major[8] = "", minor[8] = "", patch[8] = "";
	size_t len;
	char *data = frameworks_read(fs, p, header, &len);

	if (data && text_defined(data, len, "TF_MAJOR_VERSION", major, sizeof(major)) &&
	    text_defined(data, len, "TF_MINOR_VERSION", minor, sizeof(minor)) &&
	    text_defined(data, len, "TF_PATCH_VERSION", patch, sizeof(patch)))
		snprintf(out, cap, "%s.%s.%s", major, minor, patch);
	else
		frameworks_version(fs, p, out, cap);
	free(data);
}

/* The CPU wheels' metadata also offers CUDA as an extra; build_info.py has the truth. */
static void tensorflow_cuda(struct rootfs *fs, const struct package *p, char out[CUDA_TEXT])
{
	size_t len;
	char *data = frameworks_read(fs, p, "python/platform/build_info.py", &len);

	if (!data)
		frameworks_cuda(p, out);
	else if (!text_keyed(data, len, "cuda_version", out, CUDA_TEXT) &&
		 !text_assigned(data, len, "cuda_version_number", out, CUDA_TEXT))
		*out = 0;
	if (!text_is_version(out))
		*out = 0;
	free(data);
}

const struct framework framework_tensorflow = {
	.name = "tensorflow",
	.title = "TensorFlow",
	.editions = editions,
	.libs = libs,
	.spaces = spaces,
	.standards = standards,
	.versions = versions,
	.version = tensorflow_version,
	.cuda = tensorflow_cuda,
};
