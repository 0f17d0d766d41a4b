/* elffile.c - the headers, dynamic section and strings of an ELF file, read with bounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/elffile.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"

/* libtorch_cpu.so has 64 KiB of versions at most. */
enum { MAX_TABLE = 1 << 18, MAX_STEPS = 1 << 16 };

int elffile_read(const struct elffile *f, void *buf, size_t len, uint64_t off, const char *what,
		 struct err *e)
{
	size_t got = 0;

	if (off > f->size || len > f->size - off)
		return fail(e, RINGUP_EINVAL, "%s lies beyond the end of the file", what);
	while (got < len) {
		ssize_t n = pread(f->fd, (char *)buf + got, len - got, (off_t)(off + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_os(e, "%s", what);
		if (n == 0)
			return fail(e, RINGUP_EINVAL, "%s: the file has become shorter", what);
		got += (size_t)n;
	}
	return 0;
}

static int read_head(struct elffile *f, struct err *e)
{
	const Elf64_Ehdr *h = &f->head;
	int rc;

	if (f->size < sizeof(*h))
		return fail(e, RINGUP_EINVAL, "not an ELF file: %llu bytes",
			    (unsigned long long)f->size);
	rc = elffile_read(f, &f->head, sizeof(f->head), 0, "the ELF header", e);
	if (rc)
		return rc;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return fail(e, RINGUP_EINVAL, "not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB)
		return fail(e, RINGUP_EINVAL, "not a 64-bit little-endian ELF file");
	if (h->e_phnum > ELFFILE_SEGMENTS || h->e_phentsize != sizeof(Elf64_Phdr))
		return fail(e, RINGUP_EINVAL, "%u program headers of %u bytes", h->e_phnum,
			    h->e_phentsize);
	return elffile_read(f, f->seg, h->e_phnum * sizeof(Elf64_Phdr), h->e_phoff,
			    "the program header", e);
}

uint64_t elffile_place(const struct elffile *f, uint64_t addr)
{
	for (int i = 0; i < f->head.e_phnum; i++) {
		const Elf64_Phdr *p = &f->seg[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr &&
		    addr - p->p_vaddr < p->p_filesz && p->p_offset <= f->size &&
		    addr - p->p_vaddr < f->size - p->p_offset)
			return p->p_offset + (addr - p->p_vaddr);
	}
	return f->size;
}

bool elffile_is_cut(const struct elffile *f)
{
	for (int i = 0; i < f->head.e_phnum; i++) {
		const Elf64_Phdr *p = &f->seg[i];

		if (p->p_type == PT_LOAD &&
		    (p->p_offset > f->size || p->p_filesz > f->size - p->p_offset))
			return true;
	}
	return false;
}

static int read_dynamic(struct elffile *f, struct err *e)
{
	const Elf64_Phdr *p = NULL;
	size_t i;
	int rc;

	for (i = 0; i < f->head.e_phnum && !p; i++)
		if (f->seg[i].p_type == PT_DYNAMIC)
			p = &f->seg[i];
	if (!p)
		return fail(e, RINGUP_EINVAL, "no dynamic section: not a shared library");
	if (p->p_filesz / sizeof(Elf64_Dyn) > ELFFILE_DYNAMIC)
		return fail(e, RINGUP_EINVAL, "a dynamic section of %llu bytes",
			    (unsigned long long)p->p_filesz);
	f->dyn_count = p->p_filesz / sizeof(Elf64_Dyn);
	rc = elffile_read(f, f->dyn, f->dyn_count * sizeof(Elf64_Dyn), p->p_offset,
			  "the dynamic section", e);
	if (rc)
		return rc;
	f->strings = f->size;
	for (i = 0; i < f->dyn_count && f->dyn[i].d_tag != DT_NULL; i++) {
		if (f->dyn[i].d_tag == DT_STRTAB)
			f->strings = elffile_place(f, f->dyn[i].d_un.d_ptr);
		else if (f->dyn[i].d_tag == DT_STRSZ)
			f->strings_len = f->dyn[i].d_un.d_val;
	}
	f->dyn_count = i;
	if (f->strings_len > f->size - f->strings)
		return fail(e, RINGUP_EINVAL,
			    "the dynamic strings lie beyond the end of the file");
	return 0;
}

bool elffile_value(const struct elffile *f, int64_t tag, uint64_t *value)
{
	for (size_t i = 0; i < f->dyn_count; i++)
		if (f->dyn[i].d_tag == tag) {
			*value = f->dyn[i].d_un.d_val;
			return true;
		}
	return false;
}

bool elffile_string(const struct elffile *f, uint64_t at, char *out, size_t cap)
{
	size_t len = cap, i;

	if (at >= f->strings_len)
		return false;
	if (len > f->strings_len - at)
		len = f->strings_len - at;
	if (elffile_read(f, out, len, f->strings + at, "a string", NULL))
		return false;
	for (i = 0; i < len && out[i]; i++)
		if (!isprint((unsigned char)out[i]))
			return false;
	return i < len && i > 0;
}

int elffile_open(struct elffile *f, int fd, struct err *e)
{
	struct stat st;
	int rc;

	memset(f, 0, sizeof(*f));
	if (fstat(fd, &st))
		return fail_os(e, "size");
	f->fd = fd;
	f->size = (uint64_t)st.st_size;
	rc = read_head(f, e);
	return rc ? rc : read_dynamic(f, e);
}

char *elffile_table(const struct elffile *f, int64_t tag, uint64_t *len)
{
	uint64_t at;
	char *table;

	if (!elffile_value(f, tag, &at))
		return NULL;
	at = elffile_place(f, at);
	*len = f->size - at < MAX_TABLE ? f->size - at : MAX_TABLE;
	table = *len ? malloc(*len) : NULL;
	if (table && elffile_read(f, table, *len, at, "symbol versions", NULL)) {
		free(table);
		table = NULL;
	}
	return table;
}

bool elffile_take(const char *table, uint64_t len, uint64_t at, void *part, uint64_t size)
{
	if (len < size || at > len - size)
		return false;
	memcpy(part, table + at, size);
	return true;
}

/* Version chains hold offsets that a hostile file may turn into loops, so steps are counted. */
void elffile_wants(const struct elffile *f, elffile_see_want *see, void *arg)
{
	uint64_t len, at = 0, a;
	char *table = elffile_table(f, DT_VERNEED, &len);
	int steps = 0;
	Elf64_Verneed need;
	Elf64_Vernaux aux;

	while (table && steps++ < MAX_STEPS &&
	       elffile_take(table, len, at, &need, sizeof(need))) {
		a = at + need.vn_aux;
		while (steps++ < MAX_STEPS && elffile_take(table, len, a, &aux, sizeof(aux))) {
			if (!see(arg, need.vn_file, &aux))
				goto out;
			if (!aux.vna_next)
				break;
			a += aux.vna_next;
		}
		if (!need.vn_next)
			break;
		at += need.vn_next;
	}
out:
	free(table);
}
