/* xla_api.h - the part of XLA's C interface for foreign functions that is used. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_XLA_API_H
#define FRAMEWORKS_XLA_API_H

#include <stddef.h>
#include <stdint.h>

/*
 * Declared here, so that the library is built without jaxlib and one file serves all versions
 * of it.  XLA tells the size of each struct, and a later version has more at the end of them.
 */
struct xla_error;
struct xla_future;
struct xla_context;

enum xla_code {
	XLA_INVALID_ARGUMENT = 3,
	XLA_RESOURCE_EXHAUSTED = 8,
	XLA_FAILED_PRECONDITION = 9,
	XLA_ABORTED = 10,
	XLA_INTERNAL = 13
};

enum xla_dtype {
	XLA_PRED = 1,
	XLA_S8 = 2,
	XLA_S16 = 3,
	XLA_S32 = 4,
	XLA_S64 = 5,
	XLA_U8 = 6,
	XLA_U16 = 7,
	XLA_U32 = 8,
	XLA_U64 = 9,
	XLA_F16 = 10,
	XLA_F32 = 11,
	XLA_F64 = 12,
	XLA_C64 = 15,
	XLA_BF16 = 16,
	XLA_C128 = 18,
};

enum xla_stage { XLA_INSTANTIATE = 0, XLA_EXECUTE = 3 };
enum xla_attribute { XLA_SCALAR = 3, XLA_STRING = 4 };
enum xla_extension_type { XLA_METADATA = 1 };

struct xla_extension {
	size_t size;
	int type;
	struct xla_extension *next;
};

struct xla_version {
	size_t size;
	struct xla_extension *extension;
	int major, minor;
};

/* A type of states. */
struct xla_type {
	int64_t number; /* 0: XLA chooses one */
};

struct xla_metadata {
	size_t size;
	struct xla_version version;
	uint32_t traits;
};

struct xla_metadata_extension {
	struct xla_extension base;
	struct xla_metadata *metadata;
};

struct xla_error_args {
	size_t size;
	struct xla_extension *extension;
	const char *message;
	int code;
};

struct xla_future_args {
	size_t size;
	struct xla_extension *extension;
	struct xla_future *future;
	struct xla_error *error; /* of future_error() only */
};

struct xla_ordinal_args {
	size_t size;
	struct xla_extension *extension;
	struct xla_context *context;
	int32_t ordinal;
};

/* On a GPU: the stream on which XLA queues what it computes. */
struct xla_stream_args {
	size_t size;
	struct xla_extension *extension;
	struct xla_context *context;
	void *stream;
};

struct xla_text {
	const char *at;
	size_t length;
};

struct xla_type_info {
	size_t size;
	struct xla_extension *extension;
	void (*deleter)(void *state);
};

struct xla_type_args {
	size_t size;
	struct xla_extension *extension;
	struct xla_text name;
	struct xla_type *type;
	const struct xla_type_info *info;
};

/* A state belongs to a call of a compiled program, and to a stage. */
struct xla_state_args {
	size_t size;
	struct xla_extension *extension;
	struct xla_context *context;
	int stage;
	struct xla_type *type;
	void *state;
};

struct xla_destroy_args {
	size_t size;
	struct xla_extension *extension;
	struct xla_error *error;
};

struct xla_api {
	size_t size;
	struct xla_extension *extension;
	struct xla_version version;
	const void *internal;
	struct xla_error *(*error_create)(struct xla_error_args *);
	void *error_get_message;
	void (*error_destroy)(struct xla_destroy_args *);
	void *handler_register;
	struct xla_error *(*stream_get)(struct xla_stream_args *);
	struct xla_error *(*type_register)(struct xla_type_args *);
	void *execution_context;
	struct xla_error *(*state_set)(struct xla_state_args *);
	struct xla_error *(*state_get)(struct xla_state_args *);
	void *more[4];
	struct xla_error *(*future_create)(struct xla_future_args *);
	struct xla_error *(*future_available)(struct xla_future_args *);
	struct xla_error *(*future_error)(struct xla_future_args *);
	void *run_id;
	struct xla_error *(*device_ordinal)(struct xla_ordinal_args *);
};

struct xla_buffer {
	size_t size;
	struct xla_extension *extension;
	int dtype;
	void *data;
	int64_t rank, *dims;
};

/* Arguments and results. */
struct xla_buffers {
	size_t size;
	struct xla_extension *extension;
	int64_t count;
	int *types;
	struct xla_buffer **buffers;
};

struct xla_scalar {
	int dtype;
	void *value;
};

struct xla_attributes {
	size_t size;
	struct xla_extension *extension;
	int64_t count;
	int *types;
	struct xla_text **names;
	void **values;
};

struct xla_frame {
	size_t size;
	struct xla_extension *extension;
	const struct xla_api *api;
	struct xla_context *context;
	int stage;
	struct xla_buffers arguments, results;
	struct xla_attributes attributes;
	struct xla_future *future; /* if there is future_create(); size never includes it */
};

/* xla_api_dtype - the library's type for one of XLA's, and how many of its elements make one;
 * -1: it cannot be sent. */
int xla_api_dtype(int dtype, uint32_t *each);

/* xla_api_code - XLA's code for a status of the library's. */
int xla_api_code(int status);

#endif
