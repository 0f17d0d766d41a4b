/* sources.c - the source lines of network settings, in files and the environment. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sources.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/file.h"
#include "host/netconf.h"
#include "host/netnames.h"
#include "ringup.h"

enum { FILE_CAP = 1 << 20, MAX_FILES = 64, MAX_LINES = 1024 };

static const char mca_prefix[] = "OMPI_MCA_";
static const char bom[] = "\xef\xbb\xbf";

static int sources_no_memory(struct err *e)
{
	return fail(e, RINGUP_ENOMEM, "no memory for settings");
}

struct sources_file *sources_file(struct sources *s, enum sources_grammar g, const char *path,
				  struct err *e)
{
	struct sources_file *f;
	char *copy;

	if (s->nfiles == MAX_FILES) {
		fail(e, RINGUP_EINVAL, "more than %d files of settings", MAX_FILES);
		return NULL;
	}
	copy = strdup(path);
	f = copy ? array_more(&s->files, &s->nfiles, sizeof(*f)) : NULL;
	if (!f) {
		free(copy);
		sources_no_memory(e);
		return NULL;
	}
	*f = (struct sources_file){ .grammar = g, .path = copy };
	return f;
}

/* Masks the password of scheme://user:password@host. */
static void mask(char *text)
{
	char *at, *colon, *s = text;

	while ((s = strstr(s, "://"))) {
		s += 3;
		at = s + strcspn(s, "@/ ");
		colon = memchr(s, ':', (size_t)(at - s));
		if (*at == '@' && colon)
			memset(colon + 1, '*', (size_t)(at - colon - 1));
	}
}

int sources_line(struct sources_file *f, int number, const char *text, size_t len,
		 struct err *e)
{
	struct sources_line *one;
	char *copy;

	if (f->nlines == MAX_LINES)
		return fail(e, RINGUP_EINVAL, "%.100s: more than %d lines", f->path, MAX_LINES);
	copy = strndup(text, len);
	one = copy ? array_more(&f->lines, &f->nlines, sizeof(*one)) : NULL;
	if (!one) {
		free(copy);
		return sources_no_memory(e);
	}
	mask(copy);
	*one = (struct sources_line){ number, copy };
	return 0;
}

void sources_free(struct sources *s)
{
	for (int i = 0; i < s->nfiles; i++) {
		for (int n = 0; n < s->files[i].nlines; n++)
			free(s->files[i].lines[n].text);
		free(s->files[i].lines);
		free(s->files[i].path);
	}
	free(s->files);
	memset(s, 0, sizeof(*s));
}

/* The word at @text, to @w; false if a shell would have something to evaluate. */
static bool unquote(const char *text, char *w)
{
	char quote = 0;

	for (; *text; text++) {
		if (*text == quote) {
			quote = 0;
			continue;
		}
		if (!quote && (*text == '\'' || *text == '"')) {
			quote = *text;
			continue;
		}
		if (!quote && strchr(" \t\r;&|<>()", *text))
			break;
		if (quote != '\'' && (strchr("$`", *text) || (!quote && strchr("*?~", *text))))
			return false;
		if (quote != '\'' && *text == '\\' && (!quote || strchr("$`\"\\", text[1])))
			text++;
		if (!*text)
			return false;
		*w++ = *text;
	}
	*w = 0;
	return !quote;
}

char *sources_shell_value(const char *text)
{
	char *out = malloc(strlen(text) + 1);

	if (out && unquote(text, out))
		return out;
	free(out);
	return NULL;
}

static size_t skip_word(const char *line, size_t len, size_t at, const char *word)
{
	size_t n = strlen(word);

	if (len - at <= n || strncmp(line + at, word, n) ||
	    !isblank((unsigned char)line[at + n]))
		return at;
	for (at += n; at < len && isblank((unsigned char)line[at]); at++)
		;
	return at;
}

size_t sources_meant(enum sources_grammar g, const char *line, size_t len,
		     char out[SOURCES_NAME])
{
	size_t at = 0, end, used = 0;

	if (len >= 3 && !memcmp(line, bom, 3))
		at = 3;
	while (at < len && strchr(" \t\"'$", line[at]))
		at++;
	at = skip_word(line, len, at, "export");
	at = skip_word(line, len, at, "setenv");
	for (end = at; end < len && (isalnum((unsigned char)line[end]) || line[end] == '_');
	     end++)
		;
	*out = 0;
	if (g == SOURCES_MCA && (end - at < 4 || strncmp(line + at + 4, "_MCA_", 5)) &&
	    end > at)
		used = (size_t)snprintf(out, SOURCES_NAME, "%s", mca_prefix);
	if (end > at && end - at + used < SOURCES_NAME)
		snprintf(out + used, SOURCES_NAME - used, "%.*s", (int)(end - at), line + at);
	else
		*out = 0;
	return end;
}

static bool sources_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_command(char c)
{
	return c == ';' || c == '&' || c == '|';
}

/* Where the word of a script that begins at @at ends. */
static size_t word_end(const char *line, size_t len, size_t at)
{
	char quote = 0;

	for (; at < len; at++) {
		if (line[at] == '\\' && quote != '\'')
			at++;
		else if (quote && line[at] == quote)
			quote = 0;
		else if (!quote && (line[at] == '\'' || line[at] == '"'))
			quote = line[at];
		else if (!quote && (sources_is_blank(line[at]) || ends_command(line[at])))
			break;
	}
	return at < len ? at : len;
}

static bool is_assignment(const char *word, size_t len)
{
	size_t n = 0;

	while (n < len && (isalnum((unsigned char)word[n]) || word[n] == '_'))
		n++;
	return n && n < len && word[n] == '=';
}

/* Where the next word of a script's line begins that sets a variable, at @at or behind; @len:
 * nowhere.  Words behind a program's name are its arguments. */
static size_t next_assignment(const char *line, size_t len, size_t at)
{
	bool is_program = false;
	size_t end;

	for (; at < len && line[at] != '#'; at = end) {
		end = at + 1;
		if (ends_command(line[at])) {
			is_program = false;
		} else if (!sources_is_blank(line[at])) {
			if (!is_program && is_assignment(line + at, len - at))
				return at;
			end = word_end(line, len, at);
			is_program |= end - at != 6 || strncmp(line + at, "export", 6) != 0;
		}
	}
	return len;
}

/* The first piece of a line, at or behind *@at, that sets a variable, and its length; a line
 * is one piece, but in a script `export A=1 B=2` is A=1 and B=2. */
static const char *next_piece(enum sources_grammar g, const char *line, size_t len, size_t *at,
			      size_t *size)
{
	size_t from = g == SOURCES_SHELL ? next_assignment(line, len, *at) : len;
	size_t end = word_end(line, len, from);

	if (*at == len)
		return NULL;
	if (!*at && next_assignment(line, len, end) == len) {
		*at = *size = len;
		return line;
	}
	*at = end;
	*size = end - from;
	return from < len ? line + from : NULL;
}

static bool is_about_network(enum sources_grammar g, const char *line, size_t len)
{
	char name[SOURCES_NAME];

	sources_meant(g, line, len, name);
	return *name && (netnames_find(name) == NETNAMES_NETWORK || netnames_near(name));
}

static int add_lines(struct sources_file *f, const char *text, struct err *e)
{
	int number = 0, rc = 0;
	const char *piece;
	size_t len, at, size;

	for (; !rc && *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		number++;
		at = 0;
		while (!rc && (piece = next_piece(f->grammar, text, len, &at, &size)))
			if (is_about_network(f->grammar, piece, size))
				rc = sources_line(
					f, f->grammar == SOURCES_ENVIRONMENT ? 0 : number,
					piece, size, e);
	}
	return rc;
}

int sources_add(struct sources *s, enum sources_grammar g, const char *path, const char *text,
		struct err *e)
{
	struct sources_file *f = sources_file(s, g, path, e);

	return f ? add_lines(f, text, e) : RINGUP_ENOMEM;
}

static int add_environment(struct sources *s, struct err *e)
{
	struct sources_file *f = sources_file(s, SOURCES_ENVIRONMENT, "environment", e);
	char **v = conf_environ();
	int rc = f ? 0 : RINGUP_ENOMEM;

	for (; !rc && v && *v; v++)
		if (is_about_network(SOURCES_ENVIRONMENT, *v, strlen(*v)))
			rc = sources_line(f, 0, *v, strlen(*v), e);
	return rc;
}

static bool is_added(const struct sources *s, const char *path)
{
	for (int i = 0; i < s->nfiles; i++)
		if (!strcmp(s->files[i].path, path))
			return true;
	return false;
}

/* Adds a script if any of its lines is about the network. */
static int add_script(struct sources *s, const char *root, const char *path, struct err *e)
{
	struct sources_file *f;
	char *text;
	size_t len;
	int rc;

	if (is_added(s, path) || s->nfiles == MAX_FILES ||
	    file_read(root, path, FILE_CAP, &text, &len, NULL))
		return 0;
	rc = sources_add(s, SOURCES_SHELL, path, text, e);
	free(text);
	f = &s->files[s->nfiles - 1];
	if (!rc && !f->nlines) {
		free(f->path);
		s->nfiles--;
	}
	return rc;
}

static int is_script(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return len > 3 && !strcmp(d->d_name + len - 3, ".sh");
}

/* Adds a login shell's scripts, in the order in which it reads them. */
static int add_profile(struct sources *s, const char *root, struct err *e)
{
	static const char folder[] = "/etc/profile.d";
	struct dirent **list = NULL;
	char path[PATH_MAX];
	int n, rc = 0;

	if (file_path(path, root, folder, NULL))
		return 0;
	n = scandir(path, &list, is_script, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%.255s", folder, list[i]->d_name);
		if (!rc)
			rc = add_script(s, root, path, e);
		free(list[i]);
	}
	free(list);
	return rc;
}

static int add_spark(struct sources *s, const char *root, struct err *e)
{
	const char *conf = conf_env("SPARK_CONF_DIR"), *home = conf_env("SPARK_HOME");
	char path[PATH_MAX];
	int rc = 0;

	if (conf && *conf == '/') {
		snprintf(path, sizeof(path), "%s/spark-env.sh", conf);
		rc = add_script(s, root, path, e);
	}
	if (!rc && home && *home == '/') {
		snprintf(path, sizeof(path), "%s/conf/spark-env.sh", home);
		rc = add_script(s, root, path, e);
	}
	return rc ? rc : add_script(s, root, "/databricks/spark/conf/spark-env.sh", e);
}

static int add_scripts(struct sources *s, const char *root, struct err *e)
{
	int rc = add_script(s, root, "/etc/environment", e);

	if (!rc)
		rc = add_profile(s, root, e);
	return rc ? rc : add_spark(s, root, e);
}

static int sources_add_file(struct sources *s, enum sources_grammar g, const char *root,
			    const char *path, struct err *e)
{
	char *text;
	size_t len;
	int rc;

	if (is_added(s, path) || file_read(root, path, FILE_CAP, &text, &len, NULL))
		return 0;
	rc = sources_add(s, g, path, text, e);
	free(text);
	return rc;
}

/* Reads both homes, $HOME's and the passwd entry's: NCCL's versions use one or the other. */
static int add_nccl(struct sources *s, const char *root, struct err *e)
{
	const char *given = conf_env("NCCL_CONF_FILE"), *home = conf_env("HOME");
	const struct passwd *pw = getpwuid(getuid());
	bool is_given = given && *given;
	char path[PATH_MAX];
	int rc = 0;

	if (is_given)
		rc = sources_add_file(s, SOURCES_NCCL, root, given, e);
	if (!is_given && home && *home == '/') {
		snprintf(path, sizeof(path), "%s/.nccl.conf", home);
		rc = sources_add_file(s, SOURCES_NCCL, root, path, e);
	}
	if (!rc && !is_given && pw) {
		snprintf(path, sizeof(path), "%s/.nccl.conf", pw->pw_dir);
		rc = sources_add_file(s, SOURCES_NCCL, root, path, e);
	}
	return rc ? rc : sources_add_file(s, SOURCES_NCCL, root, "/etc/nccl.conf", e);
}

static int add_mca(struct sources *s, const char *root, struct err *e)
{
	const char *home = conf_env("HOME");
	char path[PATH_MAX];
	int rc = 0;

	if (home && *home == '/') {
		snprintf(path, sizeof(path), "%s/.openmpi/mca-params.conf", home);
		rc = sources_add_file(s, SOURCES_MCA, root, path, e);
	}
	netconf_mca_file(path, root);
	return rc ? rc : sources_add_file(s, SOURCES_MCA, root, path, e);
}

int sources_read(struct sources *s, const char *root, struct err *e)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = add_environment(s, e);
	if (!rc)
		rc = add_scripts(s, root, e);
	if (!rc)
		rc = add_nccl(s, root, e);
	return rc ? rc : add_mca(s, root, e);
}
