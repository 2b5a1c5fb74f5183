// SPDX-License-Identifier: Apache-2.0
// The softmax of the engine: tiles, parts, their merges, and the outputs.
#include "impl/controls/engine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace qkvet::impl {

// Until the end of a scope, the processor flushes subnormal results to zero
// and reads subnormal inputs as zero, as with -ffast-math and on GPUs.
// Without such a mode (not x86), nothing is flushed, which the declaration
// allows too.

#if defined(__x86_64__)
constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

// Replaces the mode of this thread; returns the previous one.
inline unsigned exchange_mode(unsigned mode) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(mode);
  return before;
}

class Flushing {
 public:
  Flushing()
      : before_(
            exchange_mode(_mm_getcsr() | kFlushToZero | kDenormalsAreZero)) {}
  ~Flushing() { exchange_mode(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  unsigned before_;
};
#else
struct Flushing {
  Flushing() {}
};
#endif

RowEngine::RowEngine(const Row& row, const Arithmetic& arithmetic)
    : row_(row),
      a_(arithmetic),
      off_(deviation()),
      walks_(walks_hidden_keys(arithmetic)),
      keys_(row.keys),
      scale_(round_to(arithmetic.softmax, std::fabs(row.scale))),
      negative_(row.scale < 0),
      sink_(round_to(arithmetic.sinks, row.terms.sink)),
      storage_(arithmetic.operands != Storage::kF32
                   ? arithmetic.operands
                   : off_.storage.value_or(row.storage)),
      p_(off_.has(Seeded::kRoundedP) ? P::kStorage : a_.p),
      block_(a_.block > 0 && off_.has(Seeded::kOldBlocks) ? 4 : a_.block),
      extra_bits_(off_.has(Seeded::kOldBlocks)     ? 0
                  : off_.has(Seeded::kShortBlocks) ? -10
                                                   : a_.extra_bits) {
  if (off_.has(Seeded::kScale)) {
    scale_ *= 1 + 0x1p-10f;
  }
  if (off_.has(Seeded::kLostKey) && keys_ > 1) {
    --keys_;
    row.weights[keys_] = 0;
  }
  const bool cap_last = a_.softcap_last != off_.has(Seeded::kSoftcapOrder);
  sink_in_lse_ = a_.sink_in_lse != off_.has(Seeded::kSinkInLse);
  options_ = row.terms.any();
  cap_first_ = row.terms.softcap > 0 && !cap_last;
  factor_ = scale_ * kLog2E;
  places_ = a_.hidden == Hidden::kPlaced ? row.key(keys_ - 1) + 1 : keys_;
  const bool shifts = a_.alibi == Alibi::kShift && row.terms.slope != 0 &&
                      row.key(keys_ - 1) <= row.position &&
                      !(row.terms.softcap > 0 && cap_last);
  if (shifts) {
    lse_shift_ = row.terms.slope * static_cast<float>(row.position);
  }
  const bool sink = sink_ > -kInfinity;
  if (a_.exp == Exp::kPrescaled ||
      (a_.exp == Exp::kFolded && (options_ || sink))) {
    unit_ = Unit::kBase2;
  } else if (a_.exp == Exp::kFolded) {
    unit_ = Unit::kProduct;
  }
  if (sink) {
    sink_ = shifts ? sink_ + lse_shift_ : sink_;
    sink_ = unit_ == Unit::kBase2 ? sink_ * kLog2E : sink_;
  }
}

int64_t RowEngine::place(int64_t visit) const {
  if (a_.hidden != Hidden::kPlaced) {
    return visit;
  }
  const int64_t at = row_.key(key(visit));
  return a_.value == Order::kDescending ? places_ - 1 - at : at;
}

// The first visit of [begin, end) with a place of at least `limit`.
int64_t RowEngine::visits_before(int64_t begin, int64_t end,
                                 int64_t limit) const {
  if (a_.hidden != Hidden::kPlaced) {
    return limit < begin ? begin : limit < end ? limit : end;
  }
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (place(middle) < limit) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

RowEngine::Group RowEngine::group(int64_t begin, int64_t first,
                                  int64_t last) const {
  return {begin, visits_before(begin, keys_, last), first, last};
}

RowEngine::Part RowEngine::nothing(float* acc) const {
  std::fill_n(acc, row_.value_width, 0.0f);
  Part part;
  part.acc = acc;
  return part;
}

void RowEngine::raise(Part* part, float max) const {
  const float by = factor(part->max, max);
  part->sum = stored(part->sum * by);
  part->keys = stored(part->keys * by);
  for (int64_t c = 0; c < row_.value_width; ++c) {
    part->acc[c] = kept(part->acc[c] * by);
  }
}

void RowEngine::absorb_tile(Part* part, const Group& tile,
                            bool with_values) const {
  const bool clears = a_.hidden == Hidden::kCleared;
  float max = part->max;
  float asks = part->max;  // of hidden keys, too
  for (int64_t m = tile.begin; m < tile.end; ++m) {
    const int64_t n = key(m);
    asks = std::fmax(asks, row_.scores[n]);
    max = clears && is_hidden(n) ? max : std::fmax(max, row_.scores[n]);
  }
  if (part->max > -kInfinity) {
    const float top = a_.votes_before_mask ? asks : max;
    const bool stays = a_.lag > 0 ? natural(top) - natural(part->max) <= a_.lag
                                  : !(max > part->max);
    if (stays) {
      max = part->max;
    } else {
      raise(part, max);
    }
  }
  part->max = max;
  weigh(tile, max);
  const float start = part->sum;
  part->sum = stored(sum_of(tile, start));
  part->keys =
      start == part->keys ? part->sum : stored(sum_of(tile, part->keys));
  if (with_values) {
    add_values(tile, part->acc);
  }
  if (off_.has(Seeded::kRoundedTile)) {
    for (int64_t c = 0; c < row_.value_width; ++c) {
      part->acc[c] = round_to(storage_, part->acc[c]);
    }
  }
  if (off_.has(Seeded::kRoundedTotal)) {
    part->sum = round_to(storage_, part->sum);
  }
}

void RowEngine::absorb(Part* part, const Group& keys, bool with_values) const {
  const int64_t tile = a_.tile > 0 ? a_.tile : keys.last - keys.first;
  int64_t begin = keys.begin;
  for (int64_t first = keys.first; begin < keys.end; first += tile) {
    const int64_t last = first + tile < keys.last ? first + tile : keys.last;
    const Group one = group(begin, first, last);
    if (one.count() > 0) {
      absorb_tile(part, one, with_values);
    }
    begin = one.end;
  }
}

// The sink as a part of its own, of value 0.
void RowEngine::absorb_sink(Part* part) {
  // Above this, a weight against another part's maximum overflows.
  constexpr float kFar = 60;
  lse_of_keys_ = natural(part->max) + log(part->keys);
  const bool near = natural(sink_) - natural(part->max) < kFar;
  if (a_.sink == Sink::kAdded && near) {
    part->sum = stored(part->sum + weight(sink_, part->max));
    return;
  }
  const float max = std::fmax(part->max, sink_);
  if (max > part->max) {
    raise(part, max);
  }
  part->max = max;
  part->sum = stored(part->sum + factor(sink_, max));
}

void RowEngine::fold(Part* all, const Part& part) const {
  const float max = std::fmax(all->max, part.max);
  const float a = factor(all->max, max), b = factor(part.max, max);
  all->max = max;
  all->sum = stored(stored(all->sum * a) + stored(part.sum * b));
  all->keys = all->sum;
  for (int64_t c = 0; c < row_.value_width; ++c) {
    all->acc[c] = kept(kept(all->acc[c] * a) + kept(part.acc[c] * b));
  }
}

RowEngine::Part RowEngine::folded_parts() {
  const bool sink = sink_ > -kInfinity;
  const bool begins = sink && a_.sink == Sink::kFirst && a_.parts == 1;
  Part all = nothing(row_.acc);
  if (begins) {
    all.max = sink_;
    all.sum = 1;
  }
  const int64_t size = (places_ + a_.parts - 1) / a_.parts;
  int64_t begin = 0;
  for (int64_t first = 0; begin < keys_; first += size) {
    const Group keys = group(begin, first, first + size);
    if (keys.count() > 0 && begin == 0) {
      absorb(&all, keys, /*with_values=*/true);
    } else if (keys.count() > 0) {
      Part part = nothing(row_.part);
      absorb(&part, keys, /*with_values=*/true);
      fold(&all, part);
    }
    begin = keys.end;
  }
  if (begins) {
    lse_of_keys_ = natural(all.max) + log(all.keys);
  } else if (sink) {
    absorb_sink(&all);
  }
  return all;
}

template <class Final>
void RowEngine::write_output(const Final& finished) const {
  for (int64_t c = 0; c < row_.value_width; ++c) {
    row_.o[c * row_.o_step] = finished(row_.acc[c]);
  }
}

// Visits each part twice: its weight needs the lse of all of them.
void RowEngine::merge_by_lse() {
  Group groups[kMostParts];
  float lse[kMostParts];
  int count = 0;
  const int64_t size = (places_ + a_.parts - 1) / a_.parts;
  int64_t begin = 0;
  float top = sink_;
  for (int64_t first = 0; begin < keys_; first += size) {
    const Group keys = group(begin, first, first + size);
    begin = keys.end;
    if (keys.count() == 0) {
      continue;
    }
    Part part = nothing(row_.part);
    absorb(&part, keys, /*with_values=*/false);
    if (part.sum == 0) {
      continue;  // all of its scores have overflowed to -infinity
    }
    groups[count] = keys;
    lse[count] = natural(part.max) + log(part.sum);
    top = std::fmax(top, lse[count++]);
  }
  float sum = 0;
  for (int p = 0; p < count; ++p) {
    sum += std::exp(lse[p] - top);
  }
  lse_of_keys_ = top + log(sum);
  sum += std::exp(sink_ - top);
  const float total = top + log(sum);
  std::fill_n(row_.acc, row_.value_width, 0.0f);
  for (int p = 0; p < count; ++p) {
    Part part = nothing(row_.part);
    absorb(&part, groups[p], /*with_values=*/true);
    const float share = std::exp(lse[p] - total);
    for (int64_t c = 0; c < row_.value_width; ++c) {
      row_.acc[c] += share * divided(part.acc[c], part.sum);
    }
  }
  write_output([](float x) { return x; });
  write_lse_of(sink_in_lse_ ? total : lse_of_keys_);
  for (int64_t n = 0; row_.weights_wanted && n < keys_; ++n) {
    row_.weights[n] = std::exp(row_.scores[n] - total);
  }
}

void RowEngine::divide_first() {
  const Group keys = group(0, 0, places_);
  Part part = nothing(row_.acc);
  const bool sink = sink_ > -kInfinity;
  const bool begins = sink && a_.sink == Sink::kFirst;
  float max = sink_;
  for (int64_t n = 0; n < keys_; ++n) {
    max = std::fmax(max, row_.scores[n]);
  }
  weigh(keys, max);
  const float of_sink = sink ? weight(sink_, max) : 0;
  part.keys = stored(sum_of(keys, 0));
  part.sum = stored(begins ? sum_of(keys, of_sink) : part.keys + of_sink);
  for (int64_t n = 0; n < keys_; ++n) {
    const float w = divided(row_.weights[n], part.sum);
    row_.weights[n] = p_ == P::kNormalised ? rounded_p(w) : w;
  }
  add_values(keys, row_.acc);
  write_output([](float x) { return x; });
  lse_of_keys_ = natural(max) + log(part.keys);
  write_lse(max, part.sum);
}

void RowEngine::write_lse_of(float lse) const {
  row_.write_lse(round_to(a_.lse, lse_shift_ != 0 ? lse - lse_shift_ : lse));
}

void RowEngine::write_lse(float max, float sum) const {
  constexpr double kLog2EInDouble = 1.4426950408889634;
  if (a_.lse_base2) {  // the change of base in double, so that lse rounds once
    const double lse = double{natural(max)} + std::log(double{sum});
    row_.write_lse(
        static_cast<float>((lse - double{lse_shift_}) * kLog2EInDouble));
    return;
  }
  const bool whole = sink_ == -kInfinity || sink_in_lse_;
  write_lse_of(stored(whole ? natural(max) + log(sum) : lse_of_keys_));
}

// Against the last maximum, independent of the rescaling on the way.
void RowEngine::write_weights(float max, float sum) const {
  const bool rounds = p_ == P::kStorage || p_ == P::kSummed;
  for (int64_t n = 0; n < keys_; ++n) {
    const float w = weight(row_.scores[n], max);
    row_.weights[n] = divided(rounds ? rounded_p(w) : w, sum);
  }
}

void RowEngine::finish(const Part& all) const {
  write_output([&](float x) { return divided(x, all.sum); });
  write_lse(all.max, all.sum);
  if (row_.weights_wanted) {
    write_weights(all.max, all.sum);
  }
}

void RowEngine::run() {
  score();
  if (a_.norm_first) {
    divide_first();
  } else if (a_.merge == Merge::kLse) {
    merge_by_lse();
  } else {
    finish(folded_parts());
  }
}

namespace {

void compute(const Row& row, const Arithmetic& arithmetic) {
  RowEngine(row, arithmetic).run();
}

// Not inlined: no floating-point operation may move past the change of mode.
[[gnu::noinline]] void compute_flushed(const Row& row,
                                       const Arithmetic& arithmetic) {
  compute(row, arithmetic);
}

}  // namespace

void Controlled::row(const Row& row) {
  const auto& arithmetic = *static_cast<const Arithmetic*>(row.user);
  if (!arithmetic.ftz) {
    compute(row, arithmetic);
    return;
  }
  const Flushing flushing;
  compute_flushed(row, arithmetic);
}

}  // namespace qkvet::impl
