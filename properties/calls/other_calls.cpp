// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/other_calls.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/call/fused.h"
#include "core/call/option_numbers.h"
#include "properties/calls/subject_calls.h"
#include "properties/conventions/domain.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::properties {
namespace {

// More than the free space in the last of the tiles of 8, if it is not full. A
// call that is larger by one vector or page is larger for most kernels.
constexpr int64_t kMoreTokens = 8;

int64_t common_multiple(const qkvet_capabilities& c) {
  return std::lcm(std::max<int64_t>(c.tq.multiple, 1),
                  std::max<int64_t>(c.tk.multiple, 1));
}

int64_t least_tokens(const qkvet_capabilities& c) {
  return std::max({c.tq.min, c.tk.min, int64_t{1}});
}

int64_t rounded_up(int64_t extent, int64_t multiple) {
  return (extent + multiple - 1) / multiple * multiple;
}

Case with_more_tokens(Case value, int64_t tokens) {
  value.shape.Tq += tokens;
  value.shape.Tk += tokens;
  for (int64_t& length : value.q_len) length += tokens;
  for (int64_t& length : value.kv_len) length += tokens;
  // The last member has them.
  if (!value.cu_q.empty()) value.cu_q.back() += tokens;
  if (!value.cu_k.empty()) value.cu_k.back() += tokens;
  return value;
}

// Positive: this many tokens more. Negative: at most this many.
Case of_other_shape(Case value, int64_t tokens) {
  constexpr uint64_t kEverything = ~uint64_t{0};
  value.q = value.k = value.v = {};  // weights of all keys, none of them 0
  if (value.backward) value.d_o = {};
  value.seed = ~value.seed;
  value.set.clear();
  if (tokens > 0) return with_more_tokens(std::move(value), tokens);
  value.shape.Tq = std::min(value.shape.Tq, -tokens);
  value.shape.Tk = std::min(value.shape.Tk, -tokens);
  return keep_allowed(std::move(value), kEverything);
}

void inputs_of_other_shape(const Case& value, int64_t tokens, Inputs& inputs) {
  inputs = make_inputs(of_other_shape(value, tokens));
}

}  // namespace

std::vector<PlannedCall> calls_of_other_shapes(const Case& value,
                                               const KernelInfo& kernel,
                                               Operation operation) {
  std::vector<PlannedCall> calls;
  if (value.file != 0) return calls;
  const qkvet_capabilities& c = kernel.capabilities;
  const int64_t multiple = common_multiple(c);
  const int64_t least = least_tokens(c);
  const int64_t more = rounded_up(kMoreTokens, multiple);
  for (const int64_t tokens : {more, -rounded_up(least, multiple), 2 * more}) {
    PlannedCall call;
    call.operation = operation;
    call.only_between = true;
    call.variant = of_other_shape(value, tokens);
    call.edit = inputs_of_other_shape;
    call.argument = tokens;
    calls.push_back(std::move(call));
  }
  return calls;
}

// ---- Other cases ------------------------------------------------------------

namespace {

using Kind = CallStepKind;

// Data of moderate size, and other values of masks and biases as well.
Case with_other_data(Case value) {
  value.q = value.k = value.v = value.x = value.w = value.d_o = {};
  if (value.merge) value.q = value.k = make_recipe(RecipeKind::kZero);
  value.seed = ~value.seed;
  value.set.clear();
  value.calls.clear();
  return value;
}

// ---- Layouts

// Layouts of a call of attention or of a merge that the kernel takes, except
// packed ones and those that need addresses.
std::vector<Layout> layouts_of(const Case& value, const KernelInfo& kernel) {
  const qkvet_capabilities& c = kernel.capabilities;
  const uint64_t declared = c.layouts != 0 ? c.layouts : QKVET_LAYOUT_BHTD;
  const bool any = value.merge
                       ? (kernel.merge_options & QKVET_MERGE_ANY_STRIDES) != 0
                       : (declared & QKVET_LAYOUT_ANY_STRIDES) != 0;
  const bool heads_first =
      value.merge ? (kernel.merge_options & QKVET_MERGE_LSE_HEADS_FIRST) != 0
                  : (declared & QKVET_LAYOUT_BTHD) != 0;
  const bool plain =
      value.merge
          ? (kernel.merge_options & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) == 0
          : (declared & QKVET_LAYOUT_BHTD) != 0;
  std::vector<Layout> layouts;
  if (any || plain) layouts.push_back(Layout::kBhtd);
  if (any || heads_first) layouts.push_back(Layout::kBthd);
  for (const Layout one : {Layout::kGaps, Layout::kApart, Layout::kTurned})
    if (any) layouts.push_back(one);
  std::erase(layouts, value.layout);
  return layouts;
}

// A layer has the matrices of q, k and v side by side, or each alone.
std::optional<Case> with_other_storage(Case value, const KernelInfo& kernel) {
  const bool may_be_fused = value.subject() == Subject::kLayer;
  for (int n = 0; n < kFusedOrderCount && may_be_fused; ++n) {
    const auto order = static_cast<FusedOrder>(n);
    const uint64_t option = fused_option(order);
    if (order == value.fused || (kernel.layer_options & option) != option)
      continue;
    value.fused = order;
    return value;
  }
  if (value.shape.B != 1 || (kernel.layer_options & QKVET_LAYER_UNBATCHED) == 0)
    return std::nullopt;
  value.unbatched = !value.unbatched;
  return value;
}

std::optional<Case> with_other_layout(Case value, const KernelInfo& kernel) {
  if (value.is_layer()) return with_other_storage(std::move(value), kernel);
  if (value.subject() == Subject::kCache) return std::nullopt;
  const std::vector<Layout> layouts = layouts_of(value, kernel);
  if (layouts.empty()) return std::nullopt;
  value.layout = layouts[value.seed % layouts.size()];
  return value;
}

// ---- Options that are added and removed

// Options that can be added and removed without making another one illegal.
struct ComesAndGoes {
  uint64_t option;
  std::string_view key, text;
};
constexpr ComesAndGoes kComeAndGo[] = {{QKVET_OPTION_MASK, "mask", "random70"},
                                       {QKVET_OPTION_BIAS, "bias", "lattice"},
                                       {QKVET_OPTION_WINDOW, "window", "2.0"},
#define QKVET_OPTION_NUMBER(name, NAME, one, in_backward, small, ...) \
  {QKVET_OPTION_##NAME, #name, #small},
#include "core/call/option_numbers.def"
                                       {QKVET_OPTION_ALIBI, "alibi", "one"},
                                       {QKVET_OPTION_SINK, "sink", "normal"}};

// The case with these options only; where tensors are stored stays.
Case with_options(Case value, uint64_t options) {
  value = keep_allowed(std::move(value), kOptionLayout | kOptionShare);
  value.causal = Causal::kNone;
  std::erase_if(value.set, [](const SetValue& set) {
    return set.tensor != TensorName::kQ && set.tensor != TensorName::kK &&
           set.tensor != TensorName::kV && set.tensor != TensorName::kDO;
  });
  for (const ComesAndGoes& row : kComeAndGo)
    if ((options & row.option) != 0)
      find_option(row.key)->read(row.text, row.text, value);
  return value;
}

// One or two options of the kernel that the case does not have.
uint64_t other_options(const Case& value, const KernelInfo& kernel) {
  uint64_t others = 0;
  for (const ComesAndGoes& row : kComeAndGo) others |= row.option;
  const std::vector<uint64_t> bits =
      single_options(others & ~options_of(value) & kernel.capabilities.options);
  if (bits.empty()) return 0;
  return bits[value.seed % bits.size()] | bits[value.seed / 8 % bits.size()];
}

bool declares_causal(const KernelInfo& kernel, Causal causal) {
  const uint64_t option = causal == Causal::kNone ? 0
                          : causal == Causal::kTopLeft
                              ? QKVET_OPTION_CAUSAL_TOP_LEFT
                              : QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  return causal == Causal::kNone ? !kernel.has_flag(QKVET_FLAG_CAUSAL_ONLY)
                                 : kernel.has_option(option);
}

// A layer or a cache without its optional parts.
Case plain_form(Case value) {
  drop_options(kStoryOptions, value);
  value.cache = {0, 0, 0, value.cache.stored};
  if (value.is_layer()) {
    value.biases = 0;
    value.bias = {};
    value.context = 0;
    value.causal = Causal::kNone;
  }
  return value;
}

Case full_form(Case value, const KernelInfo& kernel) {
  const bool layer = value.is_layer();
  const bool turns = layer ? (kernel.layer_options & QKVET_LAYER_ROPE) != 0
                           : (kernel.cache_options & QKVET_CACHE_ROPE) != 0;
  if (turns && value.shape.d % 2 == 0 && value.rope.style == RopeStyle::kNone)
    value.rope.style = RopeStyle::kHalf;
  if (!layer && (kernel.cache_options & QKVET_CACHE_WINDOW) != 0 &&
      value.cache.window == 0)
    value.cache.window = 2;
  if (!layer) return value;
  constexpr uint8_t kAll = kBiasQ | kBiasK | kBiasV | kBiasO;
  if ((kernel.layer_options & QKVET_LAYER_BIASES) != 0) value.biases = kAll;
  if (declares_causal(kernel, Causal::kBottomRight))
    value.causal = Causal::kBottomRight;
  return value;
}

// ---- Other values

RopeStyle other_style(RopeStyle style) {
  return style == RopeStyle::kHalf ? RopeStyle::kInterleaved : RopeStyle::kHalf;
}

// The case with one value changed, for each value that can be changed: if the
// key of a plan lacks one of them, the call finds it, because all the rest is
// equal.
struct OtherValues {
  const Case& value;
  std::vector<Case> of_options = {};  // that the case has
  std::vector<Case> of_all = {};      // of all cases

  template <class Change>
  void add(std::vector<Case>& to, Change change) {
    Case other = value;
    change(other);
    if (!(other == value)) to.push_back(std::move(other));
  }

  void add_scale_and_causal(const KernelInfo& kernel) {
    if (kernel.has_option(QKVET_OPTION_SCALE))
      add(of_all, [](Case& c) { c.scale = c.scale ? *c.scale / 2 : 0.3F; });
    if (value.subject() == Subject::kCache || value.context > 0) return;
    for (const Causal causal :
         {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight})
      if (declares_causal(kernel, causal) &&
          !(value.is_layer() && causal == Causal::kTopLeft))
        add(of_all, [&](Case& c) { c.causal = causal; });
  }

  void add_forms() {
    if (value.rope.style != RopeStyle::kNone)
      add(of_options,
          [](Case& c) { c.rope.style = other_style(c.rope.style); });
    if (value.cache.window > 0)
      add(of_options, [](Case& c) { ++c.cache.window; });
    if (!value.has_options()) add_numbers();
  }

  void add_numbers() {
    for (const OptionNumber& number : kOptionNumbers)
      add(of_options, [&](Case& c) { c.*number.in_call *= 2; });
  }

  void add_options(const KernelInfo& kernel) {
    if (value.listed.entries > 0 &&
        kernel.has_option(QKVET_OPTION_KEY_LIST_BLOCKS))
      for (const int64_t block : {2, 3})
        add(of_options, [&](Case& c) { c.listed.block = block; });
    if (value.window)
      add(of_options,
          [](Case& c) { c.window->left = c.window->left < 0 ? 1 : -1; });
    add_numbers();
    if (value.chunk > 0)
      add(of_options, [](Case& c) { c.chunk = c.chunk / 2 + 1; });
    for (const bool of_keys : {false, true})
      add(of_options, [&](Case& c) {
        const int64_t most = of_keys ? c.shape.Tk : c.shape.Tq;
        for (int64_t& length : of_keys ? c.kv_len : c.q_len)
          length = most - length;
      });
    for (const uint8_t own : {kOwnAll, kOwnK}) {
      if (value.mask.kind != MaskKind::kNone)
        add(of_options, [&](Case& c) { c.mask.own = own; });
      if (value.score_bias)
        add(of_options, [&](Case& c) { c.score_bias_own = own; });
    }
  }
};

OtherValues other_values(const Case& value, const KernelInfo& kernel) {
  OtherValues other{value};
  if (value.merge) return other;
  other.add_scale_and_causal(kernel);
  other.add_forms();
  if (value.has_options()) other.add_options(kernel);
  return other;
}

// Mostly another value of an option that the case has.
std::optional<Case> with_other_value(const Case& value,
                                     const KernelInfo& kernel) {
  const OtherValues other = other_values(value, kernel);
  const bool of_options = !other.of_options.empty() &&
                          (value.seed % 8 != 0 || other.of_all.empty());
  const std::vector<Case>& all = of_options ? other.of_options : other.of_all;
  if (all.empty()) return std::nullopt;
  return all[value.seed / 8 % all.size()];
}

// ---- Other extents

// `more`: states and rows; else as few as there can be.
Case other_merge(Case value, bool more) {
  Shape& s = value.shape;
  s.B = more ? s.B + kMoreTokens : 1;
  s.Tk = more ? s.Tk + kMoreTokens : 1;
  value.kv_len.resize(value.kv_len.empty() ? 0 : static_cast<size_t>(s.B),
                      s.Tk);
  for (int64_t& states : value.kv_len) states = std::min(states, s.Tk);
  return value;
}

Case other_layer(Case value, const KernelInfo& kernel, bool more) {
  const int64_t multiple = common_multiple(kernel.capabilities);
  Shape& s = value.shape;
  s.Tq = more ? s.Tq + rounded_up(kMoreTokens, multiple)
              : rounded_up(least_tokens(kernel.capabilities), multiple);
  s.Tk = s.Tq;
  if (value.context > 0) value.context = std::max(value.context, s.Tq);
  return value;
}

std::optional<Case> with_other_extents(const Case& value,
                                       const KernelInfo& kernel, bool more) {
  Case other = with_other_data(value);
  if (value.merge) return other_merge(std::move(other), more);
  if (value.is_layer()) return other_layer(std::move(other), kernel, more);
  if (value.subject() == Subject::kCache) {
    if (!more) return std::nullopt;
    other.capacity += kMoreTokens;
    return other;
  }
  return calls_of_other_shapes(value, kernel, Operation::kForward)[more ? 0 : 1]
      .variant;
}

// Nullopt if it is the same case, or if no tensors can be made of it.
std::optional<Case> fitting(std::optional<Case> other, const Case& value) {
  if (!other || *other == value) return std::nullopt;
  other->calls.clear();
  return invalid_reason(*other).empty() ? std::move(other) : std::nullopt;
}

// The operation of a story is that of each command.
Operation operation_of(Subject subject) {
  switch (subject) {
    case Subject::kLayer:
      return Operation::kLayer;
    case Subject::kBackward:
      return Operation::kBackward;
    case Subject::kLayerBackward:
      return Operation::kLayerBackward;
    case Subject::kMerge:
      return Operation::kMerge;
    default:
      return Operation::kForward;
  }
}

}  // namespace

const char* step_name(CallStepKind kind) {
  constexpr const char* kNames[] = {"the case as it is",
                                    "other data at the same addresses",
                                    "the case at other addresses",
                                    "the case in a second context",
                                    "the case without its options",
                                    "the case with other options",
                                    "more queries and keys",
                                    "few queries and keys",
                                    "the case in another layout",
                                    "the case with another value of an option"};
  static_assert(std::size(kNames) == kCallStepLetters.size());
  return kNames[static_cast<size_t>(kind)];
}

std::optional<Case> other_case(const Case& value, const KernelInfo& kernel,
                               CallStepKind kind) {
  // There is no other recorded data.
  if (value.file != 0) return std::nullopt;
  const bool of_scores = value.has_options() && !value.merge;
  switch (kind) {
    case Kind::kOther:
      return fitting(with_other_data(value), value);
    case Kind::kNone: {
      Case plain = plain_form(value);
      if (value.merge) plain.kv_len.clear();
      return fitting(of_scores ? with_options(value, 0) : plain, value);
    }
    case Kind::kWith:
      if (value.merge) return std::nullopt;
      return fitting(of_scores
                         ? with_options(value, other_options(value, kernel))
                         : full_form(value, kernel),
                     value);
    case Kind::kStrides:
      return fitting(with_other_layout(value, kernel), value);
    case Kind::kNumbers:
      return fitting(with_other_value(value, kernel), value);
    case Kind::kMore:
    case Kind::kFew:
      return fitting(with_other_extents(value, kernel, kind == Kind::kMore),
                     value);
    default:
      return std::nullopt;
  }
}

std::optional<PlannedCall> other_call(const Case& value,
                                      const KernelInfo& kernel,
                                      CallStepKind kind) {
  PlannedCall call;
  call.variant = other_case(value, kernel, kind);
  if (!call.variant) return std::nullopt;
  call.operation = operation_of(value.subject());
  call.own_inputs = true;
  call.only_between = true;
  call.same_place = kind != Kind::kMore && kind != Kind::kFew;
  return call;
}

std::vector<CallStepKind> kinds_before(const Case& value,
                                       const KernelInfo& kernel, size_t most) {
  constexpr std::array<Kind, 7> kKinds = {
      Kind::kStrides, Kind::kNumbers, Kind::kOther, Kind::kNone,
      Kind::kWith,    Kind::kMore,    Kind::kFew};
  std::vector<Kind> kinds;
  const auto add = [&](Kind kind) {
    const bool is_there =
        std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    if (kinds.size() < most && !is_there && other_case(value, kernel, kind))
      kinds.push_back(kind);
  };
  // The first one leaves most. Options are rare, and each value of one counts.
  if (!other_values(value, kernel).of_options.empty() && value.seed % 4 != 0)
    add(Kind::kNumbers);
  for (size_t n = 0; n < kKinds.size(); ++n)
    add(kKinds[(value.seed / 4 + n) % kKinds.size()]);
  return kinds;
}

bool begins_anew(const Case& value, const KernelInfo& kernel) {
  return value.seed % 2 == 0 || !other_values(value, kernel).of_options.empty();
}

Plan plan_calls_before(const Case& value, const KernelInfo& kernel) {
  constexpr size_t kMostKinds = 3;
  Plan plan;
  PlannedCall call = whole_call(value, kernel);
  call.needs_truth = !nondeterministic_reason(kernel).empty();
  call.same_place = true;
  plan.calls = {call};
  for (const Kind kind : kinds_before(value, kernel, kMostKinds)) {
    plan.calls.push_back(*other_call(value, kernel, kind));
    plan.calls.push_back(call);
  }
  if (plan.calls.size() == 1)
    plan.not_applicable = "no other call of the kernel is like this one";
  else
    // Call 0 as well: both then start from the same memory, and a second run of
    // the case does not meet leftovers of the first.
    plan.calls[0].new_process = plan.calls[1].new_process =
        begins_anew(value, kernel);
  return plan;
}

Judgement judge_calls_before(const JudgeInput& input) {
  const auto against_truth = [&](size_t call) {
    JudgeInput one = input;
    one.calls = input.calls.subspan(call, 1);
    return agreement_about(input.value.subject()).judge(one);
  };
  Judgement judgement;
  const bool exact = nondeterministic_reason(input.kernel).empty();
  if (!exact) judgement = against_truth(0);
  if (judgement.verdict != Verdict::kPassed) {
    judgement = {};
    judgement.verdict = Verdict::kGaveUp;
    judgement.reason = "the call is wrong by itself";
    judgement.about = About::kOtherCall;
    return judgement;
  }
  const size_t pairs = input.calls.size() / 2;
  const std::vector<Kind> kinds =
      kinds_before(input.value, input.kernel, pairs);
  for (size_t n = 0; n < pairs && !judgement.finding; ++n) {
    const std::string name = std::string("after ") + step_name(kinds[n]);
    CallPair pair;
    pair.second = 2 * n + 2;
    pair.first_name = "before";
    pair.second_name = name.c_str();
    if (exact)
      compare_all_bits(input, pair, judgement);
    else
      add_judgement(against_truth(pair.second), judgement);
    if (!judgement.finding) continue;
    judgement.finding->planned = static_cast<int32_t>(pair.second);
    judgement.finding->looks = "something is left over from an earlier call: " +
                               std::string(step_name(kinds[n]));
  }
  return judgement;
}

}  // namespace qkvet::properties
