// SPDX-License-Identifier: Apache-2.0
#include "fuzz/input/mutate.h"

#include <algorithm>
#include <vector>

#include "core/case/case_options.h"
#include "core/case/option_fields.h"
#include "fuzz/input/subjects.h"

namespace qkvet::fuzz {
namespace {

constexpr Piece kCommonPieces[] = {
    [](const Case& from, Case& to) {
      to.q_dtype = from.q_dtype, to.kv_dtype = from.kv_dtype;
      to.o_dtype = from.o_dtype;
    },
    [](const Case& from, Case& to) { to.scale = from.scale; },
    [](const Case& from, Case& to) {
      to.q = from.q, to.k = from.k, to.v = from.v;
    },
    [](const Case& from, Case& to) { to.seed = from.seed; },
    [](const Case& from, Case& to) { to.set = from.set; },
};

std::vector<Piece> pieces_of(const Case& value) {
  const FuzzedSubject& subject = fuzzed_subject(value);
  std::vector<Piece> pieces(std::begin(kCommonPieces), std::end(kCommonPieces));
  pieces.insert(pieces.end(), subject.pieces.begin(), subject.pieces.end());
  if (subject.has_options)
    for (const CaseOption& option : case_options())
      if (!option.key.empty()) pieces.push_back(option.copy);
  return pieces;
}

void take_piece(const Case& from, Case& to, Draw& draw) {
  const std::vector<Piece> pieces = pieces_of(to);
  pieces[draw.bits() % pieces.size()](from, to);
}

void change_heads(Shape& s, Draw& draw) {
  constexpr std::array<int64_t, 6> kFew = {1, 1, 2, 3, 4, 5};
  s.Hkv = draw.of(kFew);
  s.H = s.Hkv * draw.of(kFew);
}

void change_extent(Case& value, Draw& draw) {
  const FuzzedSubject& subject = fuzzed_subject(value);
  Shape& s = value.shape;
  switch (draw.range(0, 6)) {
    case 0:
      return change_number(s.B, subject.least_extent, draw);
    case 1:
      return change_heads(s, draw);
    case 2:
      return change_number(subject.rows(value), subject.least_extent, draw);
    case 3:
      return change_number(s.Tk, subject.least_extent, draw);
    case 4:
      return change_number(s.d, 1, draw);
    case 5:
      return change_number(s.dv, 1, draw);
    default:
      if (subject.has_model_width) return change_number(s.D, 1, draw);
      s.Tq = s.Tk, s.dv = s.d;
  }
}

// One of the numbers that options have.
void change_option(Case& value, Draw& draw) {
  std::vector<const OptionField*> fields;
  for (const OptionField& field : option_fields())
    if (field.counts && field.given(value)) fields.push_back(&field);
  std::vector<int64_t*> lengths;
  for (auto* of_members : {&value.q_len, &value.kv_len})
    for (int64_t& length : *of_members) lengths.push_back(&length);
  for (auto* ends : {&value.cu_q, &value.cu_k})
    for (size_t i = 1; i + 1 < ends->size(); ++i)
      lengths.push_back(&(*ends)[i]);
  if (fields.empty() && lengths.empty()) return;
  const size_t at = draw.bits() % (fields.size() + lengths.size());
  if (at >= fields.size())
    return change_number(*lengths[at - fields.size()], 0, draw);
  int64_t number = fields[at]->get(value);
  change_number(number, fields[at]->least, draw);
  fields[at]->set(value, std::min(number, fields[at]->most));
}

void change_structure(const Law& law, const InputRules& rules, Case& value,
                      Draw& draw) {
  const auto change_own = fuzzed_subject(value).change_own;
  if (change_own != nullptr && draw.chance(40)) return change_own(value, draw);
  const int64_t which = draw.range(0, 99);
  if (which < 45) return change_extent(value, draw);
  if (which < 65) return change_option(value, draw);
  take_piece(draw_case(draw, law, rules.scope), value, draw);
}

}  // namespace

FuzzInput mutated(const FuzzInput& input, const InputRules& rules,
                  int values_percent, Draw& draw) {
  FuzzInput next = input;
  if (draw.chance(5)) next.law = rules.laws[draw.bits() % rules.laws.size()];
  // Many cases become the same legal case after constrain(), so a change may
  // have no effect.
  constexpr int kMostTries = 4;
  for (int n = 0; n < kMostTries; ++n) {
    do {
      if (draw.chance(values_percent))
        change_values(next.value, rules.recipes, draw);
      else
        change_structure(*next.law, rules, next.value, draw);
    } while (draw.chance(35));
    next.value = nearest_legal(*next.law, std::move(next.value), rules);
    if (!(next.value == input.value)) break;
  }
  return next;
}

FuzzInput crossed(const FuzzInput& a, const FuzzInput& b,
                  const InputRules& rules, Draw& draw) {
  FuzzInput next = a;
  if (draw.chance(20)) next.law = b.law;
  do {
    take_piece(b.value, next.value, draw);
  } while (draw.chance(50));
  next.value = nearest_legal(*next.law, std::move(next.value), rules);
  return next;
}

}  // namespace qkvet::fuzz
