// SPDX-License-Identifier: Apache-2.0
// How many weights are kept, of all of them in 32 calls and of every head, row
// and key of each.
//
// The number K of kept ones among n independent choices, each kept with
// probability q, is far from n q with little probability (Chernoff, "A Measure
// of Asymptotic Efficiency", 1952, in the form of Hoeffding, 1963, theorem 1):
//
//   P(K <= n x) <= exp(-n D(x, q)) for x < q, and so for x > q above it,
//   D(x, q) = x ln(x / q) + (1 - x) ln((1 - x) / (1 - q)).
//
// A count fails if n D(K / n, q) > 41 ln 2: with probability 2^-40 for a right
// kernel. A generator of eight bits keeps with a probability that is off by
// 1/256, so q is the nearest number in such an interval around 1 - p.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "properties/calls/dropout_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_dropout_keeps_its_share {

constexpr double kBitsOfDoubt = 41;
constexpr double kEightBits = 1.0 / 256;
// Calls with seeds of their own: one weight of each is enough to distinguish
// p = 0.1 from 0.9.
constexpr size_t kSeeds = 32;

Case constrain(Case value) { return with_dropout(std::move(value)); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.not_applicable = unreadable_mask(value, kernel);
  if (!plan.not_applicable.empty()) return plan;
  PlannedCall call = dropout_call(Operation::kForward, kernel);
  for (size_t n = 0; n < kSeeds; ++n) {
    call.dropout_seed = n;
    const auto calls = mask_calls(value, kernel, call, /*hidden_too=*/true);
    plan.calls.insert(plan.calls.end(), calls.begin(), calls.end());
  }
  return plan;
}

double relative_entropy(double x, double q) {
  const auto term = [](double a, double b) {
    return a == 0 ? 0 : a * std::log(a / b);
  };
  return term(x, q) + term(1 - x, 1 - q);
}

// Weights that belong together, from a first one on at equal distances.
struct Group {
  int64_t first = 0, step = 1, count = 0;
};

// `name()` is called only if the group fails: there are very many groups.
template <class Name>
void judge_group(const JudgeInput& input, const std::vector<uint8_t>& kept,
                 const Group& group, const Name& name, Judgement& judgement) {
  if (group.count == 0) return;
  int64_t n = 0;
  for (int64_t at = 0; at < group.count; ++at)
    n += kept[static_cast<size_t>(group.first + at * group.step)];
  const auto count = static_cast<double>(group.count);
  const double share = static_cast<double>(n) / count;
  const double keeps = 1 - static_cast<double>(*input.value.dropout);
  const double nearest =
      std::clamp(share, std::max(keeps - kEightBits, kEightBits / 2),
                 std::min(keeps + kEightBits, 1 - kEightBits / 2));
  ++judgement.compared;
  const double doubt = count * relative_entropy(share, nearest);
  const double most = kBitsOfDoubt * std::numbers::ln2;
  judgement.worst_ratio =
      std::max(judgement.worst_ratio, std::min(doubt / most, 1.0));
  if (doubt <= most) return;
  Finding finding;
  finding.where = name();
  finding.expected = number_text(keeps, Dtype::kF32) + " of " +
                     std::to_string(group.count) + " weights kept";
  finding.actual = std::to_string(n) + " kept";
  finding.allowed = "what chance explains but once in 2^40";
  finding.looks =
      1 - keeps > share - kEightBits && 1 - keeps < share + kEightBits
          ? "kept with the probability of being dropped"
          : "the choices are not independent, or of another p";
  finding.ratio = doubt / most;
  add_failure(judgement, std::move(finding));
}

// Key j in all rows of the heads that have a mask of their own.
struct OwnMasks {
  // Step and number of the heads that share a mask; their distances are equal.
  int64_t step = 1, count = 0;
};
template <class Name>
void judge_key(const JudgeInput& input, const std::vector<uint8_t>& kept,
               const OwnMasks& own, int64_t j, const Name& name,
               Judgement& judgement) {
  const Shape& s = input.value.shape;
  std::vector<uint8_t> column;
  for (int64_t n = 0; n < own.count; ++n)
    for (int64_t i = 0; i < s.Tq; ++i)
      column.push_back(
          kept[static_cast<size_t>((n * own.step * s.Tq + i) * s.Tk + j)]);
  judge_group(input, column, {0, 1, static_cast<int64_t>(column.size())}, name,
              judgement);
}

// Heads with independent choices.
OwnMasks own_masks(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  OwnMasks own;
  int64_t last = 0;
  for (int64_t head = 0; head < s.B * s.H; ++head) {
    if (mask_owner(input.kernel, s, head) != head) continue;
    if (own.count++ > 0) own.step = head - last;
    last = head;
  }
  return own;
}

void judge_groups(const JudgeInput& input, const std::vector<uint8_t>& kept,
                  size_t call, Judgement& judgement) {
  const Shape& s = input.value.shape;
  const OwnMasks own = own_masks(input);
  const auto in_call = [&](const std::string& place) {
    return "seed + " + std::to_string(call) + ", " + place;
  };
  const auto head_name = [&](int64_t head) {
    return "b=" + std::to_string(head / s.H) +
           ",h=" + std::to_string(head % s.H);
  };
  for (int64_t n = 0; n < own.count; ++n) {
    const int64_t head = n * own.step;
    judge_group(
        input, kept, {head * s.Tq * s.Tk, 1, s.Tq * s.Tk},
        [&] { return in_call(head_name(head)); }, judgement);
    for (int64_t i = 0; i < s.Tq; ++i)
      judge_group(
          input, kept, {(head * s.Tq + i) * s.Tk, 1, s.Tk},
          [&] { return in_call(head_name(head) + ",i=" + std::to_string(i)); },
          judgement);
  }
  for (int64_t j = 0; j < s.Tk; ++j)
    judge_key(
        input, kept, own, j, [&] { return in_call("j=" + std::to_string(j)); },
        judgement);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Shape& s = input.value.shape;
  const OwnMasks own = own_masks(input);
  const int64_t size = s.Tq * s.Tk;
  std::vector<uint8_t> all;
  for (size_t n = 0; n < kSeeds; ++n) {
    const auto kept =
        kept_by(input, n * input.calls.size() / kSeeds, judgement);
    if (!kept) return judgement;
    for (int64_t head = 0; head < own.count; ++head) {
      const auto begin =
          kept->begin() + static_cast<ptrdiff_t>(head * own.step * size);
      all.insert(all.end(), begin, begin + static_cast<ptrdiff_t>(size));
    }
    judge_groups(input, *kept, n, judgement);
  }
  judge_group(
      input, all, {0, 1, static_cast<int64_t>(all.size())},
      [] { return std::string("all seeds"); }, judgement);
  return judgement;
}

}  // namespace of_dropout_keeps_its_share

extern constinit const Law dropout_keeps_its_share{
    "dropout_keeps_its_share",
    "Dropout keeps 1 - p of all weights, and of those of every head, row and "
    "key.",
    "n D(K / n, 1 - p) <= 41 ln 2, K of n weights kept",
    "dropout",
    "Weights are dropped independently, each with probability p.",
    "Nothing is rounded; a right kernel fails a count with a probability of "
    "2^-40, even with a generator of eight bits.",
    "(c) it looks at what is drawn, (d) it needs no oracle",
    530,
    Domain{.allows = QKVET_OPTION_DROPOUT | kOptionLayout,
           .about = QKVET_OPTION_DROPOUT},
    of_dropout_keeps_its_share::constrain,
    of_dropout_keeps_its_share::plan,
    of_dropout_keeps_its_share::judge};

}  // namespace qkvet::properties
