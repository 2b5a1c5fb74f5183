// SPDX-License-Identifier: Apache-2.0
// A call without its data: what crosses to the worker. Every tensor of it has
// a window of 1, 2, 4, ... pages, and a place in that window.
#ifndef QKVET_CORE_CALL_PLAN_H_
#define QKVET_CORE_CALL_PLAN_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/call.h"
#include "core/tensor.h"

namespace qkvet {

// Windows have 2^size_class pages: at most a page or the tensor's own size lies
// idle between a tensor and its guards.
inline constexpr int kSizeClassCount = 25;  // up to 64 GiB in pages of 4 KiB
int64_t window_bytes(int size_class);

// The first element lies `start` bytes into the window.
struct Place {
  int32_t size_class = 0;
  int64_t start = 0;
};

// `alignment` is the kernel's; 0: that of the element.
Place place_tensor(const TensorSpec& spec, Placement placement,
                   int64_t alignment);

// Trivially copyable: it lies in memory that two processes share.
struct CallPlan {
  std::array<TensorSpec, kTensorCount> tensors{};
  std::array<Place, kTensorCount> places{};
  Causal causal = Causal::kNone;
  bool scale_given = false;
  float scale = 0;

  int64_t window_total() const;  // bytes of all windows
};

inline bool is_output(TensorName tensor) { return tensor >= TensorName::kO; }

// False with a line in *why if the call makes no sense or is too large for any
// window.
bool plan_call(const ForwardCall& call, int64_t alignment, CallPlan* plan,
               std::string* why);

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_PLAN_H_
