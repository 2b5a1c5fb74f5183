// SPDX-License-Identifier: Apache-2.0
// For the tests of rotations: tables with positions, and what they make of a
// row, in double.
#ifndef QKVET_IMPL_TESTING_ROPE_FIXTURE_H_
#define QKVET_IMPL_TESTING_ROPE_FIXTURE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "qkvet/kernel.h"

namespace qkvet::impl {

class RopeTables {
 public:
  // None if `style` says so.
  RopeTables(int32_t style, int64_t rows, int64_t width)
      : style_(style), rows_(rows), pairs_(width / 2) {
    for (int64_t n = 0; style != QKVET_ROPE_NONE && n < rows * pairs_; ++n) {
      const double angle = double(n / pairs_) / double(1 + n % pairs_);
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  RopeTables(const RopeTables&) = delete;
  RopeTables& operator=(const RopeTables&) = delete;

  int32_t style() const { return style_; }
  qkvet_tensor cos() { return table(cos_); }
  qkvet_tensor sin() { return table(sin_); }
  // Token t of every member stands at first + t.
  qkvet_tensor positions(int64_t members, int64_t tokens, int64_t first) {
    positions_.clear();
    for (int64_t n = 0; n < members * tokens; ++n) {
      positions_.push_back(first + n % tokens);
    }
    at_shape_[0] = members;
    at_shape_[1] = at_steps_[0] = tokens;
    at_steps_[1] = 1;
    qkvet_tensor t = tensor(positions_.data(), at_shape_, at_steps_);
    t.dtype = {QKVET_DTYPE_INT, 64, 1};
    return t;
  }

  // Channel c at `position` of the row that channel(c) gives.
  template <class Channel>
  double turned(int64_t position, int64_t c, Channel channel) const {
    if (style_ == QKVET_ROPE_NONE) {
      return channel(c);
    }
    const bool half = style_ == QKVET_ROPE_HALF;
    const int64_t pair = half ? c % pairs_ : c / 2;
    const bool first = half ? c < pairs_ : c % 2 == 0;
    const int64_t apart = half ? pairs_ : 1;
    const auto at = static_cast<size_t>(position * pairs_ + pair);
    const double turn = (first ? -1 : 1) * double(sin_[at]);
    return channel(c) * double(cos_[at]) +
           channel(first ? c + apart : c - apart) * turn;
  }

 private:
  static qkvet_tensor tensor(void* data, int64_t* shape, int64_t* steps) {
    qkvet_tensor t = {};
    t.data = data;
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = 2;
    t.shape = shape;
    t.strides = steps;
    return t;
  }
  qkvet_tensor table(std::vector<float>& values) {
    if (style_ == QKVET_ROPE_NONE) {
      return {};
    }
    shape_[0] = rows_;
    shape_[1] = steps_[0] = pairs_;
    steps_[1] = 1;
    qkvet_tensor t = tensor(values.data(), shape_, steps_);
    t.dtype = {QKVET_DTYPE_FLOAT, 32, 1};
    return t;
  }

  int32_t style_;
  int64_t rows_, pairs_;
  int64_t shape_[2] = {}, steps_[2] = {}, at_shape_[2] = {}, at_steps_[2] = {};
  std::vector<float> cos_, sin_;
  std::vector<int64_t> positions_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_ROPE_FIXTURE_H_
