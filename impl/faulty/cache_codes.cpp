// SPDX-License-Identifier: Apache-2.0
// Faults of quantised caches: codes, scales and zero points.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "impl/faulty/cache_fault.h"
#include "impl/kv_cache/quantised.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct CacheScaleFlooredAtOne : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  float token_scale(float largest) const override {
    return std::max(QuantisedCache::token_scale(largest), 1.0f);
  }
};
QKVET_FAULT(cache_scale_floored_at_one, kCodedFault<CacheScaleFlooredAtOne>) = {
    .when = "stored == int8token",
    .cause = "the scale of a token is max(scale, 1): a guard against division "
             "by zero",
    .fix = "guard with a tiny number, or test for 0",
    .source = "lablup/mlxcel#717",
    .killed_by = {"cache_stores_what_it_is_given"},
};

struct CacheScaleOfFirstHead : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  Rows keys(const Reading& reading, float* room) const override {
    return load(coded_keys(), reading, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return load(coded_values(), reading, room);
  }
  Rows load(const CodedRows& rows, const Reading& reading, float* room) const {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return rows.load(/*head=*/0, first, reading.run.count(), room);
  }
};
QKVET_FAULT(
    cache_scale_of_first_head,
    kCodedFault<CacheScaleOfFirstHead, QKVET_CACHE_INT8_PER_CHANNEL>) = {
    .when = "stored == int8channel && Hkv > 1",
    .cause = "a code is multiplied by the scale that its channel has in the "
             "first head: the head offset is left out",
    .fix = "index scales by head and channel, and test with heads that differ",
    .source = "textbook, cf. flashinfer-ai/flashinfer#1023",
    .killed_by = {"cache_stores_what_it_is_given"},
};

struct CacheScaleUninitialised : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  void write(const CacheStep& step, int64_t before) override {
    later_.clear();
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t j = 0; j < step.tokens; ++j) {
        const int64_t to = slot(step.sequence, head, before + j);
        later_.push_back(
            {to, coded_keys().scale_of(to), coded_values().scale_of(to)});
      }
    }
    QuantisedCache::write(step, before);
    exchange();
  }
  void advance(const CacheStep& step) override {
    exchange();
    later_.clear();
    QuantisedCache::advance(step);
  }
  struct Scales {
    int64_t slot;
    float key, value;
  };

  // What is in the memory of scales with what is not.
  void exchange() {
    for (Scales& scales : later_) {
      std::swap(scales.key, coded_keys().scale_of(scales.slot));
      std::swap(scales.value, coded_values().scale_of(scales.slot));
    }
  }

  std::vector<Scales> later_;  // of the step
};
QKVET_FAULT(cache_scale_uninitialised, kCodedFault<CacheScaleUninitialised>) = {
    .when = "stored == int8token && commands(verb == step)",
    .cause = "a step attends with the scales that its slots had before it, 0 "
             "at first: they are captured before they are written",
    .fix = "write scales along with the codes",
    .source = "InfiniTensor/InfiniLM#553",
    .killed_by = {"cache_answers_from_what_it_stores"},
};

struct CacheValueScaleFromKeys : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  qkvet_status read_back(int64_t sequence, const qkvet_tensor& k,
                         const qkvet_tensor& v,
                         qkvet_text* why) const override {
    reads_back_ = true;
    const qkvet_status status = QuantisedCache::read_back(sequence, k, v, why);
    reads_back_ = false;
    return status;
  }
  Rows values(const Reading& reading, float* room) const override {
    if (reads_back_) return QuantisedCache::values(reading, room);
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return coded_values().load_scaled(coded_keys(), reading.head, first,
                                      reading.run.count(), room);
  }
  mutable bool reads_back_ = false;
};
QKVET_FAULT(cache_value_scale_from_keys,
            kCodedFault<CacheValueScaleFromKeys>) = {
    .when = "stored == int8token",
    .cause = "attention decodes the values with the scales of the keys",
    .fix = "pass each scale by its name, and test with scales that differ",
    .source = "vllm-project/vllm#42580, cf. flashinfer-ai/flashinfer#1023",
    .killed_by = {"cache_answers_from_what_it_stores"},
};

struct CacheRangeIncludesNextRow : QuantisedCache {
  using QuantisedCache::QuantisedCache;  // What follows a row is the next
                                         // token, if the step has one.
  float largest(const CodedRows& rows, int64_t tokens, const Stored& from,
                int64_t head, int64_t j) const override {
    float most = QuantisedCache::largest(rows, tokens, from, head, j);
    if (j + 1 == tokens) return most;
    const int64_t behind = std::min(rows.width(), -rows.width() & (tile() - 1));
    for (int64_t c = 0; c < behind; ++c) {
      const float magnitude = std::fabs(from.get(0, head, j + 1, c));
      most = magnitude > most ? magnitude : most;
    }
    return most;
  }
};
QKVET_FAULT(cache_range_includes_next_row,
            kCodedFault<CacheRangeIncludesNextRow>) = {
    .when = "stored == int8token && (d % 4 != 0 || dv % 4 != 0) && "
            "commands(new > 1)",
    .cause = "lanes past the width of a head enter the range of its row, and "
             "hold the next row: the load is not masked",
    .fix = "mask the lanes of the tail in the range as in everything else",
    .source = "InternLM/lmdeploy#4849",
    .killed_by = {"cache_stores_what_it_is_given"},
    .tiled = true,
};

struct CacheDescaleDroppedForHalf : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  Rows values(const Reading& reading, float* room) const override {
    if (shape().storage == Storage::kF32)
      return QuantisedCache::values(reading, room);
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return coded_values().load_codes(first, reading.run.count(), room);
  }
};
QKVET_FAULT(cache_descale_dropped_for_half,
            kCodedFault<CacheDescaleDroppedForHalf>) = {
    .when = "stored != as_given && dtype != f32",
    .cause = "with queries of half storage, codes of values are cast and not "
             "multiplied by their scale",
    .fix = "multiply by the scale on every branch, and test with scales other "
           "than 1",
    .source = "vllm-project/vllm#42580, flashinfer-ai/flashinfer#4979",
    .killed_by = {"cache_stores_what_it_is_given"},
};

// A byte is code + 128, and values are read as (byte - 128 + kOff) scale.
template <int kOff>
struct ZeroPointOff : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  Rows values(const Reading& reading, float* room) const override {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    const int64_t width = shape().value_width;
    QuantisedCache::values(reading, room);
    for (int64_t n = 0; n < reading.run.count() * width; ++n)
      room[n] += kOff * coded_values().scale_of(first + n / width);
    return {room, width, 1};
  }
};
QKVET_FAULT(cache_zero_point_sign, kCodedFault<ZeroPointOff<256>>) = {
    .when = "stored == int8token",
    .cause = "a zero point of 128 is added to values when they are read, as it "
             "was when they were stored",
    .fix = "write q = x / s + z and x = (q - z) s side by side, and test one "
           "with the other",
    .source = "textbook, cf. InfiniTensor/InfiniLM#553",
    .killed_by = {"cache_stores_what_it_is_given"},
};

QKVET_FAULT(cache_zero_point_off_by_one, kCodedFault<ZeroPointOff<1>>) = {
    .when = "stored == int8token",
    .cause = "the zero point is 128 where values are written and 127 where "
             "they are read",
    .fix = "name the zero point once",
    .source = "textbook, cf. InfiniTensor/InfiniLM#553",
    .killed_by = {"cache_stores_what_it_is_given"},
};

}  // namespace qkvet::impl
