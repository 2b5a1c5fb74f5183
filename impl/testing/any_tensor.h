// SPDX-License-Identifier: Apache-2.0
// For the tests of impl/: a tensor between guard pages whose storage type is
// chosen at run time, read and written as f32.
#ifndef QKVET_IMPL_TESTING_ANY_TENSOR_H_
#define QKVET_IMPL_TESTING_ANY_TENSOR_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "impl/abi/half.h"
#include "impl/testing/family_fixture.h"

namespace qkvet::impl {

// A tensor that has rank 4 in memory; tensor(rank) leaves leading extents of 1
// away.
class AnyTensor {
 public:
  AnyTensor(Storage type, std::vector<int64_t> shape,
            Layout layout = Layout::kBhtd,
            Placement place = Placement::kEndFlush)
      : type_(type) {
    if (type == Storage::kF32) {
      wide_ = std::make_unique<GuardedTensor>(std::move(shape), layout, place);
    } else {
      half_ = std::make_unique<GuardedHalf>(std::move(shape), layout, place,
                                            dtype_named(type));
    }
    fill(std::numeric_limits<float>::quiet_NaN());
  }

  void set(int64_t b, int64_t h, int64_t t, int64_t c, float value) {
    if (wide_ != nullptr) {
      wide_->at(b, h, t, c) = value;
    } else {
      half_->at(b, h, t, c) = to_half(type_, value);
    }
  }
  float get(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return wide_ != nullptr ? wide_->at(b, h, t, c)
                            : from_half(type_, half_->at(b, h, t, c));
  }
  void fill(float value) {
    if (wide_ != nullptr) {
      wide_->fill(value);
    } else {
      half_->fill(to_half(type_, value));
    }
  }
  const std::vector<int64_t>& shape() const {
    return wide_ != nullptr ? wide_->shape() : half_->shape();
  }
  qkvet_tensor tensor(int32_t rank = 4) const {
    qkvet_tensor t = wide_ != nullptr ? wide_->tensor() : half_->tensor();
    t.ndim = rank;
    t.shape += 4 - rank;
    t.strides += 4 - rank;
    return t;
  }
  // All elements in logical order.
  std::vector<float> values() const {
    std::vector<float> all;
    const std::vector<int64_t>& n = shape();
    for (int64_t b = 0; b < n[0]; ++b) {
      for (int64_t h = 0; h < n[1]; ++h) {
        for (int64_t t = 0; t < n[2]; ++t) {
          for (int64_t c = 0; c < n[3]; ++c) {
            all.push_back(get(b, h, t, c));
          }
        }
      }
    }
    return all;
  }

 private:
  Storage type_;
  std::unique_ptr<GuardedTensor> wide_;
  std::unique_ptr<GuardedHalf> half_;
};

inline constexpr Storage kAllStorages[] = {Storage::kF32, Storage::kF16,
                                           Storage::kBf16};

inline double unit_of(Storage type) {
  return type == Storage::kF32   ? 0x1p-24
         : type == Storage::kF16 ? 0x1p-11
                                 : 0x1p-8;
}

// In [-1, 1), a value of the type.
inline float any_value(Storage type, uint64_t seed, uint64_t index) {
  const auto bits = static_cast<double>(hash(seed, index) >> 40);
  return round_to(type, static_cast<float>(bits * 0x1p-23 - 1));
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_ANY_TENSOR_H_
