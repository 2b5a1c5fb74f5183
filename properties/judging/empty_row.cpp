// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/empty_row.h"

#include <limits>
#include <vector>

namespace qkvet::properties {
namespace {

std::vector<EmptyBy> reasons_in(const Case& value) {
  std::vector<EmptyBy> reasons;
  if (value.shape.Tk == 0) reasons.push_back(EmptyBy::kExtent);
  if (value.causal != Causal::kNone || value.window)
    reasons.push_back(EmptyBy::kRule);
  // A list hides keys as a mask does, and so do a few numbers.
  if (value.mask.kind != MaskKind::kNone || value.listed.entries > 0 ||
      value.fields != MaskFields{} || value.chunk > 0)
    reasons.push_back(EmptyBy::kMask);
  // Recipes make finite biases; a file holds anything.
  if (value.score_bias && value.score_bias->kind == RecipeKind::kFile)
    reasons.push_back(EmptyBy::kBias);
  if (!value.kv_len.empty() || !value.cu_k.empty())
    reasons.push_back(EmptyBy::kLength);
  return reasons;
}

}  // namespace

const std::array<EmptyRowFields, kEmptyByCount>& empty_row_fields() {
  using D = qkvet_dialect;
  static constexpr std::array<EmptyRowFields, kEmptyByCount> kFields = {
      {{"empty_row", &D::empty_row, "empty_row_lse", &D::empty_row_lse},
       {"empty_row_by_mask", &D::empty_row_by_mask, "empty_row_lse_by_mask",
        &D::empty_row_lse_by_mask},
       {"empty_row_by_bias", &D::empty_row_by_bias, "empty_row_lse_by_bias",
        &D::empty_row_lse_by_bias},
       {"empty_row_by_length", &D::empty_row_by_length,
        "empty_row_lse_by_length", &D::empty_row_lse_by_length},
       {"empty_row_by_extent", &D::empty_row_by_extent,
        "empty_row_lse_by_extent", &D::empty_row_lse_by_extent}}};
  return kFields;
}

EmptyRow empty_row_of(const qkvet_dialect& dialect, EmptyBy by) {
  const EmptyRowFields& fields = empty_row_fields()[static_cast<size_t>(by)];
  const int32_t o = dialect.*fields.o, lse = dialect.*fields.lse;
  return {o != 0 ? o : dialect.empty_row,
          lse != 0 ? lse : dialect.empty_row_lse};
}

EmptyRow empty_row_of(const qkvet_dialect& dialect, const Case& value,
                      std::optional<EmptyBy> also) {
  std::vector<EmptyBy> reasons = reasons_in(value);
  if (also) reasons.push_back(*also);
  if (reasons.empty()) return empty_row_of(dialect, EmptyBy::kRule);
  EmptyRow said = empty_row_of(dialect, reasons[0]);
  for (const EmptyBy by : reasons) {
    const EmptyRow one = empty_row_of(dialect, by);
    if (one.o != said.o) said.o = QKVET_EMPTY_ROW_UNSPECIFIED;
    if (one.lse != said.lse) said.lse = QKVET_EMPTY_LSE_UNSPECIFIED;
  }
  return said;
}

std::optional<double> declared_number(const EmptyRow& said, TensorName output) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (output == TensorName::kO && said.o == QKVET_EMPTY_ROW_ZERO) return 0;
  if (output == TensorName::kO && said.o == QKVET_EMPTY_ROW_NAN) return kNaN;
  if (output != TensorName::kLse) return std::nullopt;
  switch (said.lse) {
    case QKVET_EMPTY_LSE_MINUS_INF:
      return -kInfinity;
    case QKVET_EMPTY_LSE_PLUS_INF:
      return kInfinity;
    case QKVET_EMPTY_LSE_NAN:
      return kNaN;
    default:
      return std::nullopt;
  }
}

bool empty_rows_are_zero(const qkvet_dialect& dialect) {
  for (int by = 0; by < kEmptyByCount; ++by)
    if (empty_row_of(dialect, static_cast<EmptyBy>(by)).o !=
        QKVET_EMPTY_ROW_ZERO)
      return false;
  return true;
}

}  // namespace qkvet::properties
