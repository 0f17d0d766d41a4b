/* test_packages.c - distributions, their compilers, and a package manager that says no. */
/* needs: waits */
#include "rebuild/packages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rebuild/versions.h"
#include "tap.h"

static char dir[] = "/tmp/test_packages.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0755);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

static void test_os(void)
{
	static const struct {
		const char *text, *name, *release;
	} rows[] = {
		{ "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n", "debian", "12" },
		{ "ID='ubuntu'\nVERSION_ID='22.04'", "ubuntu", "22.04" },
		{ "ID=\"rocky\"\nVERSION_ID=\"9.3\"\n", "rhel", "9.3" },
		{ "ID=debian\n", "debian", "" },
		{ "ID=../../x\nVERSION_ID=12\n", "", "" },
		{ "ID=debian\nVERSION_ID=12;rm\n", "", "" },
		{ "", "", "" },
		{ "\n\n=\n", "", "" },
	};
	char name[32], release[32];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		packages_parse_os(rows[i].text, strlen(rows[i].text), name, release);
		ok(!strcmp(name, rows[i].name) && !strcmp(release, rows[i].release),
		   "row %zu: %s %s", i, name, release);
	}
}

static void test_names(void)
{
	struct packages p = { 0 };

	packages_parse_names(&p, "apt",
			     "g++-11 - GNU C++ compiler\ng++-12-multilib - x\nclang-16 - C\n"
			     "clang-format-14 - x\ng++- - x\nlibclang-16-dev\ng++-4.8\n"
			     "g++-123456789\n");
	ok(p.count == 3, "three of them are compilers: %d", p.count);
	ok(!strcmp(p.at[1].cxx, "/usr/bin/clang++-16") && !strcmp(p.at[1].package, "clang-16"),
	   "clang's C++ has a name of its own");
	packages_free(&p);
	packages_parse_names(&p, "dnf", "gcc-toolset-13-gcc-c++\ngcc-toolset-13-gcc\ng++-12\n");
	ok(p.count == 1 && !strcmp(p.at[0].cxx, "/opt/rh/gcc-toolset-13/root/usr/bin/g++"),
	   "a toolset");
	packages_free(&p);
}

/* A recorded tree is not asked: the table tells. */
static void test_tree(void)
{
	static const char text[] = "debian\t12\t12\tclang\t13-14\tdoc\tx\t\n"
				   "debian\t12\t12\tgcc\t11-12\tdoc\tx\t\n";
	struct versions t;
	struct packages p;

	ok(!versions_parse(&t, "table", text, strlen(text), NULL), "a table");
	packages_find(&p, dir, &t);
	ok(!p.manager && !p.count, "no package manager, no packages");
	packages_free(&p);
	mkdir(path_of("etc"), 0755);
	mkdir(path_of("usr"), 0755);
	mkdir(path_of("usr/bin"), 0755);
	put("etc/os-release", "ID=debian\nVERSION_ID=12\n");
	put("usr/bin/apt-get", "");
	packages_find(&p, dir, &t);
	ok(p.count == 4 && !p.asked, "four compilers, by the table");
	packages_free(&p);
	unlink(path_of("usr/bin/apt-get"));
	unlink(path_of("etc/os-release"));
	rmdir(path_of("usr/bin"));
	rmdir(path_of("usr"));
	rmdir(path_of("etc"));
	versions_free(&t);
}

/* What an apt-get that says @says and exits with @status comes to. */
static void try(const char *what, const char *script, enum packages_fate want, const char *says)
{
	struct textpair one = { "g++-11", "" };
	struct textpairs names = { &one, 1 };
	struct packages_how how = { .manager = "apt",
				    .names = &names,
				    .log_fd = -1,
				    .lock_ms = 1000,
				    .timeout_ms = 3000 };
	enum packages_fate fate;
	struct err e = { 0 };
	int rc;

	put("apt-get", script);
	put("apt-cache", "#!/bin/sh\ncase $* in *'^g\\+\\+-11$'*) echo 'g++-11 - x' ;; esac\n");
	rc = packages_install(&how, &fate, &e);
	ok(fate == want && !rc == (want == PACKAGES_DONE) && strstr(e.text, says), "%s: %d %s",
	   what, (int)fate, e.text);
	unlink(path_of("apt-get"));
	unlink(path_of("apt-cache"));
}

/* apt-get would take a name that it does not know for a pattern. */
static void test_unknown(void)
{
	struct textpair one = { "g++-7", "" };
	struct textpairs names = { &one, 1 };
	struct packages_how how = { .manager = "apt",
				    .names = &names,
				    .log_fd = -1,
				    .lock_ms = 1000,
				    .timeout_ms = 3000 };
	enum packages_fate fate;
	struct err e = { 0 };

	put("apt-get", "#!/bin/sh\ncase $* in *install*) : >\"${0%/*}/installed\" ;; esac\n");
	put("apt-cache", "#!/bin/sh\n");
	ok(packages_install(&how, &fate, &e) && fate == PACKAGES_MISSING &&
		   strstr(e.text, "does not have g++-7"),
	   "a name that nobody knows: %s", e.text);
	ok(access(path_of("installed"), F_OK) < 0, "and nothing is installed in its place");
	unlink(path_of("apt-get"));
	unlink(path_of("apt-cache"));
}

static void test_install(void)
{
	static const char log[] = "#!/bin/sh\necho \"$*\" >>\"${0%/*}/calls\"\n";
	char script[512], *calls = NULL;
	struct stat st;
	FILE *f;

	snprintf(script, sizeof(script), "%secho $DEBIAN_FRONTEND $0\n", log);
	try("all is well", script, PACKAGES_DONE, "");
	f = fopen(path_of("calls"), "r");
	calls = calloc(1, 4096);
	ok(f && calls && fread(calls, 1, 4095, f), "it was called");
	ok(strstr(calls, "install --no-install-recommends --no-remove g++-11") &&
		   strstr(calls, "DPkg::Lock::Timeout=1") && !strstr(calls, "update"),
	   "once: %s", calls);
	if (f)
		fclose(f);
	free(calls);
	try("the lock",
	    "#!/bin/sh\necho 'E: Could not get lock /x. It is held by 7'; exit 100\n",
	    PACKAGES_LOCKED, "another program");
	try("no network",
	    "#!/bin/sh\necho \"Temporary failure resolving 'deb.debian.org'\" >&2; exit 100\n",
	    PACKAGES_OFFLINE, "cannot be fetched");
	try("no such package",
	    "#!/bin/sh\necho 'E: Unable to locate package g++-11'\n"
	    "case \"$*\" in *update) exit 0 ;; esac\nexit 100\n",
	    PACKAGES_MISSING, "does not have g++-11");
	try("lists that are too old",
	    "#!/bin/sh\ncase \"$*\" in *update) : >\"${0%/*}/fresh\"; exit 0 ;; esac\n"
	    "[ -e \"${0%/*}/fresh\" ] || { echo '404 Failed to fetch x'; exit 100; }\n",
	    PACKAGES_DONE, "");
	try("for ever", "#!/bin/sh\nsleep 60\n", PACKAGES_FAILED, "not finished");
	try("no rights", "#!/bin/sh\necho 'E: are you root?'; exit 100\n", PACKAGES_DENIED,
	    "only root");
	try("anything", "#!/bin/sh\necho well; echo oops; echo; exit 100\n", PACKAGES_FAILED,
	    ": oops");
	try("no word", "#!/bin/sh\nexit 100\n", PACKAGES_FAILED, "no reason given");
	ok(!stat(path_of("fresh"), &st), "lists were fetched when they had to be");
	unlink(path_of("fresh"));
	unlink(path_of("calls"));
}

static void test_refusals(void)
{
	struct textpair one = { "g++-11; reboot", "" };
	struct textpairs names = { &one, 1 };
	struct packages_how how = { .manager = "apt", .names = &names, .log_fd = -1 };
	enum packages_fate fate;
	struct err e = { 0 };

	ok(packages_install(&how, &fate, &e) && fate == PACKAGES_FAILED &&
		   strstr(e.text, "not a package name"),
	   "no name: %s", e.text);
	names.count = 0;
	ok(!packages_install(&how, &fate, &e) && fate == PACKAGES_DONE, "nothing to do");
	how.manager = NULL;
	ok(packages_install(&how, &fate, &e) && strstr(e.text, "neither apt-get nor dnf"),
	   "no package manager: %s", e.text);
}

int main(void)
{
	char path[256];

	if (!mkdtemp(dir))
		abort();
	test_os();
	test_names();
	test_tree();
	test_refusals();
	/* An apt-get of our own goes before the node's; nothing is installed. */
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", dir);
	setenv("PATH", path, 1);
	setenv("APT_LISTS", path_of("lists"), 1);
	mkdir(path_of("lists"), 0755);
	put("lists/x_Packages", "");
	if (geteuid())
		printf("ok %d # SKIP only root installs\n", ++tap_count);
	else {
		test_install();
		test_unknown();
	}
	unlink(path_of("lists/x_Packages"));
	rmdir(path_of("lists"));
	ok(!rmdir(dir), "nothing is left");
	return tap_done();
}
