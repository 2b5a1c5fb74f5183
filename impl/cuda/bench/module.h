// SPDX-License-Identifier: Apache-2.0
// Kernels of the family cuda, called through the ABI on memory of the device.
#ifndef QKVET_IMPL_CUDA_BENCH_MODULE_H_
#define QKVET_IMPL_CUDA_BENCH_MODULE_H_

#include <memory>
#include <string>

#include "impl/cuda/bench/peers.h"
#include "qkvet/kernel.h"

namespace qkvet::bench {

// lib/qkvet/qkvet_cuda.so next to this program. Ends the program with a line if
// it cannot be opened.
const qkvet_library& cuda_module();

// The kernel of that name on `attention`, in bf16, with its default scale.
Contender kernel_call(const char* name, const Attention& attention);

}  // namespace qkvet::bench

#endif  // QKVET_IMPL_CUDA_BENCH_MODULE_H_
