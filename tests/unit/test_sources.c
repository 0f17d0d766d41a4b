/* test_sources.c - lines about the network are kept as they are, and no other ones. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "host/sources.h"
#include "ringup.h"
#include "tap.h"

static const char *line(const struct sources *s, int file, int n)
{
	return file < s->nfiles && n < s->files[file].nlines ? s->files[file].lines[n].text
							     : "(none)";
}

static void test_lines(void)
{
	struct sources s = { 0 };
	struct err e = { 0 };

	ok(!sources_add(&s, SOURCES_NCCL, "/etc/nccl.conf",
			"# NCCL_SOCKET_IFNAME=x\nAWS_SECRET=s3cret\n export NCCL_SOCKET_IFNAME "
			"=a\r\n"
			"NCCL_SOCKET_IFACE=eth0",
			&e),
	   "taken: %s", e.text);
	ok(s.files[0].nlines == 2 && s.files[0].lines[0].number == 3 &&
		   s.files[0].lines[1].number == 4,
	   "two lines, by their numbers");
	ok(!strcmp(line(&s, 0, 0), " export NCCL_SOCKET_IFNAME =a\r"), "as it is, with its CR");
	ok(!strcmp(line(&s, 0, 1), "NCCL_SOCKET_IFACE=eth0"),
	   "a misspelt one, without a newline");
	ok(!sources_add(&s, SOURCES_MCA, "mca",
			"mca_base_env_list = TOKEN=s3cret\nbtl_tcp_if_include = eth0\n", &e) &&
		   s.files[1].nlines == 1 && s.files[1].lines[0].number == 2,
	   "of Open MPI's file as well");
	sources_free(&s);
	ok(!s.files && !s.nfiles, "free leaves nothing");
}

static void test_secrets(void)
{
	struct sources s = { 0 };

	sources_add(&s, SOURCES_ENVIRONMENT, "environment",
		    "NCCL_RAS_ADDR=http://me:s3cret@host:80/\nHOROVOD_SECRET_KEY=s3cret\n"
		    "MASTER_ADDR=a://b:s3cret@c,d://e:s3cret@f\nMASTER_PORT=x://host:80/a@b",
		    NULL);
	ok(s.files[0].nlines == 3, "a secret key is not kept");
	ok(!strcmp(line(&s, 0, 0), "NCCL_RAS_ADDR=http://me:******@host:80/"),
	   "a password is masked: %s", line(&s, 0, 0));
	ok(!strcmp(line(&s, 0, 1), "MASTER_ADDR=a://b:******@c,d://e:******@f"), "each is");
	ok(!strcmp(line(&s, 0, 2), "MASTER_PORT=x://host:80/a@b"), "a port is none");
	sources_free(&s);
}

static void test_meant(void)
{
	static const struct {
		enum sources_grammar grammar;
		const char *line, *name;
	} cases[] = {
		{ SOURCES_NCCL, "NCCL_X=1", "NCCL_X" },
		{ SOURCES_NCCL, "\xef\xbb\xbf \"NCCL_X\"=1", "NCCL_X" },
		{ SOURCES_NCCL, "export\tNCCL_X=1", "NCCL_X" },
		{ SOURCES_NCCL, "exported=1", "exported" },
		{ SOURCES_NCCL, "# NCCL_X=1", "" },
		{ SOURCES_NCCL, "", "" },
		{ SOURCES_NCCL, "=", "" },
		{ SOURCES_MCA, "btl = tcp", "OMPI_MCA_btl" },
		{ SOURCES_MCA, "OMPI_MCA_btl = tcp", "OMPI_MCA_btl" },
		{ SOURCES_MCA, "x", "OMPI_MCA_x" },
	};
	char name[SOURCES_NAME], wide[2048];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sources_meant(cases[i].grammar, cases[i].line, strlen(cases[i].line), name);
		ok(!strcmp(name, cases[i].name), "'%s' means '%s'", cases[i].line, name);
	}
	memset(wide, 'a', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = 0;
	ok(sources_meant(SOURCES_MCA, wide, strlen(wide), name) == 2047 && !*name,
	   "a name of 2,047 bytes is none");
}

static void test_shell(void)
{
	static const struct {
		const char *text, *value; /* NULL: to be evaluated */
	} words[] = {
		{ "eth0", "eth0" },
		{ "eth0 # fast", "eth0" },
		{ "eth0; echo", "eth0" },
		{ "'^lo,docker'", "^lo,docker" },
		{ "\"eth0\",'eth1'", "eth0,eth1" },
		{ "'a$b`c'", "a$b`c" },
		{ "\"a\\$b\\c\"", "a$b\\c" },
		{ "a\\ b\r", "a b" },
		{ "", "" },
		{ "$NIC", NULL },
		{ "\"$(hostname)\"", NULL },
		{ "`hostname`", NULL },
		{ "eth*", NULL },
		{ "eth0\\", NULL },
		{ "\"eth0", NULL },
	};
	char *got;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		got = sources_shell_value(words[i].text);
		ok(words[i].value ? got && !strcmp(got, words[i].value) : !got, "%s is %s",
		   words[i].text, got ? got : "not known");
		free(got);
	}
}

/* What a script's line sets: several variables, some, none. */
static void test_scripts(void)
{
	static const struct {
		const char *line, *kept;
	} cases[] = {
		{ "export NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0",
		  "NCCL_DEBUG=INFO|NCCL_SOCKET_IFNAME=eth0|" },
		{ "export A=1 NCCL_SOCKET_IFNAME='eth0 # x' GLOO_SOCKET_IFNAME=a\\ b # "
		  "NCCL_DEBUG=1",
		  "NCCL_SOCKET_IFNAME='eth0 # x'|GLOO_SOCKET_IFNAME=a\\ b|" },
		{ "A=1; NCCL_SOCKET_IFNAME=eth0; export NCCL_SOCKET_IFNAME",
		  "NCCL_SOCKET_IFNAME=eth0|" },
		{ "true && export A=1 NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth0|" },
		{ "A=1 B=2 prog NCCL_SOCKET_IFNAME=eth0", "" },
		{ "export NCCL_SOCKET_IFNAME=eth0 # all of it",
		  "export NCCL_SOCKET_IFNAME=eth0 # all of it|" },
		{ "A=1 B=\"NCCL_SOCKET_IFNAME=eth0", "" },
		{ "", "" },
	};
	struct sources s;
	char kept[256];
	size_t i;
	int n, at;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		s = (struct sources){ 0 };
		at = 0;
		*kept = 0;
		sources_add(&s, SOURCES_SHELL, "f", cases[i].line, NULL);
		for (n = 0; n < s.files[0].nlines; n++)
			at += snprintf(kept + at, sizeof(kept) - (size_t)at, "%s|",
				       line(&s, 0, n));
		ok(!strcmp(kept, cases[i].kept), "%s: %s", cases[i].line, kept);
		sources_free(&s);
	}
}

static void test_bounds(void)
{
	struct sources s = { 0 };
	struct err e = { 0 };
	struct sources_file *f = sources_file(&s, SOURCES_NCCL, "f", &e);
	int i, rc = 0;

	for (i = 0; !rc && i < 100000; i++)
		rc = sources_line(f, i, "x", 1, &e);
	ok(rc == RINGUP_EINVAL && i < 10000, "lines have an end: %s", e.text);
	for (i = 0; f && i < 100; i++)
		f = sources_file(&s, SOURCES_NCCL, "f", &e);
	ok(!f && e.code == RINGUP_EINVAL, "files have an end: %s", e.text);
	sources_free(&s);
}

static void test_live(void)
{
	struct sources s = { 0 };
	struct err e = { 0 };

	setenv("NCCL_SOCKET_IFNAME", "\"lo\"", 1);
	setenv("RINGUP_TEST_SECRET", "s3cret", 1);
	ok(!sources_read(&s, "/nowhere", &e) && s.nfiles == 1, "no file is no error: %s",
	   e.text);
	ok(!strcmp(s.files[0].path, "environment") && s.files[0].nlines >= 1,
	   "the environment");
	ok(s.files[0].lines[0].number == 0, "has no line numbers");
	sources_free(&s);
}

int main(void)
{
	test_lines();
	test_secrets();
	test_meant();
	test_shell();
	test_scripts();
	test_bounds();
	test_live();
	return tap_done();
}
