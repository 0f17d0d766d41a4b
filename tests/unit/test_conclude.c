/* test_conclude.c - causes come first, echoes go, addresses decide. */
#include "diagnose/conclude.h"

#include <string.h>

#include "base/err.h"
#include "tap.h"

static struct evidence v;
static struct nodes nodes;
static struct conclusions c;

static struct sighting at(int file, long line)
{
	struct sighting s = { .file = file,
			      .line = line,
			      .at = (uint64_t)line * 1000,
			      .text = "  tex\x1bt ",
			      .len = 8 };

	s.origin.rank = -1;
	fields_init(&s.fields);
	return s;
}

static void see(const char *id, int file, long line)
{
	struct sighting s = at(file, line);

	evidence_add(&v, signature_find(id), &s);
}

static void see_address(const char *id, long line, const char *address)
{
	struct sighting s = at(0, line);

	snprintf(s.fields.address, sizeof(s.fields.address), "%s", address);
	evidence_add(&v, signature_find(id), &s);
}

static void start(void)
{
	conclude_free(&c);
	evidence_close(&v);
	evidence_open(&v, NULL);
}

static const char *list(void)
{
	static char text[256];
	int i;

	*text = 0;
	conclude_free(&c);
	conclude(&c, &v, &nodes, NULL);
	for (i = 0; i < c.n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
			 c.list[i].finding->signature->id);
	for (i = 0; i < c.echoes; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " (%s)",
			 c.echo[i]->signature->id);
	return text;
}

static void expect(const char *want, const char *why)
{
	const char *got = list();

	ok(!strcmp(got, want), "%s: %s", why, got);
}

static void check_order(void)
{
	struct sighting s;

	start();
	expect("", "nothing was seen");
	see("N16", 0, 1);
	expect("N16", "an echo alone is told");
	see("N8", 0, 2);
	see("N9", 1, 1);
	see("N1", 2, 9);
	expect("N1 N9 N8 (N16)", "settings, paths, results");
	start();
	see("M6", 1, 5);
	see("M9", 0, 7);
	expect("M9 M6", "of one kind the first place");
	s = at(0, 8);
	s.origin.time = 5;
	start();
	evidence_add(&v, signature_find("M9"), &s);
	s = at(1, 1);
	s.origin.time = 4;
	evidence_add(&v, signature_find("M6"), &s);
	expect("M6 M9", "or the first time, if both are dated");
	start();
	see("M17", 0, 1);
	expect("", "a fact is no finding");
	see("R2", 0, 1);
	expect("R2", "the others' word, if there is nothing better");
	see("R1", 0, 9);
	expect("R1 (R2)", "the launcher's word is better");
}

static void check_one_message(void)
{
	start();
	see("G5", 0, 3);
	see("G2", 0, 3);
	expect("G2", "the stronger word of one message counts");
	see("G5", 0, 3);
	expect("G2", "also if it comes first");
	see("G5", 0, 4);
	see("G2", 0, 4);
	see("G2", 0, 5);
	expect("G2", "each time");
	ok(c.list[0].finding->count == 3, "three messages: %ld", c.list[0].finding->count);
	ok(!strcmp(c.list[0].proof, "tex?t"), "what is shown is clean: '%s'", c.list[0].proof);
}

static void check_wellness(void)
{
	start();
	see("N7", 0, 1);
	see("N33", 1, 2);
	expect("N7", "what goes well in another log");
	see("N33", 0, 2);
	expect("", "what was feared did not come about");
	see("N7", 0, 3);
	expect("N7", "and then it did");
	see("N33", 0, 4);
	see("N8", 0, 5);
	expect("N7 N8", "a library that failed got over nothing");
}

static void check_addresses(void)
{
	start();
	see_address("N7", 1, "10.0.0.1");
	see_address("N7", 2, "172.17.0.1");
	see_address("N7", 3, "10.0.0.1");
	expect("N7", "refused");
	ok(c.list[0].kind == SIGNATURE_ADDRESS && c.list[0].finding->addresses == 2,
	   "two addresses, one of all nodes: %s", c.list[0].cause);
	ok(!strcmp(c.list[0].command, "ringup net fix"), "so it is no firewall");
}

static void check_command(void)
{
	struct sighting s = at(0, 1);

	start();
	fields_host(&s.fields, "n1", 2);
	fields_host(&s.fields, "$(x)", 4);
	fields_host(&s.fields, "-n2", 3);
	fields_host(&s.fields, "n3", 2);
	evidence_add(&v, signature_find("N7"), &s);
	list();
	ok(!strcmp(c.list[0].command, "ringup net check n1 n3"), "%s", c.list[0].command);
	start();
	s = at(0, 1);
	s.fields.port = 29500;
	evidence_add(&v, signature_find("G9"), &s);
	list();
	ok(!strcmp(c.list[0].command, "ss -ltnp sport = :29500"), "%s", c.list[0].command);
}

static void check_many(void)
{
	char name[32];
	long i;

	start();
	for (i = 1; i <= 1000; i++) {
		struct sighting s = at((int)i, i);

		s.origin.rank = (int)i;
		snprintf(name, sizeof(name), "node-%ld", i);
		fields_host(&s.fields, name, strlen(name));
		snprintf(s.fields.address, sizeof(s.fields.address), "10.0.%ld.%ld", i / 250,
			 i % 250);
		evidence_add(&v, signature_find("N7"), &s);
	}
	list();
	ok(c.list[0].finding->count == 1000 && c.list[0].finding->files == 1000,
	   "a thousand ranks are one finding");
}

int main(void)
{
	check_order();
	check_one_message();
	check_wellness();
	check_addresses();
	check_command();
	check_many();
	conclude_free(&c);
	evidence_close(&v);
	return tap_done();
}
