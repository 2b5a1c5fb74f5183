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

PoolView pool_view(const PageStorage& storage, int64_t pages, int64_t heads,
                   int64_t page_size, int64_t width, bool is_value) {
  const int64_t page = heads * page_size * width;
  const bool pairs = storage.pool == PagePool::kPairs;
  const int64_t half = pairs                               ? page
                       : storage.pool == PagePool::kHalves ? pages * page
                                                           : 0;
  PoolView view{is_value ? half : 0, {pairs ? 2 * page : page, 0, 0, 1}};
  if (storage.order == PageAxes::kTokensFirst) {
    view.strides[1] = width;
    view.strides[2] = heads * width;
  } else {
    view.strides[1] = page_size * width;
    view.strides[2] = width;
  }
  return view;
}

}  // namespace qkvet::properties
