/* test_cudalibs.c - the driver's version in its two spellings. */
#include <string.h>

#include "detect/cudalibs.h"
#include "tap.h"

int main(void)
{
	char out[16];

	ok(cudalibs_driver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n",
			   out, 16) &&
		   !strcmp(out, "550.54.15"),
	   "the closed module");
	ok(cudalibs_driver("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03 "
			   " x\nGCC 12.2",
			   out, 16) &&
		   !strcmp(out, "560.35.03"),
	   "the open one");
	ok(!cudalibs_driver("NVRM version: Kernel Module\nGCC version 12.2.0\n", out, 16) &&
		   !*out,
	   "not on another line");
	ok(!cudalibs_driver("Kernel Module 1.2345678901234567890", out, 16), "too long");
	ok(!cudalibs_driver("", out, 16) && !cudalibs_driver("Kernel Module", out, 16),
	   "nothing");
	return tap_done();
}
