/* libnccl.c - for tests: a stand-in for NCCL, libnccl.so.2; see fakenccl.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fakegpu/fakenccl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coll/scalar.h"
#include "fakegpu/faults.h"

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22707
#endif

enum {
	ERROR_BYTES = 128,
	RANKS = 64,
	REDOPS = 64,
	CONNECT_MS = 2, /* that the first operation of a kind takes to connect the ranks */
	MAGIC = 0x6b636e66,
	HELLO_MAGIC = 0x6f6c6c65
};

/* Tools that look into a library find this, and no "NCCL version X+cudaY". */
__attribute__((used)) static const char what_this_is[] = "fake NCCL of ringup's tests, no GPU";

/* ---- objects ---- */

enum kind { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCESCATTER, SEND, RECV };

enum { LINKS = SEND + 1 }; /* sends and receives have one set of connections */

/* The versions that changed when a call waits, and for whom. */
enum {
	V_2_19 = 21900, /* any thread may abort an initialization      */
	V_2_22 = 22200, /* collectives connect when they are first used */
	V_2_23 = 22300, /* every group of calls is carried out in a thread */
	V_2_26 = 22602, /* ncclCommGetAsyncError() joins that thread    */
	V_2_27 = 22700, /* what is under way is no longer in its thread's memory */
};

/* What ranks have to agree about, in front of each message. */
struct head {
	uint32_t kind, type, op, root;
	uint64_t count, serial;
};

struct op {
	enum kind kind;
	uint64_t in, out;
	uint64_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root; /* or the peer */
	bool scales, on_device;
	double scale; /* of this rank's contribution */
	uint64_t scale_at;
};

struct redop {
	bool used, on_device;
	ncclDataType_t type;
	double scale;
	uint64_t at;
};

struct fake_comm {
	unsigned int magic;
	int rank, size, device, sms, version;
	bool blocking;
	const char *name; /* the caller's, to the end */
	ncclUniqueId id;
	CUcontext context;
	CUdeviceptr memory, link_memory[LINKS]; /* that the real one has, too */
	bool linked[LINKS];
	CUevent last;
	CUstream stream; /* of the last operation */
	bool has_stream;
	int fd[RANKS], door, stopper;
	bool stopped;               /* atomic */
	int state, async;           /* ncclResult_t; atomic */
	bool opened;                /* atomic */
	bool finalized, unfinished; /* unfinished: aborted while it was being opened */
	int inside;                 /* is a thread in a call?  atomic */
	bool aborted;               /* atomic */
	unsigned int calls; /* not atomic: ThreadSanitizer sees threads that nothing orders */
	struct job *job;    /* which nobody has collected; atomic */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int in_flight;
	uint64_t executed, collectives;
	struct redop redop[REDOPS];
	struct fake_comm *others; /* of those that are open, or that have ended */
};

/* Operations that run as one kernel. */
struct batch {
	struct fake_comm *comm;
	int count;
	struct op op[];
};

/* A thread that has begun jobs, which before 2.27 are in its own memory. */
struct owner {
	bool ended;      /* atomic */
	int shares;      /* of itself and of its jobs; atomic */
	struct job *job; /* its last one, until that is collected; atomic */
};

struct launch {
	struct batch *batch;
	CUstream stream;
};

/* What a group of calls has begun: it is done in a thread, unless the communicators block. */
struct job {
	pthread_t thread;
	pthread_mutex_t lock;
	bool joined;
	int shares; /* of communicators that have not collected it */
	struct owner *owner;
	struct fake_comm **comm;
	int comms;
	int inits; /* the first ones of them are being opened */
	struct launch *launch;
	int launches;
	bool finalizes;
};

static int comms_left, memory_leaked; /* atomic */
static struct fake_comm *comms_open, *comms_dead;
static char last_error[ERROR_BYTES]; /* one for the process, as NCCL's */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* of the two lists */
static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;

/* NCCL writes what it finds odd there, too, and never clears it. */
__attribute__((format(printf, 1, 2))) static void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	pthread_mutex_lock(&error_lock);
	vsnprintf(last_error, sizeof(last_error), fmt, ap);
	pthread_mutex_unlock(&error_lock);
	va_end(ap);
}

#define fail(code, ...) (warn(__VA_ARGS__), (code))

/* Where the real one would use memory that is not its own, this one ends the process. */
__attribute__((noreturn)) static void die(const char *why)
{
	fprintf(stderr, "fake NCCL: %s\n", why);
	abort();
}

static void nap_ms(long ms)
{
	if (ms > 0)
		usleep((useconds_t)ms * 1000);
}

static bool is_stopped(struct fake_comm *c)
{
	return __atomic_load_n(&c->stopped, __ATOMIC_ACQUIRE);
}

static int state_of(struct fake_comm *c)
{
	return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
}

static struct fake_comm *comm_check(struct fake_comm *c)
{
	if (c && c->magic != MAGIC)
		die("a communicator is used after its end");
	return c;
}

/* NCCL takes no lock of its own: one thread at a time is in a call of a communicator. */
static struct fake_comm *enter(struct fake_comm *c)
{
	if (!comm_check(c))
		return NULL;
	if (__atomic_exchange_n(&c->inside, 1, __ATOMIC_ACQ_REL))
		die("two threads in NCCL at once, with one communicator");
	c->calls++;
	return c;
}

static ncclResult_t leave(struct fake_comm *c, ncclResult_t result)
{
	if (c)
		__atomic_store_n(&c->inside, 0, __ATOMIC_RELEASE);
	return result;
}

/* ---- faults ---- */

/* "NAME=R@N...": does it mean @rank and, with a number, operation @n?  Sets the text behind. */
static bool fault_is(const char *name, int rank, uint64_t n, const char **more)
{
	const char *at = faults_find("FAKE_NCCL", name);
	char *end = NULL;

	if (!at || strtol(at, &end, 10) != rank)
		return false;
	if (*end == '@' && strtoull(end + 1, &end, 10) != n)
		return false;
	if (more)
		*more = *end == ':' ? end + 1 : end;
	return true;
}

/* ---- jobs that nobody has collected ---- */

static _Thread_local struct owner *this_owner;
static pthread_key_t owner_key;
static pthread_once_t owner_once = PTHREAD_ONCE_INIT;

static void owner_put(struct owner *o)
{
	if (!__atomic_sub_fetch(&o->shares, 1, __ATOMIC_ACQ_REL))
		free(o);
}

static void owner_end(void *arg)
{
	struct owner *o = arg;

	__atomic_store_n(&o->ended, true, __ATOMIC_RELEASE);
	owner_put(o);
}

static void owner_key_make(void)
{
	pthread_key_create(&owner_key, owner_end);
}

/* This thread's, with a share more. */
static struct owner *owner_get(void)
{
	pthread_once(&owner_once, owner_key_make);
	if (!this_owner) {
		this_owner = calloc(1, sizeof(*this_owner));
		this_owner->shares = 1;
		pthread_setspecific(owner_key, this_owner);
	}
	__atomic_add_fetch(&this_owner->shares, 1, __ATOMIC_RELAXED);
	return this_owner;
}

static void job_free(struct job *j)
{
	int i;

	for (i = 0; i < j->launches; i++)
		free(j->launch[i].batch);
	if (j->owner)
		owner_put(j->owner);
	pthread_mutex_destroy(&j->lock);
	free(j->comm);
	free(j->launch);
	free(j);
}

/* Waits for the job of @c, if it has one. */
static void job_collect(struct fake_comm *c)
{
	struct job *j = __atomic_exchange_n(&c->job, NULL, __ATOMIC_ACQ_REL), *its = j;
	bool last;

	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	if (!j->joined)
		pthread_join(j->thread, NULL);
	j->joined = true;
	last = !--j->shares;
	pthread_mutex_unlock(&j->lock);
	__atomic_compare_exchange_n(&j->owner->job, &its, NULL, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	if (last)
		job_free(j);
}

/* May this thread touch the job of @c, which may be in another's memory? */
static void job_touch(struct fake_comm *c, bool aborts)
{
	struct job *j = __atomic_load_n(&c->job, __ATOMIC_ACQUIRE);

	if (!j || c->version >= V_2_27)
		return;
	if (__atomic_load_n(&j->owner->ended, __ATOMIC_ACQUIRE))
		die("what is under way is in the memory of a thread that has ended");
	if (j->owner == this_owner)
		return;
	if (!aborts)
		die("what is under way is in another thread's memory");
	if (c->version < V_2_19 && c->unfinished)
		die("an initialization is aborted by another thread than its own");
}

/* May the caller use @c now?  That puts away what was done before. */
static ncclResult_t comm_ready(struct fake_comm *c)
{
	int state;

	if (!c)
		return fail(ncclInvalidArgument, "comm is NULL");
	if (is_stopped(c))
		return fail(ncclInvalidUsage, "the communicator was revoked");
	job_touch(c, false);
	state = __atomic_load_n(&c->async, __ATOMIC_ACQUIRE);
	state = state ? state : state_of(c);
	if (state == ncclInProgress)
		return fail(ncclInvalidArgument, "the communicator's last call is in progress");
	if (state == ncclSuccess)
		job_collect(c);
	return (ncclResult_t)state;
}

/* A call that has failed, which a communicator that does not block keeps. */
static ncclResult_t note(struct fake_comm *c, ncclResult_t bad)
{
	if (c && !c->blocking && bad && bad != ncclInProgress)
		__atomic_store_n(&c->state, (int)bad, __ATOMIC_RELEASE);
	return bad;
}

/* ---- sockets ---- */

static int quick(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Waits for @fd, or until the communicator is stopped. */
static bool fd_await(struct fake_comm *c, int fd, short events)
{
	struct pollfd p[2] = { { fd, events, 0 }, { c->stopper, POLLIN, 0 } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	return !is_stopped(c);
}

static bool fd_move(struct fake_comm *c, int fd, void *at, size_t len, bool sends)
{
	unsigned char *p = at;

	while (len) {
		ssize_t n = sends ? send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT)
				  : recv(fd, p, len, MSG_DONTWAIT);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			return false;
		} else if (!fd_await(c, fd, sends ? POLLOUT : POLLIN)) {
			return false;
		}
	}
	return true;
}

/* This rank's address: that of the interface in NCCL_SOCKET_IFNAME, or the loopback's. */
static struct in_addr own_address(void)
{
	const char *name = getenv("NCCL_SOCKET_IFNAME");
	struct in_addr own = { htonl(INADDR_LOOPBACK) };
	struct ifaddrs *list, *i;

	if (!name || getifaddrs(&list))
		return own;
	for (i = list; i; i = i->ifa_next)
		if (!strcmp(i->ifa_name, name) && i->ifa_addr &&
		    i->ifa_addr->sa_family == AF_INET)
			own = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
	freeifaddrs(list);
	return own;
}

/* At *@port, or, if that is 0, a free one. */
static int listen_on(struct in_addr at, uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(*port),
				 .sin_addr = at };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, RANKS) ||
	    getsockname(fd, (struct sockaddr *)&a, &len)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*port = ntohs(a.sin_port);
	return fd;
}

static int connect_to(struct in_addr at, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = at };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- how ranks meet: at the process that made the id ---- */

struct ticket {
	uint64_t nonce;
	struct in_addr at;
	uint16_t port;
	char what[16];
};

struct hello {
	uint32_t magic;
	uint64_t nonce;
	int32_t rank, size, version, device;
	struct in_addr at;
	uint16_t port;
};

struct root {
	int fd;
	uint64_t nonce;
};

/* Threads that nobody joins wait for connections in plain calls. */
static bool all_of(int fd, void *at, size_t len, bool sends)
{
	unsigned char *p = at;

	while (len) {
		ssize_t n = sends ? send(fd, p, len, MSG_NOSIGNAL) : recv(fd, p, len, 0);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		p += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

static void *root_main(void *arg)
{
	struct root *root = arg;
	struct hello hello, all[RANKS];
	int fd[RANKS], came = 0, size = 1, i;

	memset(all, 0, sizeof(all));
	for (i = 0; i < RANKS; i++)
		fd[i] = -1;
	while (came < size) {
		int new = accept4(root->fd, NULL, NULL, SOCK_CLOEXEC);

		if (new < 0)
			break;
		if (!all_of(new, &hello, sizeof(hello), false) || hello.magic != HELLO_MAGIC ||
		    hello.nonce != root->nonce || hello.rank < 0 || hello.rank >= RANKS ||
		    fd[hello.rank] >= 0) {
			close(new);
			continue;
		}
		size = hello.size;
		fd[hello.rank] = new;
		all[hello.rank] = hello;
		came++;
	}
	for (i = 0; i < RANKS; i++)
		if (fd[i] >= 0) {
			all_of(fd[i], all, sizeof(all[0]) * (size_t)size, true);
			close(fd[i]);
		}
	close(root->fd);
	free(root);
	return NULL;
}

static void root_start(struct root *root, uint64_t nonce)
{
	pthread_attr_t detached;
	pthread_t thread;
	int rc;

	root->nonce = nonce;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &detached, root_main, root);
	pthread_attr_destroy(&detached);
	if (rc)
		abort();
}

/* The id of each communicator, if NCCL_COMM_ID says where all ranks meet. */
static ncclResult_t ticket_given(struct ticket *t, const char *text)
{
	const char *colon = strchr(text, ':');
	char host[64];

	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, ":"), text);
	if (!colon || inet_pton(AF_INET, host, &t->at) != 1)
		return fail(ncclInvalidArgument, "NCCL_COMM_ID is no address");
	t->port = (uint16_t)strtol(colon + 1, NULL, 10);
	t->nonce = HELLO_MAGIC;
	return ncclSuccess;
}

/* Then rank 0 lets the ranks meet there, and others come when it does. */
static ncclResult_t root_given(struct fake_comm *c, const struct ticket *t)
{
	struct root *root = malloc(sizeof(*root));
	uint16_t port = t->port;

	root->fd = listen_on(t->at, &port);
	if (root->fd < 0) {
		free(root);
		return fail(ncclSystemError, "rank %d cannot listen at NCCL_COMM_ID: %s",
			    c->rank, strerror(errno));
	}
	root_start(root, t->nonce);
	return ncclSuccess;
}

/* NCCL puts the lines NAME=VALUE of its file into the environment, where they are not set. */
static void settings_read(void)
{
	const char *path = FAKE_NCCL_VERSION >= 22304 ? getenv("NCCL_CONF_FILE") : NULL;
	FILE *f = path ? fopen(path, "re") : NULL;
	char line[512], *value;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		value = strchr(line, '=');
		if (!value || *line == '#')
			continue;
		*value++ = 0;
		setenv(line, value, 0);
	}
	if (f)
		fclose(f);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ticket t = { .what = "fake NCCL id" };
	struct root *root;

	pthread_once(&once, settings_read);
	if (getenv("NCCL_COMM_ID")) {
		ncclResult_t bad = ticket_given(&t, getenv("NCCL_COMM_ID"));

		memset(id, 0, sizeof(*id));
		memcpy(id, &t, sizeof(t));
		return bad;
	}
	root = malloc(sizeof(*root));
	t.at = own_address();
	root->fd = listen_on(t.at, &t.port);
	if (root->fd < 0 || getrandom(&t.nonce, sizeof(t.nonce), 0) != sizeof(t.nonce)) {
		free(root);
		return fail(ncclSystemError, "no socket: %s", strerror(errno));
	}
	root_start(root, t.nonce);
	memset(id, 0, sizeof(*id));
	memcpy(id, &t, sizeof(t));
	return ncclSuccess;
}

#ifdef FAKE_NCCL_NAME
#define TEXT(name)  TEXT_(name)
#define TEXT_(name) #name
/* The real library has this text, too. */
FAKE_API extern const char fake_nccl_says[];
const char fake_nccl_says[] = "NCCL version " TEXT(FAKE_NCCL_NAME) "+cuda12.8";
#endif

static int version_of(void)
{
	return (int)faults_number("FAKE_NCCL", "version", FAKE_NCCL_VERSION);
}

/* What all ranks said fits together. */
static ncclResult_t hellos_fit(struct fake_comm *c, const struct hello *all)
{
	bool same_gpu = faults_find("FAKE_NCCL", "two_gpus_same") && c->size > 1;
	const char *share = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
	int i, k;

	for (i = 0; i < c->size; i++) {
		if (all[i].version != all[0].version)
			return fail(ncclInvalidUsage, "versions %d and %d of NCCL meet",
				    all[0].version, all[i].version);
		if (all[i].size != c->size)
			return fail(ncclInvalidUsage, "rank %d says there are %d ranks", i,
				    all[i].size);
		for (k = 0; k < i; k++)
			same_gpu |= all[k].device == all[i].device &&
				    all[k].at.s_addr == all[i].at.s_addr;
	}
	if (!same_gpu)
		return ncclSuccess;
	if (version_of() >= 23000 && share && strtoll(share, NULL, 0))
		return ncclSuccess;
	return fail(ncclInvalidUsage, "two ranks have the same GPU, number %d", c->device);
}

static ncclResult_t mesh_open(struct fake_comm *c, const struct hello *all)
{
	int32_t who = c->rank;
	int i, fd;

	for (i = 0; i < c->rank; i++) {
		c->fd[i] = quick(connect_to(all[i].at, all[i].port));
		if (c->fd[i] < 0 || !fd_move(c, c->fd[i], &who, sizeof(who), true))
			return fail(ncclSystemError, "no connection to rank %d", i);
	}
	for (i = c->rank + 1; i < c->size; i++) {
		if (!fd_await(c, c->door, POLLIN))
			return fail(ncclInternalError, "aborted");
		fd = accept4(c->door, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 || !fd_move(c, fd, &who, sizeof(who), false) || who < 0 ||
		    who >= c->size)
			return fail(ncclSystemError, "no connection of a rank");
		c->fd[who] = quick(fd);
	}
	return ncclSuccess;
}

static ncclResult_t meet(struct fake_comm *c)
{
	struct ticket t;
	struct hello mine = { .magic = HELLO_MAGIC,
			      .rank = c->rank,
			      .size = c->size,
			      .version = version_of(),
			      .device = fake_cuda_physical(c->device) },
		     all[RANKS];
	ncclResult_t bad;
	bool met;
	int fd;

	memcpy(&t, &c->id, sizeof(t));
	mine.nonce = t.nonce;
	mine.at = own_address();
	c->door = listen_on(mine.at, &mine.port);
	bad = getenv("NCCL_COMM_ID") && !c->rank ? root_given(c, &t) : ncclSuccess;
	if (bad)
		return bad;
	while ((fd = connect_to(t.at, t.port)) < 0 && getenv("NCCL_COMM_ID") && !is_stopped(c))
		usleep(1000);
	met = c->door >= 0 && fd >= 0 && fd_move(c, fd, &mine, sizeof(mine), true) &&
	      fd_move(c, fd, all, sizeof(all[0]) * (size_t)c->size, false);
	if (fd >= 0)
		close(fd);
	if (!met)
		return fail(ncclSystemError, "the rank that made the id is gone");
	bad = hellos_fit(c, all);
	return bad ? bad : mesh_open(c, all);
}

/* ---- initialization ---- */

static ncclResult_t comm_init(struct fake_comm *c)
{
	int relaxed = CAPTURE_RELAXED;

	warn("no plugin for the network, which is no error");
	if (fault_is("init_fails", c->rank, 0, NULL))
		return fail(ncclSystemError, "no file descriptor is left");
	cuThreadExchangeStreamCaptureMode(&relaxed);
	if (cuCtxSetCurrent(c->context) || cuMemAlloc_v2(&c->memory, 4096) ||
	    cuEventCreate(&c->last, 2))
		return fail(ncclUnhandledCudaError, "no memory on device %d", c->device);
	if (fault_is("init_hang", c->rank, 0, NULL)) {
		fd_await(c, -1, 0);
		return fail(ncclInternalError, "aborted");
	}
	return meet(c);
}

/* ---- groups ---- */

struct queued {
	struct fake_comm *comm;
	CUstream stream;
	struct op op;
};

enum { QUEUED = 4096, INITS = 64 };

static _Thread_local int depth;
static _Thread_local ncclResult_t group_error; /* of the first call that has failed */
static _Thread_local struct queued *queue;
static _Thread_local int queued, inits;
static _Thread_local struct fake_comm **init_of;

static ncclResult_t group_run(struct job *j);
static struct job *group_take(void);

/* A call in a group has failed: so will the group. */
static ncclResult_t poison(struct fake_comm *c, ncclResult_t bad)
{
	if (depth && !group_error)
		group_error = bad;
	return note(c, bad);
}

static bool is_flag(int value)
{
	return value == NCCL_CONFIG_UNDEFINED || value == 0 || value == 1;
}

static bool is_count(int value)
{
	return value == NCCL_CONFIG_UNDEFINED || value > 0;
}

/* The size and the version of each nccl.h that a caller may have been built with. */
static bool config_is_known(const ncclConfig_t *config)
{
	static const struct {
		size_t size;
		unsigned int from, before;
	} known[] = { { 24, 21400, 21700 }, { 40, 21700, 21800 }, { 48, 21800, 22700 },
		      { 72, 22700, 22800 }, { 80, 22800, 22900 }, { 88, 22900, 23000 },
		      { 96, 23000, 23100 }, { 112, 23100, 23200 } };
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].size == config->size && config->version >= known[i].from &&
		    config->version < known[i].before)
			return true;
	return false;
}

static bool config_is_good(const ncclConfig_t *config, int version)
{
	bool is_new = config->version >= 22700 && version >= 22700;

	if (!is_flag(config->blocking))
		return false;
	if (config->version < 21700)
		return true;
	if ((config->cgaClusterSize != NCCL_CONFIG_UNDEFINED && config->cgaClusterSize < 0) ||
	    !is_count(config->minCTAs) || !is_count(config->maxCTAs) ||
	    config->minCTAs > config->maxCTAs)
		return false;
	if (config->version >= 21800 && !is_flag(config->splitShare))
		return false;
	return !is_new || (is_flag(config->collnetEnable) && is_flag(config->shrinkShare) &&
			   is_count(config->nvlsCTAs));
}

static ncclResult_t config_read(struct fake_comm *c, const ncclConfig_t *config)
{
	const char *blocking = getenv("NCCL_COMM_BLOCKING");

	c->blocking = true;
	if (config) {
		if (config->magic != NCCL_CONFIG_MAGIC || !config_is_known(config))
			return fail(ncclInvalidArgument, "the config is not one of NCCL's");
		if (!config_is_good(config, c->version))
			return fail(ncclInvalidArgument, "the config has an invalid value");
		c->blocking = config->blocking != 0;
		if (config->version >= 22700 && c->version >= 22700)
			c->name = config->commName;
	}
	if (blocking && (!strcmp(blocking, "0") || !strcmp(blocking, "1")))
		c->blocking = *blocking == '1';
	return ncclSuccess;
}

static void comm_list(struct fake_comm *c)
{
	__atomic_add_fetch(&comms_left, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&list_lock);
	c->others = comms_open;
	comms_open = c;
	pthread_mutex_unlock(&list_lock);
}

static ncclResult_t init_begin(struct fake_comm **comm, int size, const ncclUniqueId *id,
			       int rank, const ncclConfig_t *config)
{
	struct fake_comm *c;
	ncclResult_t bad;
	int i, device = fake_cuda_current();

	if (size < 1 || size > RANKS || rank < 0 || rank >= size)
		return fail(ncclInvalidArgument, "rank %d of %d", rank, size);
	if (device < 0)
		return fail(ncclUnhandledCudaError, "no device is current");
	c = calloc(1, sizeof(*c));
	c->version = version_of();
	bad = config_read(c, config);
	if (bad || cuDevicePrimaryCtxRetain(&c->context, device)) {
		free(c);
		return bad ? bad : fail(ncclUnhandledCudaError, "no context");
	}
	c->magic = MAGIC;
	c->rank = rank;
	c->size = size;
	c->id = *id;
	c->device = device;
	c->sms = (int)faults_number("FAKE_NCCL", "sms", FAKE_SMS);
	c->sms = c->sms < FAKE_SMS ? c->sms : FAKE_SMS;
	c->state = ncclInProgress;
	c->door = -1;
	c->stopper = eventfd(0, EFD_CLOEXEC);
	for (i = 0; i < RANKS; i++)
		c->fd[i] = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->idle, NULL);
	comm_list(c);
	*comm = c;
	return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	ncclResult_t bad;

	*comm = NULL;
	if (inits == INITS)
		bad = fail(ncclInvalidUsage, "too many in a group");
	else
		bad = init_begin(comm, size, &id, rank, config);
	if (bad)
		return poison(NULL, bad);
	if (!init_of)
		init_of = malloc(sizeof(struct fake_comm *) * INITS);
	init_of[inits++] = enter(*comm);
	if (depth)
		return leave(*comm, (*comm)->blocking ? ncclSuccess : ncclInProgress);
	return leave(*comm, group_run(group_take()));
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
	return ncclCommInitRankConfig(comm, size, id, rank, NULL);
}

/* ---- the end of a communicator ---- */

static void comm_stop(struct fake_comm *c)
{
	uint64_t one = 1;

	__atomic_store_n(&c->stopped, true, __ATOMIC_RELEASE);
	while (write(c->stopper, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void comm_await(struct fake_comm *c)
{
	pthread_mutex_lock(&c->lock);
	while (c->in_flight)
		pthread_cond_wait(&c->idle, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

static void comm_unlist(struct fake_comm *c)
{
	struct fake_comm **at;

	pthread_mutex_lock(&list_lock);
	for (at = &comms_open; *at != c; at = &(*at)->others)
		;
	*at = c->others;
	c->others = comms_dead;
	comms_dead = c;
	pthread_mutex_unlock(&list_lock);
	__atomic_sub_fetch(&comms_left, 1, __ATOMIC_RELAXED);
}

/* The name as NCCL writes it into its log at the end: from where the caller had it. */
static void name_read(const struct fake_comm *c, char *to)
{
	snprintf(to, FAKE_NAME_BYTES, "%s", c->name ? c->name : "");
}

static void memory_put(CUdeviceptr *memory, bool keeps)
{
	if (keeps && *memory)
		__atomic_add_fetch(&memory_leaked, 1, __ATOMIC_RELAXED);
	else if (*memory)
		cuMemFree_v2(*memory);
	*memory = keeps ? *memory : 0;
}

/* An initialization that was not finished keeps its memory for good. */
static void memory_free(struct fake_comm *c)
{
	bool keeps = c->unfinished || faults_find("FAKE_NCCL", "frees_late");
	int i;

	memory_put(&c->memory, keeps);
	for (i = 0; i < LINKS; i++)
		memory_put(&c->link_memory[i], keeps);
}

/* Frees all but the struct, by which later use is known. */
static void comm_free(struct fake_comm *c)
{
	int i, mode = CAPTURE_RELAXED;
	char name[FAKE_NAME_BYTES];
	CUcontext before;

	name_read(c, name);
	cuCtxGetCurrent(&before);
	cuThreadExchangeStreamCaptureMode(&mode);
	cuCtxSetCurrent(c->context);
	memory_free(c);
	if (c->last)
		cuEventDestroy_v2(c->last);
	cuCtxSetCurrent(before);
	cuThreadExchangeStreamCaptureMode(&mode);
	cuDevicePrimaryCtxRelease_v2(c->device);
	for (i = 0; i < RANKS; i++)
		if (c->fd[i] >= 0)
			close(c->fd[i]);
	if (c->door >= 0)
		close(c->door);
	close(c->stopper);
	c->magic = 0;
	comm_unlist(c);
}

/* Operations in flight end, without a result; those behind them, too.  This one call may come
 * while another thread is in a call of the communicator, which then returns. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	struct fake_comm *c = comm_check(comm);

	if (!c)
		return ncclSuccess;
	if (__atomic_exchange_n(&c->aborted, true, __ATOMIC_ACQ_REL))
		die("a communicator is aborted twice");
	c->unfinished =
		!__atomic_load_n(&c->opened, __ATOMIC_ACQUIRE) && state_of(c) == ncclInProgress;
	comm_stop(c);
	while (__atomic_load_n(&c->inside, __ATOMIC_ACQUIRE))
		usleep(100);
	job_touch(c, true);
	job_collect(c);
	nap_ms(faults_number("FAKE_NCCL", "abort_blocks", 0));
	comm_await(c);
	comm_free(c);
	return ncclSuccess;
}

/* One that is not ready is not destroyed.  From 2.27 on, NCCL has begun a group by then, and
 * does not end it: what this thread calls next is never carried out. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	struct fake_comm *c = enter(comm);
	ncclResult_t bad = ncclSuccess;

	if (!c)
		return ncclSuccess;
	if (!is_stopped(c))
		bad = comm_ready(c);
	if (bad) {
		depth += c->version >= V_2_27;
		return leave(c, bad);
	}
	job_collect(c);
	comm_await(c);
	comm_free(c);
	return ncclSuccess;
}

static ncclResult_t job_start(struct job *j);
static struct job *job_new(int comms, int launches);

/* From 2.19 to 2.25 a thread's memory has a place for one job, which the next one takes. */
static void job_place(const struct fake_comm *c)
{
	if (this_owner && __atomic_load_n(&this_owner->job, __ATOMIC_ACQUIRE) &&
	    c->version >= V_2_19 && c->version < V_2_26)
		die("a group begins while this thread's last one was not asked how it ended");
}

/* Waits for what is queued: in a thread, if the communicator does not block. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	struct fake_comm *c = enter(comm);
	ncclResult_t bad = comm_ready(c);
	struct job *j;

	if (!bad && c->finalized)
		bad = fail(ncclInvalidArgument, "the communicator is finalized already");
	if (bad)
		return leave(c, note(c, bad));
	c->finalized = true;
	job_place(c);
	if (c->blocking) {
		comm_await(c);
		return leave(c, ncclSuccess);
	}
	j = job_new(1, 0);
	j->comm[j->comms++] = c;
	j->finalizes = true;
	return leave(c, job_start(j));
}

#if FAKE_NCCL_VERSION >= 22800
/* Of a communicator that was never opened, or is at work, it uses what is not there. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	struct fake_comm *c = enter(comm);

	if (!c)
		return ncclSuccess;
	if (flags || c->finalized)
		return leave(c,
			     fail(ncclInvalidArgument, "flags are %d, or it has ended", flags));
	if (!__atomic_load_n(&c->opened, __ATOMIC_ACQUIRE))
		die("a communicator is revoked that was never opened");
	if (__atomic_load_n(&c->job, __ATOMIC_ACQUIRE))
		die("a communicator is revoked that nobody has asked how its last call ended");
	c->finalized = true; /* so a second time is refused */
	comm_stop(c);
	return leave(c, ncclSuccess);
}
#endif

/* ---- messages between ranks ---- */

/* One way of one message; the head goes first. */
struct message {
	int peer;
	struct head head, got;
	unsigned char *at;
	uint64_t len, moved; /* bytes, with the head's */
};

struct exchange {
	struct fake_comm *comm;
	struct message *out, *in;
	int outs, ins;
};

/* Until the communicator is stopped. */
static bool hang(struct fake_comm *c)
{
	while (!is_stopped(c))
		fd_await(c, -1, 0);
	return false;
}

enum progress { NONE, SOME, BROKEN };

static enum progress message_move(struct fake_comm *c, struct message *m, bool sends)
{
	struct head *head = sends ? &m->head : &m->got;
	bool in_head = m->moved < sizeof(*head);
	unsigned char *at =
		in_head ? (unsigned char *)head + m->moved : m->at + (m->moved - sizeof(*head));
	size_t n = in_head ? sizeof(*head) - m->moved : m->len - m->moved;
	ssize_t done = sends ? send(c->fd[m->peer], at, n, MSG_NOSIGNAL | MSG_DONTWAIT)
			     : recv(c->fd[m->peer], at, n, MSG_DONTWAIT);

	if (done > 0) {
		m->moved += (uint64_t)done;
		if (!sends && in_head && m->moved == sizeof(*head) &&
		    memcmp(&m->head, &m->got, sizeof(*head)) != 0)
			return BROKEN; /* the other rank is about something else */
		return SOME;
	}
	return done < 0 && (errno == EAGAIN || errno == EINTR) ? NONE : BROKEN;
}

/* The first message of a peer that is not complete; those behind it wait. */
static struct message *message_next(struct message *m, int n, int peer)
{
	int i;

	for (i = 0; i < n; i++)
		if (m[i].peer == peer && m[i].moved < m[i].len)
			return &m[i];
	return NULL;
}

/* NCCL's word for it depends on what it was doing with the peer. */
static void peer_is_gone(struct fake_comm *c)
{
	const char *code = faults_find("FAKE_NCCL", "peer_error");
	long number = code ? strtol(code, NULL, 10) : 0;

	if (code)
		__atomic_store_n(&c->async, number ? (int)number : (int)ncclRemoteError,
				 __ATOMIC_RELEASE);
}

static bool exchange_run(struct exchange *x)
{
	struct fake_comm *c = x->comm;
	struct pollfd p[RANKS + 1];
	int peer, waits;

	for (;;) {
		waits = 0;
		for (peer = 0; peer < c->size; peer++) {
			struct message *m;
			enum progress some = SOME;

			p[peer] = (struct pollfd){ -1, 0, 0 };
			while (some == SOME && (m = message_next(x->out, x->outs, peer)))
				some = message_move(c, m, true);
			if (some == NONE)
				p[peer] = (struct pollfd){ c->fd[peer], POLLOUT, 0 };
			if (some != BROKEN)
				some = SOME;
			while (some == SOME && (m = message_next(x->in, x->ins, peer)))
				some = message_move(c, m, false);
			if (some == BROKEN) {
				peer_is_gone(c);
				return hang(c);
			}
			if (some == NONE) {
				p[peer].fd = c->fd[peer];
				p[peer].events |= POLLIN;
			}
			waits += p[peer].fd >= 0;
		}
		if (!waits)
			return true;
		p[c->size] = (struct pollfd){ c->stopper, POLLIN, 0 };
		while (poll(p, (nfds_t)c->size + 1, -1) < 0 && errno == EINTR)
			;
		if (is_stopped(c))
			return false;
	}
}

static void message_add(struct message *list, int *n, const struct head *head, int peer,
			void *at, uint64_t bytes)
{
	list[(*n)++] = (struct message){
		.peer = peer, .head = *head, .at = at, .len = bytes + sizeof(*head)
	};
}

/* ---- arithmetic ---- */

static size_t type_bytes(ncclDataType_t t)
{
	static const unsigned char bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

	return (unsigned int)t < sizeof(bytes) ? bytes[t] : 0;
}

#define INTEGERS(X)                       \
	X(ncclInt8, int8_t, uint8_t)      \
	X(ncclUint8, uint8_t, uint8_t)    \
	X(ncclInt32, int32_t, uint32_t)   \
	X(ncclUint32, uint32_t, uint32_t) \
	X(ncclInt64, int64_t, uint64_t)   \
	X(ncclUint64, uint64_t, uint64_t)

#define FLOATS(X)                                              \
	X(ncclFloat32, float, float, (float), (float))         \
	X(ncclFloat64, double, double, (double), (double))     \
	X(ncclFloat16, uint16_t, float, f16_widen, f16_narrow) \
	X(ncclBfloat16, uint16_t, float, bf16_widen, bf16_narrow)

#define COMBINE_INTEGER(code, elem, wraps)                                                 \
	case code:                                                                         \
		for (i = 0; i < n; i++) {                                                  \
			elem x = ((elem *)to)[i], y = ((const elem *)from)[i];             \
                                                                                           \
			((elem *)to)[i] = op == ncclMax   ? (x > y ? x : y)                \
					  : op == ncclMin ? (x < y ? x : y)                \
					  : op == ncclProd                                 \
						  ? (elem)((wraps)1 * (wraps)x * (wraps)y) \
						  : (elem)((wraps)x + (wraps)y);           \
		}                                                                          \
		break;

/* A minimum or maximum with a NaN is the other number. */
#define COMBINE_FLOAT(code, mem, elem, GET, PUT)                                        \
	case code:                                                                      \
		for (i = 0; i < n; i++) {                                               \
			elem x = GET(((mem *)to)[i]), y = GET(((const mem *)from)[i]);  \
                                                                                        \
			x = op == ncclMax    ? (x != x || y > x ? (y != y ? x : y) : x) \
			    : op == ncclMin  ? (x != x || y < x ? (y != y ? x : y) : x) \
			    : op == ncclProd ? x * y                                    \
					     : x + y;                                   \
			((mem *)to)[i] = PUT(x);                                        \
		}                                                                       \
		break;

/* to = to op from; an average is a sum here. */
static void combine(ncclDataType_t t, ncclRedOp_t op, void *to, const void *from, uint64_t n)
{
	uint64_t i;

	switch (t) {
		INTEGERS(COMBINE_INTEGER)
		FLOATS(COMBINE_FLOAT)
	}
}

#define SCALE_INTEGER(code, elem, wraps)                                                \
	case code:                                                                      \
		for (i = 0; i < n; i++)                                                 \
			((elem *)at)[i] =                                               \
				(elem)((wraps)((elem *)at)[i] * (wraps)(int64_t)scale); \
		break;
#define SCALE_FLOAT(code, mem, elem, GET, PUT)                                           \
	case code:                                                                       \
		for (i = 0; i < n; i++)                                                  \
			((mem *)at)[i] = PUT((elem)(GET(((mem *)at)[i]) * (elem)scale)); \
		break;
#define DIVIDE_INTEGER(code, elem, wraps)                                     \
	case code:                                                            \
		for (i = 0; i < n; i++)                                       \
			((elem *)at)[i] = (elem)(((elem *)at)[i] / (elem)by); \
		break;

static void scale_by(ncclDataType_t t, void *at, uint64_t n, double scale)
{
	uint64_t i;

	switch (t) {
		INTEGERS(SCALE_INTEGER)
		FLOATS(SCALE_FLOAT)
	}
}

static void divide_by(ncclDataType_t t, void *at, uint64_t n, int by)
{
	uint64_t i;

	switch (t) {
		INTEGERS(DIVIDE_INTEGER)
	default:
		break;
	}
}

static double scalar_of(ncclDataType_t t, const void *at)
{
	switch (t) {
	case ncclInt8:
		return *(const int8_t *)at;
	case ncclUint8:
		return *(const uint8_t *)at;
	case ncclInt32:
		return *(const int32_t *)at;
	case ncclUint32:
		return *(const uint32_t *)at;
	case ncclInt64:
		return (double)*(const int64_t *)at;
	case ncclUint64:
		return (double)*(const uint64_t *)at;
	case ncclFloat32:
		return (double)*(const float *)at;
	case ncclFloat64:
		return *(const double *)at;
	case ncclFloat16:
		return (double)f16_widen(*(const uint16_t *)at);
	case ncclBfloat16:
		return (double)bf16_widen(*(const uint16_t *)at);
	}
	return 0;
}

static bool is_integer(ncclDataType_t t)
{
	return t < ncclFloat16;
}

/* ---- the kernel ---- */

/* Where things are for the host; all inputs are copied first, so any may be outputs. */
struct run {
	struct fake_comm *comm;
	const struct op *op;
	struct head head;
	size_t size;          /* of an element */
	unsigned char *mine;  /* this rank's input, scaled */
	unsigned char *parts; /* of all ranks */
	unsigned char *out;
};

/* This rank's and the others' @count elements at parts, in the order of ranks, into @to. */
static void parts_combine(struct run *r, unsigned char *to, uint64_t count)
{
	int i;

	memcpy(to, r->parts, count * r->size);
	for (i = 1; i < r->comm->size; i++)
		combine(r->op->type, r->op->op, to, r->parts + (uint64_t)i * count * r->size,
			count);
	if (r->op->op == ncclAvg && is_integer(r->op->type))
		divide_by(r->op->type, to, count, r->comm->size);
}

/* Every rank sends the part that begins at @from[peer * step] to that peer, and puts what comes
 * at parts.  With only a @root the others send to it alone. */
static bool parts_move(struct run *r, const unsigned char *from, uint64_t step, uint64_t bytes,
		       int root)
{
	struct fake_comm *c = r->comm;
	struct message out[RANKS], in[RANKS];
	struct exchange x = { c, out, in, 0, 0 };
	int i;

	for (i = 0; i < c->size; i++) {
		unsigned char *part = (unsigned char *)(uintptr_t)(from + (uint64_t)i * step);

		if (i == c->rank) {
			if (root < 0 || root == i)
				memcpy(r->parts + (uint64_t)i * bytes, part, bytes);
			continue;
		}
		if (root < 0 || root == i)
			message_add(out, &x.outs, &r->head, i, part, bytes);
		if (root < 0 || root == c->rank)
			message_add(in, &x.ins, &r->head, i, r->parts + (uint64_t)i * bytes,
				    bytes);
	}
	return exchange_run(&x);
}

static bool broadcast_run(struct run *r)
{
	struct fake_comm *c = r->comm;
	struct message out[RANKS], in[1];
	struct exchange x = { c, out, in, 0, 0 };
	uint64_t bytes = r->op->count * r->size;
	int i;

	if (c->rank != r->op->root)
		message_add(in, &x.ins, &r->head, r->op->root, r->out, bytes);
	for (i = 0; i < c->size && c->rank == r->op->root; i++)
		if (i != c->rank)
			message_add(out, &x.outs, &r->head, i, r->mine, bytes);
	if (!exchange_run(&x))
		return false;
	if (c->rank == r->op->root)
		memcpy(r->out, r->mine, bytes);
	return true;
}

/* Elements at in and out of a collective. */
static uint64_t in_count(const struct fake_comm *c, const struct op *op)
{
	if (op->kind == BROADCAST && op->root != c->rank)
		return 0;
	return op->kind == REDUCESCATTER ? op->count * (uint64_t)c->size : op->count;
}

static uint64_t out_count(const struct fake_comm *c, const struct op *op)
{
	if (op->kind == REDUCE && op->root != c->rank)
		return 0;
	return op->kind == ALLGATHER ? op->count * (uint64_t)c->size : op->count;
}

static bool collective_move(struct run *r)
{
	struct fake_comm *c = r->comm;
	const struct op *op = r->op;
	uint64_t bytes = op->count * r->size;

	switch (op->kind) {
	case ALLREDUCE:
	case REDUCE:
		if (!parts_move(r, r->mine, 0, bytes, op->kind == REDUCE ? op->root : -1))
			return false;
		if (r->out)
			parts_combine(r, r->out, op->count);
		return true;
	case REDUCESCATTER:
		if (!parts_move(r, r->mine, bytes, bytes, -1))
			return false;
		parts_combine(r, r->out, op->count);
		return true;
	case ALLGATHER:
		if (!parts_move(r, r->mine, 0, bytes, -1))
			return false;
		memcpy(r->out, r->parts, bytes * (uint64_t)c->size);
		return true;
	default:
		return broadcast_run(r);
	}
}

/* What goes into a sum is multiplied by the operation's factor, if it has one. */
static CUresult input_scale(struct run *r)
{
	const struct op *op = r->op;
	double scale = op->scale;
	const void *at;

	if (op->kind != ALLREDUCE && op->kind != REDUCE && op->kind != REDUCESCATTER)
		return CUDA_SUCCESS;
	if (op->scales && op->on_device) {
		at = fake_cuda_host(op->scale_at, r->size);
		if (!at)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		scale = scalar_of(op->type, at);
	}
	if (op->op == ncclAvg && !is_integer(op->type))
		scale_by(op->type, r->mine, in_count(r->comm, op), 1.0 / r->comm->size);
	else if (op->scales)
		scale_by(op->type, r->mine, in_count(r->comm, op), scale);
	return CUDA_SUCCESS;
}

static CUresult collective_run(struct fake_comm *c, const struct op *op)
{
	struct run r = { .comm = c, .op = op, .size = type_bytes(op->type) };
	uint64_t in = in_count(c, op) * r.size, out = out_count(c, op) * r.size;
	const void *from = in ? fake_cuda_host(op->in, in) : NULL;
	CUresult bad = CUDA_SUCCESS;

	r.out = out ? fake_cuda_host(op->out, out) : NULL;
	if ((in && !from) || (out && !r.out))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	r.head = (struct head){ (uint32_t)op->kind, (uint32_t)op->type, (uint32_t)op->op,
				(uint32_t)op->root, op->count,          c->collectives++ };
	r.mine = malloc(in + 1);
	r.parts = malloc(op->count * r.size * (uint64_t)c->size + 1);
	if (in)
		memcpy(r.mine, from, in);
	bad = input_scale(&r);
	if (!bad)
		collective_move(&r);
	free(r.mine);
	free(r.parts);
	return bad;
}

/* All sends and receives of a group at a time; those to oneself match in their order. */
static CUresult p2p_run(struct fake_comm *c, const struct op *op, int count)
{
	struct message *out = calloc((size_t)count, sizeof(*out));
	struct message *in = calloc((size_t)count, sizeof(*in));
	struct exchange x = { c, out, in, 0, 0 };
	CUresult bad = CUDA_SUCCESS;
	int i, self = 0;

	for (i = 0; i < count && !bad; i++) {
		const struct op *o = &op[i];
		uint64_t bytes = o->count * type_bytes(o->type);
		struct head head = { SEND, (uint32_t)o->type, 0, 0, o->count, 0 };
		void *at = fake_cuda_host(o->kind == SEND ? o->in : o->out, bytes);

		if (o->kind != SEND && o->kind != RECV)
			continue;
		if (bytes && !at)
			bad = CUDA_ERROR_ILLEGAL_ADDRESS;
		else if (o->root != c->rank)
			message_add(o->kind == SEND ? out : in,
				    o->kind == SEND ? &x.outs : &x.ins, &head, o->root, at,
				    bytes);
		else if (o->kind == RECV && bytes) {
			while (self < count &&
			       !(op[self].kind == SEND && op[self].root == c->rank))
				self++;
			if (self < count && op[self].count == o->count)
				memmove(at, fake_cuda_host(op[self++].in, bytes), bytes);
			else
				hang(c);
		}
	}
	if (!bad)
		exchange_run(&x);
	free(out);
	free(in);
	return bad;
}

/* The faults of this operation; false: it hangs until it is aborted. */
static bool op_is_well(struct fake_comm *c)
{
	const char *more = NULL;
	uint64_t n = ++c->executed;

	if (fault_is("late", c->rank, n, &more))
		nap_ms(strtol(more, NULL, 10));
	if (fault_is("async", c->rank, n, &more)) {
		__atomic_store_n(&c->async, (int)strtol(more, NULL, 10), __ATOMIC_RELEASE);
		return hang(c);
	}
	return !fault_is("hang", c->rank, n, NULL) || hang(c);
}

static CUresult batch_run(void *arg)
{
	struct batch *b = arg;
	struct fake_comm *c = b->comm;
	CUresult bad = CUDA_SUCCESS;
	bool p2p = false;
	int i;

	for (i = 0; i < b->count && !bad && !is_stopped(c) && !fake_cuda_is_poisoned(); i++) {
		const struct op *op = &b->op[i];

		if (op->kind == SEND || op->kind == RECV) {
			if (p2p || !op_is_well(c))
				continue;
			p2p = true;
			bad = p2p_run(c, b->op, b->count);
		} else if (op_is_well(c)) {
			bad = collective_run(c, op);
		}
	}
	pthread_mutex_lock(&c->lock);
	c->in_flight--;
	pthread_cond_broadcast(&c->idle);
	pthread_mutex_unlock(&c->lock);
	return bad;
}

/* ---- launches ---- */

/* Operations of a communicator run in the order of their calls, on whichever streams. */
static ncclResult_t batch_launch(struct batch *b, CUstream s)
{
	struct fake_comm *c = b->comm;
	CUcontext before;
	CUresult bad;

	cuCtxGetCurrent(&before);
	cuCtxSetCurrent(c->context);
	bad = c->has_stream && c->stream != s ? cuStreamWaitEvent(s, c->last, 0) : CUDA_SUCCESS;
	pthread_mutex_lock(&c->lock);
	c->in_flight++;
	pthread_mutex_unlock(&c->lock);
	if (!bad)
		bad = fake_cuda_enqueue(s, batch_run, b, c->sms);
	else
		free(b);
	if (bad) {
		pthread_mutex_lock(&c->lock);
		c->in_flight--;
		pthread_mutex_unlock(&c->lock);
	} else {
		bad = cuEventRecord(c->last, s);
	}
	c->stream = s;
	c->has_stream = true;
	cuCtxSetCurrent(before);
	return bad ? fail(ncclUnhandledCudaError, "CUDA says %d", bad) : ncclSuccess;
}

/* Rank R hangs, and so do those that it has to connect with, in a ring. */
static bool link_hangs(const struct fake_comm *c)
{
	const char *at = faults_find("FAKE_NCCL", "connect_hang");
	int apart;

	if (!at)
		return false;
	apart = (c->rank - (int)strtol(at, NULL, 10) + c->size) % c->size;
	return apart < 2 || apart == c->size - 1;
}

/* The link that @kind needs and has not yet; -1: none.  Before 2.22 an initialization connects
 * the ranks for all collectives. */
static int link_missing(const struct fake_comm *c, enum kind kind)
{
	int which = kind < SEND ? (int)kind : SEND;

	return (which < SEND && c->version < V_2_22) || c->linked[which] ? -1 : which;
}

/* The first operation of a kind: memory for it, and connections. */
static ncclResult_t link_make(struct fake_comm *c, enum kind kind)
{
	int which = link_missing(c, kind);
	CUcontext before;
	CUresult bad;

	if (which < 0)
		return ncclSuccess;
	if (link_hangs(c)) {
		while (!is_stopped(c))
			fd_await(c, -1, 0);
		return fail(ncclInternalError, "aborted");
	}
	nap_ms(CONNECT_MS);
	cuCtxGetCurrent(&before);
	cuCtxSetCurrent(c->context);
	bad = cuMemAlloc_v2(&c->link_memory[which], 4096);
	cuCtxSetCurrent(before);
	if (bad)
		return fail(ncclUnhandledCudaError, "no memory on device %d", c->device);
	c->linked[which] = true;
	return ncclSuccess;
}

/* ---- jobs ---- */

static struct job *job_new(int comms, int launches)
{
	struct job *j = calloc(1, sizeof(*j));

	j->comm = calloc((size_t)comms + 1, sizeof(struct fake_comm *));
	j->launch = calloc((size_t)launches + 1, sizeof(*j->launch));
	pthread_mutex_init(&j->lock, NULL);
	return j;
}

static void job_add_comm(struct job *j, struct fake_comm *c)
{
	int i;

	for (i = 0; i < j->comms; i++)
		if (j->comm[i] == c)
			return;
	j->comm[j->comms++] = c;
}

static void *init_main(void *arg)
{
	struct fake_comm *c = arg;

	return (void *)(intptr_t)comm_init(c);
}

/* All communicators of a group meet at once, since each waits for other ranks. */
static ncclResult_t inits_run(struct job *j)
{
	pthread_t thread[INITS];
	ncclResult_t result = ncclSuccess;
	void *one;
	int i;

	for (i = 0; i < j->inits; i++)
		if (pthread_create(&thread[i], NULL, init_main, j->comm[i]))
			abort();
	for (i = 0; i < j->inits; i++) {
		pthread_join(thread[i], &one);
		__atomic_store_n(&j->comm[i]->opened, !one, __ATOMIC_RELEASE);
		result = one ? (ncclResult_t)(intptr_t)one : result;
	}
	return result;
}

static ncclResult_t launches_run(struct job *j)
{
	ncclResult_t bad = ncclSuccess;
	int i, k;

	for (i = 0; i < j->launches && !bad; i++) {
		struct batch *b = j->launch[i].batch;

		for (k = 0; k < b->count && !bad; k++)
			bad = link_make(b->comm, b->op[k].kind);
	}
	for (i = 0; i < j->launches && !bad; i++) {
		bad = batch_launch(j->launch[i].batch, j->launch[i].stream);
		j->launch[i].batch = NULL;
	}
	return bad;
}

static ncclResult_t job_run(struct job *j)
{
	ncclResult_t bad = inits_run(j);
	int i, mine;

	bad = bad ? bad : launches_run(j);
	for (i = 0; i < j->comms && j->finalizes; i++)
		comm_await(j->comm[i]);
	for (i = 0; i < j->comms; i++) {
		mine = ncclInProgress;
		/* Who has called in between has left an error there, which stays. */
		if (!__atomic_compare_exchange_n(&j->comm[i]->state, &mine, (int)bad, false,
						 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			(void)note(j->comm[i], bad);
	}
	return bad;
}

static void *job_main(void *arg)
{
	int relaxed = CAPTURE_RELAXED;

	cuThreadExchangeStreamCaptureMode(&relaxed);
	(void)job_run(arg);
	return NULL;
}

static ncclResult_t job_start(struct job *j)
{
	int i;

	j->owner = owner_get();
	j->shares = j->comms;
	__atomic_store_n(&j->owner->job, j, __ATOMIC_RELEASE);
	for (i = 0; i < j->comms; i++) {
		__atomic_store_n(&j->comm[i]->job, j, __ATOMIC_RELEASE);
		__atomic_store_n(&j->comm[i]->state, (int)ncclInProgress, __ATOMIC_RELEASE);
	}
	/* Else a job that has ended would be joined before the thread's number is known. */
	pthread_mutex_lock(&j->lock);
	if (pthread_create(&j->thread, NULL, job_main, j))
		abort();
	pthread_mutex_unlock(&j->lock);
	return ncclInProgress;
}

/* Is it done in a thread?  Before 2.23 only if it opens communicators, or connects for sends.
 */
static bool job_is_apart(const struct job *j)
{
	int i, k;

	for (i = 0; i < j->comms && j->comm[i]->blocking; i++)
		;
	if (i == j->comms)
		return false;
	if (j->inits || j->comm[i]->version >= V_2_23)
		return true;
	for (i = 0; i < j->launches; i++)
		for (k = 0; k < j->launch[i].batch->count; k++)
			if (j->launch[i].batch->op[k].kind >= SEND &&
			    link_missing(j->launch[i].batch->comm, SEND) >= 0)
				return true;
	return false;
}

static struct batch *batch_new(struct fake_comm *c, int count)
{
	struct batch *b = malloc(sizeof(*b) + sizeof(b->op[0]) * (size_t)count);

	b->comm = c;
	b->count = 0;
	return b;
}

static ncclResult_t op_check(struct fake_comm *c, struct op *op)
{
	ncclResult_t bad = comm_ready(c);
	int number = (int)op->op - 5;
	struct redop *r;

	if (bad)
		return bad;
	if (!type_bytes(op->type))
		return fail(ncclInvalidArgument, "type %d is unknown", (int)op->type);
	if (op->root < 0 || op->root >= c->size)
		return fail(ncclInvalidArgument, "rank %d of %d", op->root, c->size);
	if (number < 0)
		return ncclSuccess;
	r = number < REDOPS ? &c->redop[number] : NULL;
	if (!r || !r->used || r->type != op->type)
		return fail(ncclInvalidArgument, "operation %d is unknown, or of another type",
			    (int)op->op);
	op->op = ncclSum;
	op->scales = true;
	op->on_device = r->on_device;
	op->scale = r->scale;
	op->scale_at = r->at;
	return ncclSuccess;
}

static ncclResult_t op_queue(struct fake_comm *c, struct op op, CUstream s)
{
	ncclResult_t bad = op_check(c, &op);

	if (bad)
		return bad;
	if (!op.count && op.kind != SEND && op.kind != RECV)
		return ncclSuccess;
	if (!queue)
		queue = malloc(sizeof(*queue) * QUEUED);
	if (queued == QUEUED)
		return fail(ncclInvalidUsage, "too many in a group");
	queue[queued++] = (struct queued){ c, s, op };
	return ncclSuccess;
}

static ncclResult_t op_submit(struct fake_comm *comm, struct op op, CUstream s)
{
	struct fake_comm *c = enter(comm);
	ncclResult_t bad = op_queue(c, op, s);

	if (bad)
		return leave(c, poison(c, bad));
	return leave(c, depth ? ncclSuccess : group_run(group_take()));
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

/* What the thread's calls have queued, as a job; NULL: nothing.  One kernel for each
 * communicator and stream, in the order of their first operations. */
static struct job *group_take(void)
{
	struct job *j = queued || inits ? job_new(queued + inits, queued) : NULL;
	int i, k;

	for (i = 0; i < inits; i++)
		j->comm[j->comms++] = init_of[i];
	for (i = 0; i < queued; i++) {
		struct fake_comm *c = queue[i].comm;
		CUstream s = queue[i].stream;
		struct batch *b;

		if (!c)
			continue;
		job_add_comm(j, c);
		b = batch_new(c, queued - i);
		for (k = i; k < queued; k++)
			if (queue[k].comm == c && queue[k].stream == s) {
				b->op[b->count++] = queue[k].op;
				queue[k].comm = NULL;
			}
		j->launch[j->launches++] = (struct launch){ b, s };
	}
	if (j)
		j->inits = inits;
	queued = inits = 0;
	free(queue);
	free(init_of);
	queue = NULL;
	init_of = NULL;
	return j;
}

/* Carries out a group whose calls have all been right. */
static ncclResult_t group_run(struct job *j)
{
	ncclResult_t bad = group_error;
	int i;

	group_error = ncclSuccess;
	if (!j)
		return bad;
	job_place(j->comm[0]);
	if (!bad && job_is_apart(j))
		return job_start(j);
	for (i = 0; i < j->comms && bad; i++)
		if (i < j->inits)
			__atomic_store_n(&j->comm[i]->state, (int)bad, __ATOMIC_RELEASE);
		else
			(void)note(j->comm[i], bad);
	bad = bad ? bad : job_run(j);
	job_free(j);
	return bad;
}

/* The job may be over, and freed, before this returns. */
ncclResult_t ncclGroupEnd(void)
{
	struct fake_comm **used;
	ncclResult_t result;
	struct job *j;
	int i, n;

	if (!depth)
		return fail(ncclInvalidUsage, "no group has begun");
	if (--depth)
		return ncclSuccess;
	j = group_take();
	n = j ? j->comms : 0;
	used = calloc((size_t)n + 1, sizeof(struct fake_comm *));
	for (i = 0; i < n; i++)
		used[i] = enter(j->comm[i]);
	result = group_run(j);
	for (i = 0; i < n; i++)
		leave(used[i], result);
	free(used);
	return result;
}

/* ---- the calls ---- */

#define AT(p) ((uint64_t)(uintptr_t)(p))

static struct op op_of(enum kind kind, uint64_t in, uint64_t out, uint64_t count,
		       ncclDataType_t type, ncclRedOp_t op, int root)
{
	return (struct op){ .kind = kind,
			    .in = in,
			    .out = out,
			    .count = count,
			    .type = type,
			    .op = op,
			    .root = root };
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(ALLREDUCE, AT(in), AT(out), count, type, op, 0), s);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
			ncclRedOp_t op, int root, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(REDUCE, AT(in), AT(out), count, type, op, root), s);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
			   int root, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(BROADCAST, AT(in), AT(out), count, type, ncclSum, root),
			 s);
}

ncclResult_t ncclBcast(void *at, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
		       CUstream s)
{
	return ncclBroadcast(at, at, count, type, root, comm, s);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
			   ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(ALLGATHER, AT(in), AT(out), count, type, ncclSum, 0), s);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(REDUCESCATTER, AT(in), AT(out), count, type, op, 0), s);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, CUstream s)
{
	return op_submit(comm, op_of(SEND, AT(in), 0, count, type, ncclSum, peer), s);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      CUstream s)
{
	return op_submit(comm, op_of(RECV, 0, AT(out), count, type, ncclSum, peer), s);
}

#if FAKE_NCCL_VERSION >= 22800
ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type,
			  ncclComm_t comm, CUstream s)
{
	size_t bytes = count * type_bytes(type);
	ncclResult_t bad = ncclSuccess, end;
	int i;

	if (!comm_check(comm))
		return fail(ncclInvalidArgument, "comm is NULL");
	ncclGroupStart();
	for (i = 0; i < comm->size && !bad; i++) {
		bad = ncclSend((const char *)in + (size_t)i * bytes, count, type, i, comm, s);
		if (!bad)
			bad = ncclRecv((char *)out + (size_t)i * bytes, count, type, i, comm,
				       s);
	}
	end = ncclGroupEnd();
	return bad ? bad : end;
}
#endif

static ncclResult_t redop_new(ncclRedOp_t *op, const void *scalar, ncclDataType_t type,
			      ncclScalarResidence_t residence, struct fake_comm *comm)
{
	ncclResult_t bad = comm_ready(comm);
	int i;

	if (bad)
		return bad;
	if (!type_bytes(type))
		return fail(ncclInvalidArgument, "type %d is unknown", (int)type);
	for (i = 0; i < REDOPS && comm->redop[i].used; i++)
		;
	if (i == REDOPS)
		return fail(ncclInternalError, "too many operations");
	comm->redop[i] = (struct redop){ .used = true,
					 .on_device = residence == ncclScalarDevice,
					 .type = type,
					 .at = AT(scalar) };
	if (residence == ncclScalarHostImmediate)
		comm->redop[i].scale = scalar_of(type, scalar);
	*op = (ncclRedOp_t)(i + 5);
	return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	struct fake_comm *c = enter(comm);

	return leave(c, redop_new(op, scalar, type, residence, c));
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	struct fake_comm *c = enter(comm);
	int number = (int)op - 5;

	if (!c || number < 0 || number >= REDOPS || !c->redop[number].used)
		return leave(c, fail(ncclInvalidArgument, "operation %d is not of the caller's",
				     (int)op));
	c->redop[number].used = false;
	return leave(c, ncclSuccess);
}

ncclResult_t ncclGetVersion(int *version)
{
	*version = version_of();
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"no error (fake)",
		"unhandled cuda error (fake)",
		"system error (fake)",
		"internal error (fake)",
		"invalid argument (fake)",
		"invalid usage (fake)",
		"remote process error (fake)",
		"in progress (fake)",
	};

	return (unsigned int)result < sizeof(texts) / sizeof(texts[0]) ? texts[result]
								       : "unknown (fake)";
}

/* The last one of any thread, whatever it was about. */
const char *ncclGetLastError(ncclComm_t comm)
{
	static _Thread_local char text[ERROR_BYTES];

	(void)comm;
	pthread_mutex_lock(&error_lock);
	memcpy(text, last_error, sizeof(text));
	pthread_mutex_unlock(&error_lock);
	return text;
}

/* From 2.26 on this is no mere look: it puts away a job that has ended well. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	struct fake_comm *c = enter(comm);

	if (!c)
		return fail(ncclInvalidArgument, "comm is NULL");
	if (c->version >= V_2_26)
		job_touch(c, false);
	*error = (ncclResult_t)__atomic_load_n(&c->async, __ATOMIC_ACQUIRE);
	if (!*error)
		*error = (ncclResult_t)state_of(c);
	if (!*error && c->version >= V_2_26)
		job_collect(c);
	return leave(c, ncclSuccess);
}

/* One of the numbers of a communicator that is ready. */
static ncclResult_t number_get(ncclComm_t comm, size_t offset, int *number)
{
	struct fake_comm *c = enter(comm);
	ncclResult_t bad = comm_ready(c);

	if (!bad)
		memcpy(number, (char *)c + offset, sizeof(*number));
	return leave(c, bad);
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
	return number_get(comm, offsetof(struct fake_comm, size), count);
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
	return number_get(comm, offsetof(struct fake_comm, device), device);
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
	return number_get(comm, offsetof(struct fake_comm, rank), rank);
}

int fake_nccl_leaked(void)
{
	return __atomic_load_n(&memory_leaked, __ATOMIC_RELAXED);
}

int fake_nccl_names(char (*names)[FAKE_NAME_BYTES], int most)
{
	struct fake_comm *c;
	int n = 0;

	pthread_mutex_lock(&list_lock);
	for (c = comms_open; c && n < most; c = c->others)
		name_read(c, names[n++]);
	pthread_mutex_unlock(&list_lock);
	return n;
}

int fake_nccl_left(void)
{
	return __atomic_load_n(&comms_left, __ATOMIC_RELAXED);
}

/* This is before the driver counts what is left. */
static void leaks_free(void)
{
	struct fake_comm *c;
	CUcontext context;

	for (c = comms_dead; c; c = c->others) {
		if (cuDevicePrimaryCtxRetain(&context, c->device))
			continue;
		cuCtxSetCurrent(context);
		c->unfinished = false;
		unsetenv("FAKE_NCCL");
		memory_free(c);
		cuDevicePrimaryCtxRelease_v2(c->device);
	}
}

__attribute__((destructor)) static void left_print(void)
{
	int n = fake_nccl_left();

	leaks_free();

	if (n)
		fprintf(stderr, "fake NCCL: left at exit: %d communicators\n", n);
}
