// SPDX-License-Identifier: Apache-2.0
// How libraries store the matrices of a layer and the pages of a cache, as
// views for qkvet_layer_args and qkvet_forward_args: an offset and strides, in
// elements. Nothing is copied.
#ifndef QKVET_PROPERTIES_CONVENTIONS_CONVENTION_STORAGE_H_
#define QKVET_PROPERTIES_CONVENTIONS_CONVENTION_STORAGE_H_

#include <array>
#include <cstdint>

#include "core/base/floors.h"
#include "core/base/shape.h"
#include "core/call/call.h"
#include "core/call/tensor.h"

namespace qkvet::properties {

enum class WeightOrder : uint8_t {
  kUnknown,
  kInOut,  // [in, out]: y = x W, as JAX and GPT-2's Conv1D store it
  kOutIn   // [out, in]: y = x W^T, as nn.Linear stores it
};

// The source of the mask of a causal layer.
enum class LayerMask : uint8_t {
  kUnknown,
  kFlag,     // nothing is stored
  kBuffer,   // a tensor of the module, which is no weight and no bias
  kArgument  // the caller makes one
};

struct LayerStorage {
  bool fused = false;  // one matrix for q, k, v, in this order of columns
  WeightOrder weight = WeightOrder::kUnknown;
  LayerMask mask = LayerMask::kUnknown;
};

enum class PageAxes : uint8_t {
  kUnknown,
  kTokensFirst,  // [tokens, heads, width]: "NHD"
  kHeadsFirst,   // [heads, tokens, width]: "HND"
  // Keys [heads, width / x, tokens, x], values [heads, width, tokens]
  // (channel_group of qkvet_forward_args).
  kChannelGroups
};

// How k and v of a pool are stored.
enum class PagePool : uint8_t {
  kUnknown,
  kApart,   // two tensors [pages, ...]
  kHalves,  // one, [2, pages, ...]
  kPairs    // one, [pages, 2, ...]
};

struct PageStorage {
  PageAxes order = PageAxes::kUnknown;
  PagePool pool = PagePool::kUnknown;
};

// A view of a matrix [D, columns]; a bias has strides {0, 1} and the offset of
// its columns.
struct MatrixView {
  int64_t offset = 0;
  std::array<int64_t, 2> strides{};
};
// `tensor` is one of kWq .. kBo; the order of the weights is known. If q, k and
// v are fused, dv = d; w_o and b_o are always separate.
MatrixView matrix_view(const LayerStorage& storage, const Shape& shape,
                       TensorName tensor);

// A view of [pages, Hkv, page_size, width], the k or v of qkvet_forward_args,
// or of keys [pages, Hkv, page_size, width / x, x].
struct PoolView {
  int64_t offset = 0;
  Extents strides{};
};
struct PoolExtents {
  int64_t pages = 0, heads = 0, page_size = 0, width = 0;
  int64_t group = 0;  // x, if channels are in groups
};
// Order and pool are known; k and v are equally wide.
PoolView pool_view(const PageStorage& storage, const PoolExtents& pool,
                   bool is_value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONVENTIONS_CONVENTION_STORAGE_H_
