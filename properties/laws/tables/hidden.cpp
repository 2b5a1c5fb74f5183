// SPDX-License-Identifier: Apache-2.0
// Keys that a row does not see, and numbers that have no effect, change nothing
// of the row.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/finite.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_hidden {

// Eight times a normal: scores and values that would show.
constexpr Recipe kFarData{RecipeKind::kLargeN, 3};

// ---- The future of the first rows: the new values are finite and overflow
// nothing, so no rule about masked NaN or Inf is involved.

// plan_future() sees to it that there is a row with masked keys.
int64_t last_row(const Case& value) {
  return pick_by_seed(value.seed, rows_with_masked_keys(value));
}

void other_future(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const int64_t from = visible_keys(value, last_row(value));
  const auto d = static_cast<size_t>(s.d), dv = static_cast<size_t>(s.dv);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.Hkv; ++h)
      for (int64_t t = from; t < s.Tk; ++t) {
        const auto row = static_cast<size_t>((b * s.Hkv + h) * s.Tk + t);
        recipe_row(kFarData, ~value.seed, TensorName::kK, b, h, t,
                   {inputs.k.data() + row * d, d});
        recipe_row(kFarData, ~value.seed, TensorName::kV, b, h, t,
                   {inputs.v.data() + row * dv, dv});
      }
}

void plan_future(const Case& value, const KernelInfo&, Plan& plan) {
  if (rows_with_masked_keys(value) > 0) return;
  plan.calls.clear();
  plan.not_applicable = "the case masks no key: it needs causal and Tk > 1";
}

void only_past_rows(const JudgeInput& input, CallPair& pair) {
  const int64_t last = last_row(input.value);
  pair.second_text = "after K and V changed at keys >= " +
                     std::to_string(visible_keys(input.value, last));
  pair.map = [last](const Element& at) {
    return at.i <= last ? std::optional(at) : std::nullopt;
  };
}

// ---- Hidden keys of one row, the argument of the second call

void other_hidden_keys(const Case& value, int64_t row, Inputs& inputs) {
  const auto d = static_cast<size_t>(value.shape.d);
  const auto dv = static_cast<size_t>(value.shape.dv);
  const Inputs before = inputs;
  for_each_hidden_key(value, before, row, [&](int64_t n) {
    const auto at = static_cast<size_t>(n);
    recipe_row(kFarData, ~value.seed, TensorName::kK, 0, 0, n,
               {inputs.k.data() + at * d, d});
    recipe_row(kFarData, ~value.seed, TensorName::kV, 0, 0, n,
               {inputs.v.data() + at * dv, dv});
  });
}

// NaN, infinity and minus infinity in turn, separately in k and v.
double nonfinite(uint64_t n) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 3> kValues = {
      std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  return kValues[static_cast<size_t>(n % 3)];
}

void break_hidden_keys(const Case& value, int64_t row, Inputs& inputs) {
  const int64_t d = value.shape.d, dv = value.shape.dv;
  const Inputs before = inputs;
  for_each_hidden_key(value, before, row, [&](int64_t n) {
    const uint64_t turn = value.seed + static_cast<uint64_t>(n);
    std::fill_n(inputs.k.begin() + n * d, d, nonfinite(turn));
    std::fill_n(inputs.v.begin() + n * dv, dv, nonfinite(turn / 3));
  });
}

void plan_ignored(const Case& value, const KernelInfo& kernel, Plan& plan) {
  plan_hidden_keys(value, kernel, plan);
  if (kernel.dialect.masked_nonfinite != QKVET_MASKED_IGNORED)
    plan.unsupported = "not declared: NaN and Inf at masked keys are ignored";
}

// ---- Rows beyond the lengths: NaN in every case, other numbers in one call

// The same for all members and heads, as k and v may be shared.
void replace_nan(const Case& value, TensorName tensor,
                 std::vector<double>& values) {
  const auto [members, heads, rows, width] =
      tensor_extents(value.shape, tensor);
  std::vector<double> other(static_cast<size_t>(width));
  double* at = values.data();
  for (int64_t n = 0; n < members * heads * rows; ++n, at += width) {
    if (!std::isnan(*at)) continue;
    recipe_row(kFarData, ~value.seed, tensor, 0, 0, n % rows, other);
    for (size_t c = 0; c < other.size(); ++c)
      if (std::isnan(at[c])) at[c] = other[c];
  }
}

void numbers_for_poison(const Case& value, int64_t, Inputs& inputs) {
  replace_nan(value, TensorName::kQ, inputs.q);
  replace_nan(value, TensorName::kK, inputs.k);
  replace_nan(value, TensorName::kV, inputs.v);
}

bool has_rows_beyond(const Case& value) {
  for (int64_t b = 0; b < value.shape.B; ++b)
    if (counted_queries(value, b) < value.shape.Tq ||
        counted_keys(value, b) < value.shape.Tk)
      return true;
  return false;
}

// If the lengths leave no row out, the last key is left out, or the last query.
Case with_rows_beyond(Case value) {
  Shape& s = value.shape;
  if (has_rows_beyond(value)) return value;
  if (!value.q_len.empty() && value.kv_len.empty()) {
    s.Tq = std::max<int64_t>(s.Tq, 2);
    for (int64_t& length : value.q_len) length = std::min(length, s.Tq - 1);
    return value;
  }
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (value.cu_k.empty() && static_cast<size_t>(s.B) <= kMaxMembers)
    value.kv_len.assign(static_cast<size_t>(s.B), s.Tk - 1);
  for (int64_t& start : value.cu_k) start = std::min(start, s.Tk - 1);
  return value;
}

// Rows that see no key are not compared. If there are no others, all rows
// count, and options that hide keys are removed. The least is one key, at which
// shrinking ends.
Case with_poison(Case value) {
  value = with_rows_beyond(std::move(value));
  const bool packed = !value.cu_k.empty();
  if (value.shape.B == 0 || some_row_sees_a_key(value)) return value;
  value.mask = {};
  value.window.reset();
  value.q_len.clear();
  value.kv_len.clear();
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (packed) {
    value.cu_q = {0, s.Tq};
    value.cu_k = {0, 1};
  } else if (static_cast<size_t>(s.B) <= kMaxMembers) {
    value.kv_len.assign(static_cast<size_t>(s.B), 0);
    value.kv_len[0] = 1;
  }
  return value;
}

void only_with_poison(const Case& value, const KernelInfo&, Plan& plan) {
  if (!has_rows_beyond(value))
    plan.not_applicable = "nothing lies beyond the lengths";
}

void name_poison(const JudgeInput& input, CallPair& pair) {
  if (!needs_finite_padding(input.kernel.dialect)) return;
  pair.first_name = "numbers beyond the lengths";
  pair.second_name = "other numbers beyond the lengths";
}

// ---- Parts of segments, ranges and trees that have no effect

using Numbers = std::vector<int64_t>;

// Other names for the same segments, and other numbers below 0, in another
// order; in 64 bits they only differ in the upper half.
void rename_segments(const Case& value, Inputs& inputs) {
  std::map<int64_t, int64_t> names;
  for (const Numbers* numbers : {&inputs.segments_q, &inputs.segments_k})
    for (const int64_t number : *numbers) names[number] = 0;
  constexpr int kUpper = 32;
  int64_t next = static_cast<int64_t>(names.size());
  for (auto& [number, name] : names) {
    --next;
    name = number < 0                   ? number - 1 - next
           : value.fields.wide_segments ? next << kUpper
                                        : next;
  }
  for (Numbers* numbers : {&inputs.segments_q, &inputs.segments_k})
    for (int64_t& number : *numbers) number = names[number];
}

// Beyond the lengths: the number of the first key, which is a segment.
void write_rest(const std::vector<int64_t>& lengths, int64_t extent,
                int64_t number, Numbers& numbers) {
  for (size_t b = 0; b < lengths.size(); ++b)
    for (int64_t n = lengths[b]; n < extent; ++n)
      numbers[b * static_cast<size_t>(extent) + static_cast<size_t>(n)] =
          number;
}

// Ranges in the opposite order, empty ones of any kind.
void turn_ranges(const Case& value, Inputs& inputs) {
  const int64_t empty[][2] = {
      {0, 0}, {value.shape.Tk, 0}, {std::numeric_limits<int32_t>::max(), -1}};
  const auto count = static_cast<size_t>(value.fields.ranges);
  const Numbers as_it_was = inputs.full_ranges;
  for (size_t at = 0; at < as_it_was.size() / 2; ++at) {
    const size_t from = at / count * count + (count - 1 - at % count);
    int64_t begin = as_it_was[2 * from], end = as_it_was[2 * from + 1];
    if (end <= begin) {
      const auto& other = empty[(at + value.seed) % 3];
      begin = other[0], end = other[1];
    }
    inputs.full_ranges[2 * at] = begin;
    inputs.full_ranges[2 * at + 1] = end;
  }
}

// Beyond the drafts of a member: the opposite.
void turn_rest_of_tree(const Case& value, Inputs& inputs) {
  const auto drafts = static_cast<size_t>(value.shape.Tq);
  for (size_t at = 0; at < inputs.tree_mask.size(); ++at) {
    const auto b = at / drafts / drafts, i = at / drafts % drafts;
    const auto counted =
        value.q_len.empty() ? drafts : static_cast<size_t>(value.q_len[b]);
    if (std::max(i, at % drafts) >= counted) inputs.tree_mask[at] ^= 1;
  }
}

void other_rest_of_fields(const Case& value, int64_t, Inputs& inputs) {
  if (value.fields.segments) {
    rename_segments(value, inputs);
    const int64_t first =
        inputs.segments_k.empty() ? 0 : inputs.segments_k.front();
    write_rest(value.q_len, value.shape.Tq, first, inputs.segments_q);
    write_rest(value.kv_len, value.shape.Tk, first, inputs.segments_k);
  }
  if (value.fields.ranges > 0) turn_ranges(value, inputs);
  if (value.fields.tree) turn_rest_of_tree(value, inputs);
}

// A tree in which all drafts count is uninformative here, but a kernel may take
// only trees.
Case with_rest_of_fields(Case value) {
  const MaskFields& f = value.fields;
  constexpr uint64_t kTrees = 4;
  const bool is_of_tree =
      f.tree && (!value.q_len.empty() || value.seed % kTrees == 0);
  if (!f.segments && f.ranges == 0 && !is_of_tree) {
    value.fields = {};
    value.fields.ranges = 2;
    value.chunk = 0;
  }
  return value;
}

void only_with_rest(const Case& value, const KernelInfo&, Plan& plan) {
  const MaskFields& f = value.fields;
  if (!f.segments && f.ranges == 0 && value.q_len.empty())
    plan.not_applicable = "all of the tree counts";
}

constexpr Law kRows[] = {
    {.id = "future_changes_nothing",
     .sentence = "The future changes nothing: other K and V at keys that a row "
                 "must not see leave its output as it is.",
     .formula = "o[i] = f(q[i], k[j], v[j] : j visible to i)",
     .precondition = "causal, with at least one masked key",
     .reason = "Masked keys do not occur in the formula of the row.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 80,
     .domain = {.causal = true,
                .allows = QKVET_OPTION_ROPE | kAllowScores | kOptionLayout |
                          kAllowServing},
     .constrain = with_masked_key,
     .relation = {.first = "before",
                  .looks = "the row depends on keys that it must not see",
                  .edit = other_future,
                  .same_rows = true,
                  .more_plan = plan_future,
                  .pair = only_past_rows}},
    {.id = "masked_keys_change_nothing",
     .sentence = "Keys that a row does not see change nothing of it: other "
                 "finite K and V there leave the row as it is.",
     .formula = "o[i] = f(q[i], k[j], v[j] : j visible to i)",
     .precondition = "a row sees one key and not another",
     .reason = "Hidden keys do not occur in the formula of the row.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 330,
     .domain = {.allows = kAllowUnshared | QKVET_OPTION_KEY_LISTS |
                          QKVET_OPTION_SEGMENTS | QKVET_OPTION_CHUNK |
                          QKVET_OPTION_TREE_MASK,
                .about = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW},
     .constrain = with_hidden_keys,
     .relation = {.first = "as it was",
                  .second = "other K and V at keys that the row does not see",
                  .looks = "the row depends on keys that it must not see",
                  .edit = other_hidden_keys,
                  .same_rows = true,
                  .more_plan = plan_hidden_keys,
                  .pair = only_row_of_call}},
    {.id = "masked_nonfinite_is_ignored",
     .sentence =
         "NaN and infinity at keys that a row does not see are ignored, where "
         "the kernel declares it: the row stays as it is.",
     .formula = "o[i] = f(q[i], k[j], v[j] : j visible to i), k[j] = v[j] = "
                "NaN elsewhere",
     .precondition = "a row sees one key and not another; a kernel that "
                     "declares to ignore what is not finite",
     .reason = "Hidden keys do not occur in the formula of the row.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 340,
     .domain = {.allows = kAllowUnshared | QKVET_OPTION_KEY_LISTS |
                          QKVET_OPTION_SEGMENTS | QKVET_OPTION_CHUNK |
                          QKVET_OPTION_TREE_MASK,
                .about = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW},
     .constrain = with_hidden_keys,
     .relation =
         {.first = "as it was",
          .second = "NaN or Inf in K and V at keys that the row does not see",
          .looks = "a weight of 0 is multiplied by the value of a hidden key",
          .edit = break_hidden_keys,
          .same_rows = true,
          .more_plan = plan_ignored,
          .pair = only_row_of_call}},
    {.id = "poison_beyond_lengths_changes_nothing",
     .sentence = "Elements beyond the lengths change nothing, even NaN: the "
                 "rows that count stay as they are.",
     .formula = "o[b, i < q_len] = f(q[b, i], k[b, < kv_len], v[b, < kv_len])",
     .precondition =
         "lengths or packed members that leave rows of q, k or v over",
     .reason = "These rows do not occur in the formula.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 320,
     .domain = {.allows = kAllowListsAndFields,
                .about = QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED},
     .constrain = with_poison,
     .relation = {.first = "NaN beyond the lengths",
                  .second = "numbers beyond the lengths",
                  .looks = "the row depends on what lies beyond the lengths",
                  .edit = numbers_for_poison,
                  .same_rows = true,
                  .more_plan = only_with_poison,
                  .pair = name_poison}},
    {.id = "rest_of_mask_fields_changes_nothing",
     .sentence =
         "Numbers of segments are names, the order of ranges does not matter, "
         "and empty ranges and entries beyond the lengths have no effect.",
     .formula = "forward(segments) = forward(renamed segments), and so on",
     .precondition = "segments, ranges or a tree",
     .reason = "A row sees keys of an equal number and of its own range; a "
               "position without a row or key occurs in no formula.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 355,
     .domain = {.free_data = false,
                .allows = (kAllowAll & ~QKVET_OPTION_PACKED) | kAllowFields,
                .about = QKVET_OPTION_SEGMENTS | QKVET_OPTION_FULL_RANGES |
                         QKVET_OPTION_TREE_MASK},
     .constrain = with_rest_of_fields,
     .relation = {.first = "as it was",
                  .second = "with other names of segments and another rest",
                  .looks =
                      "numbers of segments are more than names, or an empty "
                      "range or what lies beyond the lengths is read",
                  .edit = other_rest_of_fields,
                  .same_rows = true,
                  .more_plan = only_with_rest}},
};

}  // namespace of_hidden

extern constinit const LawTable hidden_laws{of_hidden::kRows};

}  // namespace qkvet::properties
