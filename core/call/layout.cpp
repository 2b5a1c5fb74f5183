// SPDX-License-Identifier: Apache-2.0
#include "core/call/layout.h"

#include <algorithm>
#include <utility>

namespace qkvet {
namespace {

using Strides = Extents;

// Unused elements after every row, head and member of Layout::kGaps. They are
// odd, so that only the first row keeps an alignment, and different, so that no
// two can be confused.
constexpr int64_t kRowGap = 3;
constexpr int64_t kHeadGap = 5;
constexpr int64_t kMemberGap = 7;
// Elements after every state of a merge.
constexpr int64_t kStateGap = 11;
// From one channel to the next in Layout::kApart, as in a slice [..., ::2].
constexpr int64_t kChannelStep = 2;

// The distance to the last part of Layout::kFar, in elements: it does not fit
// in 32 bits.
constexpr int64_t kFarElements = int64_t{1} << 32;
// Its strides are multiples of this. Parts begin on pages for every page size
// and type, and a stride that is cut to 32 bits leads to no other part.
constexpr int64_t kFarStep = int64_t{1} << 16;

// From one of `parts` to the next.
int64_t far_stride(int64_t parts) {
  return (kFarElements / (parts - 1) / kFarStep + 1) * kFarStep;
}

// In which order the dimensions of a tensor are in memory, outermost first, and
// how far apart. The one generator of strides.
struct Order {
  std::array<size_t, kMostRank> of{};
  int64_t step = 1;  // from one index of the innermost to the next
  // Unused elements after each run of a dimension, innermost first.
  std::array<int64_t, kMostRank> gaps{};
};

Order row_major(int ndim) {
  Order order;
  for (size_t i = 0; i < static_cast<size_t>(ndim); ++i) order.of[i] = i;
  return order;
}

Strides strides_in(const Order& order, int ndim, const Strides& shape) {
  Strides strides{};
  int64_t next = order.step;
  for (auto n = static_cast<size_t>(ndim); n-- > 0;) {
    strides[order.of[n]] = next;
    next *= std::max<int64_t>(shape[order.of[n]], 1);
    next += order.gaps[static_cast<size_t>(ndim) - 1 - n];
  }
  return strides;
}

// The order of a layout for kernels with any strides.
Order order_of(Layout layout, int ndim) {
  Order order = row_major(ndim);
  if (layout == Layout::kApart) order.step = kChannelStep;
  if (layout == Layout::kGaps)
    order.gaps = {kRowGap, kHeadGap, kMemberGap, kStateGap};
  if (layout == Layout::kTurned && ndim > 1)
    std::swap(order.of[static_cast<size_t>(ndim) - 2],
              order.of[static_cast<size_t>(ndim) - 1]);
  return order;
}

// The strides of [B,heads,T,width]; `buffer_row` elements from one row of
// Layout::kPacked to the next.
Strides strides_of(Layout layout, const Strides& shape, int64_t buffer_row) {
  const auto [B, heads, T, width, none] = shape;
  if (layout == Layout::kPacked) return {T * buffer_row, width, buffer_row, 1};
  Order order = order_of(layout, 4);
  if (layout == Layout::kBthd) std::swap(order.of[1], order.of[2]);
  return strides_in(order, 4, shape);
}

// The strides of k [pages,Hkv,page,d/x,x] and v [pages,Hkv,page,dv] in pages of
// PageForm::kGroups. Channels come before tokens, except for the last extent of
// k, which comes after them. Heads always come before both: such pages have no
// other order.
Strides strides_of_groups(Layout layout, const TensorSpec& spec) {
  const bool has_groups = spec.ndim == 5;
  const auto [pages, heads, slots, channels, group] = spec.shape;
  const bool gaps = layout == Layout::kGaps;
  const int64_t step = layout == Layout::kApart ? kChannelStep : 1;
  const int64_t slot = has_groups ? step * group : step;
  const int64_t row = slots * slot + (gaps ? kRowGap : 0);
  const int64_t head = channels * row + (gaps ? kHeadGap : 0);
  return {heads * head + (gaps ? kMemberGap : 0), head, slot, row,
          has_groups ? step : 0};
}

bool is_pool(const KernelCall& call, TensorName tensor) {
  return call.page_size > 0 &&
         (tensor == TensorName::kK || tensor == TensorName::kV ||
          tensor == TensorName::kKCache || tensor == TensorName::kVCache);
}

bool is_like_o(TensorName tensor) {
  return tensor == TensorName::kO || tensor == TensorName::kDO ||
         tensor == TensorName::kGivenO;
}

// Whether the tensor has strides: tensors of a cache step, of what is read back
// from a cache, and of a layer do. Parts of a fused matrix are views of it, and
// their rows have no gaps.
bool is_spread(const KernelCall& call, TensorName tensor) {
  const bool takes = call.operation == Operation::kCacheStep ||
                     call.operation == Operation::kCacheReadBack ||
                     is_layer(call.operation);
  return takes && is_any_strides(call.layout) && tensor != TensorName::kWqkv &&
         tensor != TensorName::kBqkv;
}

// Whether the call's layout is one of the tensor's.
bool is_laid_out(Layout layout, TensorName tensor) {
  // Gradients are laid out as what they are gradients of; the last two have no
  // heads in the middle.
  if (tensor <= TensorName::kV || is_like_o(tensor) ||
      tensor == TensorName::kKNew || tensor == TensorName::kVNew ||
      (tensor >= TensorName::kKCache && tensor <= TensorName::kDV))
    return true;
  // All other inputs, and the gradient of a bias, as a kernel of any strides
  // may find them.
  return layout >= Layout::kGaps &&
         (tensor < TensorName::kO || tensor == TensorName::kDBias);
}

// The strides of the tensor with its broadcast dimensions at extent 1.
Strides own_strides(const KernelCall& call, TensorName tensor,
                    const Strides& own_shape) {
  const bool is_o = is_like_o(tensor);
  Layout layout = is_spread(call, tensor) || is_laid_out(call.layout, tensor)
                      ? call.layout
                      : Layout::kBhtd;
  if (is_o && layout == Layout::kPacked) layout = Layout::kBthd;
  const Shape& s = call.shape;
  return strides_of(layout, own_shape, (s.H + 2 * s.Hkv) * s.d);
}

// Tensors of a merge that have no layout.
bool is_list(TensorName tensor) {
  return tensor == TensorName::kIndptr || tensor == TensorName::kRowMask;
}

// The tensors of a merge. Layout::kBthd has heads before rows in every lse;
// with gaps the states of a row are adjacent, as [T,n,H,dv].
Strides merge_strides(Layout layout, TensorName tensor,
                      const TensorSpec& spec) {
  if (is_list(tensor)) return spec.strides;
  const auto last = static_cast<size_t>(spec.ndim - 1);
  const bool is_lse =
      tensor == TensorName::kStatesLse || tensor == TensorName::kLse;
  Order order = order_of(layout, spec.ndim);
  if (layout == Layout::kBthd && is_lse)
    std::swap(order.of[last - 1], order.of[last]);
  if (layout == Layout::kGaps && spec.ndim == (is_lse ? 3 : 4))
    std::swap(order.of[0], order.of[1]);
  return strides_in(order, spec.ndim, spec.shape);
}

}  // namespace

bool fit_one_block(const Shape& s, Dtype q, Dtype kv) {
  return s.Tq == s.Tk && s.dv == s.d && q == kv;
}

uint8_t broadcast_dimensions(const KernelCall& call, TensorName tensor) {
  switch (tensor) {
    case TensorName::kK:
    case TensorName::kV:
      // B and H are dimensions 0 and 1; members share pages by their tables.
      return call.page_size > 0 ? uint8_t{0} : call.share;
    case TensorName::kMask:
      return static_cast<uint8_t>(kOwnAll & ~call.mask_own);
    case TensorName::kBias:
      return static_cast<uint8_t>(kOwnAll & ~call.bias_own);
    default:
      return 0;
  }
}

std::optional<size_t> far_dimension(const KernelCall& call, TensorName tensor,
                                    const TensorSpec& spec) {
  const bool of_attention = takes_options(call.operation) && spec.ndim >= 4 &&
                            is_laid_out(call.layout, tensor);
  const bool of_merge = call.operation == Operation::kMerge && !is_list(tensor);
  if (call.layout != Layout::kFar || !(of_attention || of_merge) ||
      spec.elements() == 0)
    return std::nullopt;
  const uint8_t broadcast = broadcast_dimensions(call, tensor);
  for (size_t i = 0; i + 1 < static_cast<size_t>(spec.ndim); ++i)
    if (spec.shape[i] > 1 && (broadcast >> i & 1) == 0) return i;
  return std::nullopt;
}

void lay_out(const KernelCall& call, TensorName tensor, TensorSpec& spec) {
  const uint8_t broadcast = broadcast_dimensions(call, tensor);
  if (call.channel_group > 0 && is_pool(call, tensor)) {
    spec.strides = strides_of_groups(call.layout, spec);
  } else if ((takes_options(call.operation) || broadcast != 0 ||
              is_spread(call, tensor)) &&
             spec.ndim == 4) {
    Extents own = spec.shape;
    for (size_t i = 0; i < 4; ++i)
      if ((broadcast >> i & 1) != 0) own[i] = 1;
    spec.strides = own_strides(call, tensor, own);
  } else if (is_spread(call, tensor) || (takes_options(call.operation) &&
                                         is_laid_out(call.layout, tensor) &&
                                         call.layout != Layout::kFar)) {
    spec.strides =
        strides_in(order_of(call.layout, spec.ndim), spec.ndim, spec.shape);
  }
  if (call.operation == Operation::kMerge)
    spec.strides = merge_strides(call.layout, tensor, spec);
  if (const auto far = far_dimension(call, tensor, spec))
    spec.strides[*far] = far_stride(spec.shape[*far]);
  make_unit_strides_absurd(spec);
  for (size_t i = 0; i < 4; ++i)
    if ((broadcast >> i & 1) != 0) spec.strides[i] = 0;
}

}  // namespace qkvet
