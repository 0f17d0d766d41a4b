/* tinyelf.h - a small shared library made by hand, for the tests of the ELF reader. */
#ifndef TINYELF_H
#define TINYELF_H

#include <elf.h>
#include <stddef.h>
#include <string.h>

/* Everything the reader looks at, at fixed places. */
struct tinyelf {
	Elf64_Ehdr head;
	Elf64_Phdr load, dynamic;
	Elf64_Dyn dyn[8];
	struct {
		Elf64_Verneed need;
		Elf64_Vernaux aux[2];
	} versions;
	char strings[256];
	char comment[128];
	char section_names[32];
	Elf64_Shdr sections[3];
};

/* tinyelf_string - put @s behind the strings at *@at; its place among them. */
static inline unsigned tinyelf_string(struct tinyelf *t, unsigned *at, const char *s)
{
	unsigned place = *at;

	memcpy(t->strings + place, s, strlen(s) + 1);
	*at += (unsigned)strlen(s) + 1;
	return place;
}

/* tinyelf_make - a library that exports @symbol and has @comment, @len bytes of it. */
static inline void tinyelf_make(struct tinyelf *t, const char *symbol, const char *comment,
				size_t len)
{
	unsigned at = 1;
	int d = 0;

	memset(t, 0, sizeof(*t));
	memcpy(t->head.e_ident, ELFMAG, SELFMAG);
	t->head.e_ident[EI_CLASS] = ELFCLASS64;
	t->head.e_ident[EI_DATA] = ELFDATA2LSB;
	t->head.e_type = ET_DYN;
	t->head.e_phoff = offsetof(struct tinyelf, load);
	t->head.e_phentsize = sizeof(Elf64_Phdr);
	t->head.e_phnum = 2;
	t->head.e_shoff = offsetof(struct tinyelf, sections);
	t->head.e_shentsize = sizeof(Elf64_Shdr);
	t->head.e_shnum = 3;
	t->head.e_shstrndx = 1;
	/* Loaded at an address that is no offset, as real ones are. */
	t->load = (Elf64_Phdr){ .p_type = PT_LOAD, .p_vaddr = 0x1000, .p_filesz = sizeof(*t) };
	t->dynamic = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
				   .p_offset = offsetof(struct tinyelf, dyn),
				   .p_filesz = sizeof(t->dyn) };
	t->dyn[d++] = (Elf64_Dyn){ DT_NEEDED, { tinyelf_string(t, &at, "libcudart.so.12") } };
	t->dyn[d++] = (Elf64_Dyn){ DT_NEEDED, { tinyelf_string(t, &at, "libc.so.6") } };
	t->versions.need = (Elf64_Verneed){ .vn_version = 1,
					    .vn_cnt = 2,
					    .vn_aux = sizeof(Elf64_Verneed) };
	t->versions.aux[0] = (Elf64_Vernaux){ .vna_name = tinyelf_string(t, &at, "GLIBC_2.9"),
					      .vna_next = sizeof(Elf64_Vernaux) };
	t->versions.aux[1].vna_name = tinyelf_string(t, &at, "GLIBC_2.17");
	tinyelf_string(t, &at, symbol);
	t->dyn[d++] = (Elf64_Dyn){ DT_STRTAB, { 0x1000 + offsetof(struct tinyelf, strings) } };
	t->dyn[d++] = (Elf64_Dyn){ DT_STRSZ, { at } };
	t->dyn[d++] =
		(Elf64_Dyn){ DT_VERNEED, { 0x1000 + offsetof(struct tinyelf, versions) } };
	memcpy(t->comment, comment, len);
	memcpy(t->section_names, "\0.shstrtab\0.comment", 20);
	t->sections[1] = (Elf64_Shdr){ .sh_name = 1,
				       .sh_type = SHT_STRTAB,
				       .sh_offset = offsetof(struct tinyelf, section_names),
				       .sh_size = sizeof(t->section_names) };
	t->sections[2] = (Elf64_Shdr){ .sh_name = 11,
				       .sh_type = SHT_PROGBITS,
				       .sh_offset = offsetof(struct tinyelf, comment),
				       .sh_size = len };
}

#endif
