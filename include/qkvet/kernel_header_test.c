/* SPDX-License-Identifier: Apache-2.0
 * The header compiles as C11 and lays its tensor out as DLPack does. */
#include <dlpack/dlpack.h>

#include "qkvet/kernel.h"
#include "qkvet/plan.h"

#define SAME_PLACE(ours, theirs, their_struct)                        \
  _Static_assert(                                                     \
      offsetof(qkvet_tensor, ours) == offsetof(their_struct, theirs), \
      #ours " lies elsewhere than DLPack's " #theirs)

_Static_assert(sizeof(qkvet_tensor) == sizeof(DLTensor), "size of a tensor");
_Static_assert(sizeof(qkvet_dtype) == sizeof(DLDataType), "size of a dtype");
SAME_PLACE(data, data, DLTensor);
SAME_PLACE(device_type, device, DLTensor);
SAME_PLACE(ndim, ndim, DLTensor);
SAME_PLACE(dtype, dtype, DLTensor);
SAME_PLACE(shape, shape, DLTensor);
SAME_PLACE(strides, strides, DLTensor);
SAME_PLACE(byte_offset, byte_offset, DLTensor);
_Static_assert((int)QKVET_DTYPE_FLOAT == (int)kDLFloat, "code of float");
_Static_assert((int)QKVET_DTYPE_BFLOAT == (int)kDLBfloat, "code of bfloat");
_Static_assert((int)QKVET_DTYPE_INT == (int)kDLInt, "code of int");
_Static_assert((int)QKVET_DEVICE_CPU == (int)kDLCPU, "code of the CPU");
_Static_assert((int)QKVET_DEVICE_CUDA == (int)kDLCUDA, "code of CUDA");

/* What C sees, for the C++ test to compare. */
size_t qkvet_c_sizeof_tensor(void);
size_t qkvet_c_sizeof_forward_args(void);
size_t qkvet_c_sizeof_kernel(void);
size_t qkvet_c_sizeof_precision(void);
size_t qkvet_c_sizeof_cache_args(void);
size_t qkvet_c_sizeof_layer_args(void);
size_t qkvet_c_sizeof_tensor(void) { return sizeof(qkvet_tensor); }
size_t qkvet_c_sizeof_forward_args(void) { return sizeof(qkvet_forward_args); }
size_t qkvet_c_sizeof_kernel(void) { return sizeof(qkvet_kernel); }
size_t qkvet_c_sizeof_precision(void) { return sizeof(qkvet_precision); }
size_t qkvet_c_sizeof_cache_args(void) { return sizeof(qkvet_cache_args); }
size_t qkvet_c_sizeof_layer_args(void) { return sizeof(qkvet_layer_args); }
