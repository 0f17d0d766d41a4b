/* fetch.c - fetch an engine's sources, check them against the recipe, and unpack them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/fetch.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "ringup.h"

enum { LIST_BYTES = 1 << 24, LIST_MS = 60000, FETCH_MS = 600000, MOST_FILES = 100000 };
static const long long most_bytes = 2LL << 30;

/* The name in a line of `tar -tv --quoting-style=escape`: mode owner size date time name. */
static const char *name_in(const char *line, long long *size)
{
	const char *p = line;

	for (int word = 0; word < 5; word++) {
		if (word == 2)
			*size = atoll(p);
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return p;
}

static bool leads_away(const char *name)
{
	const char *p;

	if (!*name || *name == '/')
		return true;
	for (p = name; *p; p += strcspn(p, "/"), p += *p == '/')
		if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2]))
			return true;
	return false;
}

int fetch_list_is_sound(const char *list, struct err *e)
{
	long long bytes = 0, size = 0;
	char top[NAME_MAX] = "", line[PATH_MAX];
	int files = 0;
	size_t n;

	for (; *list; list += n + (list[n] == '\n')) {
		const char *name;

		n = strcspn(list, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)n, list);
		name = name_in(line, &size);
		if (n >= sizeof(line) || leads_away(name))
			return fail(e, RINGUP_EINVAL, "a path in it leads outside: %.80s",
				    name);
		if (*line != '-' && *line != 'd')
			return fail(
				e, RINGUP_EINVAL,
				"it contains an entry that is neither file nor folder: %.80s",
				name);
		if (!*top)
			snprintf(top, sizeof(top), "%.*s", (int)strcspn(name, "/"), name);
		if (strncmp(name, top, strlen(top)) != 0 ||
		    (name[strlen(top)] && name[strlen(top)] != '/'))
			return fail(e, RINGUP_EINVAL,
				    "its files are not all below one folder: %.80s", name);
		bytes += size;
		if (size < 0 || bytes > most_bytes || ++files > MOST_FILES)
			return fail(e, RINGUP_EINVAL,
				    "it unpacks to more than 2 GiB or %d files", MOST_FILES);
	}
	return files ? 0 : fail(e, RINGUP_EINVAL, "it is empty");
}

static int sha256_of(const char *path, char out[65], struct err *e)
{
	unsigned char sum[crypto_hash_sha256_BYTES], part[1 << 16];
	crypto_hash_sha256_state s;
	FILE *f = fopen(path, "re");
	struct stat st;
	size_t n;

	if (!f)
		return fail_os(e, "%s", path);
	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode)) {
		fclose(f);
		return fail(e, RINGUP_EINVAL, "%s is not a file", path);
	}
	crypto_hash_sha256_init(&s);
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		crypto_hash_sha256_update(&s, part, n);
	if (ferror(f)) {
		fail_os(e, "%s", path);
		fclose(f);
		return RINGUP_ESYSTEM;
	}
	fclose(f);
	crypto_hash_sha256_final(&s, sum);
	sodium_bin2hex(out, 65, sum, sizeof(sum));
	return 0;
}

static int check_sum(const struct fetch_how *how, const char *path, struct err *e)
{
	char sum[65];
	int rc = sha256_of(path, sum, e);

	if (!rc && strcmp(sum, how->recipe->sha256) != 0)
		return fail(
			e, RINGUP_EINVAL,
			"%s has SHA-256 %.12s..., not %.12s...: it is damaged, or not the %s "
			"that the recipe is for",
			path, sum, how->recipe->sha256, how->recipe->file);
	return rc;
}

/* Recognises pip's message about a file with a wrong hash. */
static void see_hash(void *arg, const char *line)
{
	if (strstr(line, "DO NOT MATCH THE HASHES"))
		*(bool *)arg = true;
}

/* Runs @argv as the builder in how->dir. */
static int do_it(const struct fetch_how *how, const char *const *argv, bool net,
		 const char *failed, struct err *e)
{
	bool is_other = false;
	struct job job = { .argv = argv,
			   .env = job_env(how->home, net),
			   .dir = how->dir,
			   .user = how->user,
			   .log_fd = how->log_fd,
			   .limit_ms = FETCH_MS,
			   .line = see_hash,
			   .arg = &is_other };
	int status, rc;

	if (net)
		job.user.offline = false;
	if (how->tools)
		json_object_set_new((json_t *)(uintptr_t)job.env, "PYTHONPATH",
				    json_string(how->tools));
	rc = job_run(&job, &status, e);
	json_decref((json_t *)(uintptr_t)job.env);
	if (rc || !status)
		return rc;
	return fail(e, is_other ? RINGUP_EINVAL : RINGUP_ESYSTEM, "%s", failed);
}

/* pip checks the hash before it runs any downloaded code. */
static int download(const struct fetch_how *how, struct err *e)
{
	const char *argv[] = { how->python,
			       "-m",
			       "pip",
			       "download",
			       "--no-deps",
			       "--no-binary",
			       ":all:",
			       "--no-build-isolation",
			       "--no-cache-dir",
			       "-q",
			       "-d",
			       "got",
			       "-r",
			       "want.txt",
			       NULL };
	char text[256], path[PATH_MAX];
	int rc;

	snprintf(text, sizeof(text), "%s --hash=sha256:%s\n", how->recipe->index,
		 how->recipe->sha256);
	snprintf(path, sizeof(path), "%s/want.txt", how->dir);
	rc = file_write(NULL, path, 0644, text, strlen(text), e);
	if (rc)
		return rc;
	snprintf(text, sizeof(text),
		 "pip could not download %s (see the log); without a network, name a copy with "
		 "--source",
		 how->recipe->index);
	return do_it(how, argv, true, text, e);
}

/* Makes a private copy, so that no process can swap the checked file. */
static int copy_file(const char *from, const char *to, struct err *e)
{
	char part[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC), out, rc = 0;
	ssize_t n = 0;

	if (in < 0)
		return fail_os(e, "%s", from);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (out < 0)
		rc = fail_os(e, "%s", to);
	while (!rc && (n = read(in, part, sizeof(part))) > 0)
		if (file_put(out, part, (size_t)n))
			rc = fail_os(e, "%s", to);
	if (!rc && n < 0)
		rc = fail_os(e, "%s", from);
	if (out >= 0)
		close(out);
	close(in);
	return rc;
}

static int unpack(const struct fetch_how *how, const char *file, struct err *e)
{
	const char *list[] = { "tar", "--quoting-style=escape", "-tvf", file, NULL };
	const char *out[] = { "tar",
			      "-xf",
			      file,
			      "-C",
			      "src",
			      "--strip-components=1",
			      "--no-same-owner",
			      "--no-same-permissions",
			      NULL };
	char *text = NULL;
	int status = 0, rc;

	rc = proc_capture((char *const *)(uintptr_t)list, LIST_BYTES, LIST_MS, &text, &status,
			  e);
	if (!rc && status)
		rc = fail(e, RINGUP_EINVAL, "tar cannot read it");
	if (!rc)
		rc = fetch_list_is_sound(text, e);
	free(text);
	if (rc)
		return fail_in(e, "refusing to unpack %s", file);
	return do_it(how, out, false, "tar could not unpack the sources: is the disk full?", e);
}

static int own_folder(const struct fetch_how *how, const char *name, struct err *e)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", how->dir, name);
	if (mkdir(path, 0755) ||
	    (how->user.changes && chown(path, how->user.uid, how->user.gid)))
		return fail_os(e, "%s", path);
	return 0;
}

int fetch_foresee(const struct recipe *recipe, const char *source, bool offline, struct err *e)
{
	struct stat st;

	if (!source && offline)
		return fail(e, RINGUP_EINVAL,
			    "--offline needs --source: a copy of %s, from `pip download "
			    "--no-deps --no-binary :all: %s`",
			    recipe->file, recipe->index);
	if (source && (stat(source, &st) || access(source, R_OK)))
		return fail_os(e, "--source %s", source);
	if (source && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return fail(e, RINGUP_EINVAL, "--source %s is neither a file nor a folder",
			    source);
	return 0;
}

int fetch_sources(const struct fetch_how *how, struct err *e)
{
	const char *copy[] = {
		"cp", "-R", "--no-preserve=ownership", how->source, "src", NULL
	};
	char file[PATH_MAX];
	struct stat st;
	int rc = fetch_foresee(how->recipe, how->source, how->offline, e);

	if (rc)
		return rc;
	snprintf(file, sizeof(file), "%s/got/%s", how->dir, how->recipe->file);
	if (how->source && stat(how->source, &st))
		return fail_os(e, "--source %s", how->source);
	if (how->source && S_ISDIR(st.st_mode)) {
		/* Root may read folders that the builder may not. */
		struct fetch_how mine = *how;

		mine.user = (struct job_user){ 0 };
		rc = do_it(&mine, copy, false, "cannot copy the sources", e);
		if (!rc && how->user.changes) {
			char ids[48];
			const char *give[] = { "chown", "-R", "-h", ids, "src", NULL };

			snprintf(ids, sizeof(ids), "%ld:%ld", (long)how->user.uid,
				 (long)how->user.gid);
			rc = do_it(&mine, give, false, "cannot hand over the sources", e);
		}
		return rc;
	}
	rc = own_folder(how, "got", e);
	if (!rc)
		rc = own_folder(how, "src", e);
	if (!rc)
		rc = how->source ? copy_file(how->source, file, e) : download(how, e);
	if (!rc)
		rc = check_sum(how, file, e);
	return rc ? rc : unpack(how, file, e);
}
