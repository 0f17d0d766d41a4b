/* without.c - start a program for which some system calls do not exist, as in a sandbox. */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * without pidfd PROGRAM ARG...: pidfd_open(2) and pidfd_send_signal(2) return ENOSYS, there and
 * in all its children; without ptrace: ptrace(2) and process_vm_readv(2) return EPERM.  Exit
 * status 77 if the kernel does not let it say so.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(nr, error)                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

int main(int argc, char **argv)
{
	struct sock_filter pidfd[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(SYS_pidfd_open, ENOSYS),
		REFUSE(SYS_pidfd_send_signal, ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter ptrace[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		REFUSE(SYS_ptrace, EPERM),
		REFUSE(SYS_process_vm_readv, EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { sizeof(pidfd) / sizeof(*pidfd), pidfd };

	if (argc < 3 || (strcmp(argv[1], "pidfd") != 0 && strcmp(argv[1], "ptrace") != 0))
		return 2;
	if (!strcmp(argv[1], "ptrace"))
		all.filter = ptrace; /* as long */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) {
		perror("seccomp");
		return 77;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
