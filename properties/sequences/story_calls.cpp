// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/story_calls.h"

#include <algorithm>
#include <limits>

#include "core/case/option_data.h"
#include "properties/judging/compare.h"
#include "reference/arithmetic/quantised.h"

namespace qkvet::properties {
namespace {

// The most tokens of a prompt that is also decoded one by one.
constexpr int64_t kLongestPrompt = 24;

std::vector<Token> range(int64_t sequence, int64_t first, int64_t count) {
  std::vector<Token> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back({sequence, first + i});
  return tokens;
}

// [H or 1,Tq,Tk]: the keys that the queries of a snapshot see through the
// window and the mask of their step. The queries are at the end of the history.
std::vector<uint8_t> seen_pairs(const Case& value, const Snapshot& snapshot,
                                const std::vector<uint8_t>& given) {
  const uint8_t own = value.mask.own;
  const auto has = [own](uint8_t extent) { return (own & extent) != 0; };
  const bool masked = !given.empty();
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  const int64_t rows = snapshot.queries;
  std::vector<uint8_t> seen;
  for (int64_t h = 0; h < (masked && has(kOwnH) ? value.shape.H : 1); ++h)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < tokens; ++j) {
        const int64_t row = has(kOwnQ) ? h * rows + i : h;
        const int64_t at = has(kOwnK) ? row * tokens + j : row;
        const bool shown = !masked || given[static_cast<size_t>(at)] != 0;
        seen.push_back(shown && value.cache.sees(tokens - rows + i, j) ? 1 : 0);
      }
  return seen;
}

// How far stored `tokens` [Hkv,Tk,width] may be from what was given.
std::vector<double> errors_of_stored(const CacheForm& form, int64_t heads,
                                     int64_t width,
                                     const std::vector<double>& values,
                                     const std::vector<double>& scales) {
  std::vector<double> errors;
  const auto size = values.size() / static_cast<size_t>(heads);
  for (int64_t h = 0; h < heads; ++h) {
    const auto begin = values.begin() + h * static_cast<int64_t>(size);
    const std::vector<double> head =
        stored_errors(form, {begin, begin + static_cast<int64_t>(size)},
                      static_cast<size_t>(width),
                      scales.empty() ? nullptr : scales.data() + h * width);
    errors.insert(errors.end(), head.begin(), head.end());
  }
  return errors;
}

Operation story_operation(StoryVerb verb) {
  switch (verb) {
    case StoryVerb::kTruncate:
      return Operation::kCacheTruncate;
    case StoryVerb::kEvict:
      return Operation::kCacheEvict;
    case StoryVerb::kReset:
      return Operation::kCacheReset;
    case StoryVerb::kFork:
      return Operation::kCacheFork;
    case StoryVerb::kReorder:
      return Operation::kCacheReorder;
    default:
      return Operation::kCacheStep;
  }
}

Placement placement_of(size_t number) {
  return static_cast<Placement>(number % kPlacementCount);
}

}  // namespace

PlannedCall create_call(const Case& value) {
  PlannedCall create;
  create.operation = Operation::kCacheCreate;
  Snapshot nothing;
  nothing.lengths.assign(static_cast<size_t>(value.shape.B), 0);
  create.snapshot = std::move(nothing);
  return create;
}

PlannedCall command_call(Snapshot snapshot, bool want_lse, size_t number) {
  PlannedCall call;
  call.operation = story_operation(snapshot.command.verb);
  call.expects_refusal = !snapshot.illegal.empty();
  call.want_lse = want_lse && snapshot.queries > 0;
  call.placement = placement_of(number);
  call.snapshot = std::move(snapshot);
  return call;
}

StoryRules story_rules(const Case& value, const KernelInfo& kernel) {
  return {value.shape.B, value.capacity,
          (kernel.cache_options & QKVET_CACHE_GROWS) != 0, value.cache};
}

void add_story(const Case& value, const Story& story, const KernelInfo& kernel,
               const StoryEdits& edits, Plan& plan) {
  plan.calls.push_back(create_call(value));
  for (Snapshot& snapshot :
       play_story(story, story_rules(value, kernel), edits.inserted)) {
    const bool has_truth = edits.needs_truth && snapshot.queries > 0 &&
                           snapshot.illegal.empty() &&
                           !sees_added_token(snapshot);
    plan.calls.push_back(
        command_call(std::move(snapshot), edits.want_lse, plan.calls.size()));
    plan.calls.back().needs_truth = has_truth;
  }
}

std::optional<WrongLength> wrong_length(const Snapshot& snapshot,
                                        const CallOutcome& outcome) {
  for (size_t s = 0; s < snapshot.lengths.size(); ++s) {
    const int64_t found = s < outcome.lengths.size() ? outcome.lengths[s] : -1;
    if (found != snapshot.lengths[s])
      return WrongLength{s, snapshot.lengths[s], found};
  }
  return std::nullopt;
}

std::string bad_refusal(const StoryCommand& command,
                        const CallOutcome& outcome) {
  if (command.verb == StoryVerb::kReset && outcome.status == CallStatus::kDone)
    return "";
  const bool refused = outcome.status == CallStatus::kRefused ||
                       (command.verb == StoryVerb::kEvict &&
                        outcome.status == CallStatus::kUnsupported);
  if (!refused) return "accepted";
  return outcome.gave_reason ? "" : "refused without a reason";
}

bool sees_added_token(const Snapshot& snapshot) {
  return std::any_of(snapshot.history.begin(), snapshot.history.end(),
                     [](const Token& token) { return token.tag < 0; });
}

void add_read_back(const Snapshot& snapshot, int64_t sequence, Plan& plan) {
  PlannedCall call;
  call.operation = Operation::kCacheReadBack;
  call.placement = placement_of(plan.calls.size());
  call.snapshot = snapshot;
  call.snapshot->command = {StoryVerb::kAttend, sequence, 0};
  call.snapshot->new_tokens = call.snapshot->queries = 0;
  plan.calls.push_back(std::move(call));
}

Plan EditedStory::plan(const Case& value, const KernelInfo& kernel) const {
  Plan plan;
  StoryEdits edits;
  edits.want_lse = wants_lse(kernel);
  Story plain;
  for (size_t i = 0; i < story_.size(); ++i)
    if (!inserted_[i]) plain.push_back(story_[i]);
  add_story(value, plain, kernel, edits, plan);
  edits.inserted = inserted_;
  add_story(value, story_, kernel, edits, plan);
  return plan;
}

namespace {

// Fills in mask and bias, positions, the tables of `own`, the storage types and
// how far off a cache may store.
void finish_inputs(const Case& value, const Snapshot& snapshot,
                   const Inputs& own, StoryInputs& inputs) {
  const Shape& s = value.shape;
  const bool asked = !inputs.history.k.empty();
  if (snapshot.queries > 0 && snapshot.illegal.empty()) {
    const std::span<const int64_t> keys = snapshot.positions;
    fill_step_options(value, keys.last(static_cast<size_t>(snapshot.queries)),
                      keys, inputs.fresh);
    inputs.history.mask = inputs.fresh.mask;
    inputs.history.bias = inputs.fresh.bias;
  }
  if (asked && value.cache.window > 0)
    inputs.history.mask = seen_pairs(value, snapshot, inputs.fresh.mask);
  if (value.rope.style != RopeStyle::kNone) {
    inputs.history.k_positions = snapshot.positions;
    // An illegal command may exceed the tables.
    const auto tokens = static_cast<int64_t>(snapshot.positions.size());
    inputs.history.q_positions.assign(
        snapshot.positions.end() - std::min(snapshot.queries, tokens),
        snapshot.positions.end());
  }
  inputs.history.sink = own.sink;
  inputs.history.slopes = own.slopes;
  if (asked && value.slopes) inputs.history.token_places = snapshot.positions;
  inputs.history.rope_cos = own.rope_cos;
  inputs.history.rope_sin = own.rope_sin;
  store_inputs(value, inputs.fresh);
  store_inputs(value, inputs.history);
  if (asked && value.cache.stored != StoredAs::kAsGiven) {
    inputs.history.k_error = errors_of_stored(value.cache, s.Hkv, s.d,
                                              inputs.history.k, own.k_scale);
    inputs.history.v_error = errors_of_stored(value.cache, s.Hkv, s.dv,
                                              inputs.history.v, own.v_scale);
  }
}

}  // namespace

StoryInputs step_inputs(const Case& value, const Snapshot& snapshot,
                        const Inputs& own, bool with_history,
                        const TokenRow& fill_row) {
  const Shape& s = value.shape;
  const int64_t owner = snapshot.command.sequence;
  // [heads, tokens, width]
  const auto rows = [&](TensorName tensor, const std::vector<Token>& tokens) {
    const int64_t heads = tensor == TensorName::kQ ? s.H : s.Hkv;
    const auto width =
        static_cast<size_t>(tensor == TensorName::kV ? s.dv : s.d);
    std::vector<double> out(static_cast<size_t>(heads) * width * tokens.size());
    double* at = out.data();
    for (int64_t h = 0; h < heads; ++h)
      for (const Token& token : tokens) {
        fill_row(tensor, token, h, {at, width});
        at += width;
      }
    return out;
  };
  const auto fresh = range(owner, snapshot.first_new, snapshot.new_tokens);
  StoryInputs inputs;
  inputs.fresh.k = rows(TensorName::kK, fresh);
  inputs.fresh.v = rows(TensorName::kV, fresh);
  inputs.history.q = rows(TensorName::kQ,
                          range(owner, snapshot.first_query, snapshot.queries));
  if (with_history) {
    inputs.history.k = rows(TensorName::kK, snapshot.history);
    inputs.history.v = rows(TensorName::kV, snapshot.history);
  }
  finish_inputs(value, snapshot, own, inputs);
  return inputs;
}

// A token with a tag below 0 is NaN. A law that attends once more uses more
// tags than the case has rows, so rows are reused. A sequence outside of the
// case borrows the data of one inside.
StoryInputs pick_inputs(const Case& value, const Snapshot& snapshot,
                        const Inputs& own) {
  const Shape& s = value.shape;
  const auto pick = [&](TensorName tensor, const Token& token, int64_t head,
                        std::span<double> row) {
    const bool is_q = tensor == TensorName::kQ;
    const std::vector<double>& all = is_q                       ? own.q
                                     : tensor == TensorName::kK ? own.k
                                                                : own.v;
    const int64_t heads = is_q ? s.H : s.Hkv, rows = is_q ? s.Tq : s.Tk;
    if (token.tag < 0) {
      std::fill(row.begin(), row.end(),
                std::numeric_limits<double>::quiet_NaN());
      return;
    }
    const int64_t member = token.sequence % s.B * heads + head;
    const auto n = static_cast<size_t>(member * rows + token.tag % rows);
    std::copy_n(all.data() + n * row.size(), row.size(), row.begin());
  };
  // A command that only appends has no queries about its history.
  const bool asked = snapshot.queries > 0 || snapshot.new_tokens == 0;
  return step_inputs(value, snapshot, own, asked, pick);
}

Case step_case(const Case& value, const Snapshot& snapshot) {
  Case step = value;
  step.shape.B = 1;
  step.shape.Tq = snapshot.queries;
  step.shape.Tk = static_cast<int64_t>(snapshot.history.size());
  step.causal = Causal::kBottomRight;
  step.story.clear();
  step.cache = {};
  if (value.cache.window == 0) return step;
  // pick_inputs() fills it, whatever the kind.
  const bool heads =
      value.mask.kind != MaskKind::kNone && (value.mask.own & kOwnH) != 0;
  step.mask = {MaskKind::kButN, 0, kOwnQ | kOwnK};
  if (heads) step.mask.own |= kOwnH;
  return step;
}

size_t call_number(const JudgeInput& input, const CallView& call) {
  return static_cast<size_t>(&call - input.calls.data());
}

std::string mistake_text(Mistake mistake) {
  switch (mistake) {
    case Mistake::kKeyWidth:
      return " with keys one channel too wide";
    case Mistake::kValueAbsent:
      return " without values";
    default:
      return "";
  }
}

std::string command_place(const CallView& call) {
  if (!call.planned->snapshot) return "";
  if (call.planned->operation == Operation::kCacheCreate) return "create";
  if (call.planned->operation == Operation::kCacheReadBack)
    return std::string("read_back.") +
           static_cast<char>('a' + call.planned->snapshot->command.sequence);
  return command_text(call.planned->snapshot->command) +
         mistake_text(call.planned->mistake);
}

namespace {

// Calls with a truth: their answers can be compared.
std::vector<const CallView*> answers(std::span<const CallView> calls) {
  std::vector<const CallView*> found;
  for (const CallView& call : calls)
    if (call.truth != nullptr) found.push_back(&call);
  return found;
}

}  // namespace

bool sees_no_key(const CallView& call, const CallOutput& output, size_t n) {
  return call.truth->oracle
             .visible[n / static_cast<size_t>(output.grid.width())] == 0;
}

void name_in_story(size_t number, const CallView& call,
                   const std::string& element, Finding& finding) {
  finding.call = number;
  finding.where = "call " + std::to_string(finding.call) + ", " +
                  command_place(call) + ": " + element;
}

namespace {

void compare_answers(const JudgeInput& input, const CallView& plain,
                     const CallView& edited, TensorName tensor,
                     Judgement& judgement) {
  const CallOutput first = output_of(input, edited, tensor);
  const CallOutput second = output_of(input, plain, tensor);
  for (size_t n = 0; n < first.values.size(); ++n) {
    if (sees_no_key(plain, second, n)) continue;
    auto finding = compare_two_ways(first, n, "here", second, n, "without it",
                                    {}, judgement);
    if (!finding) continue;
    name_in_story(call_number(input, edited), edited, first.grid.name(n),
                  *finding);
    add_failure(judgement, std::move(*finding));
  }
}

}  // namespace

void compare_edited_story(const JudgeInput& input, Judgement& judgement) {
  // The second story begins with the second create.
  const auto is_create = [](const CallView& call) {
    return call.planned->operation == Operation::kCacheCreate;
  };
  const auto second =
      std::find_if(input.calls.begin() + 1, input.calls.end(), is_create);
  const auto at = static_cast<size_t>(second - input.calls.begin());
  const auto plain = answers(input.calls.first(at));
  const auto edited = answers(input.calls.subspan(at));
  for (size_t i = 0; i < plain.size() && i < edited.size(); ++i) {
    compare_answers(input, *plain[i], *edited[i], TensorName::kO, judgement);
    if (!plain[i]->outcome->lse.empty())
      compare_answers(input, *plain[i], *edited[i], TensorName::kLse,
                      judgement);
    if (judgement.verdict == Verdict::kFailed) return;
  }
}

Judgement judge_edited_story(const JudgeInput& input) {
  Judgement judgement;
  compare_edited_story(input, judgement);
  return judgement;
}

Judgement step_judgement(const JudgeInput& input, const CallView& call) {
  const Case step = step_case(input.value, *call.planned->snapshot);
  const JudgeInput one{step, input.kernel, input.model, {&call, 1}};
  Judgement found;
  compare_with_truth(one, call, TensorName::kO, found);
  if (!call.outcome->lse.empty())
    compare_with_truth(one, call, TensorName::kLse, found);
  return found;
}

void compare_answer(const JudgeInput& input, const CallView& call,
                    size_t number, Judgement& judgement) {
  Judgement found = step_judgement(input, call);
  found.nearest.reset();  // its place is in the step
  add_counts(judgement, found);
  if (found.verdict == Verdict::kGaveUp) {
    judgement.verdict = found.verdict;
    judgement.reason = found.reason;
  }
  if (!found.finding) return;
  const std::string element = found.finding->where;
  name_in_story(number, call, element, *found.finding);
  add_failure(judgement, std::move(*found.finding));
}

void compare_story(const JudgeInput& input, Judgement& judgement) {
  for (size_t i = 0; i < input.calls.size(); ++i) {
    if (input.calls[i].truth == nullptr) continue;
    compare_answer(input, input.calls[i], i, judgement);
    // Later answers come from a cache that is wrong already.
    if (judgement.verdict != Verdict::kPassed) return;
  }
}

Story legal_story(const Case& value) {
  // Whether a command is legal depends only on legal ones before it.
  Story legal;
  for (const Snapshot& snapshot : snapshots_of(value))
    if (snapshot.illegal.empty()) legal.push_back(snapshot.command);
  return legal;
}

Case constrain_to_prompt(Case value) {
  const int64_t tokens =
      std::clamp<int64_t>(story_tokens(value.story), 2, kLongestPrompt);
  value.shape.B = 1;
  value.story = {{StoryVerb::kStep, 0, tokens}};
  value.capacity = std::max(value.capacity, tokens);
  constrain_extents_to_story(value);
  return value;
}

Case constrain_to_idle_last(Case value) {
  value.shape.B = std::max<int64_t>(value.shape.B, 2);
  const int64_t idle = value.shape.B - 1;
  std::erase_if(value.story, [idle](const StoryCommand& command) {
    return command.sequence == idle || command.verb >= StoryVerb::kFork;
  });
  return constrain_to_legal(std::move(value));
}

Case constrain_to_legal(Case value) {
  value.capacity = std::max<int64_t>(value.capacity, 1);
  value.story = legal_story(value);
  const bool attends = std::any_of(value.story.begin(), value.story.end(),
                                   [](const StoryCommand& command) {
                                     return command.verb == StoryVerb::kStep ||
                                            command.verb == StoryVerb::kAttend;
                                   });
  if (!attends) value.story = {{StoryVerb::kStep, 0, 1}};
  constrain_extents_to_story(value);
  return value;
}

}  // namespace qkvet::properties
