// SPDX-License-Identifier: Apache-2.0
// Controls that walk lists of keys entry by entry, like sparse kernels, while
// the others check for each key whether it is listed: one fetches all entries
// first and hides afterwards, one sorts them, one takes three at a time. In
// rows and over pages, where each entry is looked up in the table. A call
// without lists gets one with all keys.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "impl/controls/control.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

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

struct Scored {
  int64_t key;
  float score;
};

struct SparseState {
  float max;
  float sum;
  std::vector<float> acc;
};

void absorb(const SparseRow& row, const std::span<const Scored> keys,
            SparseState* state) {
  float max = state->max;
  for (const Scored& key : keys) {
    max = std::fmax(max, key.score);
  }
  if (state->sum > 0 && max > state->max) {
    const float factor = std::exp(state->max - max);
    state->sum *= factor;
    for (float& x : state->acc) {
      x *= factor;
    }
  }
  state->max = max;
  for (const Scored& key : keys) {
    const float weight = std::exp(key.score - max);
    state->sum += weight;
    row.add_value(key.key, weight, state->acc.data());
  }
}

// In tiles of this many keys.
void attend(const SparseRow& row, std::span<const Scored> keys, size_t tile) {
  const ForwardCall& call = row.call;
  const float sink = call.options.sink_of(row.h);
  SparseState state = {
      sink, sink > -kInfinity ? 1.0f : 0.0f,
      std::vector<float>(static_cast<size_t>(call.value_width))};
  for (size_t n = 0; n < keys.size(); n += tile) {
    absorb(row, keys.subspan(n, std::min(tile, keys.size() - n)), &state);
  }
  write_sums(call, {0, row.h, row.i}, !keys.empty(), state.acc.data(),
             state.sum, state.max + std::log(state.sum));
}

// Only keys that are seen are read.
std::vector<Scored> seen_keys(const SparseRow& row, bool sorted) {
  std::vector<int64_t> keys = listed_keys(row);
  std::erase_if(keys, [&](int64_t j) { return !row.sees(j); });
  if (sorted) {
    std::sort(keys.begin(), keys.end());
  }
  std::vector<Scored> scored;
  for (const int64_t j : keys) {
    scored.push_back({j, row.score(j)});
  }
  return scored;
}

struct Sorted {
  static void row(const SparseRow& row) {
    const std::vector<Scored> keys = seen_keys(row, /*sorted=*/true);
    attend(row, keys, std::max<size_t>(keys.size(), 1));
  }
};
struct ByThrees {
  static void row(const SparseRow& row) {
    attend(row, seen_keys(row, /*sorted=*/false), 3);
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
    std::vector<Scored> scored;
    for (const int64_t j : keys) {
      const int64_t last = row.call.keys - 1;
      scored.push_back({j, last < 0
                               ? -kInfinity
                               : row.score(std::clamp<int64_t>(j, 0, last))});
    }
    scored.resize(static_cast<size_t>(counted));
    std::erase_if(scored,
                  [&](const Scored& one) { return !row.sees(one.key); });
    attend(row, scored, std::max<size_t>(scored.size(), 1));
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
    (kAllOptions & ~(QKVET_OPTION_PACKED | kRotations)) | kListOptions |
        kServingOptions | QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
        QKVET_OPTION_INT32_LENGTHS,
    {kF32});
constexpr Arithmetic kAtOnce = {}, kTilesOf3 = {.tile = 3};

template <class Way, const Arithmetic& kArithmetic>
constexpr qkvet_kernel kSparseKernel =
    serving_kernel("", "", {}, &kDeclaredPrecision<kArithmetic>,
                   forward_sparse<Way>, &kSparse);

}  // namespace

QKVET_CONTROL(
    lists_fetched_then_hidden,
    "all entries of a list are fetched, then those that do not count hidden",
    kSparseKernel<FetchedThenHidden, kAtOnce>);
QKVET_CONTROL(lists_sorted, "entries of a list are sorted first",
              kSparseKernel<Sorted, kAtOnce>);
QKVET_CONTROL(lists_by_threes, "entries of a list in tiles of 3, as they come",
              kSparseKernel<ByThrees, kTilesOf3>);

}  // namespace qkvet::impl
