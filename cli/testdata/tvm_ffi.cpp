// SPDX-License-Identifier: Apache-2.0
// A library that exports functions by tvm-ffi, and the few functions of its
// runtime that a caller asks for: the real one is no package of a distribution.
#include <cmath>
#include <cstring>
#include <vector>

#include "cli/kernels/tvm_ffi_abi.h"
#include "qkvet/kernel.h"

using namespace qkvet::cli::tvm_ffi;

namespace {

#define EXPORT extern "C" __attribute__((visibility("default")))

Error raised_error;
bool is_raised = false;

int fail(const char* kind, const char* message) {
  raised_error.kind = {kind, std::strlen(kind)};
  raised_error.message = {message, std::strlen(message)};
  is_raised = true;
  return -1;
}

float& at(const qkvet_tensor& t, int64_t b, int64_t n, int64_t h, int64_t c) {
  auto* data =
      reinterpret_cast<float*>(static_cast<char*>(t.data) + t.byte_offset);
  return data[b * t.strides[0] + n * t.strides[1] + h * t.strides[2] +
              c * t.strides[3]];
}

// q, k, v, o [B, T, H, d], causal from the bottom right, and the scale times
// `factor`.
int attend(const Any* arguments, int32_t count, double factor) {
  if (count != 7) return fail("TypeError", "expected 7 arguments");
  for (int n = 0; n < 4; ++n)
    if (arguments[n].type != kDLTensorPtr)
      return fail("TypeError", "expected a tensor");
  if (arguments[4].type != kBool || arguments[5].type != kFloat)
    return fail("TypeError", "expected causal and a scale");
  if (arguments[6].type != kInt || arguments[6].as_int != 128)
    return fail("ValueError", "expected a tile of 128");
  const auto tensor = [&](int n) -> const qkvet_tensor& {
    return *static_cast<const qkvet_tensor*>(arguments[n].as_pointer);
  };
  const qkvet_tensor &q = tensor(0), &k = tensor(1), &v = tensor(2),
                     &o = tensor(3);
  const int64_t queries = q.shape[1], keys = k.shape[1];
  if (keys > 200) return fail("NotImplementedError", "more than 200 keys");
  const int64_t group = q.shape[2] / k.shape[2];
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t h = 0; h < q.shape[2]; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t seen = arguments[4].as_int != 0
                                 ? std::max<int64_t>(i + keys - queries + 1, 0)
                                 : keys;
        std::vector<double> scores(static_cast<size_t>(seen));
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double& score = scores[static_cast<size_t>(j)];
          for (int64_t c = 0; c < q.shape[3]; ++c)
            score += static_cast<double>(at(q, b, i, h, c)) *
                     at(k, b, j, h / group, c);
          score *= arguments[5].as_float * factor;
          top = std::max(top, score);
        }
        for (double& score : scores) sum += score = std::exp(score - top);
        for (int64_t c = 0; c < v.shape[3]; ++c) {
          double value = 0;
          for (int64_t j = 0; j < seen; ++j)
            value += scores[static_cast<size_t>(j)] * at(v, b, j, h / group, c);
          at(o, b, i, h, c) = static_cast<float>(seen > 0 ? value / sum : 0);
        }
      }
  return 0;
}

}  // namespace

EXPORT int __tvm_ffi_attention(void*, const Any* arguments, int32_t count,
                               Any*) {
  return attend(arguments, count, 1);
}
EXPORT int __tvm_ffi_wrong_scale(void*, const Any* arguments, int32_t count,
                                 Any*) {
  return attend(arguments, count, 1.01);
}

EXPORT void TVMFFIGetVersion(Version* version) { *version = {0, 1, 16}; }
EXPORT void TVMFFIErrorMoveFromRaised(void** error) {
  *error = is_raised ? &raised_error : nullptr;
  is_raised = false;
}
EXPORT int TVMFFIObjectDecRef(void*) { return 0; }
