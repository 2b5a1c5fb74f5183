// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/placements.h"

#include <algorithm>
#include <cmath>

#include "core/base/dtype.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {

bool may_overflow_in_f16(const Case& value, const KernelInfo& kernel) {
  const qkvet_precision& p = kernel.precision;
  const qkvet_dtype f16 = dtype_to_abi(Dtype::kF16);
  const qkvet_dtype kept[] = {p.score_dtype, p.operand_dtype, p.softmax_dtype,
                              p.dot_sum_dtype, p.value_sum_dtype};
  return value.q_dtype == Dtype::kF16 || value.kv_dtype == Dtype::kF16 ||
         value.o_dtype == Dtype::kF16 ||
         std::any_of(std::begin(kept), std::end(kept),
                     [&](qkvet_dtype one) { return same_dtype(one, f16); });
}

std::optional<Finding> nan_in_one_placement(
    const std::vector<std::vector<double>>& outputs, size_t n, Dtype dtype) {
  const double* finite = nullptr;
  const double* nan = nullptr;
  for (const auto& output : outputs)
    (std::isnan(output[n]) ? nan : finite) = &output[n];
  if (finite == nullptr || nan == nullptr) return std::nullopt;
  Finding finding;
  finding.expected = number_text(*finite, dtype) + ", wherever tensors lie";
  finding.actual = "nan in one placement";
  finding.looks = "a read of bytes beside a tensor, which held NaN";
  return finding;
}

}  // namespace qkvet::properties
