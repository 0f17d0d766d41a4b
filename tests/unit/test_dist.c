/* test_dist.c - names of folders, METADATA and RECORD are read right, or refused. */
#include <string.h>

#include "detect/dist.h"
#include "tap.h"

static void test_names(void)
{
	char out[16];

	ok(dist_normalise("Torch__Foo.-bar", 15, out, sizeof(out)) &&
		   !strcmp(out, "torch-foo-bar"),
	   "runs of - _ . are one dash");
	ok(!dist_normalise("", 0, out, sizeof(out)) &&
		   !dist_normalise("a b", 3, out, sizeof(out)) &&
		   !dist_normalise("a\033b", 3, out, sizeof(out)) &&
		   !dist_normalise("\xc3\xa9", 2, out, sizeof(out)) &&
		   !dist_normalise("0123456789abcdef", 16, out, sizeof(out)),
	   "what is no name is refused");
}

static void test_folders(void)
{
	static const struct {
		const char *folder, *name, *version;
	} rows[] = {
		{ "torch-2.1.0+cu121.dist-info", "torch", "2.1.0+cu121" },
		{ "tensorflow_cpu-2.21.0.dist-info", "tensorflow-cpu", "2.21.0" },
		{ "horovod-0.28.1-py3.8-linux-x86_64.egg-info", "horovod", "0.28.1" },
		{ "torch.egg-info", "torch", "" },
		{ "torch-2.1\033.dist-info", "torch", "" },
		{ "-1.0.dist-info", NULL, NULL },
		{ "torch", NULL, NULL },
		{ ".dist-info", NULL, NULL },
		{ "to rch-1.0.dist-info", NULL, NULL },
		{ "", NULL, NULL },
	};
	struct dist d;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool good = dist_parse_folder(rows[i].folder, &d);

		ok(rows[i].name ? good && !strcmp(d.name, rows[i].name) &&
					  !strcmp(d.version, rows[i].version)
				: !good,
		   "folder %zu", i);
	}
	ok(dist_parse_conda("pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0.json", &d) &&
		   !strcmp(d.name, "pytorch") && !strcmp(d.version, "2.1.0") &&
		   !strcmp(d.build, "py3.11_cuda12.1_cudnn8.9.2_0"),
	   "conda's record");
	ok(dist_parse_conda("libtorch-cuda-1-0.json", &d) && !strcmp(d.name, "libtorch-cuda"),
	   "a name with dashes");
	ok(!dist_parse_conda("history", &d) && !dist_parse_conda("a-1.json", &d) &&
		   !dist_parse_conda("-1-0.json", &d) && !dist_parse_conda("a-b-c.json", &d),
	   "what is none");
}

static bool parse(const char *text, struct metadata *m)
{
	return dist_parse_metadata(text, strlen(text), m);
}

static void test_metadata(void)
{
	struct metadata m;

	ok(parse("Metadata-Version: 2.1\r\nName: Torch\r\nVersion: 2.1.0\r\n\r\nVersion: 9\r\n",
		 &m) &&
		   !strcmp(m.name, "torch") && !strcmp(m.version, "2.1.0"),
	   "name and version; the description is not looked at");
	ok(parse("Name: a\nVersion: 1\nRequires-Dist: nvidia-cuda-runtime-cu12==12.6.77; "
		 "platform_system == 'Linux'\n",
		 &m) &&
		   !strcmp(m.cuda_runtime, "12.6"),
	   "a required runtime");
	ok(parse("Name: a\nVersion: 1\nRequires-Dist: nvidia-cuda-runtime-cu12 (==12.3.1) ; "
		 "extra == 'and-cuda'\n",
		 &m) &&
		   !*m.cuda_runtime,
	   "an offered one does not count");
	ok(parse("Name: a\nVersion: 1\nRequires-Dist: nvidia-cuda-runtime-cu12\n", &m) &&
		   !*m.cuda_runtime,
	   "nor one without a version");
	ok(parse("Name: a\nVersion: 1\nRequires-Dist: nvidia-cuda-runtime==1\n", &m) &&
		   !strcmp(m.cuda_runtime, "1"),
	   "a short version");
	ok(!parse("Name: torch\n", &m) && *m.name, "no version");
	ok(!parse("Version: 1\n", &m) && !*m.name, "no name");
	ok(!parse("Name: torch\nVersion: 1\033[2J\n", &m), "a version with control characters");
	ok(!parse("", &m) && !dist_parse_metadata("\0\0\0", 3, &m) && !parse("Name:", &m),
	   "no metadata at all");
}

static int record(const char *text, uint64_t *size)
{
	return dist_parse_record(text, strlen(text), "a/b.so", size);
}

static void test_record(void)
{
	uint64_t size = 0;

	ok(record("x,,\r\na/b.so,sha256=q,123\r\n", &size) == 1 && size == 123, "a size");
	ok(record("\"a/b.so\",sha256=q,7\n", &size) == 1 && size == 7, "a quoted path");
	ok(record("\"x,\"\"y\",h,1\na/b.so,h,2\n", &size) == 1 && size == 2,
	   "a path with a comma and quotes before it");
	ok(record("a/b.so,,\n", &size) == 0, "listed without a size");
	ok(record("b.so,h,1\na/b.so.1,h,1\n", &size) == 0, "not listed");
	ok(record("a/b.so,h,12x\n", &size) == 0 &&
		   record("a/b.so,h,9999999999999999999\n", &size) == 0,
	   "a size that is no number, or too large");
	ok(record("", &size) == 0, "empty");
	ok(record("a/b.so,h,1\na/c", &size) == -1 && record("a/b.so,h,1", &size) == -1,
	   "cut off");
	ok(record("a/b.so\n", &size) == -1 && record("a/b.so,h\n", &size) == -1 &&
		   record("\"a/b.so,h,1\n", &size) == -1 && record("\"a\"b,h,1\n", &size) == -1,
	   "lines that are none");
}

int main(void)
{
	test_names();
	test_folders();
	test_metadata();
	test_record();
	return tap_done();
}
