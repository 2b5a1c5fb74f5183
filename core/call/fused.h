// SPDX-License-Identifier: Apache-2.0
// The matrix of a layer that holds W_Q, W_K and W_V side by side.
#ifndef QKVET_CORE_CALL_FUSED_H_
#define QKVET_CORE_CALL_FUSED_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qkvet {

// The order of the parts; the numbers are those of QKVET_FUSED_*.
enum class FusedOrder : uint8_t { kNone, kQkv, kQvk, kKqv, kKvq, kVqk, kVkq };
inline constexpr int kFusedOrderCount = 7;

// "qkv", ...; "" for none.
std::string_view fused_name(FusedOrder order);
// No name but those of the six orders.
std::optional<FusedOrder> fused_from_name(std::string_view name);
// The bit of QKVET_LAYER_FUSED_* that declares it; 0 for none.
uint64_t fused_option(FusedOrder order);

// The first columns of q, k and v, in this order, if they are so wide.
std::array<int64_t, 3> fused_columns(FusedOrder order,
                                     const std::array<int64_t, 3>& widths);

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_FUSED_H_
