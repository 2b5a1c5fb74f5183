// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "properties/calls/option_forms.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_rows_without_a_key_follow_the_dialect {

// Row 0 of the last members sees no key, unless another option is drawn that
// may leave a row without a key.
Case constrain(Case value) {
  const Shape& s = value.shape;
  const bool ends =
      !value.q_len.empty() || !value.kv_len.empty() || !value.cu_q.empty();
  if (!ends && value.causal == Causal::kBottomRight && s.Tq > s.Tk)
    return value;
  if (value.mask.kind == MaskKind::kOnlyN && value.causal == Causal::kTopLeft &&
      s.Tq > 1 && s.Tk > 1) {
    // Row 0 sees key 0 at most.
    if (value.mask.parameter % s.Tk == 0) value.mask.parameter = 1;
    return value;
  }
  value.mask = {MaskKind::kEmptyRowN, 0, value.mask.own};
  value.mask.own |= kOwnQ;
  // The row has to count.
  for (int64_t& length : value.q_len) length = std::max<int64_t>(length, 1);
  return value;
}

// The declaration for rows without a key in one of the law's calls: in the
// second one a bias of -infinity hides what the mask hides in the first.
EmptyRow said_of(const KernelInfo& kernel, const Case& value, size_t call) {
  return call == 0 ? empty_row_of(kernel.dialect, value)
                   : empty_row_of(kernel.dialect, with_bias_for_mask(value),
                                  EmptyBy::kBias);
}

// A softcap after the bias makes -infinity finite.
bool takes_bias(const Case& value, const KernelInfo& kernel) {
  return value.mask.kind != MaskKind::kNone && value.softcap == 0 &&
         kernel.has_option(QKVET_OPTION_BIAS) &&
         (value.causal == Causal::kNone ||
          !kernel.has_flag(QKVET_FLAG_BIAS_OR_CAUSAL));
}

bool judges_o(const EmptyRow& said) {
  return said.o != 0 && said.o != QKVET_EMPTY_ROW_UNSPECIFIED;
}
bool judges_lse(const KernelInfo& kernel, const EmptyRow& said) {
  return wants_lse(kernel) && said.lse != 0 &&
         said.lse != QKVET_EMPTY_LSE_UNSPECIFIED;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  const auto judges = [&](size_t call) {
    const EmptyRow said = said_of(kernel, value, call);
    return judges_o(said) || judges_lse(kernel, said);
  };
  const bool biased = takes_bias(value, kernel) && judges(1);
  if (!judges(0) && !biased)
    plan.unsupported = "no value is declared for rows that see no key";
  if (!has_row_without_key(value, Visibility(value)))
    plan.not_applicable = "every row that counts sees a key";
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  plan.calls.push_back(call);
  if (!biased) return plan;
  call.variant = with_bias_for_mask(value);
  call.edit = mask_to_infinite_bias;
  plan.calls.push_back(call);
  return plan;
}

// The keys of the row's member, seen or not.
struct Keys {
  int64_t from = 0, end = 0;
};
Keys keys_of(const Case& value, int64_t b, int64_t i) {
  for (size_t m = 0; m + 1 < value.cu_q.size(); ++m)
    if (value.cu_q[m] <= i && i < value.cu_q[m + 1])
      return {value.cu_k[m], value.cu_k[m + 1]};
  return {0, counted_keys(value, b)};
}

// Compares with the mean of v over n keys. A kernel adds n values in any order
// (n - 1 roundings at most on the way of one value), may multiply each by a
// weight that is itself 1 or 1/n (2), may rescale and merge (each of at most n
// tiles once) and divides (a reciprocal and a product, 2, or once per weight
// and part). 2n + 16 roundings cover all of that; each is relative to its
// operand, at most the mean of |v|. Half kernels may round the weight to
// storage.
std::optional<Finding> compare_with_mean(const JudgeInput& input,
                                         const CallView& call, int64_t n,
                                         double actual, Judgement& judgement) {
  const Case& value = input.value;
  const Shape& s = value.shape;
  const int64_t c = n % s.dv, row = n / s.dv;
  const int64_t b = row / s.Tq / s.H, h = row / s.Tq % s.H;
  const Keys keys = keys_of(value, b, row % s.Tq);
  if (keys.end == keys.from) return std::nullopt;  // no mean
  const double* v =
      call.inputs->v.data() + (b * s.Hkv + h / s.group()) * s.Tk * s.dv + c;
  double sum = 0, size = 0;
  for (int64_t j = keys.from; j < keys.end; ++j) {
    sum += v[j * s.dv];
    size += std::fabs(v[j * s.dv]);
  }
  const auto count = static_cast<double>(keys.end - keys.from);
  const PrecisionModel model =
      for_storage(input.model, value.kv_dtype, value.o_dtype);
  const double roundings = 2 * count * model.value_u() + 16 * model.softmax_u();
  // Sums that coarse arithmetic cannot hold.
  if (roundings > 0.5 || size > model.value.largest) return std::nullopt;
  const double p_error =
      model.p_u > 0 ? 2 * (model.p_u + model.p_floor * count) : 0;
  const double bound = (roundings / (1 - roundings) + p_error) * size / count +
                       (2 * count + 16) * std::numeric_limits<float>::min() +
                       (count + 16) * model.value.floor;
  return compare_with_bound({actual, sum / count, bound, 0, value.o_dtype},
                            judgement);
}

std::optional<Finding> compare_with_declared(std::optional<double> expected,
                                             double actual, Dtype dtype,
                                             Judgement& judgement) {
  if (!expected) return std::nullopt;
  ++judgement.compared;
  if (equal_numbers(actual, *expected)) return std::nullopt;
  Finding finding;
  finding.expected =
      number_text(*expected, dtype) + " (declared for a row that sees no key)";
  finding.actual = number_text(actual, dtype);
  finding.ratio = std::numeric_limits<double>::infinity();
  return finding;
}

void judge_tensor(const JudgeInput& input, size_t number, TensorName tensor,
                  Judgement& judgement) {
  const Case& value = input.value;
  const CallView& call = input.calls[number];
  const EmptyRow said = said_of(input.kernel, value, number);
  const std::vector<double> actual = read_output(input, call, tensor);
  const Dtype dtype = output_dtype(input, tensor);
  const Grid grid(value.shape, tensor);
  const std::optional<double> declared = declared_number(said, tensor);
  const bool mean = tensor == TensorName::kO && said.o == QKVET_EMPTY_ROW_MEAN;
  for (size_t n = 0; n < actual.size(); ++n) {
    const Element at = grid.at(n);
    if (!input.visibility->counted(at.b, at.i) ||
        input.visibility->keys(at.b, at.h, at.i) != 0)
      continue;
    auto finding =
        mean ? compare_with_mean(input, call, static_cast<int64_t>(n),
                                 actual[n], judgement)
             : compare_with_declared(declared, actual[n], dtype, judgement);
    if (!finding) continue;
    finding->where = grid.name(n);
    finding->planned = static_cast<int32_t>(number);
    finding->looks =
        number == 0 ? "a row that sees no key is not what the dialect says"
                    : "a row whose biases are all -infinity is not what the "
                      "dialect says";
    add_failure(judgement, std::move(*finding));
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 0; n < input.calls.size(); ++n) {
    judge_tensor(input, n, TensorName::kO, judgement);
    if (wants_lse(input.kernel))
      judge_tensor(input, n, TensorName::kLse, judgement);
  }
  return judgement;
}

}  // namespace of_rows_without_a_key_follow_the_dialect

extern constinit const Law rows_without_a_key_follow_the_dialect{
    "rows_without_a_key_follow_the_dialect",
    "A row that sees no key is what the kernel declares for it: zeros, NaN, "
    "or the mean of all values. So is a row whose biases are all -infinity.",
    "o[i] = 0, or nan, or sum_j v[j] / Lk; lse[i] = -inf, inf or nan",
    "a row that counts and sees no key; its value is declared; no sink",
    "Softmax over nothing has no value of its own: the dialect gives it one.",
    "Zeros, NaN and infinities are exact; a mean passes at most 2n + 16 "
    "roundings, each at most u times the mean of |v|.",
    "(c) agreement says nothing about the mean, (d) it needs no oracle",
    300,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_BIAS |
                     QKVET_OPTION_ALIBI | QKVET_OPTION_SOFTCAP | kAllowMemory |
                     QKVET_OPTION_KEY_LISTS | QKVET_OPTION_SEGMENTS |
                     QKVET_OPTION_CHUNK | QKVET_OPTION_TREE_MASK,
           .about =
               QKVET_OPTION_MASK | QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS},
    of_rows_without_a_key_follow_the_dialect::constrain,
    of_rows_without_a_key_follow_the_dialect::plan,
    of_rows_without_a_key_follow_the_dialect::judge};

}  // namespace qkvet::properties
