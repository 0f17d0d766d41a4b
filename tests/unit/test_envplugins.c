/* test_envplugins.c - what is known of a library that NCCL would load as its env plug-in. */
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "detect/envplugins.h"
#include "detect/rootfs.h"
#include "host/netconf.h"
#include "host/pins.h"
#include "tap.h"

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

static char dir[] = "/tmp/test_envplugins.XXXXXX";

/* A library of @machine with these texts, each with its end. */
static void put(const char *path, int machine, const char *text, size_t len)
{
	char data[512] = { 0 };
	Elf64_Ehdr h = { .e_type = ET_DYN, .e_machine = (Elf64_Half)machine };

	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(data, &h, sizeof(h));
	memcpy(data + sizeof(h), text, len);
	ok(file_write(dir, path, 0644, data, sizeof(h) + len, NULL) == 0, "%s", path);
}

#define PUT(path, machine, text) put(path, machine, text, sizeof(text))

static const struct netconf_plugin *find(struct rootfs *fs, struct netconf *c,
					 const char *asked, const char *name)
{
	struct err e = { 0 };

	netconf_free(c);
	if (asked && netconf_add(c, "NCCL_ENV_PLUGIN", asked, "environment", &e))
		return NULL;
	if (envplugins_find(c, fs, NULL, &e))
		return NULL;
	return netconf_plugin_find(c, name);
}

static void test_found(struct rootfs *fs)
{
	const struct netconf_plugin *p;
	struct netconf c = { 0 };

	p = find(fs, &c, NULL, "libnccl-env.so");
	ok(p && !*p->path && !p->takes, "none on the loader's path, and that is told");
	PUT("/usr/lib64/libnccl-env.so", MACHINE, "x\0ncclEnvPlugin_v1\0y");
	p = find(fs, &c, NULL, "libnccl-env.so");
	ok(p && p->loads && p->takes == NETCONF_ENV_V1 && !p->is_ours &&
		   !strcmp(p->path, "/usr/lib64/libnccl-env.so"),
	   "one that has the first interface");
	PUT("/usr/lib64/libnccl-env-pin.so", MACHINE,
	    "ncclEnvPlugin_v1\0ncclEnvPlugin_v2\0" PINS_MARK);
	p = find(fs, &c, "pin", "libnccl-env-pin.so");
	ok(p && p->is_ours && p->takes == (NETCONF_ENV_V1 | NETCONF_ENV_V2),
	   "ringup's, by a part of its name");
	p = netconf_plugin_find(&c, "pin");
	ok(p && !*p->path, "the part itself is no library");
	PUT("/x/other.so", MACHINE == EM_X86_64 ? EM_AARCH64 : EM_X86_64, "ncclEnvPlugin_v1");
	p = find(fs, &c, "/x/other.so", "/x/other.so");
	ok(p && *p->path && !p->loads && !p->takes, "of another kind of machine");
	PUT("/x/no.so", MACHINE, "ncclEnvPlugin_v10");
	p = find(fs, &c, "/x/no.so", "/x/no.so");
	ok(p && p->loads && !p->takes, "a library, but no plug-in");
	ok(!find(fs, &c, "/x/no.so", "libnccl-env-/x/no.so.so"), "a path is no part of a name");
	netconf_free(&c);
}

int main(void)
{
	char rm[64];
	json_t *problems = json_array();
	struct rootfs fs;
	struct err e = { 0 };

	if (!mkdtemp(dir))
		abort();
	ok(rootfs_open(&fs, dir, problems, &e) == 0, "open: %s", e.text);
	test_found(&fs);
	rootfs_close(&fs);
	json_decref(problems);
	snprintf(rm, sizeof(rm), "rm -rf %s", dir);
	ok(system(rm) == 0, "cleaned up");
	return tap_done();
}
