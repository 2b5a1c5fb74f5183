// SPDX-License-Identifier: Apache-2.0
// The plumbing of every kernel that works row by row: checks the call, walks
// over members, heads and rows, writes the outputs of rows without a visible
// key, and passes each other row, with its visible keys only, to
//
//   static void Arithmetic::row(const Row& row);
//
// which writes o and lse of that row. An Arithmetic may also have
//
//   static void Arithmetic::empty_row(const Row& row);
//
// for a row that sees none of the `keys` keys of its member; else its o is 0
// and its lse -infinity. All arithmetic is in these functions; the plumbing
// only copies q and bias into the scratch memory, and converts half storage to
// f32 and back (in_f32.h).
//
// An Arithmetic with `static constexpr bool kWalksHiddenKeys = true` gets all
// keys of the member; those that the row does not see have a bias of -infinity,
// and no other key has. One with `kReturnsWeights = true` has row.weights to
// work in, and leaves the weights there if they are requested.
//
// The keys of a row are numbered 0, 1, ... in ascending order, without those
// that the mask hides; Row::key() is the position of a key.
//
// Contract: any strides, addresses aligned to elements; outputs do not overlap
// inputs; reads and writes elements of the tensors only; NaN in a visible key
// or value makes the row NaN, at any other key it does not matter. Memory: Tk +
// d + 2 dv floats a call; Tk more for a bias, and for weights; Tk integers for
// a mask or bias.
#ifndef QKVET_IMPL_SKELETONS_ROW_SKELETON_H_
#define QKVET_IMPL_SKELETONS_ROW_SKELETON_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "impl/call/forward_view.h"
#include "impl/call/in_f32.h"
#include "impl/call/scratch.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// Rows of a head: element c of row number n is at row(n) + c * step.
struct Rows {
  const float* data;
  int64_t row_step;
  int64_t step;
  const int64_t* index = nullptr;  // of the rows; NULL: 0, 1, ...

  const float* row(int64_t n) const {
    return data + (index == nullptr ? n : index[n]) * row_step;
  }
};

// The terms applied to scale * q.k before the softmax, in this order:
//
//   s = softcap * tanh(s / softcap);  s += bias;  s -= slope * distance
//
// where distance is that of the key from the diagonal, on either side.
struct ScoreTerms {
  float softcap = 0;            // 0: none
  const float* bias = nullptr;  // of key number n; NULL: none
  float slope = 0;              // 0: none
  float sink = -std::numeric_limits<float>::infinity();  // -infinity: none

  bool any() const { return softcap > 0 || bias != nullptr || slope != 0; }
};

struct Row {
  float* q;  // [d], contiguous, filled anew for every row
  Rows k;    // [keys, d]
  Rows v;    // [keys, dv]
  ScoreTerms terms;
  int64_t first_key;  // the position of key number 0 if k.index is NULL
  int64_t position;   // the key on the diagonal, inside [0, Tk) or not
  float* o;           // [dv]
  int64_t o_step;
  float* lse;           // NULL if not asked for
  int64_t keys;         // that this row sees, at least 1
  int64_t width;        // d
  int64_t value_width;  // dv
  float scale;
  float* scores;   // scratch [keys]
  float* acc;      // scratch [dv]
  float* part;     // scratch [dv]
  float* weights;  // scratch [keys] of an arithmetic that returns weights
  bool weights_wanted;
  bool masked;       // the call has a mask
  const void* user;  // of the kernel
  // The storage type of the caller's tensors; everything above is f32.
  Storage storage;

  int64_t key(int64_t n) const {
    return k.index == nullptr ? first_key + n : k.index[n];
  }
  float distance(int64_t n) const {
    const int64_t d = position - key(n);
    return static_cast<float>(d < 0 ? -d : d);
  }
  float capped(float s) const {
    return terms.softcap > 0 ? terms.softcap * std::tanh(s / terms.softcap) : s;
  }
  // s with bias and ALiBi of key number n. Every operation rounds.
  float shifted(float s, int64_t n) const {
    s = terms.bias != nullptr ? s + terms.bias[n] : s;
    return terms.slope != 0 ? s - terms.slope * distance(n) : s;
  }
  // The score of key number n; `scaled` is its scale * q.k.
  float score(float scaled, int64_t n) const {
    return terms.any() ? shifted(capped(scaled), n) : scaled;
  }
  void write_lse(float value) const {
    if (lse != nullptr) {
      *lse = value;
    }
  }
};

inline void write_empty_row(const Row& row) {
  for (int64_t c = 0; c < row.value_width; ++c) {
    row.o[c * row.o_step] = 0;
  }
  row.write_lse(-std::numeric_limits<float>::infinity());
}

// Memory of a call.
struct RowMemory {
  float* q;        // [d]
  float* bias;     // [Tk], NULL: not needed
  int64_t* index;  // [Tk], NULL: the keys of a row are a run
};

inline void fill_hidden(float* bias, int64_t keys) {
  for (int64_t j = 0; j < keys; ++j) {
    bias[j] = -std::numeric_limits<float>::infinity();
  }
}

// Numbers the keys that row i sees. row->k and row->v are those of the head.
inline void take_keys(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                      const RowMemory& memory, Row* row) {
  row->position = call.position(i);
  if (memory.index != nullptr) {
    row->keys = call.list_keys(b, h, i, memory.index);
    row->k.index = row->v.index = memory.index;
  } else {
    const Run run = call.in_reach(i);
    row->keys = run.count();
    row->first_key = run.begin;
    row->k.data = row->k.row(run.begin);
    row->v.data = row->v.row(run.begin);
  }
  for (int64_t n = 0; memory.bias != nullptr && n < row->keys; ++n) {
    memory.bias[n] = call.options.bias.get(b, h, i, row->key(n));
  }
}

// All keys of the member for a row that sees at least one.
inline void take_all_keys(const ForwardCall& call, int64_t b, int64_t h,
                          int64_t i, const RowMemory& memory, Row* row) {
  const bool biased = call.options.bias.present();
  row->position = call.position(i);
  fill_hidden(memory.bias, call.keys);
  row->keys = 0;
  const Run run = call.in_reach(i);
  for (int64_t j = run.begin; j < run.end; ++j) {
    if (call.options.allows(b, h, i, j)) {
      memory.bias[j] = biased ? call.options.bias.get(b, h, i, j) : 0;
      row->keys = call.keys;
    }
  }
}

template <class Arithmetic>
constexpr bool walks_hidden_keys() {
  if constexpr (requires { Arithmetic::kWalksHiddenKeys; }) {
    return Arithmetic::kWalksHiddenKeys;
  } else {
    return false;
  }
}

template <class Arithmetic>
constexpr bool returns_weights() {
  if constexpr (requires { Arithmetic::kReturnsWeights; }) {
    return Arithmetic::kReturnsWeights;
  } else {
    return false;
  }
}

// Writes the weights of a row; `seen` is NULL for a row without keys.
inline void write_weights(const ForwardCall& call, const Row* seen, int64_t b,
                          int64_t h, int64_t i) {
  float* const to = call.weights.at(b, h, i);
  for (int64_t j = 0; j < call.keys; ++j) {
    to[j * call.weights.step[3]] = 0;
  }
  for (int64_t n = 0; seen != nullptr && n < seen->keys; ++n) {
    to[seen->key(n) * call.weights.step[3]] = seen->weights[n];
  }
}

template <class Arithmetic>
void compute_empty_row(const Row& row) {
  if constexpr (requires { Arithmetic::empty_row(row); }) {
    Arithmetic::empty_row(row);
  } else {
    write_empty_row(row);
  }
}

template <class Arithmetic>
void compute_head(const ForwardCall& call, int64_t b, int64_t h,
                  const RowMemory& memory, Row row) {
  const int64_t kv = h / call.group();
  row.k = {call.k.at(b, kv, 0), call.k.step[2], call.k.step[3]};
  row.v = {call.v.at(b, kv, 0), call.v.step[2], call.v.step[3]};
  row.terms.slope = call.options.slope_of(b, h);
  row.terms.sink = call.options.sink_of(h);
  for (int64_t i = 0; i < call.queries; ++i) {
    row.o = call.o.at(b, h, i);
    row.lse = call.lse.data != nullptr ? call.lse.at(b, h, i) : nullptr;
    Row seen = row;
    if constexpr (walks_hidden_keys<Arithmetic>()) {
      take_all_keys(call, b, h, i, memory, &seen);
    } else {
      take_keys(call, b, h, i, memory, &seen);
    }
    if (seen.keys == 0) {
      compute_empty_row<Arithmetic>(row);
      if (row.weights_wanted) {
        write_weights(call, nullptr, b, h, i);
      }
      continue;
    }
    const float* from = call.q.at(b, h, i);
    for (int64_t c = 0; c < row.width; ++c) {
      memory.q[c] = from[c * call.q.step[3]];
    }
    Arithmetic::row(seen);
    if (row.weights_wanted) {
      write_weights(call, &seen, b, h, i);
    }
  }
}

template <class Arithmetic>
qkvet_status compute_rows(const ForwardCall& call, qkvet_text* why) {
  constexpr bool kWalks = walks_hidden_keys<Arithmetic>();
  const bool biased = kWalks || call.options.bias.present();
  const bool listed = !kWalks && call.options.hides_pairs();
  constexpr bool kWeighs = returns_weights<Arithmetic>();
  const int64_t floats =
      call.keys * (1 + (biased ? 1 : 0) + (kWeighs ? 1 : 0)) + call.width +
      2 * call.value_width;
  std::unique_ptr<float[]> scratch;
  std::unique_ptr<int64_t[]> index;
  QKVET_TRY(allocate(floats, &scratch, why));
  if (listed) {
    QKVET_TRY(allocate(call.keys, &index, why));
  }
  RowMemory memory = {scratch.get(), nullptr, index.get()};
  Row row = {};
  row.q = memory.q;
  row.acc = memory.q + call.width;
  row.part = row.acc + call.value_width;
  row.scores = row.part + call.value_width;
  row.weights = kWeighs ? row.scores + call.keys : nullptr;
  float* const behind = row.scores + call.keys * (kWeighs ? 2 : 1);
  memory.bias = biased ? behind : nullptr;
  row.weights_wanted = kWeighs && call.weights.data != nullptr;
  row.user = call.user;
  row.masked = call.options.mask.data != nullptr;
  row.terms.bias = memory.bias;
  row.terms.softcap = call.options.softcap;
  row.keys = call.keys;
  row.o_step = call.o.step[3];
  row.width = call.width;
  row.value_width = call.value_width;
  row.scale = call.scale;
  row.storage = call.storage;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      compute_head<Arithmetic>(call, b, h, memory, row);
    }
  }
  return QKVET_OK;
}

// The forward() of a kernel that computes its rows one by one.
template <class Arithmetic>
inline constexpr decltype(&forward_in_f32<compute_rows<Arithmetic>>)
    kRowForward = &forward_in_f32<compute_rows<Arithmetic>>;

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_ROW_SKELETON_H_
