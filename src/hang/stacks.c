/* stacks.c - where a process is: its main thread's stack, taken with py-spy or eu-stack. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "hang/stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonio.h"
#include "base/path.h"
#include "base/proc.h"

enum { OUTPUT = 1 << 20, LINE = 512 };

/* ---- tools ---- */

bool stacks_has(bool is_python)
{
	char path[PATH_MAX];

	return path_program(is_python ? "py-spy" : "eu-stack", path);
}

const char *stacks_advice(bool is_python)
{
	return is_python ? "pip install py-spy" : "apt-get install elfutils";
}

/* No address is read: rights come first. */
bool stacks_are_forbidden(pid_t pid)
{
	char byte;
	struct iovec to = { &byte, 1 }, from = { NULL, 1 };

	return process_vm_readv(pid, &to, 1, &from, 1, 0) < 0 &&
	       (errno == EPERM || errno == EACCES || errno == ENOSYS);
}

/* ---- native stacks ---- */

/* The calls in which a rank waits for others.  What the program calls is the outermost of
 * these. */
static const char *const calls[] = { "MPI_",    "PMPI_",      "nccl",        "pnccl",
				     "ringup_", "c10d::Work", "c10d::Store", "c10d::TCPStore",
				     "gloo::",  "shmem_" };

/* Functions of libraries that make progress in passing are no calls of the program. */
static bool is_call(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strncmp(name, calls[i], strlen(calls[i])))
			return true;
	return false;
}

static bool is_system(const char *module)
{
	const char *base = strrchr(module, '/');

	base = base ? base + 1 : module;
	return !strncmp(base, "lib", 3) || !strncmp(base, "ld-", 3) ||
	       !strncmp(base, "mca_", 4) || *base == '[' || !*base;
}

struct frame {
	char name[LINE], module[LINE];
	char line[LINE]; /* "/src/m.c:9:21", or "" */
	uint64_t back;   /* where its callee returns to; 0: unknown */
};

/* "#6  0x000055b9e8c2b23a - 1 main - /tmp/m" and, if it is known, a line with the source. */
static bool read_frame(const char *at, struct frame *f)
{
	const char *end = at + strcspn(at, "\n"), *name, *dash, *p;
	size_t len;

	memset(f, 0, sizeof(*f));
	name = strstr(at, "0x");
	f->back = name && name < end ? strtoull(name, NULL, 16) : 0;
	name = name && name < end ? name + strcspn(name, " \n") : end;
	while (name < end && *name == ' ')
		name++;
	if (!strncmp(name, "- 1 ", 4))
		name += 4;
	dash = NULL;
	for (p = name; p + 3 <= end; p++)
		if (!memcmp(p, " - ", 3))
			dash = p;
	len = (size_t)((dash ? dash : end) - name);
	if (dash && dash + 3 < end)
		snprintf(f->module, sizeof(f->module), "%.*s", (int)(end - dash - 3), dash + 3);
	len = len < sizeof(f->name) ? len : sizeof(f->name) - 1;
	memcpy(f->name, name, len);
	/* Neither the version nor the parameters are of interest. */
	f->name[strcspn(f->name, "@(<")] = 0;
	if (*end && !strncmp(end + 1, "    ", 4)) {
		p = end + 1 + strspn(end + 1, " ");
		snprintf(f->line, sizeof(f->line), "%.*s", (int)strcspn(p, "\n"), p);
	}
	return *f->name != 0;
}

/* "main (m.c:9)" */
static void say_frame(struct stack *s, const struct frame *f)
{
	const char *base = strrchr(f->line, '/');
	char line[LINE];

	snprintf(s->frame, sizeof(s->frame), "%.120s", f->name);
	snprintf(line, sizeof(line), "%s", base ? base + 1 : f->line);
	/* "m.c:9:21": the column is of no use. */
	if (strchr(line, ':') && strchr(line, ':') != strrchr(line, ':'))
		*strrchr(line, ':') = 0;
	if (*line)
		snprintf(s->where, sizeof(s->where), "%.80s (%.40s)", f->name, line);
	else
		snprintf(s->where, sizeof(s->where), "%.120s", f->name);
}

bool stacks_native(struct stack *s, const char *text)
{
	struct frame f;
	bool any = false;

	memset(s, 0, sizeof(*s));
	for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
		if (*at != '#' || !read_frame(at, &f))
			continue;
		if (!any)
			snprintf(s->doing, sizeof(s->doing), "%.60s", f.name);
		any = true;
		if (is_call(f.name)) {
			/* The profiling name of a function is that function. */
			snprintf(s->call, sizeof(s->call), "%.60s",
				 f.name + (!strncmp(f.name, "PMPI_", 5) ||
					   !strncmp(f.name, "pnccl", 5)));
			*s->frame = 0;
		} else if (!*s->frame && !is_system(f.module)) {
			say_frame(s, &f);
			s->back = *s->call ? f.back : 0;
		}
	}
	if (any && !*s->frame)
		memcpy(s->where, s->doing, sizeof(s->doing));
	if (any && !*s->frame)
		memcpy(s->frame, s->doing, sizeof(s->doing));
	return any;
}

/* ---- Python's stacks ---- */

/* Is a file part of a framework, of Python, or of ringup, rather than of the program? */
static bool is_library(const char *file)
{
	return strstr(file, "site-packages/") || strstr(file, "dist-packages/") ||
	       strstr(file, "/lib/python") || strstr(file, "compat/python/") || *file == '<';
}

/* Functions of these files that a program calls, and that wait for other ranks. */
static bool waits_in(const char *file)
{
	static const char *const files[] = { "torch/distributed/distributed_c10d.py",
					     "torch/distributed/rendezvous.py",
					     "horovod/",
					     "ringup/",
					     "ringup_torch/",
					     "mpi4py/" };
	static const char *const roots[] = { "site-packages/", "dist-packages/",
					     "compat/python/" };
	const char *at = NULL;

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]) && !at; i++)
		if ((at = strstr(file, roots[i])))
			at += strlen(roots[i]);
	for (size_t i = 0; at && i < sizeof(files) / sizeof(files[0]); i++)
		if (!strncmp(at, files[i], strlen(files[i])))
			return true;
	return false;
}

static bool is_wrapper(const char *name)
{
	return strstr(name, "wrapper") || *name == '<' || *name == '_';
}

static void read_thread(struct stack *s, const json_t *frames)
{
	const json_t *f;
	size_t i;

	json_array_foreach(frames, i, f) {
		const char *name = jsonio_string(f, "name");
		const char *file = jsonio_string(f, "filename");
		const char *base = strrchr(file, '/');
		json_int_t line = json_integer_value(json_object_get(f, "line"));

		if (!i)
			snprintf(s->doing, sizeof(s->doing), "%.60s", name);
		if (waits_in(file) && !is_wrapper(name))
			snprintf(s->call, sizeof(s->call), "%.60s", name);
		if (is_library(file) || waits_in(file))
			continue;
		snprintf(s->frame, sizeof(s->frame), "%.100s", name);
		snprintf(s->where, sizeof(s->where), "%.60s (%.40s:%lld)", name,
			 base ? base + 1 : file, (long long)line);
		break;
	}
	if (*s->doing && !*s->frame) {
		memcpy(s->frame, s->doing, sizeof(s->doing));
		memcpy(s->where, s->doing, sizeof(s->doing));
	}
}

bool stacks_python(struct stack *s, const char *text)
{
	json_t *all = json_loads(text, 0, NULL);
	const json_t *t;
	size_t i;

	memset(s, 0, sizeof(*s));
	json_array_foreach(all, i, t)
		if (!strcmp(jsonio_string(t, "thread_name"), "MainThread") ||
		    json_integer_value(json_object_get(t, "os_thread_id")) ==
			    json_integer_value(json_object_get(t, "pid")))
			read_thread(s, json_object_get(t, "frames"));
	json_decref(all);
	return *s->frame != 0;
}

/* ---- the program's frames ---- */

/* The end of the main thread's stack, and its begin, of /proc/PID/maps. */
static bool stack_bounds(pid_t pid, uint64_t *begin, uint64_t *end)
{
	char path[48], line[LINE];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, "[stack]") &&
			sscanf(line, "%" SCNx64 "-%" SCNx64, begin, end) == 2 && *begin < *end;
	if (f)
		fclose(f);
	return found;
}

/* A hash of the stack from the place where the call returns to the program, and the registers
 * that it has saved below that; the last such place, as deeper ones are left over. */
static uint64_t frames_print(pid_t pid, uint64_t back)
{
	enum { MOST = 256 << 10, SAVED = 6 };
	uint64_t begin, end, *words, hash = 0xcbf29ce484222325;
	struct iovec to, from;
	size_t n, at;
	ssize_t got;

	if (!back || !stack_bounds(pid, &begin, &end))
		return 0;
	if (end - begin > MOST)
		begin = end - MOST;
	words = malloc((size_t)(end - begin));
	to = (struct iovec){ words, (size_t)(end - begin) };
	from = (struct iovec){ (void *)(uintptr_t)begin, (size_t)(end - begin) };
	got = words ? process_vm_readv(pid, &to, 1, &from, 1, 0) : -1;
	n = got > 0 ? (size_t)got / sizeof(*words) : 0;
	for (at = n; at && words[at - 1] != back; at--)
		;
	for (size_t i = at > SAVED ? at - 1 - SAVED : n; i < n; i++)
		hash = (hash ^ words[i]) * 0x100000001b3;
	free(words);
	return at > SAVED ? hash | 1 : 0;
}

/* ---- a process ---- */

static char *capture(const char *const *argv)
{
	struct err e;
	char *out = NULL;
	int status;

	if (proc_capture((char *const *)(uintptr_t)argv, OUTPUT, STACKS_MS, &out, &status,
			 &e)) {
		free(out);
		return NULL;
	}
	return out;
}

bool stacks_read(struct stack *s, pid_t pid, bool is_python)
{
	char number[16];
	const char *const native[] = { "eu-stack", "-1", "-m", "-s", "-p", number, NULL };
	const char *const python[] = { "py-spy", "dump", "--nonblocking", "--json", "--pid",
				       number,   NULL };
	char *out = NULL;
	bool good = false;

	memset(s, 0, sizeof(*s));
	snprintf(number, sizeof(number), "%d", (int)pid);
	if (is_python && stacks_has(true)) {
		out = capture(python);
		good = out && stacks_python(s, out);
		free(out);
	}
	if (good || !stacks_has(false))
		return good;
	/* A call that is left between the stack and its print has none: again. */
	for (int tries = 0; tries < 2 && !s->print; tries++) {
		out = capture(native);
		good = out && stacks_native(s, out);
		free(out);
		if (!good || !*s->call)
			break;
		s->print = frames_print(pid, s->back);
	}
	return good;
}
