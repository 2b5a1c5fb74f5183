// SPDX-License-Identifier: Apache-2.0
// The storage types of the kernels here, and f16 and bf16 as bit patterns.
//
// To f32 is exact. From f32 rounds once, to nearest, ties to even: subnormals
// are kept, overflow gives infinity, NaN gives a quiet NaN. Both are
// independent of flushing of subnormals unless f32 itself is subnormal.
//
// Baseline code: no translation unit with instruction-set flags includes this.
#ifndef QKVET_IMPL_CALL_HALF_H_
#define QKVET_IMPL_CALL_HALF_H_

#include <bit>
#include <cstdint>

namespace qkvet::impl {

// The storage type, common to q, k, v, o and returned weights.
enum class Storage : uint8_t { kF32, kF16, kBf16 };

constexpr float f16_to_f32(uint16_t bits) {
  constexpr uint32_t kInfinity = 0x7c00, kLeastNormal = 0x0400;
  constexpr uint32_t kQuietNan = 0x7fc00000;
  constexpr int kFractionShift = 23 - 10;
  constexpr uint32_t kBias = (127u - 15u) << 23;
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > kInfinity) {
    return std::bit_cast<float>(sign | kQuietNan | magnitude << kFractionShift);
  }
  if (magnitude == kInfinity) {
    return std::bit_cast<float>(sign | 0x7f800000u);
  }
  if (magnitude < kLeastNormal) {  // steps of 2^-24, normal in f32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << kFractionShift) + kBias));
}

constexpr uint16_t f32_to_f16(float value) {
  constexpr uint32_t kInfinityF32 = 0x7f800000;
  constexpr uint32_t kTooLarge = 0x477ff000;     // 65520 rounds to infinity
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  constexpr int kFractionShift = 23 - 10;
  constexpr uint32_t kBias = (127u - 15u) << 23;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > kInfinityF32) {
    magnitude = 0x7e00;
  } else if (magnitude >= kTooLarge) {
    magnitude = 0x7c00;
  } else if (magnitude < kLeastNormal) {
    // Next to 0.5 the steps of f32 are 2^-24, those of subnormal f16: the
    // addition rounds, and the low bits of the sum are the result.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    magnitude = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  } else {
    const uint32_t odd = magnitude >> kFractionShift & 1;
    magnitude = (magnitude - kBias + 0xfff + odd) >> kFractionShift;
  }
  return static_cast<uint16_t>(sign | magnitude);
}

constexpr float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

constexpr uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>(bits >> 16 | 0x0040u);  // a quiet NaN
  }
  const uint32_t odd = bits >> 16 & 1;
  return static_cast<uint16_t>((bits + 0x7fff + odd) >> 16);
}

constexpr float from_half(Storage type, uint16_t bits) {
  return type == Storage::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

constexpr uint16_t to_half(Storage type, float value) {
  return type == Storage::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
}

// The nearest value of the type.
constexpr float round_to(Storage type, float value) {
  return type == Storage::kF32 ? value : from_half(type, to_half(type, value));
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_HALF_H_
