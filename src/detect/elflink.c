/* elflink.c - read a shared library's link data: needed libraries, versions, symbols. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/elflink.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ringup.h"

/* libtorch_cpu.so has 200,000 symbols. */
enum { MAX_STEPS = 1 << 16, MAX_SYMBOLS = 1 << 20, BATCH = 64 };

static bool keep_want(void *arg, uint64_t library, const Elf64_Vernaux *version)
{
	struct elflink *l = arg;
	struct elfwant *w = &l->wants[l->want_count];

	if (!(version->vna_flags & VER_FLG_WEAK) &&
	    elffile_string(&l->file, library, w->file, sizeof(w->file)) &&
	    elffile_string(&l->file, version->vna_name, w->version, sizeof(w->version)))
		l->want_count++;
	return l->want_count < ELFLINK_VERSIONS;
}

static void list_gives(struct elflink *l)
{
	uint64_t len, at = 0;
	char *table = elffile_table(&l->file, DT_VERDEF, &len);
	int steps = 0;
	Elf64_Verdef def;
	Elf64_Verdaux aux;

	while (table && steps++ < MAX_STEPS && l->give_count < ELFLINK_VERSIONS &&
	       elffile_take(table, len, at, &def, sizeof(def))) {
		/* The first name is the version's own, the next ones are its parents'. */
		if (elffile_take(table, len, at + def.vd_aux, &aux, sizeof(aux)) &&
		    elffile_string(&l->file, aux.vda_name, l->gives[l->give_count],
				   sizeof(l->gives[0])))
			l->give_count++;
		if (!def.vd_next)
			break;
		at += def.vd_next;
	}
	free(table);
}

/* A DT_RPATH counts only if there is no DT_RUNPATH. */
static void list_needed(struct elflink *l)
{
	const struct elffile *f = &l->file;
	uint64_t ignored;

	for (size_t i = 0; i < f->dyn_count; i++) {
		uint64_t at = f->dyn[i].d_un.d_val;

		if (f->dyn[i].d_tag == DT_NEEDED && l->needed_count < ELFLINK_NEEDED &&
		    elffile_string(f, at, l->needed[l->needed_count], sizeof(l->needed[0])))
			l->needed_count++;
		else if (f->dyn[i].d_tag == DT_RPATH &&
			 !elffile_string(f, at, l->rpath, sizeof(l->rpath)))
			*l->rpath = 0;
		else if (f->dyn[i].d_tag == DT_RUNPATH &&
			 !elffile_string(f, at, l->runpath, sizeof(l->runpath)))
			*l->runpath = 0;
	}
	if (elffile_value(f, DT_RUNPATH, &ignored))
		*l->rpath = 0;
}

int elflink_open(int fd, struct elflink **out, struct err *e)
{
	struct elflink *l = calloc(1, sizeof(*l));
	int rc = l ? elffile_open(&l->file, fd, e) : fail(e, RINGUP_ENOMEM, "ELF reader");

	*out = NULL;
	if (rc) {
		free(l);
		return rc;
	}
	list_needed(l);
	elffile_wants(&l->file, keep_want, l);
	list_gives(l);
	*out = l;
	return 0;
}

static bool word_at(const struct elffile *f, uint64_t at, uint32_t *word)
{
	return !elffile_read(f, word, sizeof(*word), at, "a hash table", NULL);
}

/* The GNU hash table: its offset and its header. */
struct gnu {
	uint64_t at, buckets_at, chains_at;
	uint32_t buckets, first;
};

static bool find_gnu(const struct elffile *f, struct gnu *g)
{
	uint32_t bloom;

	if (!elffile_value(f, DT_GNU_HASH, &g->at))
		return false;
	g->at = elffile_place(f, g->at);
	if (!word_at(f, g->at, &g->buckets) || !word_at(f, g->at + 4, &g->first) ||
	    !word_at(f, g->at + 8, &bloom) || !g->buckets)
		return false;
	g->buckets_at = g->at + 16 + 8 * (uint64_t)bloom;
	g->chains_at = g->buckets_at + 4 * (uint64_t)g->buckets;
	return true;
}

/* The symbol table, and the number of possibly undefined symbols: with a GNU hash table its
 * first ones. */
static uint64_t find_symbols(const struct elffile *f, uint64_t *count)
{
	uint64_t at, hash;
	uint32_t n = 0;
	struct gnu g;

	*count = 0;
	if (!elffile_value(f, DT_SYMTAB, &at))
		return f->size;
	if (find_gnu(f, &g))
		n = g.first;
	else if (!elffile_value(f, DT_HASH, &hash) ||
		 !word_at(f, elffile_place(f, hash) + 4, &n))
		return f->size;
	*count = n < MAX_SYMBOLS ? n : MAX_SYMBOLS;
	return elffile_place(f, at);
}

void elflink_undefined(const struct elflink *l, bool (*see)(void *arg, const char *name),
		       void *arg)
{
	const struct elffile *f = &l->file;
	char name[ELFLINK_SYMBOL];
	uint64_t count, at = find_symbols(f, &count), i, k, n;
	Elf64_Sym batch[BATCH];

	for (i = 0; i < count; i += n) {
		n = count - i < BATCH ? count - i : BATCH;
		if (elffile_read(f, batch, n * sizeof(*batch), at + i * sizeof(*batch),
				 "symbols", NULL))
			return;
		for (k = 0; k < n; k++)
			if (batch[k].st_shndx == SHN_UNDEF &&
			    ELF64_ST_BIND(batch[k].st_info) == STB_GLOBAL &&
			    elffile_string(f, batch[k].st_name, name, sizeof(name)) &&
			    !see(arg, name))
				return;
	}
}

/* Is the symbol of this number called @name, and defined here? */
static bool is_symbol(const struct elffile *f, uint64_t table, uint64_t number,
		      const char *name)
{
	char is[ELFLINK_SYMBOL];
	Elf64_Sym s;

	return !elffile_read(f, &s, sizeof(s), table + number * sizeof(s), "a symbol", NULL) &&
	       s.st_shndx != SHN_UNDEF && elffile_string(f, s.st_name, is, sizeof(is)) &&
	       !strcmp(is, name);
}

static bool gnu_defines(const struct elffile *f, const struct gnu *g, uint64_t table,
			const char *name)
{
	const unsigned char *p = (const unsigned char *)name;
	uint32_t hash = 5381, number, word;

	for (; *p; p++)
		hash = hash * 33 + *p;
	if (!word_at(f, g->buckets_at + 4 * (uint64_t)(hash % g->buckets), &number) ||
	    number < g->first)
		return false;
	for (int steps = 0; steps < MAX_STEPS; steps++, number++) {
		if (!word_at(f, g->chains_at + 4 * (uint64_t)(number - g->first), &word))
			return false;
		if ((word | 1) == (hash | 1) && is_symbol(f, table, number, name))
			return true;
		if (word & 1)
			return false;
	}
	return false;
}

bool elflink_defines(const struct elflink *l, const char *symbol)
{
	const struct elffile *f = &l->file;
	uint64_t count, table = find_symbols(f, &count), i;
	struct gnu g;

	if (!count && table == f->size)
		return true;
	if (find_gnu(f, &g))
		return gnu_defines(f, &g, table, symbol);
	for (i = 0; i < count; i++)
		if (is_symbol(f, table, i, symbol))
			return true;
	return false;
}
