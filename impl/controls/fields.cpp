// SPDX-License-Identifier: Apache-2.0
// Controls of masks in a few numbers (segments, ranges, chunks, trees): the
// other dialect of ranges within a window, and rows in small tiles, so most
// tiles contain pieces of several segments, chunks and branches, and many
// contain no visible key.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/controls/control.h"
#include "impl/skeletons/plain_row.h"

namespace qkvet::impl {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr int64_t kTile = 5;

constexpr qkvet_dialect kInWindow = [] {
  qkvet_dialect d = options_dialect();
  d.ranges_and_window = QKVET_RANGES_IN_WINDOW;
  return d;
}();

// Online softmax over tiles of all keys, seen or not: a hidden key has a score
// of -infinity, and a tile with only such keys is left out. A sink is added
// before the first tile.
struct FieldTiles {
  static qkvet_status compute(const ForwardCall& call, qkvet_text*) {
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i < call.queries; ++i) {
          FieldTiles(call, b, h, i).row();
        }
      }
    }
    return QKVET_OK;
  }

 private:
  FieldTiles(const ForwardCall& call, int64_t b, int64_t h, int64_t i)
      : call_(call), b_(b), h_(h), i_(i) {}

  float score(int64_t j) const {
    const Run run = call_.in_reach(i_);
    if (j < run.begin || j >= run.end || !call_.options.allows(b_, h_, i_, j)) {
      return kNone;
    }
    const float* const q = call_.q.at(b_, h_, i_);
    const float* const k = call_.k.at(b_, h_ / call_.group(), j);
    float dot = 0;
    for (int64_t c = 0; c < call_.width; ++c) {
      dot += q[c * call_.q.step[3]] * k[c * call_.k.step[3]];
    }
    return with_options(call_, b_, h_, i_, j, dot * call_.scale);
  }

  void row() {
    float* const o = call_.o.at(b_, h_, i_);
    const int64_t step = call_.o.step[3];
    for (int64_t c = 0; c < call_.value_width; ++c) {
      o[c * step] = 0;
    }
    max_ = call_.options.sink_of(h_);
    sum_ = max_ > kNone ? 1 : 0;
    for (int64_t first = 0; first < call_.keys; first += kTile) {
      tile(first, o, step);
    }
    for (int64_t c = 0; seen_ && c < call_.value_width; ++c) {
      o[c * step] /= sum_;
    }
    if (call_.lse.data != nullptr) {
      *call_.lse.at(b_, h_, i_) = seen_ ? max_ + std::log(sum_) : kNone;
    }
  }

  void tile(int64_t first, float* o, int64_t step) {
    float scores[kTile];
    float max = kNone;
    const int64_t count = std::min(kTile, call_.keys - first);
    bool seen = false;
    for (int64_t n = 0; n < count; ++n) {
      scores[n] = score(first + n);
      max = std::fmax(max, scores[n]);
      seen = seen || scores[n] != kNone;
    }
    if (!seen) {
      return;
    }
    if (!(max <= max_)) {
      const float factor = sum_ > 0 ? std::exp(max_ - max) : 0;
      sum_ *= factor;
      for (int64_t c = 0; c < call_.value_width; ++c) {
        o[c * step] *= factor;
      }
      max_ = max;
    }
    seen_ = true;
    for (int64_t n = 0; n < count; ++n) {
      if (scores[n] == kNone) {
        continue;
      }
      const float weight = std::exp(scores[n] - max_);
      const float* const v = call_.v.at(b_, h_ / call_.group(), first + n);
      sum_ += weight;
      for (int64_t c = 0; c < call_.value_width; ++c) {
        o[c * step] += weight * v[c * call_.v.step[3]];
      }
    }
  }

  const ForwardCall& call_;
  int64_t b_, h_, i_;
  float max_ = kNone, sum_ = 0;
  bool seen_ = false;
};

constexpr qkvet_capabilities kFields =
    capabilities_with(kAllOptions | kFieldOptions, {kF32});
constexpr qkvet_precision kPlainRows = sequential_f32();
constexpr qkvet_precision kByFives = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

constexpr qkvet_kernel in_window(const char* name, const char* description,
                                 Place place) {
  qkvet_kernel kernel = plain_kernel(name, description, place, &kPlainRows,
                                     kRowForward<PlainRow>, &kFields);
  kernel.dialect = &kInWindow;
  return kernel;
}

}  // namespace

QKVET_CONTROL(ranges_in_window) =
    in_window("controls/ranges_in_window",
              "a window cuts ranges that are seen both ways", QKVET_PLACE);

QKVET_CONTROL(fields_by_fives) = plain_kernel(
    "controls/fields_by_fives",
    "segments, ranges, chunks and trees in tiles of 5 keys", QKVET_PLACE,
    &kByFives, forward_in_f32<FieldTiles::compute>, &kFields);

}  // namespace qkvet::impl
