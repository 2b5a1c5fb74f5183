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

// Scales are at least 1.
class CacheScaleFlooredAtOne : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheScaleFlooredAtOne(shape);
  }

 protected:
  float token_scale(float largest) const override {
    return std::max(QuantisedCache::token_scale(largest), 1.0f);
  }
};
QKVET_FAULT(cache_scale_floored_at_one) = {
    .kernel = cache_fault<CacheScaleFlooredAtOne, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism = "the scale of a token is max(scale, 1)",
    .symptom = "numbers are rounded to integers; degenerate repetition",
    .cause = "a guard against division by zero that knows no scale below 1",
    .fix = "guard with a tiny number, or test for 0",
    .source = "lablup/mlxcel#717",
    .trigger = "quantised storage, and rows that stay below the largest code",
    .killed_by = {"cache_stores_what_it_is_given"},
    .when = "stored == int8token",
};

// Codes of all heads are read with the scales of the first one.
class CacheScaleOfFirstHead : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheScaleOfFirstHead(shape);
  }

 protected:
  Rows keys(const Reading& reading, float* room) const override {
    return load(coded_keys(), reading, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return load(coded_values(), reading, room);
  }

 private:
  Rows load(const CodedRows& rows, const Reading& reading, float* room) const {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return rows.load(/*head=*/0, first, reading.run.count(), room);
  }
};
QKVET_FAULT(cache_scale_of_first_head) = {
    .kernel = cache_fault<CacheScaleOfFirstHead, QKVET_CACHE_INT8_PER_CHANNEL>,
    .mechanism =
        "a code is multiplied by the scale that its channel has in the first "
        "head",
    .symptom =
        "right with one key/value head, or with scales that heads share; else "
        "all heads but one are off",
    .cause = "scales are [Hkv, d], and the offset of the head is left out",
    .fix = "index scales by head and channel, and test with heads that differ",
    .source = "textbook, cf. flashinfer-ai/flashinfer#1023",
    .trigger = "scales a channel, and more than one key/value head",
    .killed_by = {"cache_stores_what_it_is_given"},
    .when = "stored == int8channel && Hkv > 1",
};

// The scales of a step are set behind it.
class CacheScaleUninitialised : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheScaleUninitialised(shape);
  }

 protected:
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

 private:
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
QKVET_FAULT(cache_scale_uninitialised) = {
    .kernel = cache_fault<CacheScaleUninitialised, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism =
        "a step attends with the scales that its slots had before it: 0 at "
        "first",
    .symptom =
        "the tokens of a step are zeros to its own queries, and right "
        "afterwards; the contents are right",
    .cause = "the memory of scales is captured before they are written",
    .fix = "write scales along with the codes",
    .source = "InfiniTensor/InfiniLM#553",
    .trigger = "quantised storage, and a step that appends and attends",
    .killed_by = {"cache_answers_from_what_it_stores"},
    .when = "stored == int8token && commands(verb == step)",
};

// Answers take the scales of values from the keys.
class CacheValueScaleFromKeys : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheValueScaleFromKeys(shape);
  }

  qkvet_status read_back(int64_t sequence, const qkvet_tensor& k,
                         const qkvet_tensor& v,
                         qkvet_text* why) const override {
    reads_back_ = true;
    const qkvet_status status = QuantisedCache::read_back(sequence, k, v, why);
    reads_back_ = false;
    return status;
  }

 protected:
  Rows values(const Reading& reading, float* room) const override {
    if (reads_back_) {
      return QuantisedCache::values(reading, room);
    }
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return coded_values().load_scaled(coded_keys(), reading.head, first,
                                      reading.run.count(), room);
  }

 private:
  mutable bool reads_back_ = false;
};
QKVET_FAULT(cache_value_scale_from_keys) = {
    .kernel = cache_fault<CacheValueScaleFromKeys, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism = "attention decodes the values with the scales of the keys",
    .symptom =
        "what is stored and read back is right, answers are off by a factor a "
        "token",
    .cause =
        "scales are passed on by position, and one takes the place of the "
        "other",
    .fix = "pass each scale by its name, and test with scales that differ",
    .source = "vllm-project/vllm#42580, cf. flashinfer-ai/flashinfer#1023",
    .trigger = "quantised storage, and a key and a value of other magnitudes",
    .killed_by = {"cache_answers_from_what_it_stores"},
    .when = "stored == int8token",
};

// The range of a row is taken over whole vectors of 4 lanes.
class CacheRangeIncludesNextRow : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheRangeIncludesNextRow(shape);
  }

 protected:
  // What follows a row is the next token, if the step has one.
  float largest(const CodedRows& rows, int64_t tokens, const Stored& from,
                int64_t head, int64_t j) const override {
    float most = QuantisedCache::largest(rows, tokens, from, head, j);
    if (j + 1 == tokens) {
      return most;
    }
    const int64_t behind = std::min(rows.width(), -rows.width() & (tile() - 1));
    for (int64_t c = 0; c < behind; ++c) {
      const float magnitude = std::fabs(from.get(0, head, j + 1, c));
      most = magnitude > most ? magnitude : most;
    }
    return most;
  }
};
QKVET_FAULT(cache_range_includes_next_row) = {
    .kernel =
        cache_fault<CacheRangeIncludesNextRow, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism =
        "lanes behind the width of a head take part in the range of its row, "
        "and hold the next row",
    .symptom =
        "right at widths of whole vectors; else codes are coarser than they "
        "need to be, next to large tokens",
    .cause = "the tail of a row is loaded as a whole vector and not masked",
    .fix = "mask the lanes of the tail in the range as in everything else",
    .source = "InternLM/lmdeploy#4849",
    .trigger =
        "scales a token, a width that is no multiple of 4, and a step of two "
        "tokens",
    .killed_by = {"cache_stores_what_it_is_given"},
    .when =
        "stored == int8token && (d % 4 != 0 || dv % 4 != 0) && commands(new > "
        "1)",
    .tiled = true,
};

// Values in half storage are codes.
class CacheDescaleDroppedForHalf : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheDescaleDroppedForHalf(shape);
  }

 protected:
  Rows values(const Reading& reading, float* room) const override {
    if (shape().storage == Storage::kF32) {
      return QuantisedCache::values(reading, room);
    }
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return coded_values().load_codes(first, reading.run.count(), room);
  }
};
QKVET_FAULT(cache_descale_dropped_for_half) = {
    .kernel =
        cache_fault<CacheDescaleDroppedForHalf, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism =
        "where queries are of half storage, codes of values are cast and not "
        "multiplied by their scale",
    .symptom =
        "right in f32; in half storage answers have the magnitude of codes",
    .cause = "a fast branch for one type of queries converts and does no more",
    .fix =
        "multiply by the scale on every branch, and test with scales other "
        "than 1",
    .source = "vllm-project/vllm#42580, flashinfer-ai/flashinfer#4979",
    .trigger = "quantised storage, and queries in f16 or bf16",
    .killed_by = {"cache_stores_what_it_is_given"},
    .when = "stored != as_given && dtype != f32",
};

// The zero point is added where it has to be subtracted.
class CacheZeroPointSign : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheZeroPointSign(shape);
  }

 protected:
  // A byte is code + 128, and a number (byte + 128) scale = (code + 256) scale.
  Rows values(const Reading& reading, float* room) const override {
    constexpr float kTwice = 256;
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    const int64_t width = shape().value_width;
    QuantisedCache::values(reading, room);
    for (int64_t n = 0; n < reading.run.count() * width; ++n) {
      room[n] += kTwice * coded_values().scale_of(first + n / width);
    }
    return {room, width, 1};
  }
};
QKVET_FAULT(cache_zero_point_sign) = {
    .kernel = cache_fault<CacheZeroPointSign, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism =
        "a zero point of 128 is added to values when they are read, as it was "
        "when they were stored",
    .symptom = "every value is 256 steps too large",
    .cause = "writers and readers use one formula with a sign of their own",
    .fix =
        "write q = x / s + z and x = (q - z) s side by side, and test one with "
        "the other",
    .source = "textbook, cf. InfiniTensor/InfiniLM#553",
    .trigger = "quantised storage",
    .killed_by = {"cache_stores_what_it_is_given"},
    .when = "stored == int8token",
};

// Codes are stored around 128 and read around 127.
class CacheZeroPointOffByOne : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheZeroPointOffByOne(shape);
  }

 protected:
  // A byte is code + 128, and a number (byte - 127) scale = (code + 1) scale.
  Rows values(const Reading& reading, float* room) const override {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    const int64_t width = shape().value_width;
    QuantisedCache::values(reading, room);
    for (int64_t n = 0; n < reading.run.count() * width; ++n) {
      room[n] += coded_values().scale_of(first + n / width);
    }
    return {room, width, 1};
  }
};
QKVET_FAULT(cache_zero_point_off_by_one) = {
    .kernel = cache_fault<CacheZeroPointOffByOne, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism =
        "the zero point is 128 where values are written and 127 where they are "
        "read",
    .symptom = "every value is one step too large: a constant offset",
    .cause =
        "one side takes the middle of 0 .. 255, the other the largest code",
    .fix = "name the zero point once",
    .source = "textbook, cf. InfiniTensor/InfiniLM#553",
    .trigger = "quantised storage",
    .killed_by = {"cache_stores_what_it_is_given"},
    .when = "stored == int8token",
};

}  // namespace qkvet::impl
