/* packages.c - compilers in the node's distribution: list and install their packages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/packages.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "detect/text.h"
#include "rebuild/versions.h"
#include "ringup.h"

enum {
	OS_BYTES = 1 << 16,
	NAMES_BYTES = 1 << 18,
	ASK_MS = 20000,
	MOST_NAMES = 16,
	MOST_COMPILERS = 64
};
enum { SAID_BYTES = 1 << 16, MAX_MAJOR = 40 };

/* Reads NAME=value or NAME="value"; empty if missing. */
static void os_field(const char *data, size_t len, const char *name, char *out, size_t cap)
{
	char raw[128];
	size_t n;

	*out = 0;
	if (!text_field(data, len, name, '=', raw, sizeof(raw)))
		return;
	n = strlen(raw);
	if (n > 1 && (*raw == '"' || *raw == '\'') && raw[n - 1] == *raw)
		text_copy(out, cap, raw + 1, n - 2);
	else
		text_set(out, cap, raw);
}

void packages_parse_os(const char *data, size_t len, char name[32], char release[32])
{
	static const struct {
		const char *id, *is;
	} same[] = { { "rocky", "rhel" },
		     { "almalinux", "rhel" },
		     { "centos", "rhel" },
		     { "ol", "rhel" } };

	os_field(data, len, "ID", name, 32);
	os_field(data, len, "VERSION_ID", release, 32);
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		if (!strcmp(name, same[i].id))
			text_set(name, 32, same[i].is);
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz")] ||
	    release[strspn(release, "0123456789.")])
		*name = *release = 0;
}

static void compiler_add(struct packages *p, const char *family, const char *version,
			 const char *manager)
{
	bool gcc = !strcmp(family, "gcc");
	char cc[80], cxx[80], package[64];
	struct packages_compiler *o =
		p->count < MOST_COMPILERS
			? textpool_more(&p->pool, &p->at, &p->count, sizeof(*o))
			: NULL;

	if (!strcmp(manager, "dnf") && gcc) {
		snprintf(package, sizeof(package), "gcc-toolset-%.8s-gcc-c++", version);
		snprintf(cc, sizeof(cc), "/opt/rh/gcc-toolset-%.8s/root/usr/bin/gcc", version);
		snprintf(cxx, sizeof(cxx), "/opt/rh/gcc-toolset-%.8s/root/usr/bin/g++",
			 version);
	} else {
		snprintf(package, sizeof(package), "%s-%.8s", gcc ? "g++" : "clang", version);
		snprintf(cc, sizeof(cc), "/usr/bin/%s-%.8s", family, version);
		snprintf(cxx, sizeof(cxx), "/usr/bin/%s-%.8s", gcc ? "g++" : "clang++",
			 version);
	}
	if (o)
		*o = (struct packages_compiler){ .family = textpool_keep(&p->pool, family),
						 .version = textpool_keep(&p->pool, version),
						 .cc = textpool_keep(&p->pool, cc),
						 .cxx = textpool_keep(&p->pool, cxx),
						 .package = textpool_keep(&p->pool, package) };
}

/* Is @s a version such as "12" or "4.8", in which a package's name may end? */
static bool is_series(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)s[i]) && (s[i] != '.' || !i || i + 1 == n))
			return false;
	return n && n < 6;
}

void packages_parse_names(struct packages *p, const char *manager, const char *said)
{
	static const struct {
		const char *manager, *before, *after, *family;
	} forms[] = { { "apt", "g++-", "", "gcc" },
		      { "apt", "clang-", "", "clang" },
		      { "dnf", "gcc-toolset-", "-gcc-c++", "gcc" } };
	char version[8];
	size_t n;

	for (; *said; said += n + (said[n] == '\n')) {
		size_t name;

		n = strcspn(said, "\n");
		name = strcspn(said, " \t\n"); /* "g++-12 - GNU C++ compiler" */
		for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
			size_t b = strlen(forms[i].before), a = strlen(forms[i].after);

			if (strcmp(forms[i].manager, manager) || name <= a + b ||
			    strncmp(said, forms[i].before, b) ||
			    strncmp(said + name - a, forms[i].after, a) ||
			    !is_series(said + b, name - a - b))
				continue;
			text_copy(version, sizeof(version), said + b, name - a - b);
			compiler_add(p, forms[i].family, version, manager);
		}
	}
}

/* Asks the package manager for its list; false if it cannot tell. */
static bool manager_ask(const char *manager, struct packages *p)
{
	static char apt[] = "apt-cache", names[] = "--names-only", search[] = "search",
		    which[] = "^(g\\+\\+|clang)-[0-9.]+$", dnf[] = "dnf", quiet[] = "-q",
		    cached[] = "-C", query[] = "repoquery", form[] = "--qf=%{name}\n",
		    toolsets[] = "gcc-toolset-*-gcc-c++";
	char *by_apt[] = { apt, names, search, which, NULL };
	char *by_dnf[] = { dnf, quiet, cached, query, form, toolsets, NULL };
	struct err e = { 0 };
	char *said = NULL;
	int status;
	bool good;

	if (proc_capture(strcmp(manager, "apt") ? by_dnf : by_apt, NAMES_BYTES, ASK_MS, &said,
			 &status, &e))
		return false;
	good = WIFEXITED(status) && !WEXITSTATUS(status);
	if (good)
		packages_parse_names(p, manager, said);
	free(said);
	/* apt finds no package before its lists are downloaded. */
	return good && p->count;
}

/* Adds the distribution's compilers from the table. */
static void table_recall(const struct versions *t, const char *name, const char *release,
			 const char *manager, struct packages *p)
{
	static const char *const families[] = { "gcc", "clang" };
	const struct version_fact *f;
	char version[8];

	for (int i = 0; i < 2; i++) {
		f = versions_ask(t, name, release, families[i], NULL);
		for (int k = 1; f && k < MAX_MAJOR; k++) {
			snprintf(version, sizeof(version), "%d", k);
			if (versions_in(version, f->value))
				compiler_add(p, families[i], version, manager);
		}
	}
}

static const char *manager_of(const char *root)
{
	if (file_exists(root, "/usr/bin/apt-get"))
		return "apt";
	return file_exists(root, "/usr/bin/dnf") ? "dnf" : NULL;
}

void packages_find(struct packages *p, const char *root, const struct versions *t)
{
	bool live = !root || !*root || !strcmp(root, "/");
	const char *below = live ? "" : root, *manager = manager_of(below);
	char name[32] = "", release[32] = "";
	char *os = NULL;
	size_t len;

	if (!file_read(below, "/etc/os-release", OS_BYTES, &os, &len, NULL) ||
	    !file_read(below, "/usr/lib/os-release", OS_BYTES, &os, &len, NULL))
		packages_parse_os(os, len, name, release);
	free(os);
	*p = (struct packages){ .manager = manager };
	if (manager && live)
		p->asked = manager_ask(manager, p);
	if (manager && !p->asked && t && *name)
		table_recall(t, name, release, manager, p);
}

void packages_free(struct packages *p)
{
	textpool_free(&p->pool);
	*p = (struct packages){ 0 };
}

/* Installing. */

struct said {
	int fd; /* both outputs of the package manager */
	char *text;
};

static void listen_close(struct said *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->text);
}

/* Reads the last SAID_BYTES of the output to s->text and to the log. */
static void packages_hear(struct said *s, int log_fd)
{
	off_t end = lseek(s->fd, 0, SEEK_END), at;
	ssize_t n;

	free(s->text);
	s->text = calloc(1, SAID_BYTES + 1);
	at = end > SAID_BYTES ? end - SAID_BYTES : 0;
	if (!s->text)
		return;
	n = pread(s->fd, s->text, SAID_BYTES, at);
	s->text[n > 0 ? n : 0] = 0;
	if (log_fd >= 0 && n > 0)
		file_put(log_fd, s->text, (size_t)n);
}

static bool says(const struct said *s, const char *const *words)
{
	for (size_t i = 0; s->text && words[i]; i++)
		if (strstr(s->text, words[i]))
			return true;
	return false;
}

static enum packages_fate read_fate(const struct said *s)
{
	static const char *const locked[] = { "Could not get lock",
					      "Unable to acquire the dpkg",
					      "waiting for cache lock",
					      "Another app is currently holding", NULL };
	static const char *const missing[] = { "Unable to locate package",
					       "has no installation candidate",
					       "No match for argument",
					       "Unable to find a match", NULL };
	static const char *const offline[] = { "Temporary failure resolving",
					       "Could not resolve",
					       "Could not connect",
					       "Failed to fetch",
					       "Unable to fetch",
					       "Cannot download",
					       "Failed to download",
					       "unable to connect",
					       NULL };
	static const char *const denied[] = { "Permission denied", "are you root",
					      "superuser privileges", NULL };

	if (says(s, denied))
		return PACKAGES_DENIED;
	if (says(s, locked))
		return PACKAGES_LOCKED;
	if (says(s, offline))
		return PACKAGES_OFFLINE;
	return says(s, missing) ? PACKAGES_MISSING : PACKAGES_FAILED;
}

/* Runs the package manager once; 0 if it succeeded. */
static int call(const struct packages_how *how, char *const *argv, struct said *s,
		enum packages_fate *fate, struct err *e)
{
	int fds[3] = { -1, s->fd, s->fd }, status = 0, rc;
	struct proc_how start = { .argv = argv, .fds = fds, .nfds = 3 };

	if (ftruncate(s->fd, 0) || lseek(s->fd, 0, SEEK_SET))
		return fail_os(e, "memory for what %s says", argv[0]);
	rc = proc_run(&start, how->timeout_ms, &status, e);
	packages_hear(s, how->log_fd);
	*fate = PACKAGES_FAILED;
	if (rc)
		return rc;
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		*fate = PACKAGES_DONE;
		return 0;
	}
	*fate = read_fate(s);
	return fail(e, RINGUP_ESYSTEM, "%s", argv[0]);
}

/* Does apt have any package lists? */
static bool has_lists(void)
{
	const char *dir = conf_env("APT_LISTS");
	struct dirent *d;
	bool found = false;
	DIR *all = opendir(dir ? dir : "/var/lib/apt/lists");

	while (all && !found && (d = readdir(all)))
		found = strstr(d->d_name, "_Packages") != NULL;
	if (all)
		closedir(all);
	return found;
}

struct call {
	char word[8][48];
	char *argv[12 + MOST_NAMES];
	int n;
};

static void push(struct call *c, const char *word)
{
	c->argv[c->n++] = (char *)(uintptr_t)word;
	c->argv[c->n] = NULL;
}

static void packages_begin(struct call *c, const struct packages_how *how)
{
	c->n = 0;
	if (!strcmp(how->manager, "apt")) {
		snprintf(c->word[0], sizeof(c->word[0]), "-oDPkg::Lock::Timeout=%lld",
			 (long long)(how->lock_ms / 1000));
		push(c, "env");
		push(c, "DEBIAN_FRONTEND=noninteractive");
		push(c, "NEEDRESTART_MODE=l");
		push(c, "LC_ALL=C");
		push(c, "apt-get");
		push(c, "-qy");
		push(c, c->word[0]);
		push(c, "-oAcquire::Retries=2");
		push(c, "-oAPT::Update::Error-Mode=any");
	} else {
		push(c, "env");
		push(c, "LC_ALL=C");
		push(c, "dnf");
		push(c, "-qy");
		if (how->offline)
			push(c, "-C");
	}
}

/* Does a package of exactly this name exist?  apt-get takes an unknown name for a pattern, and
 * g++-7 matches many. */
static bool packages_is_known(const char *name)
{
	static char apt[] = "apt-cache", names[] = "--names-only", search[] = "search";
	char pattern[160], *argv[] = { apt, names, search, pattern, NULL }, *said = NULL;
	struct err e = { 0 };
	size_t n = 0;
	bool found;
	int status;

	pattern[n++] = '^';
	for (; *name && n + 4 < sizeof(pattern); name++) {
		if (*name == '+' || *name == '.')
			pattern[n++] = '\\';
		pattern[n++] = *name;
	}
	pattern[n++] = '$';
	pattern[n] = 0;
	if (proc_capture(argv, 4096, ASK_MS, &said, &status, &e))
		return false;
	found = *said != 0;
	free(said);
	return found;
}

static int install(const struct packages_how *how, struct call *c, struct said *s,
		   enum packages_fate *fate, struct err *e)
{
	for (int i = 0; !strcmp(how->manager, "apt") && i < how->names->count; i++)
		if (!packages_is_known(how->names->at[i].name)) {
			*fate = PACKAGES_MISSING;
			return fail(e, RINGUP_ESYSTEM, "apt-cache");
		}
	packages_begin(c, how);
	push(c, "install");
	if (!strcmp(how->manager, "apt")) {
		push(c, "--no-install-recommends");
		push(c, "--no-remove");
		if (how->offline)
			push(c, "--no-download");
	}
	for (int i = 0; i < how->names->count && i < MOST_NAMES - 4; i++)
		push(c, how->names->at[i].name);
	return call(how, c->argv, s, fate, e);
}

/* The last line of the output, which has the reason. */
static void last_words(const struct said *s, char *out, size_t size)
{
	const char *text = s && s->text ? s->text : "", *end = text + strlen(text), *at;

	while (end > text && (end[-1] == '\n' || end[-1] == ' '))
		end--;
	for (at = end; at > text && at[-1] != '\n'; at--)
		;
	snprintf(out, size, "%.*s", (int)(end - at), at);
}

static int packages_refuse(const struct packages_how *how, enum packages_fate fate,
			   const struct said *s, struct err *e)
{
	char names[160] = "", words[160], why[160];
	size_t n = 0;

	for (int i = 0; i < how->names->count && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? " " : "",
				      how->names->at[i].name);
	switch (fate) {
	case PACKAGES_OFFLINE:
		return fail(e, RINGUP_ESYSTEM,
			    "%s cannot be fetched: give this node its mirror, or install the "
			    "package into its image",
			    names);
	case PACKAGES_LOCKED:
		return fail(e, RINGUP_ETIMEDOUT,
			    "another program has used the package manager for %lld s; install "
			    "%s when it is done",
			    (long long)(how->lock_ms / 1000), names);
	case PACKAGES_MISSING:
		return fail(e, RINGUP_EINVAL, "this distribution does not have %s", names);
	case PACKAGES_DENIED:
		return fail(e, RINGUP_ESYSTEM, "only root may install %s", names);
	default:
		last_words(s, words, sizeof(words));
		text_clean(why, sizeof(why), words);
		return fail(e, RINGUP_ESYSTEM, "%s could not install %s: %s", how->manager,
			    names, *why ? why : "no reason given");
	}
}

/* Checks names of packages: they come from a package manager or the table. */
static bool packages_is_name(const char *s)
{
	return *s && isalnum((unsigned char)*s) && strlen(s) < 64 &&
	       !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+-.")];
}

static int packages_check(const struct packages_how *how, struct err *e)
{
	if (!how->manager || (strcmp(how->manager, "apt") && strcmp(how->manager, "dnf")))
		return fail(e, RINGUP_EINVAL,
			    "neither apt-get nor dnf is available to install a compiler; "
			    "install it by hand");
	for (int i = 0; i < how->names->count; i++)
		if (!packages_is_name(how->names->at[i].name))
			return fail(e, RINGUP_EINVAL, "not a package name: '%.40s'",
				    how->names->at[i].name);
	return 0;
}

int packages_install(const struct packages_how *how, enum packages_fate *fate, struct err *e)
{
	bool apt;
	struct said s = { .fd = -1 };
	struct call c;
	int rc = packages_check(how, e);

	*fate = PACKAGES_FAILED;
	if (rc)
		return rc;
	*fate = PACKAGES_DONE;
	if (!how->names->count)
		return 0;
	if (geteuid()) {
		*fate = PACKAGES_DENIED;
		return packages_refuse(how, *fate, NULL, e);
	}
	s.fd = memfd_create("packages", MFD_CLOEXEC);
	if (s.fd < 0)
		return fail_os(e, "memory for what the package manager says");
	apt = !strcmp(how->manager, "apt");
	rc = apt && !has_lists() ? -1 : install(how, &c, &s, fate, e);
	/* Old lists have packages that are gone, or lack new ones. */
	if (rc && apt && !how->offline && rc != RINGUP_ETIMEDOUT && *fate != PACKAGES_LOCKED &&
	    *fate != PACKAGES_DENIED) {
		packages_begin(&c, how);
		push(&c, "update");
		rc = call(how, c.argv, &s, fate, e);
		if (!rc)
			rc = install(how, &c, &s, fate, e);
	}
	if (rc && how->offline && (*fate == PACKAGES_FAILED || *fate == PACKAGES_DONE))
		*fate = PACKAGES_OFFLINE;
	if (rc && rc != RINGUP_ETIMEDOUT)
		rc = packages_refuse(how, *fate, &s, e);
	listen_close(&s);
	return rc;
}
