// SPDX-License-Identifier: Apache-2.0
#include "properties/conventions/convention_storage.h"

namespace qkvet::properties {
namespace {

bool is_bias(TensorName tensor) { return tensor >= TensorName::kBq; }

// The first column of q, k or v in the fused matrix.
int64_t first_column(const Shape& s, TensorName tensor) {
  switch (tensor) {
    case TensorName::kWk:
    case TensorName::kBk:
      return s.H * s.d;
    case TensorName::kWv:
    case TensorName::kBv:
      return (s.H + s.Hkv) * s.d;
    default:
      return 0;
  }
}

int64_t own_columns(const Shape& s, TensorName tensor) {
  switch (tensor) {
    case TensorName::kWk:
      return s.Hkv * s.d;
    case TensorName::kWv:
      return s.Hkv * s.dv;
    case TensorName::kWo:
      return s.D;
    default:
      return s.H * s.d;
  }
}

}  // namespace

MatrixView matrix_view(const LayerStorage& storage, const Shape& s,
                       TensorName tensor) {
  const bool output = tensor == TensorName::kWo || tensor == TensorName::kBo;
  const bool fused = storage.fused && !output;
  const int64_t first = fused ? first_column(s, tensor) : 0;
  if (is_bias(tensor)) return {first, {0, 1}};
  const int64_t rows = output ? s.H * s.dv : s.D;
  const int64_t columns =
      fused ? (s.H + 2 * s.Hkv) * s.d : own_columns(s, tensor);
  return storage.weight == WeightOrder::kOutIn
             ? MatrixView{first * rows, {1, rows}}
             : MatrixView{first, {columns, 1}};
}

PoolView pool_view(const PageStorage& storage, const PoolExtents& e,
                   bool is_value) {
  const int64_t page = e.heads * e.page_size * e.width;
  const bool pairs = storage.pool == PagePool::kPairs;
  const int64_t half = pairs                               ? page
                       : storage.pool == PagePool::kHalves ? e.pages * page
                                                           : 0;
  PoolView view{is_value ? half : 0, {pairs ? 2 * page : page}};
  const int64_t head = e.page_size * e.width;
  const auto inside = [&](int64_t of_head, int64_t token, int64_t channel,
                          int64_t in_group) {
    view.strides = {view.strides[0], of_head, token, channel, in_group};
    return view;
  };
  switch (storage.order) {
    case PageAxes::kTokensFirst:
      return inside(e.width, e.heads * e.width, 1, 0);
    case PageAxes::kChannelGroups:
      return is_value ? inside(head, 1, e.page_size, 0)
                      : inside(head, e.group, e.page_size * e.group, 1);
    default:
      return inside(head, e.width, 1, 0);
  }
}

}  // namespace qkvet::properties
