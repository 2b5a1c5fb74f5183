/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fake driver (fake_cuda.cpp) offers besides the names of a CUDA
 * driver: to the kernels of device_plugin.cpp, as if they were launched on a
 * device.
 */
#ifndef QKVET_CORE_TESTDATA_FAKE_CUDA_H_
#define QKVET_CORE_TESTDATA_FAKE_CUDA_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts body(data) into a stream, NULL: the default one. It runs, on a copy of
 * `bytes` bytes of data, when somebody waits for that stream. */
typedef void (*fake_kernel)(void* data);
typedef int (*fake_launch_function)(void* stream, fake_kernel body,
                                    const void* data, size_t bytes);
int fakeLaunch(void* stream, fake_kernel body, const void* data, size_t bytes);

/* Within a kernel: it fails with this CUresult, and so does from then on all
 * that is asked of the device. */
typedef void (*fake_fail_function)(int error);
void fakeFail(int error);

/* Whether all these bytes are memory of the device. */
typedef int (*fake_owns_function)(const void* memory, size_t bytes);
int fakeOwns(const void* memory, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* QKVET_CORE_TESTDATA_FAKE_CUDA_H_ */
