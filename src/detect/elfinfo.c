/* elfinfo.c - read from a shared library how it was built: compiler, C++ ABI, versions. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/elfinfo.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/release.h"
#include "detect/elffile.h"
#include "detect/text.h"
#include "ringup.h"

/* Real libraries have some 40 sections and 64 KiB to 30 MiB of names; a file with more than
 * this is refused. */
enum {
	MAX_SECTIONS = 4096,
	MAX_COMMENT = 65536,
	MAX_STRINGS = 64 << 20,
	WINDOW = 65536, /* names are read in pieces of this size  */
	ENOUGH = 16,    /* names of one ABI, none of the other    */
};

struct elf {
	struct elffile file;
	char window[WINDOW];
};

static void list_needed(struct elf *f, struct elfinfo *out)
{
	for (size_t i = 0; i < f->file.dyn_count && out->needed_count < ELFINFO_NEEDED; i++)
		if (f->file.dyn[i].d_tag == DT_NEEDED &&
		    elffile_string(&f->file, f->file.dyn[i].d_un.d_val,
				   out->needed[out->needed_count], sizeof(out->needed[0])))
			out->needed_count++;
}

static void keep_newest(char *best, size_t cap, const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	if (!strncmp(name, prefix, n) && isdigit((unsigned char)name[n]) &&
	    strlen(name + n) < cap && release_compare(name + n, best) > 0)
		text_set(best, cap, name + n);
}

struct versions {
	const struct elffile *file;
	struct elfinfo *info;
};

static bool keep_version(void *arg, uint64_t library, const Elf64_Vernaux *version)
{
	struct versions *v = arg;
	struct elfinfo *out = v->info;
	char name[32];

	(void)library;
	if (elffile_string(v->file, version->vna_name, name, sizeof(name))) {
		keep_newest(out->glibc, sizeof(out->glibc), name, "GLIBC_");
		keep_newest(out->glibcxx, sizeof(out->glibcxx), name, "GLIBCXX_");
		keep_newest(out->cxxabi, sizeof(out->cxxabi), name, "CXXABI_");
	}
	return true;
}

/* Matches _Z [T?] N [qualifiers] SPACE. */
bool elfinfo_is_own(const char *s, size_t len, const char *const *spaces)
{
	size_t i = 2, n;

	if (len < 5 || s[0] != '_' || s[1] != 'Z')
		return false;
	if (s[i] == 'T')
		i += 2;
	if (s[i++] != 'N')
		return false;
	while (i < len && strchr("rVKRO", s[i]))
		i++;
	for (; *spaces; spaces++) {
		n = strlen(*spaces);
		if (len - i >= n && !memcmp(s + i, *spaces, n))
			return true;
	}
	return false;
}

/*
 * The ABI that a mangled name shows: 1, 0 or -1.
 *
 * In the new ABI std::string is a type in the inline namespace __cxx11, and functions that
 * return one have the tag B5cxx11; in the old one it has the abbreviation Ss (Sb: the
 * template).  Identifiers are skipped by their length, so that none counts as an abbreviation.
 */
static int name_abi(const char *s, size_t len)
{
	size_t i = 2, n, start;

	while (i < len) {
		if (isdigit((unsigned char)s[i])) {
			start = i;
			for (n = 0; i < len && isdigit((unsigned char)s[i]) && n < WINDOW; i++)
				n = 10 * n + (size_t)(s[i] - '0');
			if (n > len - i)
				return -1;
			if (n == 7 && !memcmp(s + i, "__cxx11", 7))
				return 1;
			if (n == 5 && s[start - 1] == 'B' && !memcmp(s + i, "cxx11", 5))
				return 1;
			i += n;
		} else if (s[i] == 'S' && i + 1 < len && (s[i + 1] == 's' || s[i + 1] == 'b')) {
			return 0;
		} else if (s[i] == 'S' || s[i] == 'T') {
			/* S12_ and T0_ are back references; their digits are no length. */
			for (n = i + 1; n < len && (isdigit((unsigned char)s[n]) ||
						    isupper((unsigned char)s[n]));)
				n++;
			i = n < len && s[n] == '_' ? n + 1 : i + 1;
		} else if (s[i] == 'L' && i + 1 < len && islower((unsigned char)s[i + 1])) {
			/* Lb1E, Li42E: a literal. */
			while (i < len && s[i] != 'E')
				i++;
		} else {
			i++;
		}
	}
	return -1;
}

/* Scans the dynamic strings, a window at a time. */
static int judge_abi(struct elf *f, const char *const *spaces, int *abi, struct err *e)
{
	uint64_t left = f->file.strings_len < MAX_STRINGS ? f->file.strings_len : MAX_STRINGS;
	uint64_t at = f->file.strings;
	size_t held = 0, votes[2] = { 0, 0 };
	int rc;

	while (left && !(votes[0] >= ENOUGH && !votes[1]) &&
	       !(votes[1] >= ENOUGH && !votes[0])) {
		size_t n = WINDOW - held, used = 0;
		char *end;

		if (n > left)
			n = left;
		rc = elffile_read(&f->file, f->window + held, n, at, "the dynamic strings", e);
		if (rc)
			return rc;
		at += n;
		left -= n;
		held += n;
		while ((end = memchr(f->window + used, 0, held - used))) {
			const char *s = f->window + used;
			size_t len = (size_t)(end - s);
			int vote = elfinfo_is_own(s, len, spaces) ? name_abi(s, len) : -1;

			if (vote >= 0)
				votes[vote]++;
			used += len + 1;
		}
		/* A name longer than the window is dropped; its rest counts as nothing, since
		 * it does not start with _Z. */
		if (!used)
			used = held;
		memmove(f->window, f->window + used, held - used);
		held -= used;
	}
	*abi = votes[0] + votes[1] == 0 ? -1 : votes[1] >= votes[0];
	return 0;
}

/* The version in "GCC: (Debian 12.2.0-14) 12.2.0": after the closing bracket,
 * which may itself hold brackets. */
static const char *gcc_version(const char *s)
{
	int depth = 0;

	s += strlen("GCC:");
	while (*s == ' ')
		s++;
	do {
		depth += (*s == '(') - (*s == ')');
		if (!*s)
			return s;
		s++;
	} while (depth > 0);
	while (*s == ' ')
		s++;
	return s;
}

static void take_version(char *best, size_t cap, const char *s)
{
	size_t n = strspn(s, "0123456789.");
	char found[24];

	if (!n || n >= sizeof(found) || !isdigit((unsigned char)*s))
		return;
	text_copy(found, sizeof(found), s, n);
	if (release_compare(found, best) > 0)
		text_copy(best, cap, found, n);
}

static void judge_comment(const char *text, size_t len, char *out, size_t cap)
{
	char gcc[24] = "", clang[24] = "";

	for (size_t at = 0; at < len; at += strlen(text + at) + 1) {
		const char *s = text + at, *p = strstr(s, "clang version ");

		if (p)
			take_version(clang, sizeof(clang), p + strlen("clang version "));
		else if (!strncmp(s, "GCC:", 4))
			take_version(gcc, sizeof(gcc), gcc_version(s));
	}
	if (*clang)
		snprintf(out, cap, "clang %s", clang);
	else if (*gcc)
		snprintf(out, cap, "gcc %s", gcc);
}

/* .comment is not loaded, so only the section headers lead to it. */
static int read_comment(struct elf *f, struct elfinfo *out, struct err *e)
{
	const Elf64_Ehdr *h = &f->file.head;
	Elf64_Shdr *sec = NULL;
	char name[9], *text = f->window;
	size_t len;
	int rc;

	if (!h->e_shnum || !h->e_shoff)
		return 0;
	if (h->e_shnum > MAX_SECTIONS || h->e_shentsize != sizeof(Elf64_Shdr) ||
	    h->e_shstrndx >= h->e_shnum)
		return fail(e, RINGUP_EINVAL, "%u sections of %u bytes, names in number %u",
			    h->e_shnum, h->e_shentsize, h->e_shstrndx);
	sec = malloc(h->e_shnum * sizeof(*sec));
	if (!sec)
		return fail(e, RINGUP_ENOMEM, "section headers");
	rc = elffile_read(&f->file, sec, h->e_shnum * sizeof(*sec), h->e_shoff,
			  "the section headers", e);
	for (size_t i = 0; !rc && i < h->e_shnum; i++) {
		if (sec[i].sh_type != SHT_PROGBITS ||
		    sec[i].sh_name > f->file.size - sizeof(name) ||
		    sec[h->e_shstrndx].sh_offset > f->file.size ||
		    elffile_read(&f->file, name, sizeof(name),
				 sec[h->e_shstrndx].sh_offset + sec[i].sh_name, "a name",
				 NULL) ||
		    memcmp(name, ".comment", sizeof(name)))
			continue;
		len = sec[i].sh_size < MAX_COMMENT ? sec[i].sh_size : MAX_COMMENT - 1;
		rc = elffile_read(&f->file, text, len, sec[i].sh_offset, ".comment", e);
		if (!rc) {
			text[len] = 0;
			judge_comment(text, len, out->compiler, sizeof(out->compiler));
		}
		break;
	}
	free(sec);
	return rc;
}

int elfinfo_read(int fd, const char *const *spaces, struct elfinfo *out, struct err *e)
{
	struct elf *f = calloc(1, sizeof(*f));
	int rc;

	*out = (struct elfinfo){ .cxx11_abi = -1 };
	if (!f)
		return fail(e, RINGUP_ENOMEM, "ELF reader");
	rc = elffile_open(&f->file, fd, e);
	if (!rc) {
		list_needed(f, out);
		elffile_wants(&f->file, keep_version, &(struct versions){ &f->file, out });
		rc = judge_abi(f, spaces, &out->cxx11_abi, e);
	}
	if (!rc)
		rc = read_comment(f, out, e);
	if (rc)
		*out = (struct elfinfo){ .cxx11_abi = -1 };
	free(f);
	return rc;
}
