// SPDX-License-Identifier: Apache-2.0
#include "impl/call/rope.h"

namespace qkvet::impl {
namespace {

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

bool wrong_rope(int32_t style,
                std::initializer_list<const qkvet_tensor*> tensors) {
  bool wrong = style < QKVET_ROPE_NONE || style > QKVET_ROPE_INTERLEAVED;
  for (const qkvet_tensor* t : tensors) {
    wrong = wrong || is_absent(*t) != (style == QKVET_ROPE_NONE);
  }
  return wrong;
}

bool turns_a_part(const qkvet_tensor& cos, const qkvet_tensor& q) {
  return cos.ndim == 2 && q.ndim > 0 && 2 * cos.shape[1] < q.shape[q.ndim - 1];
}

void fill_rope(int32_t style, const qkvet_tensor& cos, const qkvet_tensor& sin,
               Rope* rope) {
  rope->style = style;
  if (rope->present()) {
    rope->rows = cos.shape[0];
    rope->channels = 2 * cos.shape[1];
    rope->cos = view_of<const float>(cos);
    rope->sin = view_of<const float>(sin);
  }
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
