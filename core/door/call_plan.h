// SPDX-License-Identifier: Apache-2.0
// A call without its data: what crosses to the worker. Every tensor of it has
// a window of 1, 2, 4, ... pages, and a place in that window.
#ifndef QKVET_CORE_DOOR_CALL_PLAN_H_
#define QKVET_CORE_DOOR_CALL_PLAN_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/call/call.h"
#include "core/call/tensor.h"
#include "core/capability/kernel_info.h"

namespace qkvet {

// Windows have 2^size_class pages: at most a page or the tensor's own size is
// unused between a tensor and its guards.
inline constexpr int kSizeClassCount = 25;  // up to 64 GiB in pages of 4 KiB
int64_t window_bytes(int size_class);

// The first element is `start` bytes into the window.
struct Place {
  int32_t size_class = 0;
  int64_t start = 0;
  // The tensor that contains this one, between its elements, in its window; -1:
  // this tensor has a window of its own.
  int32_t within = -1;
  // The size of everything from `start` on: the tensor, or with others within
  // its window their block.
  int64_t bytes = 0;
  // For Layout::kFar: the number of elements from one part to the next, for the
  // kernel; 0: as for the host. The host has the parts in windows of their own,
  // which are sections of the tensor's window of equal size.
  int64_t far_stride = 0;
  int32_t far_axis = 0;  // one part for each of its indices
};

// `alignment` is the kernel's; 0: that of the element.
Place place_tensor(const TensorSpec& spec, Placement placement,
                   int64_t alignment);

// The same for a tensor with parts along `axis` that are far apart; sets its
// stride there to that of the host.
Place place_far(TensorSpec& spec, size_t axis, Placement placement,
                int64_t alignment);

// A tensor that is a part of another one.
struct TensorPart {
  TensorName name = TensorName::kWq;
  TensorName whole = TensorName::kWqkv;
  int64_t first = 0;  // element of the whole
  TensorSpec spec;    // absent: no such part
};
// W_Q, W_K, W_V, b_Q, b_K and b_V are numbers 0 to 5.
constexpr TensorPart part_of_fused(size_t n, int64_t first) {
  constexpr TensorName kParts[] = {TensorName::kWq, TensorName::kWk,
                                   TensorName::kWv, TensorName::kBq,
                                   TensorName::kBk, TensorName::kBv};
  return {kParts[n], n < 3 ? TensorName::kWqkv : TensorName::kBqkv, first, {}};
}

// Trivially copyable: it is in memory that two processes share.
struct CallPlan : ScoreRule {
  std::array<TensorSpec, kTensorCount> tensors{};
  std::array<Place, kTensorCount> places{};
  Operation operation = Operation::kForward;
  int64_t page_size = 0;
  int64_t channel_group = 0;
  int64_t key_block_size = 0;
  RopeStyle rope = RopeStyle::kNone;
  FusedOrder fused = FusedOrder::kNone;
  std::array<TensorPart, 6> parts{};  // of w_qkv and b_qkv
  bool in_place = false;              // a merge
  bool unknown_field = false;  // forward: after the end of the struct, and set
  int32_t threads = 1;
  bool at_once = false;
  int64_t repeats = 0;
  bool second_context = false;
  uint8_t fresh_memory = 0;
  PlanUse plan_use = PlanUse::kNone;
  int32_t plan_slot = 0;
  Dropout dropout;      // p = 0: none
  bool stream = false;  // on a device: one of its own, not the default one

  int64_t byte_offset = 0;  // of every tensor; its data is so much before it

  int64_t heads = 0;  // a layer: as in the call, right or wrong
  int64_t kv_heads = 0;

  // The parameters of create.
  int64_t d = 0;
  int64_t dv = 0;
  Dtype q_dtype = Dtype::kF32;
  Dtype kv_dtype = Dtype::kF32;
  Dtype o_dtype = Dtype::kF32;

  int64_t sequences = 0;  // of the cache that is created, or acted upon
  int64_t sequence = 0;
  int64_t tokens = 0;  // the capacity, what truncate keeps or evict takes away
  int64_t first = 0;   // of those that evict takes
  int64_t other = 0;   // what becomes the copy
  std::array<int64_t, kMostCacheSequences> parents{};
  CacheForm cache;

  int64_t window_total() const;  // bytes of all windows
  // The tensor for the kernel; `tensors` has it for the host.
  TensorSpec seen(size_t tensor) const;
  bool is_far(size_t tensor) const { return places[tensor].far_stride > 0; }
  bool has_far() const;
  // The number of parts that are far apart; 1: in one piece.
  int64_t parts_of(size_t tensor) const;
  // The start of a part, in bytes after the first element, for the kernel.
  int64_t part_offset(size_t tensor, int64_t part) const;
  int64_t part_bytes(
      size_t tensor) const;  // from first to last of its elements
  // The bytes of the kernel's mapping of the tensor's window, and of the guards
  // on either side.
  int64_t kernel_room(size_t tensor) const;
  int64_t kernel_guard(size_t tensor) const;
  bool has_window_of_its_own(size_t tensor) const {
    return tensors[tensor].present() && places[tensor].within < 0;
  }
};

inline bool is_output(TensorName tensor) { return tensor >= TensorName::kO; }
// k and v where a call appends to them: outputs that hold something before.
inline bool is_cache(TensorName tensor) {
  return tensor == TensorName::kKCache || tensor == TensorName::kVCache;
}

// False with a line in *why if the call is too large for any window. The call's
// mistake is in the plan: its tensors are as large as they claim to be.
bool plan_call(const KernelCall& call, const KernelInfo& kernel, CallPlan* plan,
               std::string* why);

// The content of the tensor before the call, packed; null: nothing is given.
const std::byte* content_of(const KernelCall& call, TensorName tensor);

// The part of `planned` that the caller gave data for: elements that only a
// mistake added are in its gaps, and a mask or bias has its own extents.
TensorSpec given_part(const KernelCall& call, TensorName tensor,
                      const TensorSpec& planned);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_CALL_PLAN_H_
