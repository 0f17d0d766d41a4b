/* envplugins.c - find the libraries that NCCL would load as its env plug-in. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/envplugins.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "detect/loader.h"
#include "detect/rootfs.h"
#include "host/netconf.h"
#include "host/pins.h"

/* A plug-in is small.  The rest of a larger file is not read, and stays unknown. */
enum { PLUGIN_CAP = 8 << 20 };

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

static bool is_library(const char *data, size_t len)
{
	Elf64_Ehdr h;

	if (len < sizeof(h))
		return false;
	memcpy(&h, data, sizeof(h));
	return !memcmp(h.e_ident, ELFMAG, SELFMAG) && h.e_ident[EI_CLASS] == ELFCLASS64 &&
	       h.e_ident[EI_DATA] == ELFDATA2LSB && h.e_type == ET_DYN &&
	       h.e_machine == MACHINE;
}

static bool has_text(const char *data, size_t len, const char *text)
{
	return memmem(data, len, text, strlen(text) + 1) != NULL;
}

/* Judges by names in the file: an exported symbol has its name there. */
static void judge_library(struct netconf_plugin *p, const char *data, size_t len)
{
	p->loads = is_library(data, len);
	if (!p->loads)
		return;
	if (has_text(data, len, "ncclEnvPlugin_v1"))
		p->takes |= NETCONF_ENV_V1;
	if (has_text(data, len, "ncclEnvPlugin_v2"))
		p->takes |= NETCONF_ENV_V2;
	p->is_ours = has_text(data, len, PINS_MARK);
}

static void read_library(struct rootfs *fs, struct netconf_plugin *p)
{
	char *data = malloc(PLUGIN_CAP);
	int fd = rootfs_fd(fs, p->path, NULL);
	size_t len = 0;
	ssize_t n = 0;

	while (data && fd >= 0 && len < PLUGIN_CAP &&
	       (n = pread(fd, data + len, PLUGIN_CAP - len, (off_t)len)) > 0)
		len += (size_t)n;
	if (data && fd >= 0)
		judge_library(p, data, len);
	/* A file that was not read to its end may have any interface. */
	if (len == PLUGIN_CAP || n < 0)
		p->takes = NETCONF_ENV_V1 | NETCONF_ENV_V2;
	if (fd >= 0)
		close(fd);
	free(data);
}

static int add_name(struct netconf *c, struct rootfs *fs, const char *nccl, const char *name,
		    struct err *e)
{
	struct netconf_plugin p = { 0 };
	char path[PATH_MAX];

	if (strlen(name) >= sizeof(p.name) || netconf_plugin_find(c, name))
		return 0;
	snprintf(p.name, sizeof(p.name), "%s", name);
	if (loader_find(fs, nccl, name, path) && strlen(path) < sizeof(p.path)) {
		snprintf(p.path, sizeof(p.path), "%s", path);
		read_library(fs, &p);
	}
	return netconf_add_plugin(c, &p, e);
}

/* Adds the libraries of one setting: its value is a file name, or a part of one. */
static int add_setting(struct netconf *c, struct rootfs *fs, const char *nccl,
		       const char *value, struct err *e)
{
	char name[NETCONF_PLUGIN];
	int rc = *value ? add_name(c, fs, nccl, value, e) : 0;

	if (rc || !*value || strchr(value, '/') ||
	    snprintf(name, sizeof(name), "libnccl-env-%s.so", value) >= (int)sizeof(name))
		return rc;
	return add_name(c, fs, nccl, name, e);
}

int envplugins_find(struct netconf *c, struct rootfs *fs, const char *nccl, struct err *e)
{
	int i, rc = add_name(c, fs, nccl, "libnccl-env.so", e);

	if (!rc)
		rc = add_name(c, fs, nccl, PINS_PLUGIN, e);
	/* A hostile file may have thousands of lines; a real one has a few. */
	for (i = 0; !rc && i < c->nrows && c->nplugins < 16; i++)
		if (!strcmp(c->rows[i].name, "NCCL_ENV_PLUGIN"))
			rc = add_setting(c, fs, nccl, c->rows[i].value, e);
	return rc;
}
