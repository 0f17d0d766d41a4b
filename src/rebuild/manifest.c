/* manifest.c - the manifest of a cache entry: paths, sizes and SHA-256 of its files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/manifest.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "ringup.h"

static const char first_line[] = "ringup-cache/1";

bool manifest_is_key(const char *text)
{
	return strspn(text, "0123456789abcdef") == 64 && !text[64];
}

/* True for printable text without separators or characters special to sha256sum. */
static bool is_plain(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s > '~' || *s == '\\')
			return false;
	return true;
}

/* Is the component of @len bytes at @s a name: not empty, not ".", not ".."? */
static bool manifest_is_name(const char *s, size_t len)
{
	return len && len < 256 && !(len == 1 && *s == '.') &&
	       !(len == 2 && s[0] == '.' && s[1] == '.');
}

/* True for names with single slashes between. */
static bool is_path(const char *s)
{
	size_t len;

	if (!*s || strlen(s) >= MANIFEST_PATH_BYTES || !is_plain(s))
		return false;
	for (;; s += len + 1) {
		len = strcspn(s, "/");
		if (!manifest_is_name(s, len))
			return false;
		if (!s[len])
			return true;
	}
}

/* Does @target, in a link at @path, stay in the tree, wherever other links lead?  Leading "../"
 * climb from the link's folder, and no link lies above a path; the rest only goes down. */
static bool is_target(const char *target, const char *path)
{
	for (; !strncmp(target, "../", 3); target += 3) {
		path = strchr(path, '/');
		if (!path)
			return false;
		path++;
	}
	return is_path(target);
}

/* Files before links, then by name. */
static int manifest_compare(const void *a, const void *b)
{
	const struct manifest_item *x = a, *y = b;

	if (!x->target != !y->target)
		return x->target ? 1 : -1;
	return strcmp(x->path, y->path);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Finds a path that occurs twice, or lies below another one. */
static const char *find_clash(const struct manifest *m, char **sorted)
{
	char up[MANIFEST_PATH_BYTES], *key = up, *slash;

	for (int i = 0; i < m->items; i++)
		sorted[i] = (char *)m->item[i].path;
	qsort(sorted, (size_t)m->items, sizeof(*sorted), compare_paths);
	for (int i = 0; i < m->items; i++) {
		if (i && !strcmp(sorted[i], sorted[i - 1]))
			return sorted[i];
		snprintf(up, sizeof(up), "%s", sorted[i]);
		while ((slash = strrchr(up, '/'))) {
			*slash = 0;
			if (bsearch(&key, sorted, (size_t)m->items, sizeof(*sorted),
				    compare_paths))
				return sorted[i];
		}
	}
	return NULL;
}

static int check_clashes(const struct manifest *m, struct err *e)
{
	char **sorted = malloc(((size_t)m->items + 1) * sizeof(*sorted));
	const char *bad;

	if (!sorted)
		return fail(e, RINGUP_ENOMEM, "no memory for a manifest");
	bad = find_clash(m, sorted);
	free(sorted);
	if (bad)
		return fail(e, RINGUP_EINVAL, "manifest: %.80s is twice there, or below a file",
			    bad);
	return 0;
}

static int check_item(const struct manifest *m, const struct manifest_item *it, struct err *e)
{
	if (m->items >= MANIFEST_MOST)
		return fail(e, RINGUP_EINVAL, "manifest: more than %d files", MANIFEST_MOST);
	if (!is_path(it->path))
		return fail(e, RINGUP_EINVAL, "manifest: not a path: %.80s", it->path);
	if (it->target && !is_target(it->target, it->path))
		return fail(e, RINGUP_EINVAL, "manifest: %.60s: a link out of the tree: %.80s",
			    it->path, it->target);
	if (it->size > MANIFEST_TOTAL || m->total + it->size > MANIFEST_TOTAL)
		return fail(e, RINGUP_EINVAL, "manifest: larger than %d GiB",
			    (int)(MANIFEST_TOTAL >> 30));
	return 0;
}

int manifest_add(struct manifest *m, const struct manifest_item *item, struct err *e)
{
	struct manifest_item *it;
	int rc = check_item(m, item, e);

	if (rc)
		return rc;
	it = array_more(&m->item, &m->items, sizeof(*it));
	if (!it)
		return fail(e, RINGUP_ENOMEM, "no memory for a manifest");
	*it = *item;
	it->path = strdup(item->path);
	it->target = item->target ? strdup(item->target) : NULL;
	m->total += item->size;
	if (!it->path || (item->target && !it->target))
		return fail(e, RINGUP_ENOMEM, "no memory for a manifest");
	return 0;
}

void manifest_free(struct manifest *m)
{
	for (int i = 0; i < m->items; i++) {
		free((char *)m->item[i].path);
		free((char *)m->item[i].target);
	}
	free(m->item);
	*m = (struct manifest){ 0 };
}

/* The next word of a line, which ends with a blank or the line; NULL: no more words. */
static char *word(char **line)
{
	char *w = *line;
	size_t len;

	if (!w)
		return NULL;
	len = strcspn(w, " ");
	*line = w[len] ? w + len + 1 : NULL;
	w[len] = 0;
	return len ? w : NULL;
}

/* Parses a plain decimal number: no sign, no leading zero, at most 18 digits. */
static bool manifest_number(const char *s, uint64_t *out)
{
	size_t len = strspn(s, "0123456789");

	if (!len || len > 18 || s[len] || (*s == '0' && len > 1))
		return false;
	*out = strtoull(s, NULL, 10);
	return true;
}

static bool parse_sum(const char *hex, unsigned char out[32])
{
	size_t n;

	return manifest_is_key(hex) && !sodium_hex2bin(out, 32, hex, 64, NULL, &n, NULL) &&
	       n == 32;
}

/* Parses "file 644|755 SIZE SHA-256 PATH" or "link TARGET PATH", after its first word. */
static int parse_item(struct manifest *m, bool is_link, char *line, struct err *e)
{
	const char *mode = is_link ? NULL : word(&line), *size = is_link ? NULL : word(&line);
	const char *sum = is_link ? NULL : word(&line);
	struct manifest_item it = { 0 };

	it.target = is_link ? word(&line) : NULL;
	it.path = word(&line);
	/* Two blanks make an empty word, which is wrong. */
	if (!it.path || line || (is_link ? !it.target : !mode || !size || !sum))
		return fail(e, RINGUP_EINVAL, "manifest: too few words, or too many");
	if (!is_link) {
		it.program = !strcmp(mode, "755");
		if (!it.program && strcmp(mode, "644"))
			return fail(e, RINGUP_EINVAL, "manifest: not a mode: %.20s", mode);
		if (!manifest_number(size, &it.size) || !parse_sum(sum, it.sum))
			return fail(e, RINGUP_EINVAL, "manifest: not a size and a SHA-256");
	}
	if (m->items && manifest_compare(&m->item[m->items - 1], &it) >= 0) {
		struct manifest_item *last = &m->item[m->items - 1];

		return fail(e, RINGUP_EINVAL, "manifest: %.60s after %.60s: not in order",
			    it.path, last->path);
	}
	return manifest_add(m, &it, e);
}

/* Parses one field, `NAME VALUE`, into @out of @size bytes. */
static int parse_field(char *line, const char *name, char *out, size_t size, struct err *e)
{
	const char *w = word(&line), *value = word(&line);

	if (!w || strcmp(w, name) || !value || line || strlen(value) >= size)
		return fail(e, RINGUP_EINVAL, "manifest: no %s where it should be", name);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

/* Parses a line after the head; sets *@ended at the last line. */
static int parse_line(struct manifest *m, char *line, bool *ended, struct err *e)
{
	const char *w = word(&line);
	uint64_t n;

	if (w && !strcmp(w, "end")) {
		w = word(&line);
		if (!w || line || !manifest_number(w, &n) || n != (uint64_t)m->items)
			return fail(e, RINGUP_EINVAL,
				    "manifest: ends with another number of lines");
		*ended = true;
		return 0;
	}
	if (w && line && (!strcmp(w, "file") || !strcmp(w, "link")))
		return parse_item(m, *w == 'l', line, e);
	return fail(e, RINGUP_EINVAL, "manifest: an unknown line");
}

static int parse_head(struct manifest *m, int at, char *line, struct err *e)
{
	int rc;

	switch (at) {
	case 0:
		return strcmp(line, first_line)
			       ? fail(e, RINGUP_EINVAL, "manifest: does not begin with %s",
				      first_line)
			       : 0;
	case 1:
		rc = parse_field(line, "key", m->key, sizeof(m->key), e);
		return rc || manifest_is_key(m->key)
			       ? rc
			       : fail(e, RINGUP_EINVAL, "manifest: not a key");
	default:
		return parse_field(line, "signer", m->signer, sizeof(m->signer), e);
	}
}

/* Parses all lines, each with its newline; cuts @text into them. */
static int parse_lines(struct manifest *m, char *text, char *end, struct err *e)
{
	bool ended = false;
	char *line, *stop;
	int at, rc;

	for (line = text, at = 0; line < end; line = stop + 1, at++) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			return fail(e, RINGUP_EINVAL, "manifest: cut off in line %d", at + 1);
		*stop = 0;
		if (ended || strlen(line) != (size_t)(stop - line))
			return fail(e, RINGUP_EINVAL, "manifest: line %d: %s", at + 1,
				    ended ? "after the end" : "a NUL in it");
		rc = at < 3 ? parse_head(m, at, line, e) : parse_line(m, line, &ended, e);
		if (rc)
			return fail_in(e, "line %d", at + 1);
	}
	return ended ? 0 : fail(e, RINGUP_EINVAL, "manifest: cut off: there is no end");
}

int manifest_parse(struct manifest *m, const char *text, size_t len, struct err *e)
{
	char *copy;
	int rc;

	*m = (struct manifest){ 0 };
	if (len > MANIFEST_LARGEST)
		return fail(e, RINGUP_EINVAL, "manifest: larger than %d MiB",
			    MANIFEST_LARGEST >> 20);
	copy = malloc(len + 1);
	if (!copy)
		return fail(e, RINGUP_ENOMEM, "no memory for a manifest");
	memcpy(copy, text, len);
	rc = parse_lines(m, copy, copy + len, e);
	free(copy);
	return rc ? rc : check_clashes(m, e);
}

/* Writes one line of the text. */
static void print_item(FILE *f, const struct manifest_item *it)
{
	char sum[65];

	if (it->target) {
		fprintf(f, "link %s %s\n", it->target, it->path);
		return;
	}
	sodium_bin2hex(sum, sizeof(sum), it->sum, sizeof(it->sum));
	fprintf(f, "file %s %llu %s %s\n", it->program ? "755" : "644",
		(unsigned long long)it->size, sum, it->path);
}

int manifest_text(struct manifest *m, char **textp, size_t *lenp, struct err *e)
{
	int rc;
	FILE *f;

	if (m->items)
		qsort(m->item, (size_t)m->items, sizeof(*m->item), manifest_compare);
	rc = check_clashes(m, e);
	if (rc)
		return rc;
	*textp = NULL;
	f = open_memstream(textp, lenp);
	if (!f)
		return fail(e, RINGUP_ENOMEM, "no memory for a manifest");
	fprintf(f, "%s\nkey %s\nsigner %s\n", first_line, m->key, m->signer);
	for (int i = 0; i < m->items; i++)
		print_item(f, &m->item[i]);
	fprintf(f, "end %d\n", m->items);
	if (fclose(f)) {
		free(*textp);
		return fail(e, RINGUP_ENOMEM, "no memory for a manifest");
	}
	if (*lenp > MANIFEST_LARGEST) {
		free(*textp);
		return fail(e, RINGUP_EINVAL, "manifest: larger than %d MiB",
			    MANIFEST_LARGEST >> 20);
	}
	return 0;
}
