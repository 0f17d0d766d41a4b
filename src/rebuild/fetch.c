/* fetch.c - fetch an engine's sources, check them against the recipe, and unpack them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild/fetch.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/folder.h"
#include "rebuild/cache.h"
#include "ringup.h"

enum { FETCH_MS = 600000 };

static int check_sum(const struct fetch_how *how, const char *path, struct err *e)
{
	char sum[CACHE_KEY_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || cache_copy_hash(fd, -1, sum) ? fail_os(e, "%s", path) : 0;

	if (fd >= 0)
		close(fd);
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
	char real[PATH_MAX];

	return realpath(from, real) ? folder_copy_file(real, to, 0644, e)
				    : fail_os(e, "%s", from);
}

/* The file has the recipe's SHA-256, so its entries are known. */
static int unpack(const struct fetch_how *how, const char *file, struct err *e)
{
	const char *out[] = { "tar",
			      "-xf",
			      file,
			      "-C",
			      "src",
			      "--strip-components=1",
			      "--no-same-owner",
			      "--no-same-permissions",
			      NULL };

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
