/* tensorflow_api.h - the part of TensorFlow's C API that is used, found at run time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FRAMEWORKS_TENSORFLOW_API_H
#define FRAMEWORKS_TENSORFLOW_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The prototypes are declared here, so that the library is built without TensorFlow and one
 * file serves all versions of it.  These have been the same from TensorFlow 2.15 to 2.21.
 */
struct tf_status;
struct tf_tensor;
struct tf_context;      /* TF_OpKernelContext: one run of an operation        */
struct tf_construction; /* TF_OpKernelConstruction: the operation in a graph  */
struct tf_kernel;       /* TF_KernelBuilder                                   */
struct tf_op;           /* TF_OpDefinitionBuilder                             */
struct tf_inference;    /* TF_ShapeInferenceContext                           */
struct tf_shape;        /* TF_ShapeHandle                                     */

/* TF_DataType */
enum tf_dtype {
	TF_FLOAT = 1,
	TF_DOUBLE = 2,
	TF_INT32 = 3,
	TF_UINT8 = 4,
	TF_INT16 = 5,
	TF_INT8 = 6,
	TF_COMPLEX64 = 8,
	TF_INT64 = 9,
	TF_BOOL = 10,
	TF_BFLOAT16 = 14,
	TF_UINT16 = 17,
	TF_COMPLEX128 = 18,
	TF_HALF = 19,
	TF_UINT32 = 22,
	TF_UINT64 = 23,
};

/* TF_Code */
enum tf_code {
	TF_OK = 0,
	TF_INVALID_ARGUMENT = 3,
	TF_RESOURCE_EXHAUSTED = 8,
	TF_FAILED_PRECONDITION = 9,
	TF_ABORTED = 10,
	TF_INTERNAL = 13,
};

#define TENSORFLOW_API(X)                                                                      \
	X(struct tf_status *, NewStatus, (void))                                               \
	X(void, DeleteStatus, (struct tf_status *))                                            \
	X(int, GetCode, (const struct tf_status *))                                            \
	X(const char *, Message, (const struct tf_status *))                                   \
	X(void, SetStatus, (struct tf_status *, int, const char *))                            \
	X(struct tf_op *, NewOpDefinitionBuilder, (const char *))                              \
	X(void, OpDefinitionBuilderAddAttr, (struct tf_op *, const char *))                    \
	X(void, OpDefinitionBuilderAddInput, (struct tf_op *, const char *))                   \
	X(void, OpDefinitionBuilderAddOutput, (struct tf_op *, const char *))                  \
	X(void, OpDefinitionBuilderSetIsStateful, (struct tf_op *, bool))                      \
	X(void, OpDefinitionBuilderSetShapeInferenceFunction,                                  \
	  (struct tf_op *, void (*)(struct tf_inference *, struct tf_status *)))               \
	X(void, RegisterOpDefinition, (struct tf_op *, struct tf_status *))                    \
	X(int64_t, ShapeInferenceContextNumInputs, (struct tf_inference *))                    \
	X(struct tf_shape *, NewShapeHandle, (void))                                           \
	X(void, DeleteShapeHandle, (struct tf_shape *))                                        \
	X(void, ShapeInferenceContextGetInput,                                                 \
	  (struct tf_inference *, int, struct tf_shape *, struct tf_status *))                 \
	X(void, ShapeInferenceContextSetOutput,                                                \
	  (struct tf_inference *, int, struct tf_shape *, struct tf_status *))                 \
	X(void, ShapeInferenceContextSetUnknownShape,                                          \
	  (struct tf_inference *, struct tf_status *))                                         \
	X(struct tf_shape *, ShapeInferenceContextScalar, (struct tf_inference *))             \
	X(struct tf_shape *, ShapeInferenceContextVectorFromSize,                              \
	  (struct tf_inference *, size_t))                                                     \
	X(int, ShapeInferenceContextRankKnown, (struct tf_inference *, struct tf_shape *))     \
	X(int64_t, ShapeInferenceContextRank, (struct tf_inference *, struct tf_shape *))      \
	X(void, ShapeInferenceContextSubshape,                                                 \
	  (struct tf_inference *, struct tf_shape *, int64_t, int64_t, struct tf_shape *,      \
	   struct tf_status *))                                                                \
	X(void, ShapeInferenceContextConcatenateShapes,                                        \
	  (struct tf_inference *, struct tf_shape *, struct tf_shape *, struct tf_shape *,     \
	   struct tf_status *))                                                                \
	X(struct tf_kernel *, NewKernelBuilder,                                                \
	  (const char *, const char *, void *(*)(struct tf_construction *),                    \
	   void (*)(void *, struct tf_context *), void (*)(void *)))                           \
	X(struct tf_kernel *, NewAsyncKernelBuilder,                                           \
	  (const char *, const char *, void *(*)(struct tf_construction *),                    \
	   void (*)(void *, struct tf_context *, void *), void (*)(void *)))                   \
	X(void, RunAsyncOpKernelDoneCallback, (void *))                                        \
	X(void, RegisterKernelBuilder, (const char *, struct tf_kernel *, struct tf_status *)) \
	X(void, OpKernelConstruction_GetAttrString,                                            \
	  (struct tf_construction *, const char *, char *, size_t, struct tf_status *))        \
	X(void, OpKernelConstruction_GetAttrSize,                                              \
	  (struct tf_construction *, const char *, int32_t *, int32_t *, struct tf_status *))  \
	X(void, OpKernelConstruction_GetAttrInt64,                                             \
	  (struct tf_construction *, const char *, int64_t *, struct tf_status *))             \
	X(void, OpKernelConstruction_GetAttrFloat,                                             \
	  (struct tf_construction *, const char *, float *, struct tf_status *))               \
	X(void, OpKernelConstruction_Failure, (struct tf_construction *, struct tf_status *))  \
	X(void, OpKernelContext_Failure, (struct tf_context *, struct tf_status *))            \
	X(int, NumInputs, (struct tf_context *))                                               \
	X(void, GetInput, (struct tf_context *, int, struct tf_tensor **, struct tf_status *)) \
	X(void, SetOutput,                                                                     \
	  (struct tf_context *, int, const struct tf_tensor *, struct tf_status *))            \
	X(struct tf_tensor *, AllocateOutput,                                                  \
	  (struct tf_context *, int, int, const int64_t *, int, size_t, struct tf_status *))   \
	X(struct tf_tensor *, ForwardInputOrAllocateOutput,                                    \
	  (struct tf_context *, const int *, int, int, const int64_t *, int, int *,            \
	   struct tf_status *))                                                                \
	X(struct tf_tensor *, NewTensor,                                                       \
	  (int, const int64_t *, int, void *, size_t, void (*)(void *, size_t, void *),        \
	   void *))                                                                            \
	X(void, DeleteTensor, (struct tf_tensor *))                                            \
	X(int, TensorType, (const struct tf_tensor *))                                         \
	X(int, NumDims, (const struct tf_tensor *))                                            \
	X(int64_t, Dim, (const struct tf_tensor *, int))                                       \
	X(size_t, TensorByteSize, (const struct tf_tensor *))                                  \
	X(void *, TensorData, (const struct tf_tensor *))

struct tensorflow_api {
#define X(type, name, arguments) type(*name) arguments;
	TENSORFLOW_API(X)
#undef X
};

extern struct tensorflow_api tf;

/*
 * tensorflow_api_find - set tf from the library of TensorFlow that this process has.
 *
 * Returns NULL; or the name of a library that is not loaded, or of a function that is missing.
 */
const char *tensorflow_api_find(void);

/* tensorflow_api_dtype - the library's type for a TensorFlow type, and how many of its elements
 * make one; -1: it cannot be sent. */
int tensorflow_api_dtype(int dtype, uint32_t *each);

/* tensorflow_api_code - the TF_Code for a status of the library's. */
int tensorflow_api_code(int status);

#endif
