// SPDX-License-Identifier: Apache-2.0
// The twin of the definition: one pass over the keys with a running maximum
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018),
// in double-double. It shares nothing with plain.h: who is seen is an interval
// of keys, then the mask; heads are walked group by group; exp, log and tanh
// are its own; a sink is one more key, of value 0, that comes last. Include
// oracle.h to call it; this header is for the twin and its faults.
#ifndef QKVET_REFERENCE_ATTENTION_TWIN_H_
#define QKVET_REFERENCE_ATTENTION_TWIN_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/arithmetic/double_double.h"
#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

// The keys first .. last of one row, none if last < first, and the key at the
// diagonal; all counted over the whole of k.
struct TwinSpan {
  bool counted = true;
  int64_t first = 0;
  int64_t last = -1;
  int64_t centre = 0;
  int64_t begin = 0;   // the first key of the member
  int64_t drafts = 0;  // the first key that is a draft
  // With ranges, first .. last is all keys. These are the keys that the window
  // leaves, and the last key that causality leaves.
  int64_t near_first = 0;
  int64_t near_last = -1;
  int64_t causal_last = -1;
  const double* slopes = nullptr;  // [H] of the member, or null
};

// The first and last rows and keys of a member.
struct TwinExtent {
  int64_t q_begin = 0;
  int64_t q_end = 0;
  int64_t k_begin = 0;
  int64_t k_end = 0;
  int64_t before = 0;  // members before this one
};

struct TwinHooks {
  // The rows of the member that holds query `i`; none if no member does.
  static TwinExtent extent(const Problem& problem, int64_t b, int64_t i) {
    if (problem.cu_q == nullptr) {
      const Shape& shape = problem.shape;
      return {0, problem.q_len != nullptr ? problem.q_len[b] : shape.Tq, 0,
              problem.kv_len != nullptr ? problem.kv_len[b] : shape.Tk, b};
    }
    const int64_t* end = problem.cu_q + problem.members + 1;
    const int64_t* after = std::upper_bound(problem.cu_q, end, i);
    if (after == problem.cu_q || after == end) return {};
    const int64_t m = after - problem.cu_q;
    return {after[-1], after[0], problem.cu_k[m - 1], problem.cu_k[m], m - 1};
  }
  // For bottom_right, there are as many keys after the diagonal as queries
  // after this query.
  static int64_t centre(const Problem& problem, const TwinExtent& all,
                        int64_t i) {
    if (problem.causal == Causal::kTopLeft)
      return all.k_begin + i - all.q_begin;
    return (all.k_end - 1) - (all.q_end - 1 - i);
  }
  static int64_t left_end(const TwinExtent& all, int64_t centre, int64_t left) {
    const bool cut = left >= 0 && left < centre - all.k_begin;
    return cut ? centre - left : all.k_begin;
  }
  static int64_t right_end(int64_t last, int64_t centre, int64_t right) {
    return right >= 0 && right < last - centre ? centre + right : last;
  }
  // The last key that causality leaves; `centre` may be before the first.
  static int64_t last_key(const Problem& problem, const TwinExtent& all,
                          int64_t centre) {
    const bool all_keys = problem.causal == Causal::kNone;
    return all_keys || centre >= all.k_end ? all.k_end - 1 : centre;
  }
  static const double* slopes(const Problem& problem, const TwinExtent& all) {
    if (!problem.member_slopes || problem.slopes == nullptr)
      return problem.slopes;
    return problem.slopes + all.before * problem.shape.H;
  }
  // All keys of the member: ranges take some of them back.
  static TwinSpan wide_span(const Problem& problem, const TwinExtent& all,
                            TwinSpan span) {
    span.near_first = all.k_begin;
    span.near_last = all.k_end - 1;
    if (problem.window) {
      span.near_first = left_end(all, span.centre, problem.window->left);
      span.near_last =
          right_end(all.k_end - 1, span.centre, problem.window->right);
    }
    span.causal_last = span.last;
    span.last = all.k_end - 1;
    return span;
  }
  // The number of the range that contains position `at` of member b; -1: none.
  static int64_t range_at(const Problem& problem, int64_t b, int64_t at) {
    const int64_t* range = problem.fields.full_ranges;
    range += b * problem.fields.ranges * 2;
    for (int64_t r = 0; r < problem.fields.ranges; ++r, range += 2)
      if (at >= range[0] && at < range[1]) return r;
    return -1;
  }
  // Whether a key of a wide span is in the narrow one, or in the range of the
  // row.
  static bool reached(const Problem& problem, int64_t b, int64_t key,
                      const TwinSpan& span) {
    if (problem.fields.ranges == 0) return true;
    const bool past = key <= span.causal_last;
    const bool near = key >= span.near_first && key <= span.near_last;
    const int64_t own = range_at(problem, b, span.centre - span.begin);
    if (own < 0 || own != range_at(problem, b, key - span.begin))
      return past && near;
    return near || !problem.fields.in_window;
  }
  // The first position of the chunk that holds `at`.
  static int64_t chunk_start(int64_t at, int64_t chunk) {
    const int64_t over = at % chunk;
    return at - (over < 0 ? over + chunk : over);
  }
  static bool same_segment(const Problem& problem, int64_t row, int64_t key) {
    const int64_t of_key = problem.fields.segments_k[key];
    return of_key == problem.fields.segments_q[row] && of_key >= 0;
  }
  // Whether row `row` of [B,Tq] sees its draft number `draft`.
  static bool sees_draft(const Problem& problem, int64_t row, int64_t draft) {
    return problem.fields.tree[row * problem.shape.Tq + draft] != 0;
  }
  // `row` of all rows [B,Tq], `key` of all keys [B,Tk].
  template <class Hooks>
  static bool in_fields(const Problem& problem, int64_t row, int64_t key,
                        const TwinSpan& span) {
    const Shape& s = problem.shape;
    const FieldMasks& f = problem.fields;
    const int64_t j = key % s.Tk;
    if (!Hooks::reached(problem, key / s.Tk, j, span)) return false;
    if (f.chunk > 0) {
      const int64_t from =
          Hooks::chunk_start(span.centre - span.begin, f.chunk) + span.begin;
      if (j < from || j - from >= f.chunk) return false;
    }
    if (f.segments_k != nullptr && !Hooks::same_segment(problem, row, key))
      return false;
    return f.tree == nullptr || j < span.drafts ||
           Hooks::sees_draft(problem, row, j - span.drafts);
  }
  template <class Hooks>
  static TwinSpan span(const Problem& problem, int64_t b, int64_t i) {
    const TwinExtent all = Hooks::extent(problem, b, i);
    TwinSpan span;
    span.counted = i < all.q_end;
    if (!span.counted) return span;
    span.centre = Hooks::centre(problem, all, i);
    span.begin = all.k_begin;
    span.slopes = Hooks::slopes(problem, all);
    span.drafts = all.k_end - (all.q_end - all.q_begin);
    span.first = all.k_begin;
    span.last = Hooks::last_key(problem, all, span.centre);
    if (problem.fields.ranges > 0) return Hooks::wide_span(problem, all, span);
    if (!problem.window) return span;
    span.first = Hooks::left_end(all, span.centre, problem.window->left);
    span.last = Hooks::right_end(span.last, span.centre, problem.window->right);
    return span;
  }
  // The row of the lists for head `h`: heads are in order, one group of query
  // heads after the other.
  static int64_t list_of(const Problem& problem, int64_t h) {
    return h * problem.listed.heads / problem.shape.H;
  }
  // Whether the pair `pair` of [B,H,Tq,Tk] is listed: whether the key, counted
  // from the first of its member, occurs in the counting part of the row's
  // list.
  template <class Hooks>
  static bool chosen(const Problem& problem, int64_t pair, int64_t begin) {
    const ListedKeys& all = problem.listed;
    if (all.keys == nullptr) return true;
    const Shape& s = problem.shape;
    const auto key = static_cast<int32_t>(pair % s.Tk - begin);
    const int64_t i = pair / s.Tk % s.Tq;
    const int64_t h = pair / s.Tk / s.Tq % s.H;
    const int64_t b = pair / s.Tk / s.Tq / s.H;
    const int64_t above = b * all.heads + Hooks::list_of(problem, h);
    const int32_t* first = all.keys + (above * s.Tq + i) * all.entries;
    const int32_t* last =
        first + (all.counts ? all.counts[b * s.Tq + i] : all.entries);
    return std::count(first, last, key) > 0;
  }
  // Whether mask and bias leave the pair `pair` of [B,H,Tq,Tk] alone.
  static bool allowed(const Problem& problem, int64_t pair) {
    if (problem.mask != nullptr && problem.mask[pair] == 0) return false;
    if (problem.bias == nullptr) return true;
    const bool finite_again = problem.softcap_after_bias && problem.softcap > 0;
    return finite_again || !(std::isinf(problem.bias[pair]) &&
                             std::signbit(problem.bias[pair]));
  }
  static bool cap_last(const Problem& problem) {
    return problem.softcap_after_bias;
  }
  static DoubleDouble hyperbolic_tangent(DoubleDouble x) { return dd_tanh(x); }
  static bool is_half(const Rotation& turn) {
    return turn.style == RopeStyle::kHalf;
  }
  // The position of key number `key` of all members, which have `keys` each.
  static int64_t key_position(const Rotation& turn, int64_t /*keys*/,
                              int64_t key) {
    return turn.k_positions[key];
  }
  static DoubleDouble turn_sign(DoubleDouble sin) { return sin; }
  // The product of a channel that is not turned.
  static DoubleDouble unturned(DoubleDouble product) { return product; }
  // The number that is added to the score of key `j`.
  static DoubleDouble offset(const Problem& problem, int64_t h, int64_t pair,
                             int64_t j, const TwinSpan& span) {
    DoubleDouble sum = 0.0;
    if (span.slopes != nullptr) {
      const int64_t* const stands = problem.places;
      int64_t apart = j < span.centre ? j - span.centre : span.centre - j;
      if (stands != nullptr) {
        apart =
            stands[std::min(j, span.centre)] - stands[std::max(j, span.centre)];
      }
      sum = two_product(span.slopes[h], static_cast<double>(apart));
    }
    if (problem.bias == nullptr) return sum;
    const double bias = problem.bias[pair];
    // A sum with an infinity has no low part, not even 0.
    return std::isinf(bias) ? DoubleDouble(bias) : sum + bias;
  }
  // Query head `member` of those that share `kv_head`.
  static int64_t query_head(const Shape& shape, int64_t kv_head,
                            int64_t member) {
    return kv_head * shape.group() + member;
  }
  static double scale(const Problem& problem) { return problem.scale; }
  // The weight of a key, from its exponential.
  static DoubleDouble share(DoubleDouble w, DoubleDouble sum) {
    return w / sum;
  }
  static DoubleDouble exponential(DoubleDouble x) { return dd_exp(x); }
  static DoubleDouble logarithm(DoubleDouble x) { return dd_log(x); }
  static DoubleDouble rescale_sum(DoubleDouble sum, DoubleDouble factor) {
    return sum * factor;
  }
  static DoubleDouble rescale_value(DoubleDouble value, DoubleDouble factor) {
    return value * factor;
  }
};

// The state of one row while its keys stream by.
struct TwinState {
  bool first = true;  // no key so far
  DoubleDouble maximum;
  DoubleDouble sum;
  std::vector<DoubleDouble> value;   // [dv]
  std::vector<DoubleDouble> scores;  // [Tk], for the weights
};

template <class Hooks>
void twin_absorb(TwinState& state, DoubleDouble score, const double* v) {
  DoubleDouble weight = 1.0;
  if (state.first) {
    state.first = false;
    state.maximum = score;
    state.sum = 0.0;
    for (DoubleDouble& x : state.value) x = 0.0;
  } else if (state.maximum < score) {
    const DoubleDouble factor = Hooks::exponential(state.maximum - score);
    state.maximum = score;
    state.sum = Hooks::rescale_sum(state.sum, factor);
    for (DoubleDouble& x : state.value) x = Hooks::rescale_value(x, factor);
  } else {
    weight = Hooks::exponential(score - state.maximum);
  }
  state.sum = state.sum + weight;
  if (v == nullptr) return;  // a sink: of value 0
  for (size_t t = 0; t < state.value.size(); ++t) {
    state.value[t] = state.value[t] + weight * DoubleDouble(v[t]);
  }
}

template <class Hooks>
DoubleDouble twin_cap(const Problem& problem, DoubleDouble score) {
  if (!(problem.softcap > 0)) return score;
  const DoubleDouble x = score / DoubleDouble(problem.softcap);
  return Hooks::hyperbolic_tangent(x) * DoubleDouble(problem.softcap);
}

// One query row, with the keys of its head.
struct TwinRow {
  int64_t row = 0;  // of [B,H,Tq]
  int64_t b = 0;
  int64_t h = 0;
  int64_t i = 0;
  const double* q = nullptr;
  const double* k = nullptr;
  const double* v = nullptr;
};

// No row is rotated: with q and k as complex numbers z, y of each pair, the
// product is Re(z conj(y) e^(i(p - r))) for positions p and r. Its cos and sin
// follow from the tables' (the relative form of RoFormer, 3.2.1).
//
// Calls visit(c, c2, cos, sin) with the two channels of each pair.
template <class Hooks, class Visit>
void twin_turns(const Problem& problem, const TwinRow& row, int64_t j,
                Visit visit) {
  const Shape& shape = problem.shape;
  const Rotation& turn = problem.rotation;
  const int64_t pairs = turn.channels / 2;
  const bool half = Hooks::is_half(turn);
  const int64_t apart = half ? pairs : 1;
  const int64_t p = turn.q_positions[row.b * shape.Tq + row.i] * pairs;
  const int64_t r =
      Hooks::key_position(turn, shape.Tk, row.b * shape.Tk + j) * pairs;
  for (int64_t n = 0; n < pairs; ++n) {
    const int64_t c = half ? n : n + n;
    const DoubleDouble cos = two_product(turn.cos[p + n], turn.cos[r + n]) +
                             two_product(turn.sin[p + n], turn.sin[r + n]);
    const DoubleDouble sin = two_product(turn.sin[p + n], turn.cos[r + n]) +
                             two_product(-turn.cos[p + n], turn.sin[r + n]);
    visit(c, c + apart, cos, Hooks::turn_sign(sin));
  }
}

template <class Hooks>
DoubleDouble twin_dot(const Problem& problem, const TwinRow& row, int64_t j) {
  const double* z = row.q;
  const double* y = row.k + j * problem.shape.d;
  DoubleDouble dot = 0.0;
  if (problem.rotation.style == RopeStyle::kNone) {
    for (int64_t c = 0; c < problem.shape.d; ++c)
      dot = dot + two_product(z[c], y[c]);
    return dot;
  }
  twin_turns<Hooks>(
      problem, row, j,
      [&](int64_t c, int64_t c2, DoubleDouble cos, DoubleDouble sin) {
        const DoubleDouble along =
            two_product(z[c], y[c]) + two_product(z[c2], y[c2]);
        const DoubleDouble across =
            two_product(z[c], y[c2]) + two_product(-z[c2], y[c]);
        dot = dot + along * cos + across * sin;
      });
  for (int64_t c = problem.rotation.channels; c < problem.shape.d; ++c)
    dot = dot + Hooks::unturned(two_product(z[c], y[c]));
  return dot;
}

template <class Hooks>
DoubleDouble twin_score(const Problem& problem, const TwinRow& row, int64_t j,
                        const TwinSpan& span) {
  const Shape& shape = problem.shape;
  const DoubleDouble scaled =
      twin_dot<Hooks>(problem, row, j) * DoubleDouble(Hooks::scale(problem));
  if (problem.slopes == nullptr && problem.bias == nullptr) {
    return twin_cap<Hooks>(problem, scaled);
  }
  const DoubleDouble offset =
      Hooks::offset(problem, row.h, row.row * shape.Tk + j, j, span);
  if (std::isinf(offset.hi)) {  // which the cap has made finite again
    return std::copysign(problem.softcap, offset.hi);
  }
  if (Hooks::cap_last(problem)) {
    return twin_cap<Hooks>(problem, scaled + offset);
  }
  return twin_cap<Hooks>(problem, scaled) + offset;
}

// Writes the outputs of a row after all its keys were absorbed.
template <class Hooks>
void twin_finish(const Problem& problem, const TwinRow& row, TwinState& state,
                 OracleOutput& out) {
  const Shape& shape = problem.shape;
  const auto lse = [&] {
    return (state.maximum + Hooks::logarithm(state.sum)).hi;
  };
  out.lse[row.row] = lse();
  if (problem.sink != nullptr) {
    twin_absorb<Hooks>(state, problem.sink[row.h], nullptr);
    if (problem.sink_in_lse) out.lse[row.row] = lse();
  }
  double* o = out.o.data() + row.row * shape.dv;
  for (int64_t t = 0; t < shape.dv; ++t) o[t] = (state.value[t] / state.sum).hi;
  for (int64_t j = 0; j < shape.Tk; ++j) {
    const int64_t pair = row.row * shape.Tk + j;
    if (out.sees[pair] == 0) continue;
    const DoubleDouble w = Hooks::exponential(state.scores[j] - state.maximum);
    out.weights[pair] = Hooks::share(w, state.sum).hi;
  }
}

// Whether mask, bias, lists and fields leave a pair of the span.
template <class Hooks>
bool twin_sees(const Problem& problem, int64_t pair, const TwinSpan& span) {
  const Shape& s = problem.shape;
  const int64_t j = pair % s.Tk, i = pair / s.Tk % s.Tq;
  const int64_t b = pair / s.Tk / s.Tq / s.H;
  return Hooks::allowed(problem, pair) &&
         Hooks::template chosen<Hooks>(problem, pair, span.begin) &&
         Hooks::template in_fields<Hooks>(problem, b * s.Tq + i, b * s.Tk + j,
                                          span);
}

template <class Hooks>
void twin_row(const Problem& problem, const TwinRow& row, TwinState& state,
              OracleOutput& out) {
  const Shape& shape = problem.shape;
  const TwinSpan span = Hooks::template span<Hooks>(problem, row.b, row.i);
  state.first = true;
  int64_t count = 0;
  for (int64_t j = span.first; j <= span.last; ++j) {
    const int64_t pair = row.row * shape.Tk + j;
    if (!twin_sees<Hooks>(problem, pair, span)) continue;
    state.scores[j] = twin_score<Hooks>(problem, row, j, span);
    twin_absorb<Hooks>(state, state.scores[j], row.v + j * shape.dv);
    out.sees[pair] = 1;
    ++count;
  }
  out.visible[row.row] = span.counted ? count : kRowNotCounted;
  if (count > 0) {
    twin_finish<Hooks>(problem, row, state, out);
    return;
  }
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const bool sinks = span.counted && problem.sink != nullptr &&
                     !std::isinf(problem.sink[row.h]);
  std::fill_n(out.o.begin() + row.row * shape.dv, shape.dv, sinks ? 0 : kNaN);
  out.lse[row.row] = !span.counted                  ? kNaN
                     : sinks && problem.sink_in_lse ? problem.sink[row.h]
                                                    : kNone;
}

template <class Hooks>
OracleOutput twin_forward_with(const Problem& problem) {
  const Shape& shape = problem.shape;
  OracleOutput out;
  out.o.resize(shape.o_elements());
  out.lse.resize(shape.lse_elements());
  out.weights.assign(shape.weights_elements(), 0.0);
  out.visible.resize(shape.lse_elements());
  out.sees.assign(shape.weights_elements(), 0);
  TwinState state;
  state.value.resize(shape.dv);
  state.scores.resize(shape.Tk);
  for (int64_t kv = 0; kv < shape.B * shape.Hkv; ++kv) {
    const int64_t b = kv / shape.Hkv;
    for (int64_t member = 0; member < shape.group(); ++member) {
      const int64_t h = Hooks::query_head(shape, kv % shape.Hkv, member);
      for (int64_t i = 0; i < shape.Tq; ++i) {
        const int64_t row = (b * shape.H + h) * shape.Tq + i;
        twin_row<Hooks>(problem,
                        {row, b, h, i, problem.q + row * shape.d,
                         problem.k + kv * shape.Tk * shape.d,
                         problem.v + kv * shape.Tk * shape.dv},
                        state, out);
      }
    }
  }
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ATTENTION_TWIN_H_
