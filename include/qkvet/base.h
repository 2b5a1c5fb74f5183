/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): types that all
 * of its functions share. */
#ifndef QKVET_BASE_H_
#define QKVET_BASE_H_

#include <stddef.h>
#include <stdint.h>

#include "qkvet/precision.h" /* qkvet_dtype */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------- */

/* The result of every function. Zero is success. */
enum {
  QKVET_OK = 0,
  QKVET_UNSUPPORTED = 1,      /* not offered by this kernel: not an error */
  QKVET_UNAVAILABLE = 2,      /* hardware, driver or library is missing */
  QKVET_INVALID_ARGUMENT = 3, /* the call contradicts itself */
  QKVET_OUT_OF_MEMORY = 4,
  QKVET_INTERNAL = 5 /* anything else */
};
typedef int32_t qkvet_status;

/* A reason, written by the callee into the caller's memory: at most `capacity`
 * bytes including the final zero. The pointer to this struct may be NULL. */
typedef struct qkvet_text {
  size_t struct_size;
  char* data;
  size_t capacity;
} qkvet_text;

/* ---- Tensor ------------------------------------------------------------- */

/* DLPack's device types (dlpack.h, DLDeviceType). */
enum { QKVET_DEVICE_CPU = 1, QKVET_DEVICE_CUDA = 2 };

/* The layout of DLPack's DLTensor, byte for byte. Strides are in elements,
 * never NULL while ndim > 0, and 0 where an input is broadcast; the stride of
 * an extent of 1 may be any number. A tensor is absent when data is NULL and
 * ndim is 0; an extent of 0 is a present, empty tensor. */
typedef struct qkvet_tensor {
  void* data;
  int32_t device_type; /* QKVET_DEVICE_* */
  int32_t device_id;
  int32_t ndim;
  qkvet_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset; /* the first element is at data + byte_offset */
} qkvet_tensor;

/* ---- Host and execution ------------------------------------------------- */

/* Provided by the program that loads the library. Function pointers may be
 * NULL. `self` is the first argument of every function. */
typedef struct qkvet_host {
  size_t struct_size;
  uint32_t abi_major; /* QKVET_ABI_MAJOR of the host */
  uint32_t abi_minor;
  void* self;
  void (*log)(void* self, const char* line);
  /* Runs body(data, i) for 0 <= i < count, possibly on several threads. */
  void (*parallel_for)(void* self, int64_t count,
                       void (*body)(void* data, int64_t i), void* data);
  /* Device memory, for kernels that do not run on the CPU. On a machine without
   * that device, device_alloc returns NULL and the others UNAVAILABLE, and the
   * reason is logged. Memory of device_alloc has the driver's alignment, for
   * CUDA the runtime's too. Memory that the library does not free ends with the
   * process. device_copy copies between any two memories, host or device, in
   * the order of the default stream. device_sync waits for all streams; its
   * error may come from any earlier work. */
  void* (*device_alloc)(void* self, int32_t device_type, int32_t device_id,
                        size_t bytes);
  void (*device_free)(void* self, int32_t device_type, int32_t device_id,
                      void* memory);
  qkvet_status (*device_copy)(void* self, void* to, const void* from,
                              size_t bytes);
  qkvet_status (*device_fill)(void* self, void* to, uint8_t value,
                              size_t bytes);
  qkvet_status (*device_sync)(void* self, int32_t device_type,
                              int32_t device_id);
} qkvet_host;

/* The place and the resources of one call. */
typedef struct qkvet_exec {
  size_t struct_size;
  int32_t device_type; /* QKVET_DEVICE_* */
  int32_t device_id;
  void* stream;          /* device stream, or NULL */
  int32_t threads;       /* threads the call may use; 0: the kernel decides */
  int32_t deterministic; /* nonzero: every run must give the same bits. QKVet
                            sets it for every kernel that does not declare
                            QKVET_FLAG_NONDETERMINISTIC */
  void* workspace;       /* of the size that workspace() returned */
  size_t workspace_size;
} qkvet_exec;

typedef struct qkvet_kernel qkvet_kernel;   /* kernel.h */
typedef struct qkvet_context qkvet_context; /* opaque, owned by the kernel */

#ifdef __cplusplus
}
#endif

#endif /* QKVET_BASE_H_ */
