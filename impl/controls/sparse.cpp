// SPDX-License-Identifier: Apache-2.0
// Controls that walk lists of keys entry by entry, like sparse kernels, while
// the others check for each key whether it is listed: one fetches all entries
// first and hides afterwards, one sorts them, one takes three at a time. In
// rows and over pages, where each entry is looked up in the table. A call
// without lists gets one with all keys.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "impl/controls/control.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// A row and its keys, in the order of the walk.
struct SparseRow {
  const ServingCall& serving;
  const ForwardCall& call;  // the member
  int64_t member, h, i;

  int64_t kv_head() const { return h / call.group(); }
  bool sees(int64_t j) const {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end && call.options.shows(0, h, i, j);
  }
  float score(int64_t j) const {
    const Slot slot = serving.slot(member, j);
    const float* const q = call.q.at(0, h, i);
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] *
             serving.k.get(slot.block, kv_head(), slot.row, c);
    }
    return with_options(call, 0, h, i, j, dot * call.scale);
  }
  void add_value(int64_t j, float weight, float* acc) const {
    const Slot slot = serving.slot(member, j);
    for (int64_t c = 0; c < call.value_width; ++c) {
      acc[c] += weight * serving.v.get(slot.block, kv_head(), slot.row, c);
    }
  }
};

// The keys of the first `count` entries, those of a block one after the other;
// -1 and numbers outside of the member are kept.
std::vector<int64_t> entries_of(const SparseRow& row, int64_t count) {
  std::vector<int64_t> keys;
  const KeyLists& lists = row.call.options.lists;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t entry = lists.entry(0, row.h, row.i, n);
    for (int64_t of = 0; of < lists.block; ++of) {
      keys.push_back(entry < 0 ? -1 : entry * lists.block + of);
    }
  }
  return keys;
}

std::vector<int64_t> listed_keys(const SparseRow& row) {
  const KeyLists& lists = row.call.options.lists;
  if (lists.present()) {
    return entries_of(row, lists.count(0, row.i));
  }
  std::vector<int64_t> all;
  for (int64_t j = 0; j < row.call.keys; ++j) {
    all.push_back(j);
  }
  return all;
}

std::vector<int64_t> seen_keys(const SparseRow& row) {
  std::vector<int64_t> keys = listed_keys(row);
  std::erase_if(keys, [&](int64_t j) { return !row.sees(j); });
  return keys;
}

struct SparseState {
  float max;
  float sum;
  std::vector<float> acc;
};

void absorb(const SparseRow& row, const int64_t* keys, int64_t count,
            SparseState* state) {
  std::vector<float> scores;
  float max = state->max;
  for (int64_t n = 0; n < count; ++n) {
    scores.push_back(row.score(keys[n]));
    max = std::fmax(max, scores.back());
  }
  if (state->sum > 0 && max > state->max) {
    const float factor = std::exp(state->max - max);
    state->sum *= factor;
    for (float& x : state->acc) {
      x *= factor;
    }
  }
  state->max = max;
  for (int64_t n = 0; n < count; ++n) {
    const float weight = std::exp(scores[static_cast<size_t>(n)] - max);
    state->sum += weight;
    row.add_value(keys[n], weight, state->acc.data());
  }
}

void finish(const SparseRow& row, bool any, const SparseState& state) {
  const ForwardCall& call = row.call;
  for (int64_t c = 0; c < call.value_width; ++c) {
    call.o.at(0, row.h, row.i)[c * call.o.step[3]] =
        any ? state.acc[static_cast<size_t>(c)] / state.sum : 0;
  }
  if (call.lse.data != nullptr) {
    *call.lse.at(0, row.h, row.i) =
        any ? state.max + std::log(state.sum) : kNone;
  }
}

SparseState begin(const SparseRow& row) {
  const float sink = row.call.options.sink_of(row.h);
  return {sink, sink > kNone ? 1.0f : 0.0f,
          std::vector<float>(static_cast<size_t>(row.call.value_width))};
}

// In tiles of this many keys; 0: all at once.
template <int64_t kTile, bool kSorted>
struct InTiles {
  static void row(const SparseRow& row) {
    std::vector<int64_t> keys = seen_keys(row);
    if (kSorted) {
      std::sort(keys.begin(), keys.end());
    }
    SparseState state = begin(row);
    const auto all = static_cast<int64_t>(keys.size());
    const int64_t tile = kTile > 0 ? kTile : std::max<int64_t>(all, 1);
    for (int64_t n = 0; n < all; n += tile) {
      absorb(row, keys.data() + n, std::min(tile, all - n), &state);
    }
    finish(row, all > 0, state);
  }
};

// Entries past the length are fetched too, from the nearest existing key, and
// hidden when all scores are computed.
struct FetchedThenHidden {
  static void row(const SparseRow& row) {
    const KeyLists& lists = row.call.options.lists;
    const std::vector<int64_t> keys =
        lists.present() ? entries_of(row, lists.entries) : listed_keys(row);
    const int64_t counted =
        lists.present() ? lists.count(0, row.i) * lists.block : row.call.keys;
    std::vector<float> scores;
    SparseState state = begin(row);
    for (size_t n = 0; n < keys.size() && row.call.keys > 0; ++n) {
      const int64_t nearest =
          std::clamp<int64_t>(keys[n], 0, row.call.keys - 1);
      scores.push_back(row.score(nearest));
      if (static_cast<int64_t>(n) >= counted || !row.sees(keys[n])) {
        scores.back() = kNone;
      }
    }
    // NaN is the score of a key that is seen.
    std::vector<size_t> seen;
    for (size_t n = 0; n < scores.size(); ++n) {
      if (static_cast<int64_t>(n) < counted && row.sees(keys[n])) {
        seen.push_back(n);
        state.max = std::fmax(state.max, scores[n]);
      }
    }
    if (state.sum > 0) {  // the sink's weight was that against itself
      state.sum = std::exp(row.call.options.sink_of(row.h) - state.max);
    }
    for (const size_t n : seen) {
      const float weight = std::exp(scores[n] - state.max);
      state.sum += weight;
      row.add_value(keys[n], weight, state.acc.data());
    }
    finish(row, !seen.empty(), state);
  }
};

template <class Way>
qkvet_status compute_sparse(const ServingCall& s, int64_t b, qkvet_text*) {
  const ForwardCall member = served_member(s, b);
  for (int64_t h = 0; h < member.heads; ++h) {
    for (int64_t i = 0; i < member.queries; ++i) {
      Way::row({s, member, b, h, i});
    }
  }
  return QKVET_OK;
}

template <class Way>
constexpr ForwardFunction forward_sparse =
    serve_members<ServingHooks::append, compute_sparse<Way>>;

constexpr qkvet_capabilities kSparse = capabilities_with(
    (kAllOptions & ~(QKVET_OPTION_PACKED | QKVET_OPTION_ROPE)) | kListOptions |
        kServingOptions | QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
        QKVET_OPTION_INT32_LENGTHS,
    {kF32});
constexpr qkvet_precision kAtOnce = sequential_f32();
constexpr qkvet_precision kByThrees = [] {
  qkvet_precision p = sequential_f32();
  p.tile = 3;
  return p;
}();

}  // namespace

QKVET_CONTROL(lists_fetched_then_hidden) = serving_kernel(
    "controls/lists_fetched_then_hidden",
    "all entries of a list are fetched, then those that do not count hidden",
    QKVET_PLACE, &kAtOnce, forward_sparse<FetchedThenHidden>, &kSparse);

QKVET_CONTROL(lists_sorted) = serving_kernel(
    "controls/lists_sorted", "entries of a list are sorted first", QKVET_PLACE,
    &kAtOnce, forward_sparse<InTiles<0, true>>, &kSparse);

QKVET_CONTROL(lists_by_threes) = serving_kernel(
    "controls/lists_by_threes", "entries of a list in tiles of 3, as they come",
    QKVET_PLACE, &kByThrees, forward_sparse<InTiles<3, false>>, &kSparse);

}  // namespace qkvet::impl
