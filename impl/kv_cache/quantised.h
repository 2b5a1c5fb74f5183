// SPDX-License-Identifier: Apache-2.0
// A byte a number, [sequences, Hkv, capacity, d], int8 or fp8 e4m3. A scale
// belongs to a token, [sequences, Hkv, capacity], or to a channel, [Hkv, d].
// Reading a row multiplies its codes by their scales, so that the result is in
// f32.
//
// A code is the nearest one to x / scale: the quotient is taken in double,
// which cannot move it to the other side of a tie (x, scale and a code times
// scale have 24, 24 and 32 bits). Codes of int8 are -127 .. 127, larger
// numbers saturate. With a scale a token, a row with a number that is not
// finite is NaN in all channels; with a scale a channel infinities saturate,
// NaN stays NaN in fp8 and is 0 in int8. If the scale is 0, all numbers are
// 0.
#ifndef QKVET_IMPL_KV_CACHE_QUANTISED_H_
#define QKVET_IMPL_KV_CACHE_QUANTISED_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "impl/call/fp8.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

inline constexpr float kLargestInt8 = 127;

inline float largest_code(Codes codes) {
  return codes == Codes::kInt8 ? kLargestInt8 : kLargestE4m3;
}

inline uint8_t encode(Codes codes, float x, float scale) {
  const double ratio =
      scale == 0 ? 0 : static_cast<double>(x) / static_cast<double>(scale);
  if (codes == Codes::kFp8) {
    return f64_to_e4m3(ratio);
  }
  constexpr double kMost = static_cast<double>(kLargestInt8);
  const double code =
      std::isnan(ratio) ? 0 : std::nearbyint(std::clamp(ratio, -kMost, kMost));
  return static_cast<uint8_t>(static_cast<int8_t>(code));
}

inline float decode(Codes codes, uint8_t code, float scale) {
  return scale * (codes == Codes::kFp8
                      ? e4m3_to_f32(code)
                      : static_cast<float>(static_cast<int8_t>(code)));
}

inline Memory zero_codes(int64_t rows, int64_t columns, int64_t element) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(rows, columns, &bytes) ||
      __builtin_mul_overflow(bytes, element, &bytes)) {
    throw std::bad_alloc();
  }
  Memory memory(std::calloc(static_cast<size_t>(bytes), 1));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

// The keys of all sequences, or the values.
class CodedRows {
 public:
  // Throws if there is no memory.
  CodedRows(const CacheShape& shape, int64_t width,
            const View<const float>& of_channels)
      : codes_(shape.codes),
        width_(width),
        slots_(all_slots(shape, shape.capacity)),
        memory_(zero_codes(slots_, width, 1)) {
    if (!shape.per_channel) {
      token_scales_ = zero_codes(slots_, 1, sizeof(float));
      return;
    }
    for (int64_t n = 0; n < shape.kv_heads * width; ++n) {
      channel_scales_.push_back(*of_channels.at(n / width, n % width, 0));
    }
  }

  int64_t width() const { return width_; }
  int64_t bytes() const {
    return slots_ * (width_ + (token_scales_ == nullptr
                                   ? 0
                                   : static_cast<int64_t>(sizeof(float))));
  }

  // Row j of a head of `from`; the scale is used only if scales belong to
  // tokens.
  void store(const Stored& from, int64_t head, int64_t j, int64_t slot,
             float scale) {
    if (token_scales_ != nullptr) {
      scales()[slot] = scale;
    }
    for (int64_t c = 0; c < width_; ++c) {
      codes()[slot * width_ + c] =
          encode(codes_, from.get(0, head, j, c),
                 token_scales_ != nullptr ? scale : channel_scale(head, c));
    }
  }

  Rows load(int64_t head, int64_t first, int64_t n, float* room) const {
    return load_scaled(*this, head, first, n, room);
  }
  // Reads with another object's scales of tokens.
  Rows load_scaled(const CodedRows& scaled, int64_t head, int64_t first,
                   int64_t n, float* room) const {
    for (int64_t slot = first; slot < first + n; ++slot) {
      for (int64_t c = 0; c < width_; ++c) {
        room[(slot - first) * width_ + c] =
            decode(codes_, codes()[slot * width_ + c],
                   token_scales_ != nullptr ? scaled.scales()[slot]
                                            : channel_scale(head, c));
      }
    }
    return {room, width_, 1};
  }

  // The codes as numbers, without a scale.
  Rows load_codes(int64_t first, int64_t n, float* room) const {
    for (int64_t at = 0; at < n * width_; ++at) {
      room[at] = decode(codes_, codes()[first * width_ + at], 1);
    }
    return {room, width_, 1};
  }
  // n rows, from one place to another.
  void move(int64_t from, int64_t to, int64_t n) const {
    std::memmove(codes() + to * width_, codes() + from * width_,
                 static_cast<size_t>(n * width_));
    if (token_scales_ != nullptr) {
      std::memmove(scales() + to, scales() + from,
                   static_cast<size_t>(n) * sizeof(float));
    }
  }
  // The scale of a slot, if scales belong to tokens.
  float& scale_of(int64_t slot) const { return scales()[slot]; }

  // The largest magnitude of a row.
  float largest(const Stored& from, int64_t head, int64_t j) const {
    float most = 0;
    for (int64_t c = 0; c < width_; ++c) {
      const float magnitude = std::fabs(from.get(0, head, j, c));
      most = magnitude <= most ? most : magnitude;  // NaN stays
      if (std::isnan(most)) {
        break;
      }
    }
    return most;
  }

  // The regions that rearrange() moves among `sequences` sequences.
  std::vector<Regions> regions(const int64_t* parents, int64_t sequences) {
    const int64_t slots = slots_ / sequences;
    std::vector<Regions> all;
    all.emplace_back(memory_.get(), slots * width_, parents, sequences);
    if (token_scales_ != nullptr) {
      all.emplace_back(token_scales_.get(),
                       slots * static_cast<int64_t>(sizeof(float)), parents,
                       sequences);
    }
    return all;
  }

 private:
  uint8_t* codes() const { return static_cast<uint8_t*>(memory_.get()); }
  float* scales() const { return static_cast<float*>(token_scales_.get()); }
  float channel_scale(int64_t head, int64_t c) const {
    return channel_scales_[static_cast<size_t>(head * width_ + c)];
  }
  Codes codes_;
  int64_t width_;
  int64_t slots_;                      // of all sequences and heads
  Memory memory_;                      // [slots, width]
  Memory token_scales_;                // [slots], NULL: per channel
  std::vector<float> channel_scales_;  // [Hkv, width]
};

class QuantisedCache : public Cache {
 public:
  explicit QuantisedCache(const CacheShape& shape)
      : Cache(shape),
        keys_(shape, shape.width, shape.k_scale),
        values_(shape, shape.value_width, shape.v_scale) {}

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new QuantisedCache(shape);
  }

  int64_t bytes() const override { return keys_.bytes() + values_.bytes(); }

 protected:
  const char* reserve(int64_t, int64_t tokens) override {
    return tokens <= shape().capacity ? nullptr : kBeyondCapacity;
  }
  void write(const CacheStep& step, int64_t before) override {
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t j = 0; j < step.tokens; ++j) {
        const int64_t to = slot(step.sequence, head, before + j);
        keys_.store(step.k, head, j, to,
                    token_scale(largest(keys_, step.tokens, step.k, head, j)));
        values_.store(
            step.v, head, j, to,
            token_scale(largest(values_, step.tokens, step.v, head, j)));
      }
    }
  }
  Rows keys(const Reading& reading, float* room) const override {
    return load(keys_, reading, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return load(values_, reading, room);
  }
  void rearrange(const int64_t* parents) override {
    const auto keys = keys_.regions(parents, shape().sequences);
    const auto values = values_.regions(parents, shape().sequences);
    for (const Regions& region : keys) {
      region.write();
    }
    for (const Regions& region : values) {
      region.write();
    }
  }

  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    const int64_t rest = held(sequence) - first - tokens;
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      const int64_t to = slot(sequence, head, first);
      keys_.move(to + tokens, to, rest);
      values_.move(to + tokens, to, rest);
    }
  }

  // The largest magnitude of row j of a head, of `tokens` rows.
  virtual float largest(const CodedRows& rows, int64_t /*tokens*/,
                        const Stored& from, int64_t head, int64_t j) const {
    return rows.largest(from, head, j);
  }
  // The scale for a row with this largest magnitude.
  virtual float token_scale(float largest) const {
    return largest / largest_code(shape().codes);
  }

  const CodedRows& coded_keys() const { return keys_; }
  const CodedRows& coded_values() const { return values_; }
  int64_t slot(int64_t sequence, int64_t head, int64_t token) const {
    return (sequence * shape().kv_heads + head) * shape().capacity + token;
  }

 private:
  Rows load(const CodedRows& rows, const Reading& reading, float* room) const {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return rows.load(reading.head, first, reading.run.count(), room);
  }

  CodedRows keys_;
  CodedRows values_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_KV_CACHE_QUANTISED_H_
