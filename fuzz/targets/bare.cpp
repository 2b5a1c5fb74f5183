// SPDX-License-Identifier: Apache-2.0
// The baseline for the cost of a hunt: libFuzzer around one kernel, as one
// would write it without QKVet. A fixed shape, the input's bytes as floats, and
// only one check: the output is finite where the input is small.
// fuzz-bin/fuzz_bare -max_total_time=10 prints executions per second.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "qkvet/kernel.h"

extern "C" qkvet_status qkvet_open_scalar(const qkvet_host* host,
                                          const char* config,
                                          qkvet_library* out, qkvet_text* why);

namespace {

// libFuzzer gives up on a first input that shows nothing.
__attribute__((used, section("__libfuzzer_extra_counters"))) uint8_t g_ran[8];

// B = H = 1, as large as half of the cases of a hunt are.
constexpr int64_t kRows = 12, kWidth = 12;

struct Tensor {
  std::vector<float> values = std::vector<float>(kRows * kWidth);
  int64_t shape[4] = {1, 1, kRows, kWidth};
  int64_t strides[4] = {kRows * kWidth, kRows* kWidth, kWidth, 1};

  qkvet_tensor view() {
    qkvet_tensor tensor = {};
    tensor.data = values.data();
    tensor.device_type = QKVET_DEVICE_CPU;
    tensor.ndim = 4;
    tensor.dtype = {2, 32, 1};  // DLPack's f32
    tensor.shape = shape;
    tensor.strides = strides;
    return tensor;
  }
};

const qkvet_kernel* open_kernel() {
  qkvet_host host = {};
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  qkvet_library library = {};
  library.struct_size = sizeof library;
  if (qkvet_open_scalar(&host, "", &library, nullptr) != QKVET_OK) abort();
  return library.kernels[0];  // scalar/plain
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(
    const uint8_t* data, size_t size) {
  static const qkvet_kernel* const kernel = open_kernel();
  static Tensor tensors[4];  // q, k, v, o
  g_ran[0] = 1;
  for (int n = 0; n < 3; ++n) {
    std::vector<float>& values = tensors[n].values;
    const size_t bytes = values.size() * sizeof(float);
    const size_t some = size < bytes ? size : bytes;
    std::memset(values.data(), 0, bytes);
    std::memcpy(values.data(), data, some);
    data += some;
    size -= some;
    for (float& value : values)
      if (!(std::fabs(value) < 8)) value = 1;
  }
  qkvet_forward_args args = {};
  args.struct_size = sizeof args;
  args.q = tensors[0].view();
  args.k = tensors[1].view();
  args.v = tensors[2].view();
  args.o = tensors[3].view();
  qkvet_exec exec = {};
  exec.struct_size = sizeof exec;
  exec.threads = 1;
  if (kernel->forward(kernel, nullptr, &args, &exec, nullptr) != QKVET_OK)
    abort();
  for (const float o : tensors[3].values)
    if (!std::isfinite(o)) abort();
  return 0;
}
