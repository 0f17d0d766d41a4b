/* peer_mpi.c - MPI's collectives as a peer in contest.py: plain calls, timed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/*
 * Compiled by contest.py with the machine's MPI and started by its mpirun; the argument is
 * the socket to connect to.  player.c tells the protocol.
 * Samples are taken as in measure.c.
 */

enum { MOST_COUNTS = 256, MOST_SAMPLES = 1000, LINE = 8192, LARGE = 128 << 10, HEAD = 16 };

static int rank, ranks, iteration;

/* The current task. */
static char collective[32], dtype[16], redop[16];
static int in_place, is_set, uneven, members, average;
static void (*call)(const char *from, char *to); /* of one member */
static long counts[MOST_COUNTS], total;          /* of tensors or uneven blocks; their sum */
static int numbers;
/* Uneven blocks: those of all ranks, and this rank's, repeated once per rank. */
static int theirs[MOST_COUNTS], at_theirs[MOST_COUNTS], mine[MOST_COUNTS], at_mine[MOST_COUNTS];
static MPI_Datatype type;
static MPI_Op op;
static size_t size;
static char *in, *out, before[LINE];         /* before: the order that the buffers are for */
static size_t give_at, give_step, take_step; /* places of members, in bytes */
static size_t room_in, room_out;             /* of all members              */

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* Translates an order into MPI's terms; NULL, or the reason why that fails. */
static const char *translate(void)
{
	const struct {
		const char *name;
		size_t size;
		MPI_Datatype type;
	} types[] = {
		{ "u8", 1, MPI_UINT8_T },   { "i8", 1, MPI_INT8_T },
		{ "u16", 2, MPI_UINT16_T }, { "i16", 2, MPI_INT16_T },
		{ "i32", 4, MPI_INT32_T },  { "i64", 8, MPI_INT64_T },
		{ "f32", 4, MPI_FLOAT },    { "f64", 8, MPI_DOUBLE },
		{ "bool", 1, MPI_C_BOOL },
	};
	/* For bools, "and" and "or" have names of their own. */
	const struct {
		const char *name;
		MPI_Op op, of_bools;
	} ops[] = {
		{ "sum", MPI_SUM, MPI_LOR },       { "average", MPI_SUM, MPI_LOR },
		{ "min", MPI_MIN, MPI_LAND },      { "max", MPI_MAX, MPI_LOR },
		{ "product", MPI_PROD, MPI_LAND },
	};
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]) && !is(dtype, types[i].name);)
		i++;
	if (i == sizeof(types) / sizeof(types[0]))
		return "MPI has no such element type";
	type = types[i].type;
	size = types[i].size;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]) && !is(redop, ops[i].name);)
		i++;
	if (i == sizeof(ops) / sizeof(ops[0]))
		return "MPI has no such operation";
	op = is(dtype, "bool") ? ops[i].of_bools : ops[i].op;
	if (is(redop, "average") && !is(dtype, "f32") && !is(dtype, "f64"))
		return "MPI has no average";
	return NULL;
}

static long peer_mpi_block(void)
{
	return uneven ? counts[rank] : total;
}

static long all_blocks(void)
{
	return uneven ? total : total * ranks;
}

/* The number of received elements of a member. */
static long takes(void)
{
	if (is(collective, "alltoall"))
		return peer_mpi_block() * ranks;
	return is(collective, "allgather") ? all_blocks() : peer_mpi_block();
}

/* ... and of contributed ones. */
static long gives(void)
{
	return is(collective, "reducescatter") || is(collective, "alltoall") ? all_blocks()
									     : peer_mpi_block();
}

/* Maps large buffers, as malloc() would, but returns them to the system at once even if
 * malloc() is told to keep its memory. */
static char *room(size_t bytes)
{
	char *p;

	if (bytes < LARGE)
		p = calloc(1, bytes ? bytes : 1);
	else {
		p = mmap(NULL, bytes + HEAD, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		p = p == MAP_FAILED ? NULL : p + HEAD;
	}
	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 3);
	return p;
}

static void peer_mpi_drop(char *p, size_t bytes)
{
	if (bytes < LARGE)
		free(p);
	else
		munmap(p - HEAD, bytes + HEAD);
}

/* Frees the buffers, until the next peer_mpi_prepare(). */
static void release(void)
{
	if (out != in)
		peer_mpi_drop(out, room_out);
	if (in)
		peer_mpi_drop(in, room_in);
	in = out = NULL;
	before[0] = 0;
}

/* In place, the input lies at its place in the result, and a result that is a part of the input
 * lies at its beginning, as MPI requires. */
static void peer_mpi_prepare(void)
{
	size_t give_bytes = (size_t)gives() * size, take_bytes = (size_t)takes() * size;
	size_t longer = give_bytes > take_bytes ? give_bytes : take_bytes;

	give_step = in_place ? longer : give_bytes;
	take_step = in_place ? longer : take_bytes;
	give_at = 0;
	if (in_place && is(collective, "allgather"))
		for (int i = 0; i < rank; i++)
			give_at += (size_t)(uneven ? counts[i] : total) * size;
	room_in = give_step * (size_t)members;
	room_out = take_step * (size_t)members;
	in = room(room_in);
	out = in_place ? in : room(room_out);
}

static void fill_one(char *to)
{
	long i, n = gives();
	int x = (rank + iteration) % ranks;

	if (is(dtype, "f32"))
		for (i = 0; i < n; i++, x = x + 1 < ranks ? x + 1 : 0)
			((float *)(void *)to)[i] = (float)x;
	else if (is(dtype, "f64"))
		for (i = 0; i < n; i++, x = x + 1 < ranks ? x + 1 : 0)
			((double *)(void *)to)[i] = (double)x;
	else
		memset(to, rank % 2, (size_t)n * size);
}

/* Writes small whole numbers that differ between ranks, places and iterations. */
static void peer_mpi_fill(void)
{
	iteration++;
	for (int i = 0; i < members; i++)
		fill_one(in + give_at + (size_t)i * give_step);
}

/* Checks sums of f32; MPI's own tests cover the rest. */
static long wrong_now(void)
{
	long i, n = takes(), wrong = 0;
	const float *at;

	for (int j = 0; j < members; j++) {
		at = (const void *)(out + (size_t)j * take_step);
		for (i = 0; i < n; i++)
			wrong += at[i] != (float)(ranks * (ranks - 1) / 2);
	}
	return wrong;
}

static int can_check(void)
{
	return (is_set || is(collective, "allreduce") || is(collective, "reducescatter")) &&
	       is(dtype, "f32") && is(redop, "sum");
}

static void scale(char *at, long count)
{
	if (is(dtype, "f32"))
		for (long i = 0; i < count; i++)
			((float *)at)[i] /= (float)ranks;
	else
		for (long i = 0; i < count; i++)
			((double *)at)[i] /= ranks;
}

/* In place the input has no buffer of its own. */
static const void *given(const char *from)
{
	return in_place ? MPI_IN_PLACE : from;
}

static void allreduce(const char *from, char *to)
{
	MPI_Allreduce(given(from), to, (int)total, type, op, MPI_COMM_WORLD);
	if (average)
		scale(to, total);
}

static void allreduce_each(const char *from, char *to)
{
	char *at = to;

	(void)from;
	for (int i = 0; i < numbers; i++) {
		MPI_Allreduce(MPI_IN_PLACE, at, (int)counts[i], type, op, MPI_COMM_WORLD);
		if (average)
			scale(at, counts[i]);
		at += (size_t)counts[i] * size;
	}
}

static void broadcast(const char *from, char *to)
{
	/* MPI uses one buffer, so an out-of-place input has to be copied. */
	if (!in_place && rank == 0)
		memcpy(to, from, (size_t)total * size);
	MPI_Bcast(to, (int)total, type, 0, MPI_COMM_WORLD);
}

static void allgather(const char *from, char *to)
{
	MPI_Allgather(given(from), (int)total, type, to, (int)total, type, MPI_COMM_WORLD);
}

static void allgatherv(const char *from, char *to)
{
	MPI_Allgatherv(given(from), theirs[rank], type, to, theirs, at_theirs, type,
		       MPI_COMM_WORLD);
}

static void reducescatter(const char *from, char *to)
{
	MPI_Reduce_scatter_block(given(from), to, (int)total, type, op, MPI_COMM_WORLD);
}

static void reducescatterv(const char *from, char *to)
{
	MPI_Reduce_scatter(given(from), to, theirs, type, op, MPI_COMM_WORLD);
}

static void alltoall(const char *from, char *to)
{
	MPI_Alltoall(from, (int)total, type, to, (int)total, type, MPI_COMM_WORLD);
}

static void alltoallv(const char *from, char *to)
{
	MPI_Alltoallv(from, theirs, at_theirs, type, to, mine, at_mine, type, MPI_COMM_WORLD);
}

static void barrier(const char *from, char *to)
{
	(void)from;
	(void)to;
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Chooses the call once, since comparing names would be timed, too. */
static void (*choose(void))(const char *from, char *to)
{
	static const struct {
		const char *name;
		void (*call)(const char *from, char *to);
		void (*of_uneven)(const char *from, char *to);
	} calls[] = {
		{ "allreduce", allreduce, NULL },
		{ "broadcast", broadcast, NULL },
		{ "allgather", allgather, allgatherv },
		{ "reducescatter", reducescatter, reducescatterv },
		{ "alltoall", alltoall, alltoallv },
		{ "barrier", barrier, NULL },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!is_set && is(collective, calls[i].name))
			return uneven ? calls[i].of_uneven : calls[i].call;
	return is_set ? allreduce_each : NULL;
}

static void meet(void)
{
	double nothing = 0, all;

	MPI_Allreduce(&nothing, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double sample(int calls)
{
	double begun, us;

	peer_mpi_fill();
	meet();
	begun = now_us();
	for (int i = 0; i < calls; i++)
		for (int j = 0; j < members; j++)
			call(in + give_at + (size_t)j * give_step, out + (size_t)j * take_step);
	us = (now_us() - begun) / calls;
	meet();
	return us;
}

static void parse_counts(const char *text)
{
	char *end;

	total = 0;
	numbers = 0;
	do {
		counts[numbers] = strtol(text, &end, 10);
		total += counts[numbers++];
		text = end + 1;
	} while (*end == ',' && numbers < MOST_COUNTS);
}

static void lay_out_blocks(void)
{
	for (int i = 0; i < ranks; i++) {
		theirs[i] = (int)counts[i];
		at_theirs[i] = i ? at_theirs[i - 1] + theirs[i - 1] : 0;
		mine[i] = (int)counts[rank];
		at_mine[i] = i * mine[i];
	}
}

/* Takes the task of an order, unless it is the same as before; NULL, or why it cannot. */
static const char *peer_mpi_take(const char *list)
{
	char now[LINE];
	const char *why;

	snprintf(now, sizeof(now), "%s %s %s %d %d %d %s", collective, dtype, redop, in_place,
		 uneven, members, list);
	if (is(now, before))
		return NULL;
	release();
	parse_counts(list);
	is_set = numbers > 1 && !uneven;
	if (is_set)
		in_place = 1;
	why = translate();
	if (why)
		return why;
	average = is(redop, "average");
	call = choose();
	if (!call)
		return "this peer does not know that collective";
	if (uneven && numbers != ranks)
		return "these blocks are not for as many ranks";
	if ((total > 0x7fffffffL || (uneven && takes() > 0x7fffffffL)) && !is_set)
		return "more elements than MPI can count";
	if (uneven)
		lay_out_blocks();
	peer_mpi_prepare();
	memcpy(before, now, sizeof(before));
	return NULL;
}

static void obey(const char *line, FILE *to)
{
	static double us[MOST_SAMPLES];
	int warm, samples, calls, check, at = 0, apart;
	const char *why;
	long wrong = 0;

	if (is(line, "rest")) {
		release();
		fputs("ok\n", to);
		return;
	}
	if (sscanf(line, "do %31s %15s %15s %d %d %d %d %d %d %d %n", collective, dtype, redop,
		   &in_place, &uneven, &members, &warm, &samples, &calls, &check, &at) < 10 ||
	    samples > MOST_SAMPLES) {
		fprintf(to, "fail not an order: %.60s\n", line);
		return;
	}
	why = peer_mpi_take(line + at);
	if (why) {
		fprintf(to, "no %s\n", why);
		return;
	}
	check = check && can_check();
	apart = calls > 1 && in_place;
	for (int i = 0; i < warm; i++)
		sample(calls);
	if (check && apart) {
		sample(1);
		wrong += wrong_now();
	}
	for (int i = 0; i < samples; i++) {
		us[i] = sample(calls);
		if (check && !apart)
			wrong += wrong_now();
	}
	fprintf(to, "ok %ld", check ? wrong : -1L);
	for (int i = 0; i < samples; i++)
		fprintf(to, " %.4f", us[i]);
	fputc('\n', to);
}

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, path, strlen(path));
	return connect(fd, (struct sockaddr *)&a, sizeof(a)) ? -1 : fd;
}

static void peer_mpi_serve(int fd)
{
	static char line[LINE], version[MPI_MAX_LIBRARY_VERSION_STRING];
	FILE *from = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
	char *at;
	int len;

	if (!from || !to)
		MPI_Abort(MPI_COMM_WORLD, 3);
	MPI_Get_library_version(version, &len);
	version[strcspn(version, ",\n")] = 0;
	for (at = version; (at = strchr(at, '\t'));)
		*at = ' ';
	fprintf(to, "hello %d %d %.60s\n", rank, ranks, version);
	fflush(to);
	while (fgets(line, sizeof(line), from)) {
		line[strcspn(line, "\n")] = 0;
		obey(line, to);
		fflush(to);
	}
	fclose(to);
	fclose(from);
}

int main(int argc, char **argv)
{
	int fd;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	fd = argc == 2 ? dial(argv[1]) : -1;
	if (fd < 0) {
		fprintf(stderr, "peer_mpi: cannot connect to %s\n", argc == 2 ? argv[1] : "?");
		MPI_Abort(MPI_COMM_WORLD, 3);
	}
	peer_mpi_serve(fd);
	MPI_Finalize();
	return 0;
}
