/* java.c - examine whether the installed Spark runs on the Java that it would start. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/jsonio.h"
#include "base/release.h"
#include "base/shell.h"
#include "detect/dist.h"
#include "detect/loader.h"
#include "detect/rootfs.h"
#include "detect/text.h"
#include "doctor/exam.h"
#include "doctor/trial.h"
#include "rebuild/job.h"

enum { MAX_RELEASE = 1 << 16, ASK_MS = 5000 };

static const char too_old[] = "its classes are for a newer Java (UnsupportedClassVersionError)";

/* The Javas that each Spark runs on, the newest Spark first; 0: the latest, too. */
static const struct span {
	const char *spark;
	int least, most;
	const char *above; /* what happens with a newer one */
} spans[] = {
	{ "4.1", 17, 0, NULL },
	{ "4.0", 17, 22, "its Hadoop fails with: getSubject is not supported" },
	{ "3.3", 8, 22, "its Hadoop fails with: getSubject is not supported" },
	{ "3.0", 8, 15,
	  "it uses parts of Java that newer ones do not open (IllegalAccessError)" },
	{ "2.0", 7, 8, "it cannot read newer classes (Unsupported class file major version)" },
};

struct java {
	char program[PATH_MAX]; /* "": there is none                 */
	char version[64];       /* "": unknown                       */
	int major;
	bool by_home; /* JAVA_HOME names it */
};

static const struct span *span_of(const char *spark)
{
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
		if (*spark && release_compare(spark, spans[i].spark) >= 0)
			return &spans[i];
	return NULL;
}

static bool is_within(const struct span *s, int major)
{
	return major >= s->least && (!s->most || major <= s->most);
}

/* "1.8.0_412" is 8, "17.0.11" is 17. */
static int major_of(const char *version)
{
	return atoi(strncmp(version, "1.", 2) ? version : version + 2);
}

/* Takes the version in quotes that follows @word; false: there is none. */
static bool take_version(const char *line, const char *word, char out[64])
{
	const char *at = strstr(line, word);
	char version[64];

	if (!at)
		return false;
	at += strlen(word);
	text_copy(version, sizeof(version), at, strcspn(at, "\"\n"));
	if (!*version || !text_is_version(version))
		return false;
	text_set(out, 64, version);
	return true;
}

static void read_version(void *arg, const char *line)
{
	char *out = arg;

	if (!*out)
		take_version(line, " version \"", out);
}

/* Asks the program itself, unless another user could change what root would run. */
static void ask_version(const char *program, char out[64])
{
	const char *argv[] = { program, "-version", NULL };
	json_t *env = job_env("/", false);
	struct job job = { .argv = argv,
			   .env = env,
			   .dir = "/",
			   .user = job_owner(program),
			   .log_fd = -1,
			   .limit_ms = ASK_MS,
			   .line = read_version,
			   .arg = out };
	struct err ignored;
	int status;

	if (trial_is_safe(program))
		(void)job_run(&job, &status, &ignored);
	json_decref(env);
}

/* Reads the file "release" above the program's folder; a JDK 8 has bin/java and jre/bin/java.
 */
static void find_version(struct exam *x, struct rootfs *fs, struct java *j)
{
	char dir[PATH_MAX], path[PATH_MAX];
	size_t len;

	rootfs_real(fs, j->program, dir);
	for (int up = 0; up < 3 && !*j->version && strrchr(dir, '/'); up++) {
		char *data;

		*strrchr(dir, '/') = 0;
		data = up && rootfs_join(path, dir, "release") && rootfs_is_file(fs, path)
			       ? rootfs_read(fs, path, MAX_RELEASE, &len)
			       : NULL;
		if (data)
			take_version(data, "JAVA_VERSION=\"", j->version);
		free(data);
	}
	if (!*j->version && exam_is_live(x))
		ask_version(j->program, j->version);
	j->major = major_of(j->version);
}

static const char *search_path(const struct exam *x)
{
	return exam_is_live(x) ? conf_env("PATH") : "/usr/local/bin:/usr/bin";
}

/* The Java that Spark starts for the Python @o: JAVA_HOME's, or the first in PATH.  A conda
 * environment that is not active puts its own before both. */
static struct java find_java(struct exam *x, struct rootfs *fs, const json_t *o)
{
	const char *home = exam_is_live(x) ? conf_env("JAVA_HOME") : NULL;
	const char *active = exam_is_live(x) ? conf_env("CONDA_PREFIX") : NULL;
	const char *prefix = jsonio_string(o, "prefix");
	struct java j = { .by_home = home && *home };
	char bin[PATH_MAX];
	bool is_own = !strcmp(jsonio_string(o, "kind"), "conda") &&
		      !(j.by_home && active && !strcmp(active, prefix)) &&
		      rootfs_join(bin, prefix, "bin/java") && rootfs_is_file(fs, bin);

	if (is_own) {
		text_set(j.program, sizeof(j.program), bin);
		j.by_home = false;
	} else if (j.by_home) {
		if (!rootfs_join(j.program, home, "bin/java") || !rootfs_is_file(fs, j.program))
			*j.program = 0;
	} else if (!loader_find_in(fs, search_path(x), ":", NULL, NULL, "java", j.program)) {
		*j.program = 0;
	}
	if (*j.program)
		find_version(x, fs, &j);
	return j;
}

/* Sets @todo to a Java of this node that fits, or to one to install. */
static void propose(struct exam *x, struct rootfs *fs, const struct span *s, bool by_home,
		    char *todo, size_t cap)
{
	static const char top[] = "/usr/lib/jvm";
	int best = is_within(s, 17) ? 17 : is_within(s, 11) ? 11 : 8;
	struct names n = rootfs_names(fs, top, "");
	struct java j = { .by_home = false };
	char dir[PATH_MAX], word[PATH_MAX];

	*todo = 0;
	if (by_home && loader_find_in(fs, search_path(x), ":", NULL, NULL, "java", j.program)) {
		find_version(x, fs, &j);
		if (is_within(s, j.major))
			snprintf(todo, cap, "unset JAVA_HOME: %s in PATH is Java %d", j.program,
				 j.major);
	}
	for (size_t i = 0; i < n.count && !*todo; i++) {
		j = (struct java){ .by_home = false };
		if (!rootfs_join(dir, top, n.at[i]) ||
		    !rootfs_join(j.program, dir, "bin/java") || !rootfs_is_file(fs, j.program))
			continue;
		find_version(x, fs, &j);
		if (is_within(s, j.major))
			snprintf(todo, cap, "export JAVA_HOME=%s",
				 shell_word(dir, word, sizeof(word)));
	}
	rootfs_names_free(&n);
	if (!*todo)
		snprintf(
			todo, cap,
			"install Java %d (openjdk-%d-jre-headless; conda: openjdk=%d), and set "
			"JAVA_HOME to its folder",
			best, best, best);
}

/* Reports a Java that is missing, or that @spark, as in "Spark 4.0.0 of ...", cannot run on. */
static void judge_java(struct exam *x, struct rootfs *fs, const struct span *s,
		       const char *spark, const struct java *j)
{
	char todo[2 * PATH_MAX], needs[64];

	if (*j->program && (!j->major || is_within(s, j->major)))
		return;
	if (!s->most)
		snprintf(needs, sizeof(needs), "Java %d or later", s->least);
	else if (s->most == 8)
		snprintf(needs, sizeof(needs), "Java 8");
	else
		snprintf(needs, sizeof(needs), "Java %d to %d", s->least, s->most);
	if (*j->program) {
		exam_add(x, EXAM_BAD, "%s needs %s, and %s is Java %d (%s)", spark, needs,
			 j->program, j->major, j->version);
	} else if (!exam_is_live(x)) {
		return;
	} else if (j->by_home) {
		exam_add(x, EXAM_BAD, "%s finds no Java: JAVA_HOME=%s has no bin/java", spark,
			 conf_env("JAVA_HOME"));
	} else {
		exam_add(x, EXAM_BAD,
			 "%s finds no Java: JAVA_HOME is not set, and PATH has no java", spark);
	}
	propose(x, fs, s, j->by_home, todo, sizeof(todo));
	exam_why(x,
		 !*j->program          ? "Spark ends with: Java gateway process exited before "
					 "sending its port number"
		 : j->major < s->least ? too_old
				       : s->above,
		 todo);
}

/* The version of the Spark in the folder @home, by the name of its main library; or "". */
static void spark_of(struct rootfs *fs, const char *home, char out[64])
{
	char dir[PATH_MAX], version[64];
	struct names n = { 0 };

	*out = 0;
	if (rootfs_join(dir, home, "jars"))
		n = rootfs_names(fs, dir, "spark-core_");
	for (size_t i = 0; i < n.count && !*out; i++) {
		const char *at = strrchr(n.at[i], '-');

		/* spark-core_2.13-4.0.0.jar */
		text_copy(version, sizeof(version), at + 1,
			  strstr(at, ".jar") ? (size_t)(strstr(at, ".jar") - at - 1) : 0);
		if (*version && text_is_version(version))
			text_set(out, 64, version);
	}
	rootfs_names_free(&n);
}

/* The pyspark that the Python @o finds first; "": none. */
static void pyspark_of(struct rootfs *fs, const json_t *o, char out[64])
{
	json_t *site;
	size_t i;

	*out = 0;
	json_array_foreach(json_object_get(o, "sites"), i, site) {
		struct dists found = { 0 };

		dist_scan_site(fs, json_string_value(site), &found);
		for (size_t k = 0; k < found.count && !*out; k++)
			if (!strcmp(found.at[k].name, "pyspark"))
				text_set(out, 64, found.at[k].version);
		dist_free(&found);
	}
}

/* Reports a SPARK_HOME with another Spark than pyspark @version of @python is for. */
static void judge_home(struct exam *x, const char *version, const char *python,
		       const char *home, const char *spark)
{
	char series[64], todo[2 * PATH_MAX], word[PATH_MAX];
	const char *dot = strchr(version, '.');

	text_copy(series, sizeof(series), version,
		  dot ? (size_t)(dot - version) + 1 + strspn(dot + 1, "0123456789")
		      : strlen(version));
	if (!*spark || release_within(spark, series, series))
		return;
	exam_add(x, EXAM_BAD, "pyspark %s of %s does not fit Spark %s of SPARK_HOME=%s",
		 version, python, spark, home);
	snprintf(todo, sizeof(todo), "unset SPARK_HOME, or %s -m pip install 'pyspark==%s'",
		 shell_word(python, word, sizeof(word)), spark);
	exam_why(x, "pyspark fails with: 'JavaPackage' object is not callable", todo);
}

void exam_java(struct exam *x)
{
	const char *home = exam_is_live(x) ? conf_env("SPARK_HOME") : NULL;
	const char *remote = exam_is_live(x) ? conf_env("SPARK_REMOTE") : NULL;
	char version[64], spark[64] = "", before[64] = "", title[PATH_MAX + 96];
	json_t *problems = json_array(), *o;
	struct rootfs fs;
	struct err ignored;
	size_t i;

	if (remote || rootfs_open(&fs, x->root, problems, &ignored))
		goto out;
	if (home && *home)
		spark_of(&fs, home, spark);
	json_array_foreach(json_object_get(x->facts, "pythons"), i, o) {
		const char *python = jsonio_string(o, "path"), *is;
		const struct span *s;
		struct java j;

		pyspark_of(&fs, o, version);
		is = *spark ? spark : version;
		s = span_of(is);
		if (!*version || !s || !strcmp(version, before))
			continue;
		judge_home(x, version, python, home, spark);
		j = find_java(x, &fs, o);
		snprintf(title, sizeof(title), "Spark %s of %s", is, *spark ? home : python);
		judge_java(x, &fs, s, title, &j);
		/* What several Pythons share is said once. */
		text_set(before, sizeof(before), version);
	}
	rootfs_close(&fs);
out:
	json_decref(problems);
}
