// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/answer_difference.h"

#include <algorithm>
#include <cmath>

#include "core/call/tensor_table.h"
#include "core/door/call_plan.h"
#include "properties/judging/compare.h"

namespace qkvet::cli {
namespace {

// The distance of neighbours around `value`.
double ulp_of(double value, Dtype dtype) {
  int digits = 24, least = -126;
  if (dtype == Dtype::kF64) digits = 53, least = -1022;
  if (dtype == Dtype::kF16) digits = 11, least = -14;
  if (dtype == Dtype::kBf16) digits = 8;
  int exponent = least;
  if (value != 0 && std::isfinite(value)) {
    std::frexp(value, &exponent);
    exponent = std::max(exponent - 1, least);
  }
  return std::ldexp(1, exponent - digits + 1);
}

// Queries, values of caches and all other tensors are stored as q or o.
Dtype dtype_of(TensorName tensor, const CallTypes& types) {
  switch (tensor) {
    case TensorName::kLse:
      return lse_dtype(types.o);
    case TensorName::kDK:
    case TensorName::kDV:
      return types.kv;
    case TensorName::kO:
    case TensorName::kWeights:
    case TensorName::kY:
      return types.o;
    case TensorName::kDSink:
      return lse_dtype(types.q);
    default:
      return types.q;
  }
}

void add(const std::vector<std::byte>& own, const std::vector<std::byte>& right,
         const std::vector<double>& bound, Dtype dtype,
         AnswerDifference& difference) {
  if (own.size() != right.size() ||
      own.size() != bound.size() * static_cast<size_t>(dtype_bytes(dtype)))
    return;
  const std::vector<double> a = as_doubles(own, dtype);
  const std::vector<double> b = as_doubles(right, dtype);
  for (size_t n = 0; n < bound.size(); ++n) {
    const double far = std::fabs(a[n] - b[n]);
    if (!(bound[n] > 0) || !std::isfinite(bound[n]) || !(far > 0)) continue;
    if (far / bound[n] <= difference.bounds) continue;
    difference.bounds = far / bound[n];
    difference.ulps = far / ulp_of(b[n], dtype);
  }
}

}  // namespace

bool same_bits(const CallOutcome& a, const CallOutcome& b) {
  return a.lengths == b.lengths &&
         std::all_of(std::begin(kTensors), std::end(kTensors),
                     [&](const TensorRow& row) {
                       if (!is_output(row.tensor)) return true;
                       const auto member = output_member(row.tensor);
                       return a.*member == b.*member;
                     });
}

AnswerDifference difference_of(const CallOutcome& own, const CallOutcome& right,
                               const CallBounds& bounds,
                               const CallTypes& types) {
  AnswerDifference difference;
  for (const auto& [tensor, bound] : bounds.outputs) {
    const auto member = output_member(tensor);
    add(own.*member, right.*member, bound, dtype_of(tensor, types), difference);
  }
  return difference;
}

}  // namespace qkvet::cli
