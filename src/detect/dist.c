/* dist.c - find a Python's installed distributions: pip, conda, distribution packages. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/dist.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonio.h"
#include "detect/rootfs.h"
#include "detect/text.h"

enum {
	MAX_METADATA = 4 << 20,
	MAX_RECORD = 32 << 20,
	MAX_DISTS = 20000,
};

bool dist_normalise(const char *name, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];

		if (n + 1 >= cap)
			return false;
		if (c == '-' || c == '_' || c == '.') {
			if (n && out[n - 1] != '-')
				out[n++] = '-';
		} else if (c < 0x80 && isalnum(c)) {
			out[n++] = (char)tolower(c);
		} else {
			return false;
		}
	}
	if (n && out[n - 1] == '-')
		n--;
	out[n] = 0;
	return n > 0;
}

static bool set_version(char out[64], const char *s, size_t len)
{
	char version[64];

	if (len >= sizeof(version))
		return false;
	text_copy(version, sizeof(version), s, len);
	if (!text_is_version(version))
		return false;
	memcpy(out, version, len + 1);
	return true;
}

static bool ends_with(const char *s, const char *tail, size_t *stem)
{
	size_t n = strlen(s), t = strlen(tail);

	if (n <= t || strcmp(s + n - t, tail))
		return false;
	*stem = n - t;
	return true;
}

bool dist_parse_folder(const char *folder, struct dist *out)
{
	size_t stem;
	const char *dash, *py;

	*out = (struct dist){ 0 };
	if (!ends_with(folder, ".dist-info", &stem) && !ends_with(folder, ".egg-info", &stem))
		return false;
	if (stem > 200)
		return false;
	snprintf(out->folder, sizeof(out->folder), "%s", folder);
	dash = memchr(folder, '-', stem);
	if (!dash)
		return dist_normalise(folder, stem, out->name, sizeof(out->name));
	/* In egg-info names, tags follow the version: -py3.8-linux-x86_64. */
	py = strstr(dash + 1, "-py");
	if (py && (size_t)(py - folder) < stem)
		stem = (size_t)(py - folder);
	set_version(out->version, dash + 1, stem - (size_t)(dash + 1 - folder));
	return dist_normalise(folder, (size_t)(dash - folder), out->name, sizeof(out->name));
}

bool dist_parse_conda(const char *file, struct dist *out)
{
	const char *end, *build, *version;
	size_t stem;

	*out = (struct dist){ 0 };
	if (!ends_with(file, ".json", &stem))
		return false;
	end = file + stem;
	build = memrchr(file, '-', stem);
	if (!build || build == file)
		return false;
	version = memrchr(file, '-', (size_t)(build - file));
	if (!version || version == file)
		return false;
	if ((size_t)(end - build - 1) >= sizeof(out->build))
		return false;
	text_copy(out->build, sizeof(out->build), build + 1, (size_t)(end - build - 1));
	return set_version(out->version, version + 1, (size_t)(build - version - 1)) &&
	       dist_normalise(file, (size_t)(version - file), out->name, sizeof(out->name));
}

/* "nvidia-cuda-runtime-cu12==12.6.77; platform_system == 'Linux'" gives 12.6. */
static void take_requirement(const char *s, size_t len, char out[16])
{
	static const char package[] = "nvidia-cuda-runtime";
	const char *eq;
	size_t n, dots;

	if (len < sizeof(package) || memcmp(s, package, sizeof(package) - 1) ||
	    memmem(s, len, "extra", 5))
		return;
	eq = memmem(s, len, "==", 2);
	if (!eq || memchr(s, ';', (size_t)(eq - s)))
		return;
	for (eq += 2; eq < s + len && *eq == ' '; eq++)
		;
	for (n = 0, dots = 0; eq + n < s + len && n < 15; n++) {
		if (eq[n] == '.' && ++dots == 2)
			break;
		if (eq[n] != '.' && !isdigit((unsigned char)eq[n]))
			break;
	}
	if (n && isdigit((unsigned char)eq[0]) && eq[n - 1] != '.')
		text_copy(out, 16, eq, n);
}

bool dist_parse_metadata(const char *data, size_t len, struct metadata *out)
{
	const char *p, *end = data + len, *next;
	char name[128];

	*out = (struct metadata){ 0 };
	for (p = data; p < end; p = next) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t l = (size_t)((nl ? nl : end) - p);

		next = nl ? nl + 1 : end;
		if (l && p[l - 1] == '\r')
			l--;
		if (!l)
			break; /* the description follows: free text */
		if (!*out->name && text_field(p, l, "Name", ':', name, sizeof(name)))
			dist_normalise(name, strlen(name), out->name, sizeof(out->name));
		else if (!*out->version && text_field(p, l, "Version", ':', name, sizeof(name)))
			set_version(out->version, name, strlen(name));
		else if (l > 15 && !memcmp(p, "Requires-Dist: ", 15))
			take_requirement(p + 15, l - 15, out->cuda_runtime);
	}
	return *out->name && *out->version;
}

/* The end of one field of a RECORD line, quoted if it has commas; or NULL. */
static const char *field_end(const char *p, const char *stop)
{
	if (p < stop && *p == '"') {
		for (p++; p < stop; p++) {
			if (*p != '"')
				continue;
			if (p + 1 < stop && p[1] == '"')
				p++;
			else
				return p + 1 == stop || p[1] == ',' ? p + 1 : NULL;
		}
		return NULL;
	}
	p = memchr(p, ',', (size_t)(stop - p));
	return p ? p : stop;
}

/* Parses PATH,HASH,SIZE: 1 if it is @path's and has a size, -1 if it is malformed. */
static int parse_line(const char *p, const char *stop, const char *path, uint64_t *size)
{
	const char *first = field_end(p, stop), *second, *s;
	size_t n = strlen(path), len;
	uint64_t total = 0;

	if (!first || first == stop)
		return -1;
	second = field_end(first + 1, stop);
	if (!second || second == stop)
		return -1;
	len = (size_t)(first - p);
	if (len == n + 2 && *p == '"') {
		p++;
		len = n;
	}
	if (len != n || memcmp(p, path, n))
		return 0;
	s = second + 1;
	if (s == stop || stop - s > 18)
		return 0;
	for (; s < stop; s++) {
		if (!isdigit((unsigned char)*s))
			return 0;
		total = 10 * total + (uint64_t)(*s - '0');
	}
	*size = total;
	return 1;
}

int dist_parse_record(const char *data, size_t len, const char *path, uint64_t *size)
{
	const char *p, *end = data + len, *nl;
	int found = 0;

	for (p = data; p < end; p = nl + 1) {
		const char *stop;
		int rc;

		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			return -1;
		stop = nl > p && nl[-1] == '\r' ? nl - 1 : nl;
		if (stop == p)
			continue;
		rc = parse_line(p, stop, path, size);
		if (rc < 0)
			return -1;
		found |= rc;
	}
	return found;
}

static void dists_add(struct rootfs *fs, struct dists *out, const struct dist *d)
{
	struct dist *more;

	if (out->count == out->room) {
		out->room = out->room ? 2 * out->room : 64;
		more = out->room > MAX_DISTS ? NULL
					     : realloc(out->at, out->room * sizeof(*more));
		if (!more) {
			out->room = out->count;
			rootfs_problem(fs, d->site,
				       "too many distributions; the rest is ignored");
			return;
		}
		out->at = more;
	}
	out->at[out->count++] = *d;
}

void dist_scan_site(struct rootfs *fs, const char *site, struct dists *out)
{
	struct names n = rootfs_names(fs, site, "");
	struct dist d;

	for (size_t i = 0; i < n.count; i++)
		if (dist_parse_folder(n.at[i], &d)) {
			d.site = site;
			dists_add(fs, out, &d);
		}
	rootfs_names_free(&n);
}

void dist_scan_conda(struct rootfs *fs, const char *prefix, const char *site, struct dists *out)
{
	char path[PATH_MAX];
	struct names n;
	struct dist d;

	if (!rootfs_join(path, prefix, "conda-meta"))
		return;
	n = rootfs_names(fs, path, "");
	for (size_t i = 0; i < n.count; i++)
		if (dist_parse_conda(n.at[i], &d)) {
			d.site = site;
			dists_add(fs, out, &d);
		}
	rootfs_names_free(&n);
}

void dist_free(struct dists *d)
{
	free(d->at);
	*d = (struct dists){ 0 };
}

/* The path of a file in the distribution's folder; an old egg-info is itself the file. */
static bool own_file(const struct dist *d, const char *name, char *out)
{
	char dir[PATH_MAX];

	return *d->folder && rootfs_join(dir, d->site, d->folder) &&
	       rootfs_join(out, dir, name);
}

bool dist_metadata(struct rootfs *fs, const struct dist *d, struct metadata *m)
{
	static const char *const files[] = { "METADATA", "PKG-INFO", "" };
	char path[PATH_MAX];
	char *data = NULL;
	size_t len;
	bool good;

	*m = (struct metadata){ 0 };
	if (!*d->folder)
		return false;
	for (size_t i = 0; i < 3 && !data; i++)
		if (own_file(d, files[i], path) && (*files[i] || rootfs_is_file(fs, path)))
			data = rootfs_read(fs, path, MAX_METADATA, &len);
	if (!data) {
		rootfs_problem(fs, own_file(d, "", path) ? path : d->site,
			       "no usable METADATA");
		return false;
	}
	good = dist_parse_metadata(data, len, m);
	if (!good)
		rootfs_problem(fs, path, "%s is missing or invalid",
			       *m->name ? "the version" : "the name");
	free(data);
	return good;
}

void dist_installer(struct rootfs *fs, const struct dist *d, char *out, size_t cap)
{
	char path[PATH_MAX];
	char *data, name[64];
	size_t len;

	snprintf(out, cap, "%s", *d->build ? "conda" : "unknown");
	if (strstr(d->site, "/dist-packages") && !strncmp(d->site, "/usr/lib/", 9))
		snprintf(out, cap, "distribution");
	data = own_file(d, "INSTALLER", path) ? rootfs_read(fs, path, 4096, &len) : NULL;
	if (!data)
		return;
	if (dist_normalise(data, strcspn(data, "\r\n \t"), name, sizeof(name)))
		snprintf(out, cap, "%s", strcmp(name, "debian") ? name : "distribution");
	free(data);
}

/* Does a line of @data begin with @folder and @end? */
static bool has_line(const char *data, const char *folder, const char *end)
{
	size_t n = strlen(folder), m = strlen(end);
	const char *p;

	for (p = data; (p = strstr(p, folder)); p += n)
		if ((p == data || p[-1] == '\n') && !strncmp(p + n, end, m) &&
		    (m || !p[n] || isspace((unsigned char)p[n])))
			return true;
	return false;
}

bool dist_brings(struct rootfs *fs, const struct dist *d, const char *folder)
{
	static const char *const files[][2] = { { "top_level.txt", "" },
						{ "RECORD", "/__init__.py," } };
	char path[PATH_MAX];
	bool brings = false;
	char *data;
	size_t len;

	for (size_t i = 0; i < 2 && !brings; i++) {
		data = own_file(d, files[i][0], path) ? rootfs_read(fs, path, MAX_RECORD, &len)
						      : NULL;
		brings = data && has_line(data, folder, files[i][1]);
		free(data);
	}
	return brings;
}

bool dist_lists(struct rootfs *fs, const struct dist *d, const char *file)
{
	char path[PATH_MAX];
	size_t len;
	char *data =
		own_file(d, "RECORD", path) ? rootfs_read(fs, path, MAX_RECORD, &len) : NULL;
	bool lists = data && has_line(data, file, ",");

	free(data);
	return lists;
}

bool dist_tag(struct rootfs *fs, const struct dist *d, char out[64])
{
	char path[PATH_MAX];
	size_t len;
	char *data = own_file(d, "WHEEL", path) ? rootfs_read(fs, path, 65536, &len) : NULL;
	const char *abi;
	bool is_cp =
		data && text_field(data, len, "Tag", ':', out, 64) && !strncmp(out, "cp", 2);

	free(data);
	abi = is_cp ? strchr(out, '-') : NULL;
	if (!abi || strncmp(abi, "-cp", 3))
		return false;
	memmove(out, out + 2, strlen(out + 2) + 1);
	return true;
}

bool dist_editable(struct rootfs *fs, const struct dist *d, char out[PATH_MAX])
{
	char path[PATH_MAX];
	json_t *note = NULL;
	const char *url;
	char *data;
	size_t len;
	bool is;

	data = own_file(d, "direct_url.json", path) ? rootfs_read(fs, path, 65536, &len) : NULL;
	if (data)
		note = json_loadb(data, len, 0, NULL);
	free(data);
	url = jsonio_string(note, "url");
	is = json_is_true(json_object_get(json_object_get(note, "dir_info"), "editable")) &&
	     !strncmp(url, "file:///", 8) && !strchr(url, '%') && strlen(url) < PATH_MAX;
	if (is)
		text_set(out, PATH_MAX, url + 7);
	json_decref(note);
	return is;
}

void dist_check(struct rootfs *fs, const struct dist *d, const char *file, uint64_t size)
{
	char path[PATH_MAX], full[PATH_MAX];
	uint64_t listed = 0;
	char *data;
	size_t len;
	int rc;

	data = own_file(d, "RECORD", path) ? rootfs_read(fs, path, MAX_RECORD, &len) : NULL;
	if (!data)
		return;
	rc = dist_parse_record(data, len, file, &listed);
	if (rc < 0)
		rootfs_problem(fs, path, "damaged: it has an incomplete line");
	else if (rc == 1 && listed != size && rootfs_join(full, d->site, file))
		rootfs_problem(fs, full,
			       "it has %llu bytes, but RECORD lists %llu: damaged or replaced",
			       (unsigned long long)size, (unsigned long long)listed);
	free(data);
}
