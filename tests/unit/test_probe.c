/* test_probe.c - compilers are tried, real ones and ones that lie; nothing of it stays. */
#include "rebuild/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rebuild/buildplan.h"
#include "tap.h"

static char dir[] = "/tmp/test_probe.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[4][256];
	static int at;

	at = (at + 1) % 4;
	snprintf(path[at], sizeof(path[at]), "%s/%s", dir, name);
	return path[at];
}

static void put(const char *name, const char *text)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0755);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

/* Folders of probes in TMPDIR. */
static int count_rooms(void)
{
	DIR *all = opendir(dir);
	struct dirent *d;
	int n = 0;

	while (all && (d = readdir(all)))
		n += !strncmp(d->d_name, "ringup-probe.", 13);
	if (all)
		closedir(all);
	return n;
}

static bool is_there(const char *program)
{
	char path[64];

	snprintf(path, sizeof(path), "/usr/bin/%s", program);
	return !access(path, X_OK);
}

static void test_real(void)
{
	static const char *const names[] = { "g++-11", "g++-12", "clang++-14", "clang++-16" };
	char path[64];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct probes p = { 0 };
		struct err e = { 0 };

		if (!is_there(names[i])) {
			printf("ok %d # SKIP %s is not installed\n", ++tap_count, names[i]);
			continue;
		}
		snprintf(path, sizeof(path), "/usr/bin/%s", names[i]);
		ok(!probe_compiler(&p, path, -1, &e) && p.compilers[0].abi[0] == 0 &&
			   p.compilers[0].abi[1] == 1,
		   "%s obeys the flag: %s%s", names[i], p.compilers[0].failed, e.text);
		probes_free(&p);
	}
}

/* A compiler that does as @script says; @cxx is the real one. */
static void try(const char *what, const char *script, int abi, int want, const char *says)
{
	struct probes p = { 0 };
	struct err e = { 0 };

	put("g++", script);
	ok(!probe_compiler(&p, path_of("g++"), abi, &e) && p.compilers[0].abi[abi] == want &&
		   strstr(p.compilers[0].failed, says),
	   "%s: %d '%s'%s", what, p.compilers[0].abi[abi], p.compilers[0].failed, e.text);
	ok(!count_rooms(), "%s: nothing is left", what);
	unlink(path_of("g++"));
	probes_free(&p);
}

static void test_liars(void)
{
	try("it ignores the flag",
	    "#!/bin/sh\nexec g++ \"$@\" -U_GLIBCXX_USE_CXX11_ABI "
	    "-D_GLIBCXX_USE_CXX11_ABI=1\n",
	    0, 1, "");
	try("it only has the old ABI",
	    "#!/bin/sh\nexec g++ \"$@\" -U_GLIBCXX_USE_CXX11_ABI -D_GLIBCXX_USE_CXX11_ABI=0\n",
	    1, 0, "");
	try("it fails",
	    "#!/bin/sh\necho 'g++: fatal error: cannot execute cc1plus' >&2; exit 1\n", 1, -1,
	    "cannot execute cc1plus");
	try("it fails and is silent", "#!/bin/sh\nexit 1\n", 1, -1, "without a message");
	try("it says control characters",
	    "#!/bin/sh\nprintf 'error: \\033[2Jno\\n' >&2; exit 1\n", 1, -1, "?[2Jno");
	try("it succeeds and makes nothing", "#!/bin/sh\nexit 0\n", 1, -1, "it makes no file");
	try("it makes something else", "#!/bin/sh\necho no library >lib1.so\n", 1, -1, "");
	try("it makes a link", "#!/bin/sh\nln -s /etc/passwd lib1.so\n", 1, -1,
	    "it makes no file");
	try("it leaves files and folders", "#!/bin/sh\ntouch a b\nexec g++ \"$@\"\n", 1, 1, "");
}

static void test_headers(void)
{
	struct probes p = { 0 };
	struct buildplan plan;
	struct err e = { 0 };

	mkdir(path_of("include"), 0755);
	mkdir(path_of("include/ATen"), 0755);
	put("include/ATen/ATen.h", "#if __cplusplus < 202002L\n#error C++20 or later\n#endif\n"
				   "#include <string>\n");
	buildplan_blank(&plan, "horovod");
	plan.compiler.cxx = "/usr/bin/g++";
	plan.cxx11_abi = 1;
	plan.cxx_standard = 17;
	plan.frameworks[plan.framework_count++] =
		(struct buildplan_framework){ .name = "torch", .location = dir };
	ok(!probe_headers(&p, &plan, &e), "headers are tried %s", e.text);
	ok(p.framework_count == 1 && p.frameworks[0].cxx_standard == 20,
	   "C++20 is the first that they take");
	ok(p.compilers[0].refuses[17] && !p.compilers[0].refuses[20], "C++17 is not");
	unlink(path_of("include/ATen/ATen.h"));
	probes_free(&p);
	ok(!probe_headers(&p, &plan, &e) && !p.framework_count,
	   "headers that are not there prove nothing");
	rmdir(path_of("include/ATen"));
	rmdir(path_of("include"));
	ok(!count_rooms(), "nothing is left");
	probes_free(&p);
}

/* What a run that was killed has left is removed; what somebody uses is not. */
static void test_sweep(void)
{
	struct probes p = { 0 };
	struct err e = { 0 };
	int fd;

	mkdir(path_of("ringup-probe.dead01"), 0700);
	put("ringup-probe.dead01/lib0.so", "");
	mkdir(path_of("ringup-probe.alive1"), 0700);
	fd = open(path_of("ringup-probe.alive1"), O_RDONLY | O_DIRECTORY);
	if (fd < 0 || flock(fd, LOCK_EX))
		abort();
	put("ringup-probe.file", "");
	if (symlink("/etc", path_of("ringup-probe.link")))
		abort();
	ok(!probe_compiler(&p, "/bin/false", 1, &e), "a probe %s", e.text);
	ok(access(path_of("ringup-probe.dead01"), F_OK) < 0, "what nobody uses is gone");
	ok(!access(path_of("ringup-probe.alive1"), F_OK) &&
		   !access(path_of("ringup-probe.file"), F_OK) && !access("/etc/passwd", F_OK),
	   "what somebody uses, and what is none of ours, stays");
	close(fd);
	rmdir(path_of("ringup-probe.alive1"));
	unlink(path_of("ringup-probe.file"));
	unlink(path_of("ringup-probe.link"));
	probes_free(&p);
}

static void test_nowhere(void)
{
	struct probes p = { 0 };
	struct err e = { 0 };

	setenv("TMPDIR", "/nonexistent", 1);
	ok(probe_compiler(&p, "/bin/false", 1, &e) && strstr(e.text, "/nonexistent"),
	   "no folder for it: %s", e.text);
	probes_free(&p);
}

static void test_tools(void)
{
	struct probes p = { 0 };
	struct buildplan plan;

	buildplan_blank(&plan, "horovod");
	plan.python.prefix = dir;
	mkdir(path_of("lib"), 0755);
	put("lib/libstdc++.so.6.0.29", "");
	if (symlink("libstdc++.so.6.0.29", path_of("lib/libstdc++.so.6")))
		abort();
	probe_tools(&p, &plan);
	ok(!strcmp(p.glibcxx, "3.4.29"),
	   "the environment's own libstdc++ is the one that counts");
	unlink(path_of("lib/libstdc++.so.6"));
	unlink(path_of("lib/libstdc++.so.6.0.29"));
	rmdir(path_of("lib"));
	probes_free(&p);
}

int main(void)
{
	if (!mkdtemp(dir))
		abort();
	setenv("TMPDIR", dir, 1);
	if (!is_there("g++")) {
		printf("1..0 # SKIP there is no /usr/bin/g++\n");
		rmdir(dir);
		return 0;
	}
	test_real();
	test_liars();
	test_headers();
	test_sweep();
	test_tools();
	test_nowhere();
	ok(!rmdir(dir), "nothing is left in TMPDIR");
	return tap_done();
}
