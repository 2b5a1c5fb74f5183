// SPDX-License-Identifier: Apache-2.0
// The named hooks of a plain, correct kernel that takes every option. A fault
// is a class that derives from OptionHooks and replaces one of them; everything
// else stays correct, so a law can find only that fault (options_kernel.h).
//
//   member       the part of a call for a member    -> rows, keys, diagonal
//   share        the part that threads compute      -> rows, keys
//   QueryTurn, KeyTurn   how q and k are rotated    -> scores
//   query        the row of q that is read          -> scores
//   kv_head      the head of k and v that is read   -> scores, values
//   token        the key and value that are read    -> scores, values
//   key          how an element of K is read        -> scores
//   scale        the factor of q k^T                -> scores
//   in_reach     causal rule and window             -> which keys are seen
//   allows       mask                               -> which keys are seen
//   capped       softcap                            -> scores
//   biased       bias                               -> scores
//   distance     the factor of the slope in ALiBi   -> scores
//   slope        the slope of a head                -> scores
//   tilted       ALiBi                              -> scores
//   sink         the score of the sink              -> denominator
//   first_max    where the maximum begins           -> weights
//   shift        the number subtracted before exp   -> weights
//   weight       the weight of a key                -> denominator, values
//   denominator  the divisor of the sums            -> values, lse
//   keeps        the weights that dropout keeps     -> values, its mask
//   drops        whether dropout is requested       -> values
//   kept_scale   the factor of kept weights         -> values
//   add          one more weight in their sum       -> denominator
//   reaches      which keys reach a sum of values   -> values
//   first_value  where a sum of values begins       -> values
//   value        how an element of V is read        -> values
//   met          the weight that meets a value      -> values
//   add_value    one more weighted value            -> values
//   output       the sums become an element of o    -> values
//   lse          lse from maximum and sum           -> lse
//   empty_row, empty_lse   of a row without keys    -> values, lse
//
// The arithmetic is that of option_rows.h.
#ifndef QKVET_IMPL_SKELETONS_OPTION_HOOKS_H_
#define QKVET_IMPL_SKELETONS_OPTION_HOOKS_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/call/forward_view.h"
#include "impl/call/in_f32.h"
#include "impl/call/members.h"
#include "impl/skeletons/row_order.h"

namespace qkvet::impl {

struct RowAt {
  int64_t b, h, i;
};

// A key of a head of K.
struct KeyRow {
  const ForwardCall& call;
  RowAt kv;
  int64_t j;
  const float* data;

  [[gnu::always_inline]] float at(int64_t c) const {  // -Og inlines no other
    return data[c * call.k.step[3]];
  }
};

// Rotates a token by the index of its row instead of its position.
struct TurnByRow : PlainTurn {
  static int64_t position(const View<const int64_t>&, int64_t, int64_t t) {
    return t;
  }
};

struct OptionHooks {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();

  // *member is correct; `whole` is the call that contains it.
  static void member(const ForwardCall& /*whole*/, int64_t /*n*/,
                     ForwardCall* /*member*/) {}
  // *call is a whole member; `threads` may divide it.
  static void share(int64_t /*threads*/, ForwardCall* /*call*/) {}
  using QueryTurn = PlainTurn;
  using KeyTurn = PlainTurn;
  static RowAt query(const ForwardCall&, RowAt at) { return at; }
  // Only b and h of the result are used.
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, at.h / call.group(), 0};
  }
  // The index at which k, v, mask and bias of key j are read.
  static int64_t token(const ForwardCall&, RowAt, int64_t j) { return j; }
  [[gnu::always_inline]] static float key(const KeyRow& k, int64_t c) {
    return k.at(c);
  }
  static float scale(const ForwardCall& call) { return call.scale; }
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end;
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.allows(at.b, at.h, at.i, j);
  }
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? cap * std::tanh(s / cap) : s;
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present() ? s + bias.get(at.b, at.h, at.i, j) : s;
  }
  static float distance(const ForwardCall& call, int64_t i, int64_t j) {
    return std::fabs(static_cast<float>(call.position(i) - j));
  }
  static float slope(const ForwardCall& call, RowAt at) {
    return call.options.slope_of(at.b, at.h);
  }
  static float tilted(float s, float slope, float distance) {
    return slope != 0 ? s - slope * distance : s;
  }
  // -infinity: none.
  static float sink(const ForwardCall& call, int64_t h) {
    return call.options.sink_of(h);
  }
  // `carried` is the maximum of the previous row, in the order of the walk.
  static float first_max(float sink, float /*carried*/) { return sink; }
  static float shift(float max) { return max; }
  static float weight(const ForwardCall&, int64_t /*j*/, float weight) {
    return weight;
  }
  // The denominator of a row that sees `seen` keys.
  static float denominator(float sum, float /*max*/, int64_t /*seen*/) {
    return sum;
  }
  // Whether dropout keeps a weight.
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.dropout.keeps(at.b, at.h, at.i, j);
  }
  // Whether there is anything to drop.
  static bool drops(const Dropout& dropout) { return dropout.present(); }
  // The factor of the weights that dropout keeps.
  static float kept_scale(const Dropout& dropout) { return dropout.scale(); }
  static float add(const ForwardCall&, RowAt, int64_t /*j*/, float sum,
                   float weight) {
    return sum + weight;
  }
  static bool reaches(const ForwardCall&, RowAt, int64_t /*j*/, bool seen) {
    return seen;
  }
  static float first_value() { return 0; }
  static float value(float v) { return v; }
  static float met(const ForwardCall&, float weight, float /*sum*/) {
    return weight;
  }
  static float add_value(const ForwardCall&, float acc, float term) {
    return acc + term;
  }
  static float output(const ForwardCall&, float acc, float sum) {
    return acc / sum;
  }
  static float lse(float max, float sum, float /*sink*/) {
    return max + std::log(sum);
  }
  // Column c of o.
  static float empty_row(const ForwardCall&, RowAt, int64_t /*c*/) { return 0; }
  static float empty_lse() { return kNone; }
};

// The keys and scores of a row, the same in every arithmetic with these hooks.
template <class Hooks>
struct OptionRowBase {
  struct Memory {
    float* weights;  // [Tk]
    float max;       // of the last row
  };

  static bool sees(const ForwardCall& call, RowAt at, int64_t j) {
    return Hooks::in_reach(call, at.i, j) && Hooks::allows(call, at, j);
  }
  // The score of a key that is seen.
  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const RowAt from = Hooks::query(call, at);
    const RowAt kv = Hooks::kv_head(call, at);
    const float* const q = call.q.at(from.b, from.h, from.i);
    const int64_t token = Hooks::token(call, at, j);
    const KeyRow k = {call, kv, token, call.k.at(kv.b, kv.h, token)};
    float lanes[kDotLanes] = {};
    for (int64_t c = 0; c < call.width; ++c) {
      lanes[c % kDotLanes] += q[c * call.q.step[3]] * Hooks::key(k, c);
    }
    const float scaled = sum_of_lanes(lanes) * Hooks::scale(call);
    const float s = Hooks::biased(call, at, j, Hooks::capped(call, scaled));
    return Hooks::tilted(s, Hooks::slope(call, at),
                         Hooks::distance(call, at.i, j));
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_OPTION_HOOKS_H_
