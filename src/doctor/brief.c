/* brief.c - a page about a node to paste into an issue, without secrets. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/brief.h"

#include <gnu/libc-version.h>
#include <limits.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/build.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/jsonio.h"
#include "detect/netfacts.h"

static void brief_add(json_t *out, const char *title, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void brief_add(json_t *out, const char *title, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(out,
			      json_pack("{ss so}", "title", title, "text", jsonio_text(text)));
}

/* The value of PRETTY_NAME in os-release. */
static void system_name(const char *root, char out[128])
{
	static const char mark[] = "\nPRETTY_NAME=\"";
	char *text, *at;
	struct err ignored;
	size_t len;

	snprintf(out, 128, "unknown");
	if (file_read(root, "/etc/os-release", 1 << 16, &text, &len, &ignored) &&
	    file_read(root, "/usr/lib/os-release", 1 << 16, &text, &len, &ignored))
		return;
	at = !strncmp(text, mark + 1, sizeof(mark) - 2) ? text - 1 : strstr(text, mark);
	if (at)
		snprintf(out, 128, "%.*s", (int)strcspn(at + sizeof(mark) - 1, "\"\n"),
			 at + sizeof(mark) - 1);
	free(text);
}

static void add_system(json_t *out, const char *root)
{
	char name[128], now[64] = "";
	struct timex clock = { 0 };
	time_t t = time(NULL);
	struct utsname u;
	struct tm tm;

	system_name(root, name);
	if (*root) {
		brief_add(out, "system", "%s, a tree", name);
		return;
	}
	if (!uname(&u))
		brief_add(out, "system", "%s, %s %s %s, glibc %s", name, u.sysname, u.release,
			  u.machine, gnu_get_libc_version());
	if (gmtime_r(&t, &tm))
		strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	brief_add(out, "clock", "%s, %s", now,
		  adjtimex(&clock) < 0        ? "state unknown"
		  : clock.status & STA_UNSYNC ? "not synchronized, according to the kernel"
					      : "synchronized");
	brief_add(out, "machine", "%ld processors, %.1f GiB", sysconf(_SC_NPROCESSORS_ONLN),
		  (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30));
}

static void add_room(json_t *out)
{
	const char *tmp = conf_env("TMPDIR"), *home = conf_env("HOME");
	const struct {
		const char *title, *dir;
	} all[] = { { "/", "/" },
		    { "temporary files", tmp && *tmp ? tmp : "/tmp" },
		    { "home", home ? home : "" },
		    { "/dev/shm", "/dev/shm" } };
	char line[256] = "";
	size_t at = 0;
	struct statvfs v;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && at < sizeof(line) - 64; i++)
		if (*all[i].dir && !statvfs(all[i].dir, &v))
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s %.1f GiB",
					       at ? ", " : "", all[i].title,
					       (double)v.f_bavail * (double)v.f_frsize /
						       (1 << 30));
	brief_add(out, "free space", "%s", line);
}

/* Adds a line for each entry of the list @name: its @first, then what it has of the others. */
static void add_list(json_t *out, const json_t *facts, const char *name, const char *title,
		     const char *const *fields)
{
	const char *value;
	char line[1024];
	size_t i, at;
	json_t *o;

	json_array_foreach(json_object_get(facts, name), i, o) {
		at = 0;
		line[0] = 0;
		for (int k = 0; fields[k] && at < sizeof(line) - 8; k++) {
			value = jsonio_string(o, fields[k]);
			if (*value)
				at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s",
						       at ? " " : "", value);
		}
		brief_add(out, title, "%s", line);
	}
}

static void add_installed(json_t *out, const json_t *facts)
{
	static const char *const pythons[] = { "path", "version", "kind", NULL };
	static const char *const frameworks[] = { "name", "version", "python", NULL };
	static const char *const engines[] = { "name", "version", "python", "library", NULL };
	static const char *const mpis[] = { "flavour", "version", "library", NULL };
	static const char *const nccls[] = { "version", "library", NULL };
	static const char *const toolkits[] = { "version", "path", NULL };
	const json_t *cuda = json_object_get(facts, "cuda");
	const json_t *driver = json_object_get(cuda, "driver");

	add_list(out, facts, "pythons", "python", pythons);
	add_list(out, facts, "frameworks", "framework", frameworks);
	add_list(out, facts, "engines", "engine", engines);
	add_list(out, facts, "mpi", "MPI", mpis);
	add_list(out, facts, "nccl", "NCCL", nccls);
	add_list(out, cuda, "toolkits", "CUDA", toolkits);
	brief_add(out, "GPUs", "%d%s%s",
		  (int)json_integer_value(json_object_get(cuda, "gpu_count")),
		  json_is_object(driver) ? ", driver " : "", jsonio_string(driver, "version"));
}

/* May the value be a secret, or lead to one? */
static bool is_secret(const char *name, const char *value)
{
	static const char *const marks[] = { "KEY", "SECRET", "TOKEN", "PASS", "CREDENTIAL" };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strcasestr(name, marks[i]))
			return true;
	return strstr(value, "://") && strchr(value, '@');
}

static void add_network(json_t *out)
{
	struct netfacts_from from = { .root = "" };
	struct snapshot s = { 0 };
	struct err e;

	if (netfacts_read(&s, &from, &e)) {
		brief_add(out, "network", "cannot be read: %s", e.text);
		snapshot_free(&s);
		return;
	}
	for (int i = 0; i < s.ifaces.nifaces; i++) {
		const struct iface *f = &s.ifaces.ifaces[i];

		brief_add(out, "interface", "%s, %s, %s, MTU %d", f->name,
			  iface_kind_text(f->kind), iface_state_text(f), f->mtu);
	}
	for (int i = 0; i < s.settings.nrows; i++) {
		const struct netconf_row *r = &s.settings.rows[i];

		brief_add(out, "setting", "%s=%s, from %s", r->name,
			  is_secret(r->name, r->value) ? "(not shown)" : r->value, r->source);
	}
	snapshot_free(&s);
}

json_t *brief_of(const char *root, const json_t *facts)
{
	static const char *const variables[] = { "LD_LIBRARY_PATH", "LD_PRELOAD",
						 "PYTHONPATH",      "VIRTUAL_ENV",
						 "CONDA_PREFIX",    "CUDA_VISIBLE_DEVICES",
						 "OMP_NUM_THREADS" };
	json_t *out = json_array();
	const char *value;

	brief_add(out, "ringup", "%s", build_version());
	add_system(out, root);
	if (!*root)
		add_room(out);
	add_installed(out, facts);
	if (*root)
		return out;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		value = conf_env(variables[i]);
		if (value)
			brief_add(out, "variable", "%s=%s", variables[i], value);
	}
	add_network(out);
	return out;
}
