// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

#include <algorithm>
#include <array>

#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace {

// Some queries and keys of one member of the tensors.
struct MemberPart {
  int64_t b = 0;
  int64_t q_from = 0, q_end = 0;
  int64_t k_from = 0, k_end = 0;
};

int64_t member_count(const Case& value) {
  return value.cu_q.empty() ? value.shape.B
                            : static_cast<int64_t>(value.cu_q.size()) - 1;
}

MemberPart part_of(const Case& value, int64_t member) {
  const auto m = static_cast<size_t>(member);
  if (value.cu_q.empty())
    return {member, 0, counted_queries(value, member), 0,
            counted_keys(value, member)};
  return {0, value.cu_q[m], value.cu_q[m + 1], value.cu_k[m],
          value.cu_k[m + 1]};
}

// Rows [from, end) of the extent `axis` of a tensor with these extents; an
// extent of 1 that is broadcast stays as it is.
template <class Value>
void cut(std::array<int64_t, 4>& extents, size_t axis, bool is_own,
         int64_t from, int64_t end, std::vector<Value>& values) {
  if (!is_own) return;
  int64_t inner = 1, outer = 1;
  for (size_t n = 0; n < 4; ++n)
    (n < axis ? outer : inner) *= n == axis ? 1 : extents[n];
  std::vector<Value> kept;
  for (int64_t n = 0; n < outer; ++n) {
    const auto at = values.begin() + n * extents[axis] * inner;
    kept.insert(kept.end(), at + from * inner, at + end * inner);
  }
  extents[axis] = end - from;
  values = std::move(kept);
}

// [B,heads,rows,width]: one member, some of its rows.
void cut_rows(const Case& value, TensorName tensor, int64_t b, int64_t from,
              int64_t end, std::vector<double>& values) {
  auto extents = tensor_extents(value.shape, tensor);
  cut(extents, 0, true, b, b + 1, values);
  cut(extents, 2, true, from, end, values);
}

template <class Value>
void cut_pairs(const Case& value, TensorName tensor, uint8_t own,
               const MemberPart& part, std::vector<Value>& values) {
  if (values.empty()) return;
  auto extents = tensor_extents(value, tensor);
  cut(extents, 0, (own & kOwnB) != 0, part.b, part.b + 1, values);
  cut(extents, 2, (own & kOwnQ) != 0, part.q_from, part.q_end, values);
  cut(extents, 3, (own & kOwnK) != 0, part.k_from, part.k_end, values);
}

// A call of its own about that part.
Case part_case(Case value, const MemberPart& part) {
  value.shape.B = 1;
  value.shape.Tq = part.q_end - part.q_from;
  value.shape.Tk = part.k_end - part.k_from;
  value.q_len.clear();
  value.kv_len.clear();
  value.cu_q.clear();
  value.cu_k.clear();
  value.layout = Layout::kBhtd;
  value.share = 0;
  value.set.clear();
  return value;
}

// Its inputs, cut out of those of the case.
void cut_part(const Case& value, const MemberPart& part, Inputs& inputs) {
  cut_rows(value, TensorName::kQ, part.b, part.q_from, part.q_end, inputs.q);
  cut_rows(value, TensorName::kK, part.b, part.k_from, part.k_end, inputs.k);
  cut_rows(value, TensorName::kV, part.b, part.k_from, part.k_end, inputs.v);
  cut_pairs(value, TensorName::kMask, value.mask.own, part, inputs.mask);
  cut_pairs(value, TensorName::kBias, value.score_bias_own, part, inputs.bias);
}

// Where an element of the case's o and lse is found in that call.
std::optional<Element> place_in_part(const MemberPart& part,
                                     const Element& element) {
  if (element.b != part.b || element.i < part.q_from || element.i >= part.q_end)
    return std::nullopt;
  Element to = element;
  to.b = 0;
  to.i -= part.q_from;
  return to;
}

void cut_member(const Case& value, int64_t member, Inputs& inputs) {
  cut_part(value, part_of(value, member), inputs);
}

}  // namespace

int64_t chosen_member(const Case& value) {
  const int64_t members = member_count(value);
  if (members < 1) return -1;
  const int64_t first = pick_by_seed(value.seed, members);
  for (int64_t n = 0; n < members; ++n) {
    const int64_t member = (first + n) % members;
    const MemberPart part = part_of(value, member);
    if (part.q_end > part.q_from && part.k_end > part.k_from) return member;
  }
  return -1;
}

Case with_two_members(Case value) {
  if (value.cu_q.empty()) {
    value.paging = {};  // not every kernel that takes pages takes both
    value.append = 0;
  }
  Shape& s = value.shape;
  s.B = 1;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 1);
  value.cu_q = {0, s.Tq / 2, s.Tq};
  value.cu_k = {0, s.Tk / 2, s.Tk};
  return value;
}

Plan plan_member(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  const int64_t member = chosen_member(value);
  if (member < 0) {
    plan.not_applicable = "no member has queries and keys";
    return plan;
  }
  plan = plan_two_forms(kernel, part_case(value, part_of(value, member)),
                        cut_member);
  plan.calls[1].argument = member;
  return plan;
}

Judgement judge_member(const JudgeInput& input, CallPair pair) {
  Judgement judgement;
  const MemberPart part =
      part_of(input.value, input.calls[1].planned->argument);
  pair.map = [&](const Element& at) { return place_in_part(part, at); };
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace qkvet::properties
