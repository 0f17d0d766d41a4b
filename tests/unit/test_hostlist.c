/* test_hostlist.c - hosts and slots in every spelling, and the mistakes people make. */
#include "launch/hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "ringup.h"
#include "tap.h"

static struct err e;
static char text[512];

static const char *show(struct hostlist *l, int rc)
{
	int i;

	*text = 0;
	if (rc)
		snprintf(text, sizeof(text), "!%s", e.text);
	for (i = 0; !rc && i < l->count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s=%d",
			 i ? " " : "", l->host[i].name, l->host[i].slots);
	hostlist_fini(l);
	return text;
}

static const char *option(const char *word)
{
	struct hostlist l = { 0 };

	return show(&l, hostlist_option(&l, word, 3, &e));
}

static const char *script(const char *lines)
{
	struct hostlist l = { 0 };

	return show(&l, hostlist_script(&l, lines, 3, &e));
}

static void test_option(void)
{
	ok(!strcmp(option("a:2,b,c:4"), "a=2 b=3 c=4"), "hosts and slots: %s", text);
	ok(!strcmp(option("a:2,b:1,a:1"), "a=3 b=1"), "the same host twice: %s", text);
	ok(!strcmp(option("10.0.0.1:2,[fe80::1%eth0]:4,fe80::2"),
		   "10.0.0.1=2 fe80::1%eth0=4 fe80::2=3"),
	   "addresses: %s", text);
	ok(*option("a:x") == '!' && *option("a:") == '!' && *option("a:-1") == '!' &&
		   *option("a:99999999999") == '!',
	   "no number: %s", text);
	ok(*option("") == '!' && *option(",") == '!' && *option(":2") == '!' &&
		   !strcmp(option("a,,b"), "!a host without a name"),
	   "no host: %s", text);
	ok(*option("-oProxyCommand=reboot") == '!' && *option("a;b") == '!' &&
		   *option("a$(b)") == '!' && *option("[a:2") == '!',
	   "nothing that ssh or a shell would take for something else: %s", text);
	ok(!strcmp(option("a:0,b:1"), "a=0 b=1"), "a host without slots: %s", text);
}

static void test_lines(void)
{
	ok(!strcmp(script("a slots=2\n# none\n\nb:4\nc\n d  slots=1 max_slots=9 # x\n"),
		   "a=2 b=4 c=3 d=1"),
	   "a file's lines: %s", text);
	ok(!strcmp(script(""), ""), "nothing is no mistake for a script");
	ok(*script("a slots=two\n") == '!' && *script("a cpu=2\n") == '!', "strange words: %s",
	   text);
	ok(!strcmp(script("a:2"), "a=2"), "a last line without an end");
	ok(!strcmp(script("a:2\nb\na:3\n"), "a=5 b=3") &&
		   !strcmp(script("a:65536\na:1\n"), "!a: more than 65536 slots"),
	   "a host that comes twice has the slots of both, up to a limit: %s", text);
}

static void test_file(void)
{
	char name[] = "/tmp/ringup-hostlist.XXXXXX";
	int fd = mkstemp(name);
	struct hostlist l = { 0 };

	ok(fd >= 0 && write(fd, "a\nb slots=x\n", 12) == 12, "a file");
	ok(hostlist_file(&l, name, 1, &e) == RINGUP_EINVAL && strstr(e.text, ":2: "),
	   "names the line: %s", e.text);
	hostlist_fini(&l);
	ok(ftruncate(fd, 0) == 0 && hostlist_file(&l, name, 1, &e) &&
		   strstr(e.text, "no hosts"),
	   "an empty one: %s", e.text);
	close(fd);
	unlink(name);
	ok(hostlist_file(&l, name, 1, &e) == RINGUP_ESYSTEM, "none: %s", e.text);
}

static void test_local(void)
{
	char self[256] = "";

	gethostname(self, sizeof(self) - 1);
	ok(hostlist_is_local("localhost") && hostlist_is_local("127.0.0.7") &&
		   hostlist_is_local(self),
	   "this host");
	ok(!hostlist_is_local("192.0.2.1"), "another one");
	ok(hostlist_is_same("node-a", "NODE-A") && !hostlist_is_same("192.0.2.1", "192.0.2.2"),
	   "one name, two addresses");
	ok(hostlist_is_same("localhost", "127.0.0.1") && hostlist_is_same(self, "127.0.0.1"),
	   "this host by other names");
	ok(!hostlist_is_same("127.0.0.1", "127.0.0.2") &&
		   !hostlist_is_same("localhost", "127.0.0.2") &&
		   hostlist_is_same("127.0.0.2", "127.0.0.2"),
	   "another loopback address is another host");
	ok(hostlist_is_same("::ffff:192.0.2.1", "::ffff:c000:201"), "two spellings");
}

int main(void)
{
	test_option();
	test_lines();
	test_file();
	test_local();
	return tap_done();
}
