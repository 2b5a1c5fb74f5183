// SPDX-License-Identifier: Apache-2.0
#include "core/call/fused.h"

#include <algorithm>

#include "qkvet/kernel.h"

namespace qkvet {
namespace {

constexpr std::array<std::string_view, kFusedOrderCount> kNames = {
    "", "qkv", "qvk", "kqv", "kvq", "vqk", "vkq"};

}  // namespace

std::string_view fused_name(FusedOrder order) {
  return kNames[static_cast<size_t>(order)];
}

std::optional<FusedOrder> fused_from_name(std::string_view name) {
  const auto found = std::find(kNames.begin() + 1, kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<FusedOrder>(found - kNames.begin());
}

uint64_t fused_option(FusedOrder order) {
  return order == FusedOrder::kNone
             ? 0
             : QKVET_LAYER_FUSED_QKV << (static_cast<int>(order) - 1);
}

std::array<int64_t, 3> fused_columns(FusedOrder order,
                                     const std::array<int64_t, 3>& widths) {
  std::array<int64_t, 3> first{};
  int64_t column = 0;
  for (const char part : fused_name(order)) {
    const size_t which = std::string_view("qkv").find(part);
    first[which] = column;
    column += widths[which];
  }
  return first;
}

}  // namespace qkvet
