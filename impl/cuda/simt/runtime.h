// SPDX-License-Identifier: Apache-2.0
// simt.h and the machine behind it, for a program that links no library:
// include it in ONE source of the program, and simt.h in all others. Under nvcc
// it is simt.h and nothing more.
#ifndef QKVET_IMPL_CUDA_SIMT_RUNTIME_H_
#define QKVET_IMPL_CUDA_SIMT_RUNTIME_H_

#include "simt.h"

#if !defined(__CUDACC__)
#include "fiber.cpp"
#include "machine.cpp"
#include "waiting.cpp"
#endif

#endif  // QKVET_IMPL_CUDA_SIMT_RUNTIME_H_
