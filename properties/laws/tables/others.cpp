// SPDX-License-Identifier: Apache-2.0
// Data of other rows, heads and batch elements changes nothing of a row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/calls/gradient_calls.h"
#include "properties/calls/other_data.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_others {

// Eight times a normal: far from the data of the case.
constexpr Recipe kFarData{RecipeKind::kLargeN, 3};

// ---- One key/value head, or one batch element, of which all data stays

int64_t kept_head(const Case& value) {
  return pick_by_seed(value.seed, value.shape.Hkv);
}

void other_heads(const Case& value, int64_t, Inputs& inputs) {
  const int64_t kept = kept_head(value);
  put_other_data(
      value, [&](int64_t, int64_t kv) { return kv != kept; }, inputs);
}

void only_kept_head(const JudgeInput& input, CallPair& pair) {
  pair.map = [kept = kept_head(input.value),
              group = input.value.shape.group()](const Element& at) {
    return at.h / group == kept ? std::optional(at) : std::nullopt;
  };
}

int64_t kept_member(const Case& value) {
  return pick_by_seed(value.seed, value.shape.B);
}

void other_members(const Case& value, int64_t, Inputs& inputs) {
  const int64_t kept = kept_member(value);
  put_other_data(
      value, [&](int64_t b, int64_t) { return b != kept; }, inputs);
}

void only_kept_member(const JudgeInput& input, CallPair& pair) {
  pair.map = [kept = kept_member(input.value)](const Element& at) {
    return at.b == kept ? std::optional(at) : std::nullopt;
  };
}

// ---- Both, of gradients

struct Kept {
  int64_t member, head;  // a key/value head
};

Kept kept_one(const Case& value) {
  const Shape& s = value.shape;
  return {pick_by_seed(value.seed / 7, std::max<int64_t>(s.B, 1)),
          pick_by_seed(value.seed, s.Hkv)};
}

void other_heads_and_members(const Case& value, int64_t, Inputs& inputs) {
  const Kept kept = kept_one(value);
  put_other_data(
      value,
      [&](int64_t b, int64_t h) { return b != kept.member || h != kept.head; },
      inputs);
}

// Two members, or two heads.
Case with_another_head(Case value) {
  return value.shape.B > 1 ? value : with_two_kv_heads(std::move(value));
}

// A sink belongs to all members.
void only_kept_one(const JudgeInput& input, CallPair& pair) {
  pair.map = [kept = kept_one(input.value), s = input.value.shape](
                 const Element& at) -> std::optional<Element> {
    const bool of_keys =
        at.tensor == TensorName::kDK || at.tensor == TensorName::kDV;
    const int64_t head = of_keys ? at.h : at.h / s.group();
    if (at.b != kept.member || head != kept.head) return std::nullopt;
    if (at.tensor == TensorName::kDSink && s.B > 1) return std::nullopt;
    return at;
  };
}

// ---- One element of k that is NaN: rows that see its key can only be judged
// as NaN.

struct Place {
  int64_t b = 0, kv = 0, j = 0, c = 0;
};

Place place_of_nan(const Case& value) {
  const Shape& s = value.shape;
  const auto pick = [&](int64_t n) { return pick_by_seed(value.seed >> 1, n); };
  return {pick(s.B), pick(s.Hkv), pick(s.Tk), pick(s.d)};
}

void put_nan(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Place at = place_of_nan(value);
  const int64_t row = (at.b * s.Hkv + at.kv) * s.Tk + at.j;
  inputs.k[static_cast<size_t>(row * s.d + at.c)] =
      std::numeric_limits<double>::quiet_NaN();
}

void outside_of_its_head(const JudgeInput& input, CallPair& pair) {
  pair.map = [nan = place_of_nan(input.value),
              group = input.value.shape.group()](const Element& at) {
    return at.b == nan.b && at.h / group == nan.kv ? std::nullopt
                                                   : std::optional(at);
  };
}

// ---- One row of queries that stays

int64_t kept_row(const Case& value) {
  return pick_by_seed(value.seed, value.shape.Tq);
}

void other_queries(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  double* at = inputs.q.data();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i, at += s.d)
        if (i != kept_row(value) && !std::isnan(*at))
          recipe_row(kFarData, ~value.seed, TensorName::kQ, b, h, i,
                     {at, static_cast<size_t>(s.d)});
}

Case with_two_rows(Case value) {
  value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  return value;
}

void only_kept_row(const JudgeInput& input, CallPair& pair) {
  pair.map = [kept = kept_row(input.value)](const Element& at) {
    return at.i == kept ? std::optional(at) : std::nullopt;
  };
}

constexpr Law kRows[] = {
    {.id = "other_rows_change_nothing",
     .sentence = "Other query rows change nothing: a row's output is its own.",
     .formula = "o[i] = f(q[i], k, v)",
     .precondition = "two query rows",
     .reason = "The other queries do not occur in the formula of a row.",
     .rounding = "Bit for bit where the kernel declares row_invariant; else "
                 "each side within its own bound.",
     .kept_for = "(d) it needs no oracle: rows of one tile share its maximum "
                 "only by mistake",
     .rank = 90,
     .domain = {.allows = kAllowAll},
     .constrain = with_two_rows,
     .relation = {.first = "before",
                  .second = "after the other queries changed",
                  .looks = "another query row reaches this one",
                  .edit = other_queries,
                  // A tile may rescale all its rows when one of them needs it.
                  .claim = QKVET_FLAG_ROW_INVARIANT,
                  .pair = only_kept_row}},
    {.id = "other_heads_change_nothing",
     .sentence =
         "Other heads change nothing: other data in all other key/value heads "
         "and their query heads leaves a head's output as it is.",
     .formula = "o[h] = f(q[h], k[h / group], v[h / group])",
     .precondition = "two key/value heads",
     .reason = "The other heads do not occur in the formula of a head.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 100,
     .domain = {.allows = kAllowUnshared},
     .constrain = with_two_kv_heads,
     .relation = {.first = "before",
                  .second = "after the others changed",
                  .looks = "data of another head reaches this one",
                  .edit = other_heads,
                  .same_rows = true,
                  .pair = only_kept_head}},
    {.id = "other_members_change_nothing",
     .sentence = "Batch mates change nothing: other data in all other members "
                 "leaves a member's output as it is.",
     .formula = "o[b] = f(q[b], k[b], v[b])",
     .precondition = "two batch members",
     .reason = "The other members do not occur in the formula of a member.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 110,
     .domain = {.allows = QKVET_OPTION_ROPE | QKVET_OPTION_WINDOW |
                          QKVET_OPTION_MASK | QKVET_OPTION_LENGTHS |
                          kAllowScores | kOptionLayout | kAllowServing},
     .constrain = with_two_in_batch,
     .relation = {.first = "before",
                  .second = "after the others changed",
                  .looks = "data of another batch member reaches this one",
                  .edit = other_members,
                  .same_rows = true,
                  .pair = only_kept_member}},
    {.id = "backward_heads_are_separate",
     .sentence =
         "Other heads and batch mates change no gradient: other data in all of "
         "them leaves those of a key/value head and its queries as they are.",
     .formula = "(dq, dk, dv)[b, h] = f(q, k, v, o, lse, dO)[b, h]",
     .precondition = "two members or two key/value heads",
     .reason = "Data of other heads and members does not occur in the formula.",
     .rounding = "Bit for bit where the kernel declares other_data_invariant; "
                 "else each side within its own bound.",
     .kept_for = kBitwiseIfClaimed,
     .rank = 30,
     .domain = {.subject = Subject::kBackward, .allows = kAllowGradients},
     .constrain = with_another_head,
     .relation = {.first = "before",
                  .second = "after the others changed",
                  .looks = "data of another head or member reaches this one",
                  .edit = other_heads_and_members,
                  .claim = QKVET_FLAG_OTHER_DATA_INVARIANT,
                  .pair = only_kept_one}},
    {.id = "nan_stays_in_its_head",
     .sentence = "A NaN stays in its head: all other heads and members are the "
                 "same, bit for bit.",
     .formula = "o[b,h] = f(q[b,h], k[b,h / group], v[b,h / group])",
     .precondition = "two heads or members",
     .reason = "The other heads do not occur in the formula of a head.",
     .rounding = kRowsSeeTheSame,
     .kept_for = "(a) it is bitwise where that is claimed, (c) it reaches what "
                 "is multiplied by zero",
     .rank = 120,
     .domain = {.allows = kAllowUnshared},
     .constrain = with_another_head,
     .relation = {.first = "before",
                  .second = "with a NaN in a key of another head or member",
                  .looks = "a NaN spreads over its head's border",
                  .edit = put_nan,
                  .same_rows = true,
                  .pair = outside_of_its_head}},
};

}  // namespace of_others

extern constinit const LawTable others_laws{of_others::kRows};

}  // namespace qkvet::properties
