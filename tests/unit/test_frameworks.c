/* test_frameworks.c - what every framework promises, and the signs of CUDA. */
#include <string.h>

#include "detect/framework.h"
#include "tap.h"

static const struct framework *find(const char *name)
{
	int i;

	for (i = 0; frameworks[i]; i++)
		if (!strcmp(frameworks[i]->name, name))
			return frameworks[i];
	return NULL;
}

/* Whatever is in the list keeps the contract of framework.h. */
static void test_contract(void)
{
	int i;

	for (i = 0; frameworks[i]; i++) {
		const struct framework *f = frameworks[i];
		const struct edition *ed;
		char name[64];
		int good = 1;

		ok(f->name && f->title && f->libs && f->spaces && f->standards && f->versions &&
			   f->version && f->cuda,
		   "%s is complete", f->name);
		for (ed = f->editions; ed->dist; ed++)
			good &= ed->folder &&
				dist_normalise(ed->dist, strlen(ed->dist), name, 64) &&
				!strcmp(name, ed->dist);
		ok(good && ed > f->editions, "%s has editions with normalised names", f->name);
	}
	ok(i == 5, "there are five");
}

static int standard(const char *name, const char *version)
{
	struct package p = { .framework = find(name) };

	strcpy(p.version, version);
	return frameworks_standard(&p);
}

static void test_standard(void)
{
	ok(standard("torch", "2.13.0+cpu") == 17 && standard("torch", "2.1") == 17 &&
		   standard("torch", "2.0.1") == 14 && standard("torch", "1.4.0") == 11,
	   "torch");
	ok(standard("tensorflow", "2.10.0") == 17 && standard("tensorflow", "2.9.3") == 14 &&
		   standard("tensorflow", "1.14.0") == 11,
	   "TensorFlow");
	ok(standard("torch", "") == 0 && standard("keras", "3.0") == 0 &&
		   standard("jax", "1") == 0,
	   "not known, or nothing to compile");
}

static const char *cuda(const char *version, const char *runtime, const char *build)
{
	static char out[CUDA_TEXT];
	struct dist d = { .site = "/" };
	struct package p = { .dist = &d };

	strcpy(p.version, version);
	strcpy(p.meta.cuda_runtime, runtime);
	strcpy(d.build, build);
	frameworks_cuda(&p, out);
	return out;
}

static void test_cuda(void)
{
	char out[CUDA_TEXT];

	ok(!strcmp(cuda("2.1.0+cu121", "", ""), "12.1") &&
		   !strcmp(cuda("1.7+cu92", "", ""), "9.2"),
	   "in the version");
	ok(!strcmp(cuda("2.6.0", "12.4", ""), "12.4"), "by requirement");
	ok(!strcmp(cuda("2.1", "", "py3.11_cuda12.1_cudnn8.9.2_0"), "12.1") &&
		   !strcmp(cuda("2.1", "", "cuda118py310h0_1"), "11.8"),
	   "in conda's build");
	ok(!*cuda("2.1.0+cpu", "", "cpu_py311") && !*cuda("2.1+cuxx", "", "cudaX"), "none");
	frameworks_dist_cuda("mxnet-cu112", out);
	ok(!strcmp(out, "11.2"), "in a name: %s", out);
	frameworks_dist_cuda("jax_cuda12_plugin", out);
	ok(!strcmp(out, "12"), "with the first number only: %s", out);
	frameworks_dist_cuda("mxnet-cupid", out);
	ok(!*out, "no number, no CUDA");
	frameworks_dist_cuda("x-cu123456789", out);
	ok(!*out, "nor with too many digits");
}

int main(void)
{
	test_contract();
	test_standard();
	test_cuda();
	return tap_done();
}
