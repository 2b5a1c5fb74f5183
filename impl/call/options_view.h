// SPDX-License-Identifier: Apache-2.0
// The options of a call besides q, k, v, a causal rule and a scale, checked and
// typed. A ForwardCall (forward_view.h) contains them.
//
// An arithmetic never sees lengths and packed batches: members.h cuts such a
// call into members before anything is computed.
#ifndef QKVET_IMPL_CALL_OPTIONS_VIEW_H_
#define QKVET_IMPL_CALL_OPTIONS_VIEW_H_

#include <cstdint>
#include <initializer_list>

#include "impl/call/rope.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// The weights that a call drops: a counter-based generator, so forward() and
// backward() drop the same ones in any order and on any number of threads.
//
// The numbers seed, offset, b, h, i, j are stirred into one word in this order
// by the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014, 3), all 64 bits of each; the
// keys of a row are a sequence of that generator. A weight is dropped if the
// upper 24 bits, as a fraction, are below p. Cost: six rounds a pair.
struct Dropout {
  float p = 0;  // 0: nothing is dropped
  uint64_t seed = 0, offset = 0;
  // The offset of this call in the whole call.
  int64_t b = 0, h = 0, i = 0, j = 0;

  bool present() const { return p > 0; }

  static uint64_t stirred(uint64_t word, uint64_t number) {
    word += UINT64_C(0x9E3779B97F4A7C15) * (number + 1);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
  }

  bool keeps(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    uint64_t word = stirred(seed, offset);
    for (const int64_t place : {b + in_b, h + in_h, i + in_i, j + in_j}) {
      word = stirred(word, static_cast<uint64_t>(place));
    }
    return static_cast<float>(word >> 40) * 0x1p-24f >= p;
  }

  // The factor of the weights that are kept.
  float scale() const { return 1 / (1 - p); }
  // The factor of a weight: scale() if it is kept, else 0.
  float factor(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    return keeps(in_b, in_h, in_i, in_j) ? scale() : 0;
  }

  Dropout from(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    return {p, seed, offset, b + in_b, h + in_h, i + in_i, j + in_j};
  }
};

// Lists of keys (kernel.h: key_indices). A list is searched for each pair:
// correct, and slow, because the kernels here are not made for lists.
struct KeyLists {
  View<const int32_t> keys;    // [B, Hkv or 1, Tq, n], no data if there is none
  View<const int32_t> counts;  // [B, Tq], no data: all n
  int64_t entries = 0;         // n
  int64_t group = 1;           // query heads of a list
  int64_t block = 1;           // keys of an entry
  // The offset of this call in the whole call; that of keys is in the
  // member.
  int64_t b = 0, h = 0, i = 0, j = 0;

  bool present() const { return keys.data != nullptr; }
  int64_t count(int64_t in_b, int64_t in_i) const {
    return counts.data != nullptr ? *counts.at(b + in_b, i + in_i, 0) : entries;
  }
  int32_t entry(int64_t in_b, int64_t in_h, int64_t in_i, int64_t n) const {
    return keys.at(b + in_b, (h + in_h) / group, i + in_i)[n * keys.step[3]];
  }
  bool has(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const;
  KeyLists from(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    return {keys,     counts,   entries,  group,   block,
            b + in_b, h + in_h, i + in_i, j + in_j};
  }
};

// Masks given by a few numbers (kernel.h): segments, ranges, chunks, a tree.
// They are evaluated for each pair.
struct FieldMasks {
  // Integers of 32 or 64 bits.
  struct Integers {
    View<const int32_t> narrow;
    View<const int64_t> wide;

    bool present() const {
      return narrow.data != nullptr || wide.data != nullptr;
    }
    int64_t get(int64_t batch, int64_t n, int64_t column) const {
      return wide.data != nullptr ? *wide.at(batch, n, column)
                                  : *narrow.at(batch, n, column);
    }
  };
  Integers segments_q, segments_k;  // [B, Tq], [B, Tk]
  Integers full_ranges;             // [B, R, 2]
  int64_t ranges = 0;               // R
  int64_t chunk = 0;
  View<const uint8_t> tree;  // [B, Tq, Tq], no data if there is none
  // In the member: the key at the position of its first row, and the key that
  // is its first draft; then the rules that ranges are composed with.
  int64_t diagonal = 0, drafts = 0;
  bool causal = false;
  int64_t window_left = -1, window_right = -1;
  bool in_window = false;  // the dialect: a window also cuts ranges
  // The offset of this call in the member.
  int64_t b = 0, i = 0, j = 0;

  bool present() const {
    return segments_q.present() || ranges > 0 || chunk > 0 ||
           tree.data != nullptr;
  }
  // Whether they leave the pair; with ranges this includes the causal rule and
  // the window.
  bool show(int64_t in_b, int64_t in_i, int64_t in_j) const {
    const int64_t of = b + in_b, row = i + in_i, key = j + in_j;
    return in_segment(of, row, key) && in_chunk(row + diagonal, key) &&
           in_range(of, row + diagonal, key) && on_branch(of, row, key);
  }
  bool in_segment(int64_t of, int64_t row, int64_t key) const {
    if (!segments_q.present()) {
      return true;
    }
    const int64_t segment = segments_q.get(of, row, 0);
    return segment >= 0 && segment == segments_k.get(of, key, 0);
  }
  bool in_chunk(int64_t position, int64_t key) const {
    return chunk <= 0 || chunk_of(position) == chunk_of(key);
  }
  int64_t chunk_of(int64_t at) const {
    return at >= 0 ? at / chunk : (at + 1) / chunk - 1;
  }
  bool on_branch(int64_t of, int64_t row, int64_t key) const {
    return tree.data == nullptr || key < drafts ||
           *tree.at(of, row, key - drafts) != 0;
  }
  bool in_past(int64_t position, int64_t key) const {
    return !causal || key <= position;
  }
  bool in_window_of(int64_t position, int64_t key) const {
    return (window_left < 0 || position - key <= window_left) &&
           (window_right < 0 || key - position <= window_right);
  }
  // Whether one range contains both.
  bool share_range(int64_t of, int64_t position, int64_t key) const;
  bool in_range(int64_t of, int64_t position, int64_t key) const;
  FieldMasks from(int64_t in_b, int64_t in_i, int64_t in_j) const {
    FieldMasks part = *this;
    part.b += in_b;
    part.i += in_i;
    part.j += in_j;
    return part;
  }
};

struct Options {
  // Keys beside the diagonal that stay visible, inclusive counts; -1: all.
  int64_t window_left = -1;
  int64_t window_right = -1;
  View<const uint8_t> mask;  // [B, H, Tq, Tk], no data if there is none
  Stored bias;               // [B, H, Tq, Tk], absent if there is none
  float softcap = 0;         // 0: none
  Stored sink;               // [H]
  Stored slopes;             // [B, H], with a step of 0 for [H]
  View<const int64_t> q_len, kv_len;  // [B]
  View<const int64_t> cu_q, cu_k;     // [members + 1]
  int64_t members = 0;                // of a packed batch
  Rope rope;                          // used by in_f32.h
  KeyLists lists;
  FieldMasks fields;
  Dropout dropout;

  bool has_lengths() const {
    return q_len.data != nullptr || kv_len.data != nullptr ||
           cu_q.data != nullptr;
  }
  // Whether a pair may be hidden that in_reach() allows.
  bool hides_pairs() const {
    return mask.data != nullptr || bias.present() || lists.present() ||
           fields.present();
  }
  // Whether a score differs from scale * q.k.
  bool changes_scores() const {
    return softcap > 0 || bias.present() || slopes.present();
  }
  bool any() const {
    return window_left >= 0 || window_right >= 0 || hides_pairs() ||
           changes_scores() || sink.present() || dropout.present();
  }
  // The mask, the lists and the masks in a few numbers; a bias of -infinity
  // hides its pair as a mask does, so a difference of infinities never
  // occurs.
  bool allows(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return (!lists.present() || lists.has(b, h, i, j)) && shows(b, h, i, j) &&
           (!fields.present() || fields.show(b, i, j));
  }
  // Only the mask and the bias.
  bool shows(int64_t b, int64_t h, int64_t i, int64_t j) const;
  // -infinity if there is none: it adds exp(-infinity) = 0.
  float sink_of(int64_t h) const;
  float slope_of(int64_t b, int64_t h) const {
    return slopes.present() ? slopes.get(b, h) : 0;
  }
  // These options for a call that begins at member b, head h, row i and key j
  // of this one. Lengths are dropped.
  Options from(int64_t b, int64_t h, int64_t i, int64_t j) const;
};

// The name of a field that is set and not supported by a kernel with these
// QKVET_OPTION_*, or NULL.
const char* unknown_field(const qkvet_forward_args& args, uint64_t declared);

struct Check;  // call_rows.h
// The options of a checked call.
void fill_options(const qkvet_forward_args& args, const Check& check,
                  Options* options);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_OPTIONS_VIEW_H_
