// SPDX-License-Identifier: Apache-2.0
#include "core/call_plan.h"

#include <algorithm>

#include "core/guarded.h"

namespace qkvet {
namespace {

// The line of a cache, and the width of the widest vector.
constexpr int64_t kCacheLine = 64;

// Large enough for any memory, small enough that sums of products stay exact.
constexpr int64_t kMostElements = int64_t{1} << 40;

// Empty extents count as 1 here: strides are products of them, too.
bool countable(int ndim, const std::array<int64_t, 4>& shape) {
  int64_t n = 1;
  for (int i = 0; i < ndim; ++i) {
    const int64_t extent = std::max<int64_t>(shape[i], 1);
    if (extent > kMostElements / n) return false;
    n *= extent;
  }
  return true;
}

}  // namespace

int64_t window_bytes(int size_class) { return page_bytes() << size_class; }

Place place_tensor(const TensorSpec& spec, Placement placement,
                   int64_t alignment) {
  const int64_t size = spec.span_bytes();
  Place place;
  while (window_bytes(place.size_class) < size) ++place.size_class;
  if (placement == Placement::kStart) return place;
  int64_t step = std::max(alignment, dtype_bytes(spec.dtype));
  if (placement == Placement::kEndAligned) step = std::max(step, kCacheLine);
  place.start = (window_bytes(place.size_class) - size) / step * step;
  return place;
}

int64_t CallPlan::window_total() const {
  int64_t total = 0;
  for (int t = 0; t < kTensorCount; ++t)
    if (tensors[t].present()) total += window_bytes(places[t].size_class);
  return total;
}

bool plan_call(const ForwardCall& call, int64_t alignment, CallPlan* plan,
               std::string* why) {
  const Shape& s = call.shape;
  const Dtype lse_dtype =
      call.o_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  const struct {
    int ndim;
    Dtype dtype;
    std::array<int64_t, 4> shape;
  } rows[kTensorCount] = {
      {4, call.q_dtype, {s.B, s.H, s.Tq, s.d}},
      {4, call.kv_dtype, {s.B, s.Hkv, s.Tk, s.d}},
      {4, call.kv_dtype, {s.B, s.Hkv, s.Tk, s.dv}},
      {4, call.o_dtype, {s.B, s.H, s.Tq, s.dv}},
      {call.want_lse ? 3 : 0, lse_dtype, {s.B, s.H, s.Tq, 0}},
      {call.want_weights ? 4 : 0, call.o_dtype, {s.B, s.H, s.Tq, s.Tk}},
  };
  *plan = {};
  for (int t = 0; t < kTensorCount; ++t) {
    const auto& row = rows[t];
    if (row.ndim == 0) continue;
    TensorSpec& spec = plan->tensors[t];
    const bool fits = countable(row.ndim, row.shape);
    if (fits) spec = packed_spec(row.dtype, row.ndim, row.shape);
    if (!fits || spec.span_bytes() > window_bytes(kSizeClassCount - 1)) {
      *why = std::string(tensor_name(static_cast<TensorName>(t))) +
             " is too large for any memory";
      return false;
    }
    make_unit_strides_absurd(spec);
    plan->places[t] = place_tensor(spec, call.placement, alignment);
  }
  plan->causal = call.causal;
  plan->scale_given = call.scale.has_value();
  plan->scale = call.scale.value_or(0);
  return true;
}

}  // namespace qkvet
