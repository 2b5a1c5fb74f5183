// SPDX-License-Identifier: Apache-2.0
// Controls that store their keys themselves, or compute them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "impl/call/half.h"
#include "impl/controls/control.h"
#include "impl/kv_cache/quantised.h"
#include "impl/kv_cache/turned.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/cache_table.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
namespace {

// A cache with a flag for the time in which it is read back.
template <class Base>
class KnowsReadBack : public Base {
 public:
  using Base::Base;

  qkvet_status read_back(int64_t sequence, const qkvet_tensor& k,
                         const qkvet_tensor& v,
                         qkvet_text* why) const override {
    reads_back_ = true;
    const qkvet_status status = Base::read_back(sequence, k, v, why);
    reads_back_ = false;
    return status;
  }

 protected:
  bool reads_back() const { return reads_back_; }

 private:
  mutable bool reads_back_ = false;
};

// A contiguous cache that attends with an online softmax over blocks of 4 keys,
// like kernels over pages.
constexpr Arithmetic kOnline4 = {.tile = 4};

class OnlineCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    return compute_arithmetic<kOnline4>(call, why);
  }
};

// Codes multiplied in half: P is rounded to the type of v as given.
constexpr Arithmetic kRoundedTiles = {.tile = 16, .p = P::kStorage};

class HalfCodes : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;
  static Cache* make(const CacheShape& shape) {
    return shape.codes == Codes::kAsGiven ? QuantisedCache::make(shape)
                                          : new HalfCodes(shape);
  }

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    ForwardCall own = call;
    own.storage = shape().storage;
    return compute_arithmetic<kRoundedTiles>(own, why);
  }
};

// Attends to the tokens of a step as given, and to codes of all others.
class NewAsGiven : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;
  static Cache* make(const CacheShape& shape) {
    return shape.codes == Codes::kAsGiven ? QuantisedCache::make(shape)
                                          : new NewAsGiven(shape);
  }

 protected:
  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    k_ = copy_of(step.k, step.tokens, shape().width);
    v_ = copy_of(step.v, step.tokens, shape().value_width);
    before_ = before;
    const qkvet_status status = QuantisedCache::append(step, before, why);
    tokens_ = status == QKVET_OK ? step.tokens : 0;
    return status;
  }
  void advance(const CacheStep& step) override {
    tokens_ = 0;
    QuantisedCache::advance(step);
  }
  Rows keys(const Reading& reading, float* room) const override {
    return with_new(QuantisedCache::keys(reading, room), reading, k_,
                    shape().width, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return with_new(QuantisedCache::values(reading, room), reading, v_,
                    shape().value_width, room);
  }

 private:
  std::vector<float> copy_of(const Stored& rows, int64_t tokens,
                             int64_t width) const {
    std::vector<float> copy;
    for (int64_t head = 0; head < shape().kv_heads; ++head)
      for (int64_t n = 0; n < tokens * width; ++n)
        copy.push_back(rows.get(0, head, n / width, n % width));
    return copy;
  }
  // Codes are decoded into `room`.
  Rows with_new(const Rows& coded, const Reading& reading,
                const std::vector<float>& given, int64_t width,
                float* room) const {
    for (int64_t n = 0; n < tokens_; ++n) {
      const int64_t token = before_ + n;
      if (token < reading.run.begin || token >= reading.run.end) continue;
      const float* const from =
          given.data() + (reading.head * tokens_ + n) * width;
      std::copy_n(from, width, room + (token - reading.run.begin) * width);
    }
    return coded;
  }

  std::vector<float> k_, v_;  // [Hkv, tokens, d] and dv, of the step
  int64_t before_ = 0, tokens_ = 0;
};

// Multiplies q and codes, and P and codes; the scale of a token is applied
// after the first product and before the second.
class ScaleBehind : public KnowsReadBack<QuantisedCache> {
 public:
  using KnowsReadBack::KnowsReadBack;
  static Cache* make(const CacheShape& shape) {
    const bool by_token = shape.codes != Codes::kAsGiven && !shape.per_channel;
    return by_token ? new ScaleBehind(shape) : QuantisedCache::make(shape);
  }

 protected:
  Rows keys(const Reading& reading, float* room) const override {
    return reads_back() ? QuantisedCache::keys(reading, room)
                        : codes(coded_keys(), reading, &k_scales_, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return reads_back() ? QuantisedCache::values(reading, room)
                        : codes(coded_values(), reading, &v_scales_, room);
  }
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text*) const override {
    for (int64_t h = 0; h < call.heads; ++h)
      for (int64_t i = 0; i < call.queries; ++i) attend_row(call, {0, h, i});
    k_scales_.clear();
    v_scales_.clear();
    return QKVET_OK;
  }

 private:
  Rows codes(const CodedRows& rows, const Reading& reading,
             std::vector<float>* scales, float* room) const {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    for (int64_t n = 0; n < reading.run.count(); ++n)
      scales->push_back(rows.scale_of(first + n));
    return rows.load_codes(first, reading.run.count(), room);
  }
  void attend_row(const ForwardCall& call, RowAt at) const {
    const float* const q = call.q.at(0, at.h, at.i);
    const int64_t keys = std::min(call.keys, at.i + call.diagonal + 1);
    std::vector<float> scores;
    float max = -kInfinity;
    for (int64_t j = 0; j < keys; ++j) {
      const float* const k = call.k.at(0, 0, j);
      float dot = 0;
      for (int64_t c = 0; c < call.width; ++c)
        dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
      scores.push_back(dot * k_scales_[static_cast<size_t>(j)] * call.scale);
      max = std::fmax(max, scores.back());
    }
    float sum = 0;
    std::vector<float> acc(static_cast<size_t>(call.value_width));
    for (int64_t j = 0; j < keys; ++j) {
      const float p = std::exp(scores[static_cast<size_t>(j)] - max);
      sum += p;
      add_value(call, at, j, p * v_scales_[static_cast<size_t>(j)], acc.data());
    }
    write_sums(call, at, /*any=*/true, acc.data(), sum, max + std::log(sum));
  }

  // The scales of the rows that were read last.
  mutable std::vector<float> k_scales_, v_scales_;
};

// Rotated keys; reading turns them back by the tables of the last step.
class TurnedBack : public KnowsReadBack<TurnedKeys<ContiguousCache>> {
 public:
  using KnowsReadBack::KnowsReadBack;

 protected:
  void write(const CacheStep& step, int64_t before) override {
    keep_tables(step.rope);
    TurnedKeys::write(step, before);
  }
  Rows keys(const Reading& reading, float* room) const override {
    const Rows stored = TurnedKeys::keys(reading, room);
    if (!reads_back() || cos_.empty()) return stored;
    const int64_t d = shape().width;
    const Rope back = {style_,
                       rows_,
                       channels_,
                       {cos_.data(), {channels_ / 2, 1, 0, 0}},
                       {sin_.data(), {channels_ / 2, 1, 0, 0}},
                       {},
                       {}};
    std::vector<float> turned;
    for (int64_t n = 0; n < reading.run.count(); ++n)
      for (int64_t c = 0; c < d; ++c)
        turned.push_back(stored.row(n)[c * stored.step]);
    for (int64_t n = 0; n < reading.run.count(); ++n)
      turn_row(back, gaps(reading.sequence).position(reading.run.begin + n), d,
               turned.data() + n * d);
    std::copy(turned.begin(), turned.end(), room);
    return {room, d, 1};
  }

 private:
  void keep_tables(const Rope& rope) {
    // Tables of another sequence may be longer, and have the same values.
    if (!rope.present() || rope.rows < rows_) {
      return;
    }
    style_ = rope.style;
    rows_ = rope.rows;
    channels_ = rope.channels;
    cos_.clear();
    sin_.clear();
    for (int64_t p = 0; p < rows_; ++p)
      for (int64_t n = 0; n < channels_ / 2; ++n) {
        cos_.push_back(rope.cos.at(p, 0, 0)[n * rope.cos.step[1]]);
        sin_.push_back(-rope.sin.at(p, 0, 0)[n * rope.sin.step[1]]);
      }
  }

  int32_t style_ = QKVET_ROPE_NONE;
  int64_t rows_ = 0, channels_ = 0;
  std::vector<float> cos_, sin_;  // [rows, channels/2]; sines of the other sign
};

// P is f32, and rotated keys are rounded when they are stored.
constexpr qkvet_precision kTurnedInF32 = [] {
  qkvet_precision p = sequential_f32();
  p.declared |= QKVET_KNOB_ROTATED;
  p.rotated_as_stored = 1;
  return p;
}();

template <const qkvet_cache_table& kTable>
constexpr qkvet_kernel kCacheOf = cache_kernel("", "", {}, &kTable);

constexpr uint64_t kCodedByToken =
    QKVET_CACHE_INT8_PER_TOKEN | QKVET_CACHE_FP8_PER_TOKEN;
constexpr uint64_t kCoded =
    kCodedByToken | QKVET_CACHE_INT8_PER_CHANNEL | QKVET_CACHE_FP8_PER_CHANNEL;

// The header allows this: reset of a missing sequence, which changes nothing,
// and a cache with a window that does not evict.
const CacheBook* cache_of(const qkvet_cache* cache) {
  return reinterpret_cast<const CacheBook*>(cache);
}

qkvet_status reset_if_there(const qkvet_kernel* self, qkvet_cache* cache,
                            int64_t sequence, qkvet_text* why) {
  return cache_of(cache)->has(sequence)
             ? reset_cache(self, cache, sequence, why)
             : QKVET_OK;
}

qkvet_status evict_without_window(const qkvet_kernel* self, qkvet_cache* cache,
                                  int64_t sequence, int64_t first,
                                  int64_t tokens, qkvet_text* why) {
  return cache_of(cache)->shape().window > 0
             ? refuse(why, QKVET_UNSUPPORTED, "a window evicts by itself")
             : evict_cache(self, cache, sequence, first, tokens, why);
}

constexpr qkvet_cache_table kLenientTable = [] {
  // Every option of cache_skeleton.h, under which the faults of caches are.
  qkvet_cache_table table =
      kCacheTable<ContiguousCache, kCacheOptions | kCacheScores>;
  table.reset = reset_if_there;
  table.evict = evict_without_window;
  return table;
}();

// q, k, v and attended are rounded to the storage type of x, as in layers that
// store all tensors between two kernels in half. With f32 storage it is
// scalar/layer.
struct HalfStages : PlainLayer {
  static float stage(const LayerCall& call, float value) {
    return round_to(call.storage, value);
  }
};

// All zero: the stages have the storage type of x.
constexpr qkvet_layer_table kHalfStagesTable =
    layer_table(LayerSkeleton<HalfStages>::forward, qkvet_dtype{});

}  // namespace

QKVET_CONTROL(cache_online4, "a cache under online softmax, blocks of 4 keys",
              kCacheOf<kCacheTable<OnlineCache, kCacheOptions | kCacheScores>>,
              &qkvet_kernel::precision, &kDeclaredPrecision<kOnline4>);

QKVET_CONTROL(cache_half_codes, "codes, P rounded to the storage type",
              kCacheOf<kCacheTable<HalfCodes, kCacheOptions | kCoded>>,
              &qkvet_kernel::precision, &kDeclaredPrecision<kRoundedTiles>);

QKVET_CONTROL(cache_lenient,
              "resets what is not there, and does not evict beside a window",
              kCacheOf<kLenientTable>);

// Contiguous memory of rotated keys (turned.h).
QKVET_CONTROL(cache_turned_keys, "keys are stored rotated, in their type",
              kCacheOf<kTurnedTable<TurnedKeys<ContiguousCache>>>,
              &qkvet_kernel::precision, &kTurnedPrecision);

// Reads back by rotating back: each number is some units off.
QKVET_CONTROL(cache_turned_back,
              "keys are stored rotated, and read back by turning them back",
              kCacheOf<kCacheTable<
                  TurnedBack, kCacheOptions | QKVET_CACHE_READ_BACK_COMPUTES>>,
              &qkvet_kernel::precision, &kTurnedInF32);

QKVET_CONTROL(cache_new_as_given,
              "a step attends to its own tokens as they came, and stores codes",
              kCacheOf<kCacheTable<NewAsGiven, kCacheOptions | kCoded |
                                                   QKVET_CACHE_NEW_AS_GIVEN>>);

QKVET_CONTROL(
    cache_scale_behind,
    "codes are multiplied as they are, and then by their scale",
    kCacheOf<kCacheTable<ScaleBehind, kCacheOptions | kCodedByToken>>);

QKVET_CONTROL(layer_half_stages, "stages rounded to the storage type",
              layer_kernel("", "", {}, &kLayerPrecision, &kHalfStagesTable));

}  // namespace qkvet::impl
