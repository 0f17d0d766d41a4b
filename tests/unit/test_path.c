/* test_path.c - walks of PATH: empty folders, a long one, and what is no program. */
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

/* The folders of @list, joined by '|'. */
static const char *folders(const char *list)
{
	static char out[2 * PATH_MAX];
	char dir[PATH_MAX];

	for (*out = 0; path_next(&list, dir);)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s|", dir);
	return out;
}

/* A list of a folder of @len characters, then "/b". */
static char *list_of(size_t len)
{
	char *list = malloc(len + 8);

	if (list) {
		memset(list, 'a', len);
		list[0] = '/';
		strcpy(list + len, ":/b");
	}
	return list;
}

static void put(const char *path, mode_t mode)
{
	FILE *f = fopen(path, "w");

	if (f)
		fclose(f);
	chmod(path, mode);
}

static void look_up(void)
{
	char top[] = "/tmp/test_path.XXXXXX", list[PATH_MAX], out[PATH_MAX], name[3][64];

	if (!mkdtemp(top)) {
		ok(false, "a folder");
		return;
	}
	for (int i = 0; i < 3; i++) {
		snprintf(name[i], sizeof(name[i]), "%s/%d", top, i);
		mkdir(name[i], 0755);
	}
	snprintf(list, sizeof(list), "/none:%s::%s:%s", name[0], name[1], name[2]);
	setenv("PATH", list, 1);
	ok(!path_program("prog", out), "no folder has it");
	snprintf(out, sizeof(out), "%s/prog", name[0]);
	mkdir(out, 0755);
	snprintf(list, sizeof(list), "%s/prog", name[1]);
	put(list, 0644);
	ok(!path_program("prog", out), "neither a folder nor a file without x is a program");
	snprintf(list, sizeof(list), "%s/prog", name[2]);
	put(list, 0755);
	ok(path_program("prog", out) && !strcmp(out, list), "the third folder's: %s", out);
	unsetenv("PATH");
	ok(!path_program("prog", out), "without PATH there is no program");
	unlink(list);
	for (int i = 0; i < 3; i++) {
		snprintf(out, sizeof(out), "%s/prog", name[i]);
		if (unlink(out))
			rmdir(out);
		rmdir(name[i]);
	}
	rmdir(top);
}

int main(void)
{
	char *fits = list_of(PATH_MAX - 1), *long_one = list_of(PATH_MAX);
	char expected[PATH_MAX + 8];

	ok(!strcmp(folders(NULL), ""), "no list");
	ok(!strcmp(folders(""), ""), "an empty list");
	ok(!strcmp(folders("::"), ""), "empty folders only");
	ok(!strcmp(folders("/a"), "/a|"), "one folder");
	ok(!strcmp(folders(":/a::b/c:"), "/a|b/c|"), "empty folders are skipped");
	if (fits && long_one) {
		snprintf(expected, sizeof(expected), "%.*s|/b|", PATH_MAX - 1, fits);
		ok(!strcmp(folders(fits), expected), "the longest folder that fits");
		ok(!strcmp(folders(long_one), "/b|"), "one byte more is skipped");
	}
	free(fits);
	free(long_one);
	look_up();
	return tap_done();
}
