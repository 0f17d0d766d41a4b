/* probe.c - probe compilers and framework headers by compiling with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/jsonio.h"
#include "base/proc.h"
#include "detect/elfinfo.h"
#include "detect/text.h"
#include "rebuild/buildplan.h"
#include "rebuild/job.h"
#include "rebuild/packages.h"
#include "ringup.h"

enum {
	COMPILE_MS = 30000,
	HEADERS_MS = 60000,
	ASK_MS = 10000,
	IMPORT_MS = 30000,
	ROUNDS = 6,
	WORDS = 24
};
enum { SAID_BYTES = 4096 };

static const char prefix[] = "ringup-probe.";

/* A private folder, locked while this process lives. */

struct room {
	char dir[PATH_MAX];
	int fd; /* of the folder; holds the lock */
};

/* Removes folders of killed runs in @tmp: those of this user that are not locked. */
static void rooms_sweep(const char *tmp)
{
	DIR *all = opendir(tmp);
	char path[PATH_MAX];
	struct dirent *d;
	struct stat st;
	int fd;

	while (all && (d = readdir(all))) {
		if (strncmp(d->d_name, prefix, sizeof(prefix) - 1))
			continue;
		snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX / 2, tmp, d->d_name);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() &&
		    !flock(fd, LOCK_EX | LOCK_NB))
			folder_remove(path, NULL);
		if (fd >= 0)
			close(fd);
	}
	if (all)
		closedir(all);
}

static int room_open(struct room *r, struct err *e)
{
	const char *tmp = conf_env("TMPDIR");

	r->fd = -1;
	if (!tmp || *tmp != '/' || strlen(tmp) > PATH_MAX / 2)
		tmp = "/tmp";
	rooms_sweep(tmp);
	snprintf(r->dir, sizeof(r->dir), "%.*s/%sXXXXXX", PATH_MAX / 2, tmp, prefix);
	if (!mkdtemp(r->dir)) {
		*r->dir = 0;
		return fail_os(e, "a folder in %s", tmp);
	}
	r->fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r->fd < 0 || flock(r->fd, LOCK_EX | LOCK_NB) ? fail_os(e, "%s", r->dir) : 0;
}

static void room_close(struct room *r)
{
	if (*r->dir)
		folder_remove(r->dir, NULL);
	if (r->fd >= 0)
		close(r->fd);
}

/* Running a compiler. */

/* Runs @argv, which ends with NULL, in @r; its stderr goes to @said.  True if it succeeded. */
static bool compiler_run(const struct room *r, const char *const *argv, int64_t ms,
			 char said[SAID_BYTES])
{
	int fds[3] = { -1, -1, memfd_create("said", MFD_CLOEXEC) }, status = 0, i;
	char tmp[PATH_MAX + 8], env[] = "env", c[] = "LC_ALL=C", *all[WORDS] = { env, c, tmp };
	struct proc_how how = { .argv = all, .dir = r->dir, .fds = fds, .nfds = 3 };
	struct err e = { 0 };
	ssize_t n = 0;

	snprintf(tmp, sizeof(tmp), "TMPDIR=%s", r->dir);
	for (i = 0; argv[i] && i + 4 < WORDS; i++)
		all[i + 3] = (char *)(uintptr_t)argv[i];
	if (proc_run(&how, ms, &status, &e))
		snprintf(said, SAID_BYTES, "%s", e.text);
	else
		n = fds[2] < 0 ? 0 : pread(fds[2], said, SAID_BYTES - 1, 0);
	if (!e.code)
		said[n > 0 ? n : 0] = 0;
	if (fds[2] >= 0)
		close(fds[2]);
	return !e.code && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The line with the reason: the first with "error:" in it, or else the first. */
static void first_error(const char *said, char *out, size_t cap)
{
	const char *at = strstr(said, "error:"), *start;
	char line[256];

	for (start = at ? at : said; at && start > said && start[-1] != '\n'; start--)
		;
	text_copy(line, sizeof(line), at ? at + strlen("error:") : said,
		  strcspn(at ? at + strlen("error:") : said, "\n"));
	text_clean(out, cap, line + strspn(line, " "));
	if (!*out)
		text_set(out, cap, "it fails without a message");
}

/* Results. */

void probes_free(struct probes *p)
{
	textpool_free(&p->pool);
	*p = (struct probes){ 0 };
}

struct probe_compiler *probe_of_compiler(const struct probes *p, const char *cxx)
{
	for (int i = 0; p && i < p->compiler_count; i++)
		if (!strcmp(p->compilers[i].cxx, cxx))
			return &p->compilers[i];
	return NULL;
}

struct probe_framework *probe_of_framework(const struct probes *p, const char *location)
{
	for (int i = 0; p && i < p->framework_count; i++)
		if (!strcmp(p->frameworks[i].location, location))
			return &p->frameworks[i];
	return NULL;
}

/* The entry of @cxx, a new one if there is none; NULL without memory. */
static struct probe_compiler *compiler_entry(struct probes *p, const char *cxx)
{
	struct probe_compiler *c = probe_of_compiler(p, cxx);

	if (c)
		return c;
	c = textpool_more(&p->pool, &p->compilers, &p->compiler_count, sizeof(*c));
	if (c)
		*c = (struct probe_compiler){
			textpool_keep(&p->pool, cxx), "", { -1, -1 }, { 0 }
		};
	return c;
}

/* The same for a framework. */
static struct probe_framework *framework_entry(struct probes *p, const char *location)
{
	struct probe_framework *f = probe_of_framework(p, location);

	if (f)
		return f;
	f = textpool_more(&p->pool, &p->frameworks, &p->framework_count, sizeof(*f));
	if (f)
		*f = (struct probe_framework){ textpool_keep(&p->pool, location), 0, -1 };
	return f;
}

/* Building a library, and the ABI of the result. */

static const char program[] = "#include <string>\n"
			      "namespace ringupprobe {\n"
			      "void take(const std::string &);\n"
			      "void give(const std::string &s) { take(s + '.'); }\n"
			      "}\n";
static const char *const spaces[] = { "11ringupprobe", NULL };

static void try_abi(const struct room *r, struct textpool *pool, struct probe_compiler *into,
		    int abi)
{
	char said[SAID_BYTES], reason[200], flag[48], out[16];
	const char *argv[] = {
		into->cxx, "-shared", "-fPIC", flag, "-o", out, "probe.cc", NULL
	};
	struct elfinfo info = { .cxx11_abi = -1 };
	struct err e = { 0 };
	int fd;

	snprintf(flag, sizeof(flag), "-D_GLIBCXX_USE_CXX11_ABI=%d", abi);
	snprintf(out, sizeof(out), "lib%d.so", abi);
	if (!compiler_run(r, argv, COMPILE_MS, said)) {
		first_error(said, reason, sizeof(reason));
		into->failed = textpool_keep(pool, reason);
		return;
	}
	fd = openat(r->fd, out, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || elfinfo_read(fd, spaces, &info, &e) || info.cxx11_abi < 0)
		into->failed = fd < 0    ? "it makes no file"
			       : *e.text ? textpool_keep(pool, e.text)
					 : "what it makes has no C++ names";
	else
		into->abi[abi] = info.cxx11_abi;
	if (fd >= 0)
		close(fd);
}

int probe_compiler(struct probes *p, const char *cxx, int abi, struct err *e)
{
	struct probe_compiler *into = compiler_entry(p, cxx);
	struct room r = { .fd = -1 };
	int rc = into ? room_open(&r, e) : fail(e, RINGUP_ENOMEM, "probes"), i;

	if (!rc)
		rc = file_write(r.dir, "/probe.cc", 0600, program, sizeof(program) - 1, e);
	for (i = 0; i < 2 && !rc; i++)
		if ((abi < 0 || abi == i) && !*into->failed)
			try_abi(&r, &p->pool, into, i);
	room_close(&r);
	return rc;
}

/* Compiling frameworks' headers. */

static const struct {
	const char *framework, *header, *below[3];
} headers[] = {
	{ "torch", "ATen/ATen.h", { "include", "include/torch/csrc/api/include", NULL } },
	{ "tensorflow", "tensorflow/core/framework/op.h", { "include", NULL } },
};

static bool try_standard(const struct room *r, const struct buildplan *plan, int standard,
			 const char *location, size_t h, char said[SAID_BYTES])
{
	char std[24], flag[48] = "-w", dirs[2][PATH_MAX + 64] = { "-w", "-w" };
	const char *cxx = plan->compiler.cxx, *slash = strrchr(cxx, '/');
	const char *argv[] = {
		cxx,
		"-fsyntax-only",
		"-w",
		strstr(slash ? slash : cxx, "clang") ? "-ferror-limit=1" : "-fmax-errors=1",
		std,
		flag,
		dirs[0],
		dirs[1],
		"headers.cc",
		NULL
	};

	snprintf(std, sizeof(std), "-std=c++%d", standard);
	if (plan->cxx11_abi >= 0)
		snprintf(flag, sizeof(flag), "-D_GLIBCXX_USE_CXX11_ABI=%d", plan->cxx11_abi);
	for (int i = 0; headers[h].below[i]; i++)
		snprintf(dirs[i], sizeof(dirs[i]), "-I%.*s/%s", PATH_MAX, location,
			 headers[h].below[i]);
	return compiler_run(r, argv, HEADERS_MS, said);
}

/* Finds the oldest standard that works, from the plan's on; a missing header proves nothing. */
static int try_headers(struct probes *p, const struct room *r, const struct buildplan *plan,
		       const char *location, size_t h, struct err *e)
{
	static const int standards[] = { 11, 14, 17, 20, 23 };
	struct probe_compiler *compiler = compiler_entry(p, plan->compiler.cxx);
	struct probe_framework *framework;
	char source[128], path[PATH_MAX], said[SAID_BYTES];
	int rc;

	snprintf(path, sizeof(path), "%.*s/include/%s", PATH_MAX - 64, location,
		 headers[h].header);
	if (access(path, R_OK))
		return 0;
	framework = framework_entry(p, location);
	if (!compiler || !framework)
		return fail(e, RINGUP_ENOMEM, "probes");
	snprintf(source, sizeof(source), "#include <%s>\n", headers[h].header);
	rc = file_write(r->dir, "/headers.cc", 0600, source, strlen(source), e);
	for (size_t i = 0; i < sizeof(standards) / sizeof(standards[0]) && !rc; i++) {
		bool good;

		if (standards[i] < plan->cxx_standard)
			continue;
		good = try_standard(r, plan, standards[i], location, h, said);
		compiler->refuses[standards[i]] |= !good;
		if (!good)
			continue;
		framework->cxx_standard = standards[i];
		break;
	}
	return rc;
}

int probe_headers(struct probes *p, const struct buildplan *plan, struct err *e)
{
	const struct buildplan_framework *f;
	struct room r = { .fd = -1 };
	int rc = room_open(&r, e);

	for (size_t h = 0; h < sizeof(headers) / sizeof(headers[0]) && !rc; h++) {
		f = buildplan_framework(plan, headers[h].framework);
		if (f)
			rc = try_headers(p, &r, plan, f->location, h, e);
	}
	room_close(&r);
	return rc;
}

/* Asking frameworks for their ABI. */

static const struct {
	const char *framework, *code;
} questions[] = {
	{ "torch", "import torch\n"
		   "print('\\nringup-abi', int(torch.compiled_with_cxx11_abi()))\n" },
	{ "tensorflow", "import tensorflow\n"
			"print('\\nringup-abi', int(tensorflow.sysconfig.CXX11_ABI_FLAG))\n" },
};

static void hear_abi(void *arg, const char *line)
{
	int abi;

	if (sscanf(line, "ringup-abi %d", &abi) == 1 && (abi == 0 || abi == 1))
		*(int *)arg = abi;
}

/* The C++ ABI that the framework states, or -1. */
static int ask_abi(const char *python, const char *code)
{
	const char *argv[] = { python, "-c", code, NULL };
	json_t *env = job_env("/", false);
	int abi = -1, status = -1;
	struct err ignored;
	struct job job = { .argv = argv,
			   .env = env,
			   .dir = "/",
			   .user = job_owner(python),
			   .log_fd = -1,
			   .limit_ms = IMPORT_MS,
			   .line = hear_abi,
			   .arg = &abi };

	json_object_set_new(env, "PYTHONDONTWRITEBYTECODE", json_string("1"));
	if (job_run(&job, &status, &ignored))
		status = -1;
	json_decref(env);
	return status ? -1 : abi;
}

/* Asks the plan's frameworks whose library shows no C++ ABI: each is imported once, by its
 * Python, as that Python's owner.  Without an answer the ABI stays unknown. */
static void probe_frameworks(struct probes *p, const struct buildplan *plan)
{
	const struct buildplan_framework *f;
	struct probe_framework *into;
	int abi;

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		f = buildplan_framework(plan, questions[i].framework);
		if (!f || !strcmp(f->cxx11_abi_by, "elf"))
			continue;
		abi = ask_abi(plan->python.path, questions[i].code);
		into = abi >= 0 ? framework_entry(p, f->location) : NULL;
		if (into)
			into->cxx11_abi = abi;
	}
}

/* Reads the version in "cmake version 3.25.1". */
static void tool_version(struct probes *probes, const char *name, const char **to)
{
	char *argv[] = { (char *)(uintptr_t)name, (char *)(uintptr_t) "--version", NULL };
	char version[32];
	struct err e = { 0 };
	char *said = NULL, *p;
	int status;

	if (proc_capture(argv, 4096, ASK_MS, &said, &status, &e))
		return;
	p = WIFEXITED(status) && !WEXITSTATUS(status) ? strstr(said, "version ") : NULL;
	if (p) {
		p += strlen("version ");
		text_copy(version, sizeof(version), p, strspn(p, "0123456789."));
		if (text_is_version(version))
			*to = textpool_keep(&probes->pool, version);
	}
	free(said);
}

/* libstdc++.so.6.0.30 has symbols up to GLIBCXX_3.4.30: the last numbers are the same. */
static bool libstdcxx_at(const char *dir, char *out, size_t cap)
{
	char path[PATH_MAX], real[PATH_MAX];
	const char *p;

	if (snprintf(path, sizeof(path), "%s/libstdc++.so.6", dir) >= PATH_MAX ||
	    !realpath(path, real))
		return false;
	p = strstr(real, "libstdc++.so.6.0.");
	if (!p || !p[17] || p[17 + strspn(p + 17, "0123456789")])
		return false;
	snprintf(out, cap, "3.4.%.4s", p + 17);
	return true;
}

void probe_tools(struct probes *p, const struct buildplan *plan)
{
	static const char *const system[] = { "/usr/lib/x86_64-linux-gnu",
					      "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
					      "/usr/lib" };
	char dir[PATH_MAX], glibcxx[16] = "";

	tool_version(p, "cmake", &p->cmake);
	/* conda's Python loads its own. */
	snprintf(dir, sizeof(dir), "%.*s/lib", PATH_MAX - 8, plan->python.prefix);
	if (!*plan->python.prefix || !libstdcxx_at(dir, glibcxx, sizeof(glibcxx)))
		for (size_t i = 0; i < sizeof(system) / sizeof(system[0]) && !*glibcxx; i++)
			libstdcxx_at(system[i], glibcxx, sizeof(glibcxx));
	p->glibcxx = *glibcxx ? textpool_keep(&p->pool, glibcxx) : NULL;
}

/* Plans again, with the new results. */
static int plan_again(const struct buildplan_how *how, const json_t *facts,
		      const struct versions *t, struct buildplan *plan, struct err *e)
{
	buildplan_free(plan);
	return buildplan_make(how, facts, t, plan, e);
}

/* Probes the plan's choices unless they have been probed; true if there are new results. */
static bool plan_try(struct probes *p, const struct buildplan *plan, int *rc, struct err *e)
{
	const struct buildplan_compiler *c = &plan->compiler;
	const struct probe_compiler *known = probe_of_compiler(p, c->cxx);
	int abi = plan->cxx11_abi;

	if (!c->installed || !*c->cxx ||
	    (known && (*known->failed || abi < 0 || known->abi[abi] >= 0)))
		return false;
	*rc = probe_compiler(p, c->cxx, abi, e);
	if (!*rc && plan->cxx_standard)
		*rc = probe_headers(p, plan, e);
	return true;
}

/* mpicc is a wrapper: conda's calls a compiler that may be missing. */
static void probe_mpi(json_t *facts)
{
	json_t *env = job_env("/", false), *m;
	size_t i;

	json_array_foreach(json_object_get(facts, "mpi"), i, m) {
		const char *argv[] = { jsonio_string(m, "mpicc"), "--version", NULL };
		char said[JOB_LINE] = "", fault[240];
		struct err ignored = { 0 };
		int status = -1;
		struct job job = { .argv = argv,
				   .env = env,
				   .dir = "/",
				   .user = job_owner(argv[0]),
				   .log_fd = -1,
				   .limit_ms = ASK_MS,
				   .line = job_keep_first,
				   .arg = said };

		if (!*argv[0] || job_run(&job, &status, &ignored) || !status)
			continue;
		snprintf(fault, sizeof(fault), "it ended with status %d%s%.120s", status,
			 *said ? ": " : "", said);
		json_object_set_new(m, "mpicc_fault", jsonio_text(fault));
	}
	json_decref(env);
}

int probe_plan(const struct buildplan_how *how, json_t *facts, const struct versions *t,
	       struct buildplan *plan, struct err *e)
{
	struct buildplan_how ask = *how;
	struct packages packages = { 0 };
	struct probes probes = { 0 };
	int rc;

	probe_mpi(facts);
	rc = buildplan_make(how, facts, t, plan, e);
	if (!rc && how->engine && !strcmp(how->engine, "horovod")) {
		ask.probes = &probes;
		probe_tools(&probes, plan);
		probe_frameworks(&probes, plan);
		for (int i = 0; i < ROUNDS && !rc; i++) {
			rc = plan_again(&ask, facts, t, plan, e);
			if (rc || !plan_try(&probes, plan, &rc, e))
				break;
		}
	}
	/* No installed compiler fits: ask for those in packages. */
	if (!rc && !*plan->compiler.family && !plan->possible) {
		packages_find(&packages, "", t);
		ask.packages = &packages;
		rc = plan_again(&ask, facts, t, plan, e);
	}
	packages_free(&packages);
	probes_free(&probes);
	return rc;
}
