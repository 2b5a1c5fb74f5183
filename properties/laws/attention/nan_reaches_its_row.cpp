// SPDX-License-Identifier: Apache-2.0
// Only the rows that every correct kernel must make NaN: a row of one key may
// be its value, whatever the score is, and a weight near 0 may be skipped.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_nan_reaches_its_row {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Far above every weight that some storage rounds to 0.
constexpr double kCertainWeight = 0x1p-10;

// The tensor that holds the NaN: the argument of the edit.
enum : int64_t { kInQ, kInK, kInV, kInBias };
constexpr const char* kNames[] = {"a query", "a key", "a value", "a bias"};

// A row that sees two keys, one of these, and a channel.
struct Place {
  int64_t b = 0, h = 0, i = 0, j = 0;
  int64_t c_of_q = 0, c_of_v = 0;
};

std::optional<Place> place_of(const Case& value, const Visibility& visibility) {
  const Shape& s = value.shape;
  const int64_t rows = s.B * s.H * s.Tq;
  if (rows == 0) return std::nullopt;
  const uint64_t seed = value.seed >> 1;
  const int64_t first = pick_by_seed(seed, rows);
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t row = (first + n) % rows;
    Place at{row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq};
    const int64_t keys = visibility.keys(at.b, at.h, at.i);
    if (keys < 2) continue;
    int64_t skip = pick_by_seed(seed / 3, keys);
    while (!visibility.sees(at.b, at.h, at.i, at.j) || skip-- > 0) ++at.j;
    at.c_of_q = pick_by_seed(seed / 5, s.d);
    at.c_of_v = pick_by_seed(seed / 5, s.dv);
    return at;
  }
  return std::nullopt;
}

// The index of a pair in a bias with the extents of its own.
int64_t bias_index(const Case& value, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
  const auto own = tensor_extents(value, TensorName::kBias);
  const auto at = [&](size_t axis, int64_t n) { return own[axis] > 1 ? n : 0; };
  return ((at(0, b) * own[1] + at(1, h)) * own[2] + at(2, i)) * own[3] +
         at(3, j);
}

void put_nan(const Case& value, int64_t where, Inputs& inputs) {
  const auto at = place_of(value, Visibility(value, inputs));
  if (!at) return;
  const Shape& s = value.shape;
  const int64_t query = (at->b * s.H + at->h) * s.Tq + at->i;
  const int64_t key = (at->b * s.Hkv + at->h / s.group()) * s.Tk + at->j;
  const auto put = [](std::vector<double>& tensor, int64_t n) {
    tensor[static_cast<size_t>(n)] = kNaN;
  };
  if (where == kInQ) put(inputs.q, query * s.d + at->c_of_q);
  if (where == kInK) put(inputs.k, key * s.d + at->c_of_q);
  if (where == kInV) put(inputs.v, key * s.dv + at->c_of_v);
  if (where == kInBias)
    put(inputs.bias, bias_index(value, at->b, at->h, at->i, at->j));
}

// Two keys for some row, as far as the extents allow.
Case constrain(Case value) {
  Shape& s = value.shape;
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (value.causal == Causal::kTopLeft) s.Tq = std::max<int64_t>(s.Tq, 2);
  if (value.mask.kind == MaskKind::kOnlyN) value.mask.kind = MaskKind::kButN;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (kernel.dialect.visible_nan == QKVET_VISIBLE_NAN_MAY_VANISH)
    plan.unsupported = "the kernel declares that a visible NaN may vanish";
  else if (!place_of(value, Visibility(value)))
    plan.not_applicable = "no row sees two keys";
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.needs_truth = true;
  plan.calls.push_back(call);
  call.needs_truth = false;
  call.edit = put_nan;
  const int64_t kinds = value.score_bias ? kInBias : kInV;
  for (call.argument = 0; call.argument <= kinds; ++call.argument)
    plan.calls.push_back(call);
  return plan;
}

enum class Asked : uint8_t { kIsNaN, kAsBefore, kNothing };

// The requirement on one number of a row; c is its column in o.
class Question {
 public:
  Question(const JudgeInput& input, const Place& nan, int64_t where)
      : input_(input), nan_(nan), where_(where) {}

  Asked of(TensorName tensor, int64_t b, int64_t h, int64_t i,
           int64_t c) const {
    const Visibility& visibility = *input_.visibility;
    const int64_t keys = visibility.keys(b, h, i);
    if (keys <= 0) return Asked::kNothing;
    const bool same_row = b == nan_.b && h == nan_.h && i == nan_.i;
    if (where_ == kInQ) return same_row ? Asked::kIsNaN : Asked::kAsBefore;
    if (!reads(b, h, i)) return Asked::kAsBefore;
    // Whether a hidden NaN is ignored is another law's.
    if (!visibility.sees(b, h, i, nan_.j)) return Asked::kNothing;
    if (where_ != kInV) return keys > 1 ? Asked::kIsNaN : Asked::kNothing;
    if (tensor == TensorName::kLse) return Asked::kAsBefore;
    const bool certain = c == nan_.c_of_v && weight(b, h, i) >= kCertainWeight;
    return certain ? Asked::kIsNaN : Asked::kNothing;
  }

 private:
  // Whether the number with the NaN is one of the row's, hidden or not.
  bool reads(int64_t b, int64_t h, int64_t i) const {
    const Case& value = input_.value;
    if (where_ == kInBias)
      return bias_index(value, b, h, i, nan_.j) ==
             bias_index(value, nan_.b, nan_.h, nan_.i, nan_.j);
    const int64_t group = value.shape.group();
    return b == nan_.b && h / group == nan_.h / group;
  }
  double weight(int64_t b, int64_t h, int64_t i) const {
    const Shape& s = input_.value.shape;
    const int64_t row = (b * s.H + h) * s.Tq + i;
    return input_.calls[0]
        .truth->oracle.weights[static_cast<size_t>(row * s.Tk + nan_.j)];
  }

  const JudgeInput& input_;
  const Place& nan_;
  int64_t where_;
};

void judge_tensor(const JudgeInput& input, const CallView& call,
                  const Question& question, TensorName tensor,
                  Judgement& judgement) {
  const Shape& s = input.value.shape;
  const bool is_o = tensor == TensorName::kO;
  const Dtype dtype =
      is_o ? input.value.o_dtype : lse_dtype(input.value.o_dtype);
  const auto numbers = [&](const CallView& view) {
    return as_doubles(is_o ? view.outcome->o : view.outcome->lse, dtype);
  };
  const std::vector<double> before = numbers(input.calls[0]);
  const std::vector<double> after = numbers(call);
  const int64_t width = is_o ? s.dv : 1;
  for (size_t n = 0; n < after.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / width;
    const Asked asked =
        question.of(tensor, row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq,
                    static_cast<int64_t>(n) % width);
    if (asked == Asked::kNothing || std::isnan(before[n])) continue;
    ++judgement.compared;
    const bool nan = asked == Asked::kIsNaN;
    if (std::isnan(after[n]) == nan) continue;
    Finding finding;
    finding.where = element_name(tensor, s, static_cast<int64_t>(n));
    const std::string what = kNames[call.planned->argument];
    finding.expected =
        nan ? "nan: the row sees NaN in " + what
            : number_text(before[n], dtype) + ", or another number";
    finding.actual = number_text(after[n], dtype);
    finding.ratio = std::numeric_limits<double>::infinity();
    finding.looks = nan ? "NaN in " + what + " vanishes on its way"
                        : "NaN in " + what + " reaches another row";
    add_failure(judgement, std::move(finding));
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const std::optional<Place> nan = place_of(input.value, *input.visibility);
  for (size_t n = 1; nan && n < input.calls.size(); ++n) {
    const CallView& call = input.calls[n];
    const Question question(input, *nan, call.planned->argument);
    judge_tensor(input, call, question, TensorName::kO, judgement);
    if (call.planned->want_lse)
      judge_tensor(input, call, question, TensorName::kLse, judgement);
  }
  return judgement;
}

}  // namespace of_nan_reaches_its_row

extern constinit const Law nan_reaches_its_row{
    "nan_reaches_its_row",
    "A NaN that a row sees reaches its output, and no other row.",
    "o[i] = nan if q[i], k[j] or bias[i,j] is; o[i,c] = nan if v[j,c] is",
    "a row that sees two keys; the kernel does not declare that NaN may vanish",
    "A sum with NaN in it is NaN, and so is its exponential.",
    "Nothing is rounded: a number is NaN or it is not.",
    "(a) it is exact, (c) it reaches what agreement never draws",
    130,
    Domain{.own_values = true,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing},
    of_nan_reaches_its_row::constrain,
    of_nan_reaches_its_row::plan,
    of_nan_reaches_its_row::judge};

}  // namespace qkvet::properties
