// SPDX-License-Identifier: Apache-2.0
// The dropped weights: the same if nothing of the generator changes, and others
// for another seed or offset, and in other heads and members, or the same in
// those for which a kernel declares one mask.
//
// With p = 0.5 masks of n independent choices are all the same in c calls with
// probability 2^(-(c - 1) n), and those of two heads with 2^(-c n), n counting
// the pairs of one head. The number of calls makes the first at most 2^-40.
#include <algorithm>

#include "properties/calls/dropout_calls.h"
#include "properties/calls/other_data.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_dropout_is_a_function_of_its_seed {

constexpr int64_t kBits = 40;

// Calls with one seed each, and with one offset each. They differ in the lower
// half of their 64 bits or in the upper one, by the seed of the case.
// Generators that make four numbers at a time count offsets in fours or more.
constexpr uint64_t kOffsetStep = 4096, kUpperHalf = uint64_t{1} << 32;

bool in_upper_half(const Case& value) { return value.seed % 4 == 3; }

size_t calls_of(const Case& value) {
  const int64_t pairs = std::max<int64_t>(value.shape.Tq * value.shape.Tk, 1);
  return static_cast<size_t>(1 + (kBits + pairs - 1) / pairs);
}

Case constrain(Case value) {
  value.dropout = 0.5F;
  return value;
}

// The first call again; seeds; offsets except for the first. A mask that is
// read off calls is read with other data than the case's anyway.
std::vector<PlannedCall> asked(const Case& value, const KernelInfo& kernel) {
  const size_t count = calls_of(value);
  std::vector<PlannedCall> calls(2 * count,
                                 dropout_call(Operation::kForward, kernel));
  calls[0].threads = 3;
  calls[0].edit = put_all_other_data;
  const bool upper = in_upper_half(value);
  for (size_t n = 1; n < count; ++n) {
    calls[1 + n].dropout_seed = n * (upper ? kUpperHalf : 1);
    calls[count + n].dropout_offset = n * (upper ? kUpperHalf : kOffsetStep);
  }
  return calls;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.not_applicable = unreadable_mask(value, kernel);
  if (!plan.not_applicable.empty()) return plan;
  for (const PlannedCall& call : asked(value, kernel)) {
    const auto calls = mask_calls(value, kernel, call, /*hidden_too=*/true);
    plan.calls.insert(plan.calls.end(), calls.begin(), calls.end());
  }
  return plan;
}

void fail(Judgement& judgement, std::string where, const char* expected,
          const char* actual, const char* looks) {
  Finding finding;
  finding.where = std::move(where);
  finding.expected = expected;
  finding.actual = actual;
  finding.looks = looks;
  add_failure(judgement, std::move(finding));
}

using Masks = std::vector<std::vector<uint8_t>>;

void must_be_same(const JudgeInput& input, const std::vector<uint8_t>& first,
                  const std::vector<uint8_t>& again, Judgement& judgement) {
  ++judgement.compared;
  const auto [one, other] =
      std::mismatch(first.begin(), first.end(), again.begin());
  if (one == first.end()) return;
  fail(judgement,
       element_name(TensorName::kDropoutMask, input.value.shape,
                    one - first.begin()),
       *one != 0 ? "1, as before" : "0, as before",
       *one != 0 ? "0 with other data and three threads"
                 : "1 with other data and three threads",
       "what is dropped depends on more than seed, offset and place");
}

void must_differ(bool same, const std::string& where, const char* looks,
                 Judgement& judgement) {
  ++judgement.compared;
  if (same) fail(judgement, where, "another mask", "the same mask", looks);
}

// Whether all of masks [first, last) are those of mask 1.
bool all_same(const Masks& masks, size_t first, size_t last) {
  return std::all_of(masks.begin() + static_cast<ptrdiff_t>(first),
                     masks.begin() + static_cast<ptrdiff_t>(last),
                     [&](const auto& mask) { return mask == masks[1]; });
}

std::string head_name(const Shape& s, int64_t head) {
  return "b=" + std::to_string(head / s.H) + ",h=" + std::to_string(head % s.H);
}

// Compares each head with the owner of its mask, or with the very first head if
// the mask is its own.
void compare_heads(const JudgeInput& input, const Masks& masks, size_t calls,
                   Judgement& judgement) {
  const Shape& s = input.value.shape;
  const int64_t size = s.Tq * s.Tk;
  for (int64_t head = 1; head < s.B * s.H; ++head) {
    const int64_t owner = mask_owner(input.kernel, s, head);
    const bool shared = owner != head;
    bool same = true;
    for (size_t n = 1; n <= calls; ++n)
      same = same && std::equal(masks[n].begin() + owner % head * size,
                                masks[n].begin() + (owner % head + 1) * size,
                                masks[n].begin() + head * size);
    const std::string where =
        head_name(s, head) + ", as " + head_name(s, owner % head);
    if (!shared) {
      must_differ(same, where, "head or member have no part in what is dropped",
                  judgement);
      continue;
    }
    ++judgement.compared;
    if (!same)
      fail(judgement, where, "the same mask", "another mask",
           "one mask for both is declared (dropout_broadcast, "
           "dropout_of_member or dropout_of_head)");
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  Masks masks;
  const size_t count = calls_of(input.value);
  const size_t reads = input.calls.size() / (2 * count);
  for (size_t n = 0; n < 2 * count; ++n) {
    auto kept = kept_by(input, n * reads, judgement);
    if (!kept) return judgement;
    masks.push_back(std::move(*kept));
  }
  must_be_same(input, masks[1], masks[0], judgement);
  const bool upper = in_upper_half(input.value);
  must_differ(
      all_same(masks, 1, count + 1), "other seeds",
      upper ? "the upper half of the seed is not read" : "the seed is not read",
      judgement);
  must_differ(all_same(masks, count + 1, 2 * count), "other offsets",
              upper ? "the upper half of the offset is not read"
                    : "the offset is not read",
              judgement);
  compare_heads(input, masks, count, judgement);
  return judgement;
}

}  // namespace of_dropout_is_a_function_of_its_seed

extern constinit const Law dropout_is_a_function_of_its_seed{
    "dropout_is_a_function_of_its_seed",
    "Seed and offset decide what is dropped, whatever the data and the "
    "threads; "
    "another seed, offset, head or member drops other weights; the same in "
    "those heads or members for which one mask is declared.",
    "m = f(seed, offset, place), and f is not constant in any of them",
    "dropout of p = 0.5",
    "The counter of the generator is made of these numbers alone.",
    "Nothing is rounded; masks that should differ coincide with a probability "
    "of 2^-40.",
    "(a) it is bitwise, (d) it needs no oracle",
    540,
    Domain{.allows = QKVET_OPTION_DROPOUT | kOptionLayout,
           .about = QKVET_OPTION_DROPOUT},
    of_dropout_is_a_function_of_its_seed::constrain,
    of_dropout_is_a_function_of_its_seed::plan,
    of_dropout_is_a_function_of_its_seed::judge};

}  // namespace qkvet::properties
