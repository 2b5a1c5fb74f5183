// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/rope.h"

#include <initializer_list>

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kInt64 = {QKVET_DTYPE_INT, 64, 1};

View<const int64_t> moved(View<const int64_t> positions, int64_t b,
                          int64_t first) {
  if (positions.data != nullptr) {
    positions.data = positions.at(b, first, 0);
  }
  return positions;
}

}  // namespace

Rope Rope::from(int64_t b, int64_t i, int64_t j) const {
  Rope part = *this;
  part.q = moved(q, b, i);
  part.k = moved(k, b, j);
  return part;
}

const char* read_rope(int32_t style, const qkvet_tensor& cos,
                      const qkvet_tensor& sin, int64_t width, Rope* rope) {
  if (style == QKVET_ROPE_NONE) {
    return is_absent(cos) && is_absent(sin)
               ? nullptr
               : "tables of a rotation, and no rotation";
  }
  if (style != QKVET_ROPE_HALF && style != QKVET_ROPE_INTERLEAVED) {
    return "this style of rotation is not known";
  }
  if (width % 2 != 0) {
    return "a rotation turns pairs of channels: d must be even";
  }
  for (const qkvet_tensor* table : {&cos, &sin}) {
    if (const char* wrong = wrong_with(*table, 2, Empty::kAllowed)) {
      return wrong;
    }
    if (!is_same(table->dtype, kF32)) {
      return "tables of a rotation are f32";
    }
    if (table->shape[0] != cos.shape[0] || table->shape[1] != width / 2) {
      return "the tables of a rotation must be [positions, d/2] both";
    }
  }
  rope->style = style;
  rope->rows = cos.shape[0];
  rope->cos = view_of<const float>(cos);
  rope->sin = view_of<const float>(sin);
  return nullptr;
}

const char* read_positions(const qkvet_tensor& t, int64_t members, int64_t rows,
                           View<const int64_t>* positions) {
  if (const char* wrong = wrong_with(t, 2, Empty::kAllowed)) {
    return wrong;
  }
  if (!is_same(t.dtype, kInt64) || t.shape[0] != members ||
      t.shape[1] != rows) {
    return "positions are int64, one for each row of each member";
  }
  *positions = view_of<const int64_t>(t);
  return nullptr;
}

bool has_positions(const Rope& rope, const View<const int64_t>& positions,
                   int64_t members, int64_t rows) {
  for (int64_t b = 0; b < members; ++b) {
    for (int64_t t = 0; t < rows; ++t) {
      if (!rope.has(*positions.at(b, t, 0))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace qkvet::impl
