/* test_stacks.c - what eu-stack and py-spy print: the collective, and the program's line. */
#include <string.h>

#include "hang/stacks.h"

#include "tap.h"

static const char mpi[] =
	"PID 25204 - process\nTID 25204:\n"
	"#0  0x00007f0942d1b017 __sched_yield - /usr/lib/x86_64-linux-gnu/libc.so.6\n"
	"    ../sysdeps/unix/syscall-template.S:120\n"
	"#1  0x00007f0942e60bc5 ompi_request_default_wait - /usr/lib/libmpi.so.40.30.4\n"
	"#2  0x00007f0942e7831a PMPI_Allreduce - /usr/lib/libmpi.so.40.30.4\n"
	"#3  0x0000564507a7d23a sum - /srv/u/m\n"
	"    /srv/u/m.c:9:21\n"
	"#4  0x0000564507a7d23a main - /srv/u/m\n"
	"    /srv/u/m.c:30:2\n"
	"#5  0x00007f0942c5424a __libc_start_call_main - /usr/lib/libc.so.6\n";

static const char gloo[] =
	"PID 1 - process\nTID 1:\n"
	"#0  0x00007f17b6aa3f16 __futex_abstimed_wait_common - /usr/lib/libc.so.6\n"
	"#1  0x00007f179f8a741d std::condition_variable::wait(std::unique_lock<std::mutex>&) - "
	"/usr/lib/libstdc++.so.6.0.30\n"
	"#2  0x00007f17a636984b c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, "
	"1000l> "
	">) - /venv/lib/libtorch_cpu.so\n"
	"#3  0x000055931a1a4081 - 1 _start - /venv/bin/python3\n";

static const char sleeper[] =
	"#0  0x00007fc311aed545 clock_nanosleep@GLIBC_2.2.5 - /lib/libc.so.6\n"
	"#1  0x00007fc311aed545 load_batch - /srv/u/m\n";

static const char python[] =
	"[{\"pid\": 7, \"thread_id\": 1, \"thread_name\": \"Thread-1\", \"os_thread_id\": 8, "
	"\"frames\": [{\"name\": \"poll\", \"filename\": \"/srv/u/x.py\", \"line\": 1}]},"
	"{\"pid\": 7, \"thread_id\": 2, \"thread_name\": \"MainThread\", \"os_thread_id\": 7, "
	"\"frames\": [{\"name\": \"all_reduce\", \"filename\": "
	"\"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", \"line\": "
	"3252},{\"name\": \"wrapper\", \"filename\": "
	"\"/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py\", \"line\": 83},"
	"{\"name\": \"train\", \"filename\": \"/srv/u/ringup/train.py\", \"line\": 8}]}]";

static void expect(const struct stack *s, bool good, const char *call, const char *where,
		   const char *name)
{
	ok(good && !strcmp(s->call, call) && !strcmp(s->where, where),
	   "%s: in \"%s\", at \"%s\"", name, s->call, s->where);
}

int main(void)
{
	struct stack s;
	bool good;

	good = stacks_native(&s, mpi);
	expect(&s, good, "MPI_Allreduce", "sum (m.c:9)", "Open MPI");
	ok(!strcmp(s.doing, "__sched_yield"), "the innermost function is known");
	good = stacks_native(&s, gloo);
	expect(&s, good, "c10d::Work::wait", "_start", "Gloo, without py-spy");
	good = stacks_native(&s, sleeper);
	expect(&s, good, "", "load_batch", "a program that sleeps");
	ok(!strcmp(s.doing, "clock_nanosleep"), "its innermost function has no version");
	good = stacks_python(&s, python);
	expect(&s, good, "all_reduce", "train (train.py:8)", "Python");
	ok(!stacks_native(&s, "") && !stacks_native(&s, "eu-stack: no such process"),
	   "no stack is none");
	ok(!stacks_python(&s, "{") && !stacks_python(&s, "[1, {\"frames\": 7}]"),
	   "broken JSON is none");
	return tap_done();
}
