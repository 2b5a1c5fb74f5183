// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/in_f32.h"

#include "core/door/call_plan.h"
#include "properties/judging/compare.h"

namespace qkvet::diagnosis {
namespace {

bool is_half(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBf16;
}

// The planned tensor for the input: k and v are also outputs if the call
// appends to them.
TensorName planned_as(const KernelCall& call, TensorName input) {
  if (call.k_new == nullptr) return input;
  if (input == TensorName::kK) return TensorName::kKCache;
  if (input == TensorName::kV) return TensorName::kVCache;
  return input;
}

std::vector<float> as_floats(const std::byte* data, const TensorSpec& spec) {
  const std::vector<std::byte> bytes(
      data, data + spec.elements() * dtype_bytes(spec.dtype));
  const std::vector<double> values = as_doubles(bytes, spec.dtype);
  return {values.begin(), values.end()};
}

}  // namespace

bool is_half(const KernelCall& call) {
  return is_half(call.q_dtype) || is_half(call.kv_dtype) ||
         is_half(call.o_dtype);
}

void CallsInF32::convert(const KernelCall& from, const KernelInfo& kernel,
                         KernelCall& to) {
  CallPlan plan;
  std::string why;
  if (!plan_call(from, kernel, &plan, &why)) return;
  for (int t = 0; t < kInputCount; ++t) {
    const auto name = static_cast<TensorName>(t);
    const auto member = input_member(name);
    const TensorSpec& planned =
        plan.tensors[static_cast<size_t>(planned_as(from, name))];
    if (from.*member == nullptr || !is_half(planned.dtype)) continue;
    numbers_.push_back(
        as_floats(from.*member, given_part(from, name, planned)));
    to.*member = reinterpret_cast<const std::byte*>(numbers_.back().data());
  }
  to.q_dtype = to.kv_dtype = to.o_dtype = Dtype::kF32;
}

CallsInF32::CallsInF32(std::span<const KernelCall> calls,
                       const KernelInfo& kernel)
    : calls_(calls.begin(), calls.end()) {
  for (size_t i = 0; i < calls_.size(); ++i)
    convert(calls[i], kernel, calls_[i]);
}

}  // namespace qkvet::diagnosis
