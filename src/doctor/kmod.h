/* kmod.h - find why NVIDIA's kernel module is not loaded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_KMOD_H
#define DOCTOR_KMOD_H

#include <stdbool.h>

struct exam;
struct rootfs;

/*
 * kmod_add - add GPUs by NVIDIA that are on the bus and that no driver of NVIDIA's serves,
 * with the cause: the kernel that runs has no module, another driver has the GPUs, or Secure
 * Boot.
 *
 * @has_library: is there a libcuda?  Returns false, and adds nothing, if there are no such
 * GPUs.
 */
bool kmod_add(struct exam *x, struct rootfs *fs, bool has_library);

#endif
