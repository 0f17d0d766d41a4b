/* test_unknown.c - what programs say is found behind what others put before it. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sifted.h"
#include "tap.h"

/* ---- what stands before and behind each line ---- */

static const struct {
	const char *name, *before, *behind;
	int rank;         /* that it tells, or -1 */
	const char *host; /* that it tells, or NULL */
	bool is_json;
} wraps[] = {
	{ "nothing", "", "", -1, NULL, false },
	{ "mpirun", "[1,3]<stderr>:", "", 3, NULL, false },
	{ "horovodrun", "[3]<stderr>:", "", 3, NULL, false },
	{ "torchrun", "[default3]:", "", 3, NULL, false },
	{ "torch", "[rank3]: ", "", 3, NULL, false },
	{ "ringup", "[3] ", "", 3, NULL, false },
	{ "srun", "3: ", "", 3, NULL, false },
	{ "carriage return", "", "\r", -1, NULL, false },
	{ "date", "2026-08-22T10:01:11.120Z ", "", -1, NULL, false },
	{ "date and rank", "2026-08-22T10:01:11.120Z [rank3]: ", "", 3, NULL, false },
	{ "containerd", "2026-08-22T10:01:11.120459Z stderr F ", "", -1, NULL, false },
	{ "containerd and mpirun", "2026-08-22T10:01:11.12Z stderr F [1,3]<stderr>:", "", 3,
	  NULL, false },
	{ "kubectl", "[pod/trainer-1/pytorch] ", "", -1, NULL, false },
	{ "compose", "worker-1  | ", "", -1, NULL, false },
	{ "journal", "Aug 22 10:01:11 node-7 train[4711]: ", "", -1, NULL, false },
	{ "docker", "{\"log\":\"",
	  "\\n\",\"stream\":\"stderr\",\"time\":\"2026-08-22T10:01:11.1Z\"}", -1, NULL, true },
	{ "docker and rank", "{\"log\":\"[rank3]: ",
	  "\\n\",\"stream\":\"stderr\",\"time\":\"2026-08-22T10:01:11.1Z\"}", 3, NULL, true },
	{ "Databricks",
	  "26/08/22 10:01:11 INFO PythonDriverLocal$RedirectThread: [1,3]<stderr>:", "", 3,
	  NULL, false },
	{ "Ray", "(RayTrainWorker pid=4711, ip=10.30.0.7) ", "", -1, "10.30.0.7", false },
	{ "Ray, coloured", "\x1b[36m(TrainWorker pid=4711, ip=10.30.0.7)\x1b[0m ", "", -1,
	  "10.30.0.7", false },
	{ "a worker of Ray", "(VllmWorker rank=3 pid=4711) ", "", 3, NULL, false },
	{ "colour", "\x1b[31m", "\x1b[0m", -1, NULL, false },
	{ "a bar of progress", " 40%|####  | 40/100 [00:01<00:02]\r", "", -1, NULL, false },
	{ "srun, ranks of two digits", " 3: ", "", 3, NULL, false },
	{ "syslog", "<6>1 2026-08-22T10:01:11.003Z node-7 train 4711 - - ", "", -1, NULL,
	  false },
	{ "Fluentd",
	  "{\"time\":\"2026-08-22T10:01:11.1Z\",\"stream\":\"stderr\",\"message\":\"[rank3]: ",
	  "\"}", 3, NULL, true },
	{ "the journal as JSON", "{\"_HOSTNAME\":\"node-7\",\"PRIORITY\":\"6\",\"MESSAGE\":\"",
	  "\",\"_PID\":\"4711\"}", -1, NULL, true },
};

enum { WRAPS = sizeof(wraps) / sizeof(wraps[0]), ROOM = 64 << 10 };

static void put(char **at, const char *end, const char *text)
{
	size_t n = strlen(text);

	if (n < (size_t)(end - *at)) {
		memcpy(*at, text, n);
		*at += n;
	}
}

/* @said, whose lines end with \n written out, as a log. */
static size_t wrap(const char *said, int which, char *out)
{
	char *at = out, *end = out + ROOM, one[2] = "";

	put(&at, end, wraps[which].before);
	for (; *said; said++) {
		if (said[0] == '\\' && said[1] == 'n') {
			put(&at, end, wraps[which].behind);
			put(&at, end, "\n");
			put(&at, end, wraps[which].before);
			said++;
			continue;
		}
		if (said[0] == '\\' && said[1] == 't') {
			put(&at, end, wraps[which].is_json ? "\\t" : "\t");
			said++;
			continue;
		}
		one[0] = *said;
		put(&at, end,
		    !wraps[which].is_json ? one
		    : *said == '<'        ? "\\u003c"
		    : *said == '>'        ? "\\u003e"
		    : *said == '"'        ? "\\\""
					  : one);
	}
	put(&at, end, wraps[which].behind);
	put(&at, end, "\n");
	return (size_t)(at - out);
}

/* ---- what is found ---- */

static const char *ids(void)
{
	static char text[256];
	int i;

	*text = 0;
	for (i = 0; i < found.n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
			 found.list[i].finding->signature->id);
	return text;
}

static bool has_rank(int rank)
{
	const struct finding *f = found.n ? found.list[0].finding : NULL;
	int i;

	for (i = 0; f && i < f->ranks; i++)
		if (f->rank[i] == rank)
			return true;
	return false;
}

static bool has_host(const char *host)
{
	const struct finding *f = found.n ? found.list[0].finding : NULL;
	int i;

	for (i = 0; f && i < f->hosts; i++)
		if (!strcmp(f->host[i], host))
			return true;
	return false;
}

/* As PowerShell writes it, with the low byte of each letter first, or the high one. */
static size_t widen(char *log, size_t len, bool is_high_first)
{
	static char wide[ROOM];
	size_t i;

	len = len < ROOM / 2 - 1 ? len : ROOM / 2 - 1;
	memcpy(wide, is_high_first ? "\xfe\xff" : "\xff\xfe", 2);
	for (i = 0; i < len; i++) {
		wide[2 + 2 * i + !is_high_first] = 0;
		wide[2 + 2 * i + is_high_first] = log[i];
	}
	memcpy(log, wide, 2 + 2 * len);
	return 2 + 2 * len;
}

/* "-" for nothing, "ID..." or "ID...=TEXT", where TEXT is in the first one's cause. */
static void check(char *want, const char *said)
{
	static char log[ROOM];
	char *cause = strchr(want, '=');
	int i, missed = 0, lost = 0;

	if (cause)
		*cause++ = 0;
	for (i = 0; i < WRAPS; i++) {
		diagnose(log, wrap(said, i, log));
		if (strcmp(ids(), strcmp(want, "-") != 0 ? want : "") != 0) {
			printf("# behind %s: '%s'\n", wraps[i].name, ids());
			missed++;
		} else if (found.n && cause && !strstr(found.list[0].cause, cause)) {
			printf("# behind %s: %s\n", wraps[i].name, found.list[0].cause);
			missed++;
		}
		/* A message that names ranks or hosts is about those. */
		if (found.n && !cause && wraps[i].rank >= 0)
			lost += !found.list[0].finding->ranks &&
				printf("# behind %s: no rank\n", wraps[i].name);
		if (found.n && wraps[i].host && !has_host(wraps[i].host))
			lost += !found.list[0].finding->hosts &&
				printf("# behind %s: no host\n", wraps[i].name);
	}
	for (i = 0; i < 2; i++) {
		diagnose(log, widen(log, wrap(said, 0, log), i));
		missed += strcmp(ids(), strcmp(want, "-") != 0 ? want : "") != 0 &&
			  printf("# as UTF-16: '%s'\n", ids());
	}
	ok(!missed && !lost, "%s: %.60s", want, said);
}

/* ---- what libraries can say ---- */

static bool ends(const char *start, const char *at, const char *tail)
{
	size_t n = strlen(tail);

	return (size_t)(at - start) >= n && !memcmp(at - n, tail, n);
}

/* A value for the field at @p, as strings.py takes it; its length is *@len, 0: no field. */
static const char *value_of(const char *format, const char *p, size_t *len)
{
	size_t n = 1;

	*len = 0;
	if (p[0] == '{' && p[1] == '}') {
		*len = 2;
	} else if (*p == '%') {
		n += strspn(p + n, "-+ #0123456789.*");
		n += strspn(p + n, "hlzjt");
		if (!p[n] || !strchr("sdiuxXpfgcmlP%", p[n]))
			return NULL;
		*len = n + 1;
		if (p[n] == '%')
			return "%";
		if (n > 1 || p[n] != 's')
			return "12";
	} else {
		return NULL;
	}
	return ends(format, p, "to ") || ends(format, p, "peer ") || ends(format, p, "from ") ||
			       ends(format, p, "address ")
		       ? "10.30.0.7<4000>"
		       : "gizmo";
}

/* What stands before a message of a library, as strings.py has it. */
static const char *head_of(const char *library)
{
	static const char *const heads[][2] = {
		{ "nccl", "node-1:41:42 [0] x.cc:1 NCCL WARN " },
		{ "ucx", "[1724320872.1] [node-1:41   :0]  x.c:1    UCX  ERROR " },
		{ "libfabric", "libfabric:41:1724320872::core:core:frob():1<warn> " },
		{ "mpich", "Fatal error in internal_Send: Other MPI error, error stack:\n"
			   "frob(12)......: " },
		{ "hydra", "[proxy:0:1@node-2] frob (x.c:1): " },
	};
	size_t i;

	for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (!strcmp(library, heads[i][0]))
			return heads[i][1];
	return "RuntimeError: ";
}

static void check_string(const char *library, const char *want, const char *format, int *missed)
{
	static const char rule[] =
		"--------------------------------------------------------------"
		"------------\n";
	static char log[ROOM];
	char *at = log, one[2] = "";
	bool is_box = !strcmp(library, "openmpi");
	const char *p, *value, *found_id;
	size_t n;

	put(&at, log + ROOM, is_box ? rule : head_of(library));
	for (p = format; *p; p += n ? n : 1) {
		value = value_of(format, p, &n);
		one[0] = *p;
		put(&at, log + ROOM, n ? value : one);
	}
	put(&at, log + ROOM, "\n");
	put(&at, log + ROOM, is_box ? rule : "");
	diagnose(log, (size_t)(at - log));
	found_id = found.n ? found.list[0].finding->signature->id : "-";
	if (strncmp(want, found_id, strlen(found_id)) != 0 ||
	    (want[strlen(found_id)] && want[strlen(found_id)] != ' ')) {
		printf("# %s, not %s: %s\n", found_id, want, format);
		++*missed;
	}
}

/* Each has a signature, or the reason why it has none. */
static void read_strings(const char *path)
{
	char *line = NULL, *field[5], *next;
	int i, n = 0, missed = 0, bare = 0;
	FILE *f = fopen(path, "re");
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		for (next = line, i = 0; i < 5 && next; i++)
			field[i] = strsep(&next, "\t");
		if (*line == '#' || i < 5)
			continue;
		check_string(field[0], field[3], field[4], &missed);
		bare += (*field[3] == 'X' || *field[3] == '-') && !strchr(field[3], ' ');
		n++;
	}
	free(line);
	if (f)
		fclose(f);
	ok(n > 3000 && !missed, "%d formats of libraries: %d are told otherwise", n, missed);
	ok(!bare, "%d of them have neither a signature nor a reason", bare);
}

/* A log of a user, and what is to be found: the signatures, and what the first of them names.
 */
static void check_report(char *head, const char *log, size_t len)
{
	char *name = strsep(&head, "\t"), *want = strsep(&head, "\t"),
	     *rank = strsep(&head, "\t"), *host = head;
	bool fits;

	if (!host) {
		ok(0, "%s: there is no RANK and HOST", name);
		return;
	}
	diagnose(log, len);
	fits = !strcmp(ids(), strcmp(want, "-") != 0 ? want : "");
	ok(fits && (*rank == '-' || has_rank(atoi(rank))) && (*host == '-' || has_host(host)),
	   "%s", name);
	if (!fits)
		printf("# found: '%s', not '%s'\n", ids(), want);
}

static void read_reports(const char *path)
{
	static const char mark[] = "\n#### ";
	static char all[4 * ROOM], head[512];
	FILE *f = fopen(path, "re");
	size_t len = f ? fread(all, 1, sizeof(all) - 1, f) : 0, n;
	char *at = strstr(all, mark), *log, *next;
	int reports = 0;

	for (; at; at = next, reports++) {
		at += sizeof(mark) - 1;
		n = strcspn(at, "\n");
		snprintf(head, sizeof(head), "%.*s", (int)n, at);
		log = at + n + 1;
		next = strstr(log, mark);
		check_report(head, log, (size_t)((next ? next + 1 : all + len) - log));
	}
	if (f)
		fclose(f);
	ok(reports > 130 && len < sizeof(all) - 1, "%d reports in %s", reports, path);
}

static void read_table(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL, *tab;
	size_t size = 0;
	int n = 0;

	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		tab = strchr(line, '\t');
		if (*line == '#' || !tab)
			continue;
		*tab = 0;
		check(line, tab + 1);
		n++;
	}
	free(line);
	if (f)
		fclose(f);
	ok(n > 100, "%d sayings in %s", n, path);
}

int main(void)
{
	const char *src = getenv("srcdir");
	char path[4096];

	ok(!sift_open(&sieve, NULL), "there is memory");
	snprintf(path, sizeof(path), "%s/tests/diagnose/said.tsv", src ? src : ".");
	read_table(path);
	snprintf(path, sizeof(path), "%s/tests/diagnose/strings.txt", src ? src : ".");
	read_strings(path);
	snprintf(path, sizeof(path), "%s/tests/diagnose/reports.txt", src ? src : ".");
	read_reports(path);
	/* A mark behind others is a mark. */
	diagnose("2026-08-22T10:01:11.1Z [rank3]: KeyError: 'x'\n", 46);
	ok(has_rank(3), "the rank is found behind a date");
	conclude_free(&found);
	sift_close(&sieve);
	return tap_done();
}
