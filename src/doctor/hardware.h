/* hardware.h - GPU and memory faults that the kernel reports; unreachable GPUs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOCTOR_HARDWARE_H
#define DOCTOR_HARDWARE_H

struct exam;
struct rootfs;

/* hardware_on_bus - how many GPUs by NVIDIA are on the bus; the kernel's driver of the last,
 * such as "nouveau", in @driver, or "". */
int hardware_on_bus(struct rootfs *fs, char driver[64]);

/* hardware_files - add device files that programs need to reach @gpus GPUs by NVIDIA and that
 * are missing, and a fabric manager that is missing or has another version than @driver. */
void hardware_files(struct exam *x, struct rootfs *fs, int gpus, const char *driver);

/* hardware_access - add the device file @path if this process may not use it; live only. */
void hardware_access(struct exam *x, const char *path);

/* hardware_faults - add the Xids in the kernel's log, and ECC errors of main memory and of
 * AMD's GPUs; what the kernel does not tell is no finding, but for a log that @gpus would fill
 * and that this user may not read. */
void hardware_faults(struct exam *x, struct rootfs *fs, int gpus);

#endif
