/* device.h - for tests: a back end of a "device", a thread with memory and queues of its own.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A program that is linked with device.c has the back end "device" before all others.  It
 * takes data of every kind, copies what is the host's to memory of its own, and carries plans
 * out in a thread of its own, by the back end that would serve the group without it: several
 * at a time are in flight, and not in order are they told to be done.
 *
 * Memory of the device is known by addresses that no processor can use: who reads there
 * without asking the device dies by SIGSEGV.
 */

/* device_malloc, device_free - memory of the device; the host uses device_host() of it. */
void *device_malloc(size_t bytes);
void device_free(void *at);

/* device_host - where the host finds what is at the device's address @at. */
void *device_host(const void *at);

/* device_is - is that an address of the device? */
int device_is(const void *at);

/* What is to be done one after the other; a stream of the device. */
struct device_stream;

struct device_stream *device_stream_new(void);
void device_stream_free(struct device_stream *s);

/* device_fill - when all that is on @s before it is done and *@gate, if there is one, is not 0,
 * @value is in all @count floats at @at. */
void device_fill(struct device_stream *s, void *at, size_t count, float value, const int *gate);

/* device_sync - wait for all that is on @s. */
void device_sync(struct device_stream *s);

/* device_counts - plans that have begun, and the most that were in flight at a time, of all
 * ranks of this process together. */
void device_counts(uint64_t *begun, int *most);

#endif
