// SPDX-License-Identifier: Apache-2.0
// The definition of attention, in double, in named passes per row:
//
//   rotate  q and k by their positions, if asked for (plain_rope.h)
//   scores  s_j = cap(scale * sum_c q_c k_jc) + bias_j - slope * |diagonal - j|
//           over the keys that row i sees
//   softmax w_j = exp(s_j - m), m = max s_j;  L = sum w_j;  p_j = w_j / L
//           a sink is one more score, without a key: it joins m and L
//   lse     m + ln L
//   values  o = sum_j p_j v_j
//
// Each decision of the definition is one member of PlainHooks, so that a seeded
// fault (reference/seeded/seeded.cpp) replaces exactly one of them. Include
// oracle.h to call the oracle; this header is for the oracle itself and its
// faults.
#ifndef QKVET_REFERENCE_ATTENTION_PLAIN_H_
#define QKVET_REFERENCE_ATTENTION_PLAIN_H_

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "reference/arithmetic/oracle.h"
#include "reference/attention/plain_rope.h"

namespace qkvet::reference {

// The place of a query row in its member: of the batch, or of a packed batch.
struct PlainPlace {
  int64_t b = 0;
  int64_t h = 0;
  int64_t i = 0;        // counted from the member's first row
  int64_t Lq = 0;       // rows of the member
  int64_t Lk = 0;       // keys of the member
  int64_t first_q = 0;  // the member's first row and key among all of them
  int64_t first_k = 0;
  int64_t member = 0;  // of the batch, or of the packed batch
};

struct PlainHooks : PlainRopeHooks {
  static PlainPlace place(const Problem& problem, int64_t b, int64_t h,
                          int64_t i) {
    PlainPlace place{b, h, i, problem.shape.Tq, problem.shape.Tk};
    if (problem.q_len != nullptr) place.Lq = problem.q_len[b];
    if (problem.kv_len != nullptr) place.Lk = problem.kv_len[b];
    place.member = b;
    if (problem.cu_q == nullptr) return place;
    place.Lq = place.Lk = 0;
    for (int64_t m = 0; m < problem.members; ++m) {
      if (i < problem.cu_q[m] || i >= problem.cu_q[m + 1]) continue;
      place.member = m;
      place.first_q = problem.cu_q[m];
      place.first_k = problem.cu_k[m];
      place.Lq = problem.cu_q[m + 1] - place.first_q;
      place.Lk = problem.cu_k[m + 1] - place.first_k;
    }
    place.i = i - place.first_q;
    return place;
  }
  // The key at the position of the query; it need not exist.
  static int64_t diagonal(const Problem& problem, const PlainPlace& place) {
    if (problem.causal == Causal::kTopLeft) return place.i;
    return place.i + place.Lk - place.Lq;
  }
  static bool in_past(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    switch (problem.causal) {
      case Causal::kNone:
        return true;
      case Causal::kTopLeft:
        return j <= place.i;
      case Causal::kBottomRight:
        return j <= place.i + place.Lk - place.Lq;
    }
    return false;
  }
  static bool in_window(const Window& window, int64_t diagonal, int64_t j) {
    return (window.left < 0 || diagonal - j <= window.left) &&
           (window.right < 0 || j - diagonal <= window.right);
  }
  static bool attends(uint8_t mask) { return mask != 0; }
  // The first entry of the row's list, and how many count.
  static const int32_t* list(const Problem& problem, const PlainPlace& place) {
    const ListedKeys& all = problem.listed;
    const Shape& shape = problem.shape;
    const int64_t head =
        all.heads > 1 ? place.h / (shape.H / shape.Hkv) : int64_t{0};
    const int64_t row =
        (place.b * all.heads + head) * shape.Tq + place.first_q + place.i;
    return all.keys + row * all.entries;
  }
  static int64_t listed(const Problem& problem, const PlainPlace& place) {
    const int64_t row = place.b * problem.shape.Tq + place.first_q + place.i;
    return problem.listed.counts == nullptr ? problem.listed.entries
                                            : problem.listed.counts[row];
  }
  template <class Hooks>
  static bool in_list(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    const int32_t* list = Hooks::list(problem, place);
    const int64_t count = Hooks::listed(problem, place);
    for (int64_t n = 0; n < count; ++n) {
      if (list[n] == j) return true;
    }
    return false;
  }
  // The number of the chunk that contains the key: key / chunk, rounded down.
  static int64_t chunk_of(int64_t key, int64_t chunk) {
    const int64_t n = key / chunk;
    return key < 0 && n * chunk != key ? n - 1 : n;
  }
  static bool in_chunk(int64_t chunk, int64_t diagonal, int64_t j) {
    return chunk_of(diagonal, chunk) == chunk_of(j, chunk);
  }
  static bool in_segment(const Problem& problem, const PlainPlace& place,
                         int64_t j) {
    const int64_t row = place.b * problem.shape.Tq + place.first_q + place.i;
    const int64_t key = place.b * problem.shape.Tk + place.first_k + j;
    const int64_t number = problem.fields.segments_q[row];
    return number >= 0 && number == problem.fields.segments_k[key];
  }
  static bool in_range(const Problem& problem, const PlainPlace& place,
                       int64_t diagonal, int64_t j) {
    const FieldMasks& fields = problem.fields;
    for (int64_t r = 0; r < fields.ranges; ++r) {
      const int64_t* range =
          fields.full_ranges + 2 * (place.b * fields.ranges + r);
      if (range[0] <= diagonal && diagonal < range[1] && range[0] <= j &&
          j < range[1])
        return true;
    }
    return false;
  }
  static bool on_branch(const Problem& problem, const PlainPlace& place,
                        int64_t j) {
    const int64_t draft = j - (place.Lk - place.Lq);
    if (draft < 0) return true;
    const int64_t row = place.b * problem.shape.Tq + place.first_q + place.i;
    return problem.fields.tree[row * problem.shape.Tq + draft] != 0;
  }
  // Causal rule, window and ranges, which are composed with one another.
  template <class Hooks>
  static bool in_reach(const Problem& problem, const PlainPlace& place,
                       int64_t j) {
    const int64_t diagonal = Hooks::diagonal(problem, place);
    const bool past = Hooks::in_past(problem, place, j);
    const bool near =
        !problem.window || Hooks::in_window(*problem.window, diagonal, j);
    if (problem.fields.full_ranges == nullptr) return past && near;
    const bool range = Hooks::in_range(problem, place, diagonal, j);
    return problem.fields.in_window ? (past || range) && near
                                    : (past && near) || range;
  }
  template <class Hooks>
  static bool in_fields(const Problem& problem, const PlainPlace& place,
                        int64_t j) {
    const FieldMasks& fields = problem.fields;
    if (fields.chunk > 0 &&
        !Hooks::in_chunk(fields.chunk, Hooks::diagonal(problem, place), j))
      return false;
    if (fields.segments_q != nullptr && !Hooks::in_segment(problem, place, j))
      return false;
    return fields.tree == nullptr || Hooks::on_branch(problem, place, j);
  }
  // Query i and key j, both counted from the member's first.
  template <class Hooks>
  static bool visible(const Problem& problem, const PlainPlace& place,
                      int64_t j) {
    if (place.i >= place.Lq || j < 0 || j >= place.Lk) return false;
    if (!Hooks::template in_reach<Hooks>(problem, place, j)) return false;
    if (!Hooks::template in_fields<Hooks>(problem, place, j)) return false;
    if (problem.listed.keys != nullptr &&
        !Hooks::template in_list<Hooks>(problem, place, j)) {
      return false;
    }
    const int64_t pair = pair_index(problem.shape, place, j);
    if (problem.mask != nullptr && !Hooks::attends(problem.mask[pair])) {
      return false;
    }
    // A bias of -infinity is a mask, unless a cap makes it finite again.
    return problem.bias == nullptr ||
           (problem.softcap > 0 && problem.softcap_after_bias) ||
           problem.bias[pair] != -std::numeric_limits<double>::infinity();
  }
  static int64_t pair_index(const Shape& shape, const PlainPlace& place,
                            int64_t j) {
    const int64_t row =
        (place.b * shape.H + place.h) * shape.Tq + place.first_q + place.i;
    return row * shape.Tk + place.first_k + j;
  }
  static int64_t kv_head(const Shape& shape, int64_t h) {
    return h / (shape.H / shape.Hkv);
  }
  static double scale(const Problem& problem) { return problem.scale; }
  static double capped(const Problem& problem, double score) {
    if (!(problem.softcap > 0)) return score;
    return problem.softcap * std::tanh(score / problem.softcap);
  }
  static int64_t place_of(const Problem& problem, int64_t j) {
    return problem.places != nullptr ? problem.places[j] : j;
  }
  static double distance(int64_t diagonal, int64_t j) {
    return static_cast<double>(std::abs(diagonal - j));
  }
  // With slopes of members, those of all heads of the first one come first.
  static double slope(const Problem& problem, const PlainPlace& place) {
    const int64_t row = problem.member_slopes ? place.member : 0;
    return problem.slopes[row * problem.shape.H + place.h];
  }
  template <class Hooks>
  static double biased(const Problem& problem, const PlainPlace& place,
                       int64_t j, double score) {
    if (problem.bias != nullptr) {
      score += problem.bias[pair_index(problem.shape, place, j)];
    }
    if (problem.slopes == nullptr) return score;
    const int64_t diagonal = Hooks::diagonal(problem, place);
    return score - Hooks::slope(problem, place) *
                       Hooks::distance(place_of(problem, diagonal),
                                       place_of(problem, j));
  }
  // From scale * q k to the score that enters the softmax.
  template <class Hooks>
  static double score(const Problem& problem, const PlainPlace& place,
                      int64_t j, double scaled) {
    return problem.softcap_after_bias
               ? Hooks::capped(problem, Hooks::template biased<Hooks>(
                                            problem, place, j, scaled))
               : Hooks::template biased<Hooks>(problem, place, j,
                                               Hooks::capped(problem, scaled));
  }
  // The start of the softmax's shift, before it grows to the largest score.
  static double shift_start() {
    return -std::numeric_limits<double>::infinity();
  }
  static double exponential(double x) { return std::exp(x); }
  static double with_sink(double sum, double weight) { return sum + weight; }
  static double normalise(double w, double sum) { return w / sum; }
  static double without_a_key() {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// One query row and the keys and values of its member and head.
struct PlainRow {
  PlainPlace place;
  const double* q = nullptr;    // [d]
  const double* k = nullptr;    // [Lk,d]
  const double* v = nullptr;    // [Lk,dv]
  double* o = nullptr;          // [dv]
  double* weights = nullptr;    // [Lk]
  double* lse = nullptr;        // []
  int64_t* visible = nullptr;   // []
  uint8_t* sees = nullptr;      // [Lk]
  std::vector<int64_t>* seen;   // the keys that the row sees, ascending
  std::vector<double>* scores;  // [Tk], of the keys seen
};

template <class Hooks>
void plain_scores(const Problem& problem, const PlainRow& row) {
  const int64_t d = problem.shape.d;
  row.seen->clear();
  for (int64_t j = 0; j < row.place.Lk; ++j) {
    if (!Hooks::template visible<Hooks>(problem, row.place, j)) continue;
    double dot = 0;
    for (int64_t c = 0; c < d; ++c) dot += row.q[c] * row.k[j * d + c];
    (*row.scores)[row.seen->size()] = Hooks::template score<Hooks>(
        problem, row.place, j, Hooks::scale(problem) * dot);
    row.seen->push_back(j);
    row.sees[j] = 1;
  }
  *row.visible = static_cast<int64_t>(row.seen->size());
}

template <class Hooks>
void plain_softmax(const Problem& problem, const PlainRow& row) {
  const size_t n = row.seen->size();
  const double* s = row.scores->data();
  const double* sink =
      problem.sink != nullptr ? problem.sink + row.place.h : nullptr;
  double m = Hooks::shift_start();
  for (size_t a = 0; a < n; ++a) m = std::max(m, s[a]);
  const double of_keys = m;
  if (sink != nullptr) m = std::max(m, *sink);
  double sum = 0;
  for (size_t a = 0; a < n; ++a) {
    const double w = Hooks::exponential(s[a] - m);
    row.weights[(*row.seen)[a]] = w;
    sum += w;
  }
  if (sink != nullptr)
    sum = Hooks::with_sink(sum, Hooks::exponential(*sink - m));
  for (int64_t j : *row.seen) {
    row.weights[j] = Hooks::normalise(row.weights[j], sum);
  }
  *row.lse = m + std::log(sum);
  if (sink == nullptr || problem.sink_in_lse) return;
  // The keys alone, against their own maximum.
  sum = 0;
  for (size_t a = 0; a < n; ++a) sum += Hooks::exponential(s[a] - of_keys);
  *row.lse = of_keys + std::log(sum);
}

inline void plain_values(const Shape& shape, const PlainRow& row) {
  std::fill(row.o, row.o + shape.dv, 0.0);
  for (int64_t j : *row.seen) {
    for (int64_t t = 0; t < shape.dv; ++t) {
      row.o[t] += row.weights[j] * row.v[j * shape.dv + t];
    }
  }
}

// Writes the output of a row without a key: NaN, or 0 if there is a sink, which
// is then the only term of the softmax. A row outside every member has NaN
// throughout.
template <class Hooks>
void plain_empty(const Problem& problem, const PlainRow& row) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const double sink =
      problem.sink != nullptr ? problem.sink[row.place.h] : kNone;
  std::fill(row.o, row.o + problem.shape.dv,
            sink > kNone ? 0.0 : Hooks::without_a_key());
  *row.lse = problem.sink_in_lse ? sink : kNone;
  if (row.place.i < row.place.Lq) return;
  std::fill(row.o, row.o + problem.shape.dv, kNaN);
  *row.visible = kRowNotCounted;
  *row.lse = kNaN;
}

template <class Hooks>
PlainRow plain_row(const Problem& problem, int64_t b, int64_t h, int64_t i,
                   OracleOutput& out) {
  const Shape& shape = problem.shape;
  PlainRow row;
  row.place = Hooks::place(problem, b, h, i);
  const int64_t r = (b * shape.H + h) * shape.Tq + i;
  const int64_t kv = b * shape.Hkv + Hooks::kv_head(shape, h);
  const int64_t key = kv * shape.Tk + row.place.first_k;
  const int64_t pair = r * shape.Tk + row.place.first_k;
  row.q = problem.q + r * shape.d;
  row.k = problem.k + key * shape.d;
  row.v = problem.v + key * shape.dv;
  row.o = out.o.data() + r * shape.dv;
  row.weights = out.weights.data() + pair;
  row.lse = out.lse.data() + r;
  row.visible = out.visible.data() + r;
  row.sees = out.sees.data() + pair;
  return row;
}

template <class Hooks>
OracleOutput plain_forward_with(const Problem& problem) {
  const Shape& shape = problem.shape;
  if (problem.rotation.style != RopeStyle::kNone) {
    const auto q = plain_rotate<Hooks>(problem.rotation, query_rows(problem));
    const auto k = plain_rotate<Hooks>(problem.rotation, key_rows(problem));
    Problem turned = problem;
    turned.rotation = {};
    turned.q = q.data();
    turned.k = k.data();
    return plain_forward_with<Hooks>(turned);
  }
  OracleOutput out;
  out.o.resize(shape.o_elements());
  out.lse.resize(shape.lse_elements());
  out.weights.assign(shape.weights_elements(), 0.0);
  out.visible.resize(shape.lse_elements());
  out.sees.assign(shape.weights_elements(), 0);
  std::vector<double> scores(shape.Tk);
  std::vector<int64_t> seen;
  seen.reserve(shape.Tk);
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      for (int64_t i = 0; i < shape.Tq; ++i) {
        PlainRow row = plain_row<Hooks>(problem, b, h, i, out);
        row.seen = &seen;
        row.scores = &scores;
        plain_scores<Hooks>(problem, row);
        if (seen.empty()) {
          plain_empty<Hooks>(problem, row);
          continue;
        }
        plain_softmax<Hooks>(problem, row);
        plain_values(shape, row);
      }
    }
  }
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ATTENTION_PLAIN_H_
