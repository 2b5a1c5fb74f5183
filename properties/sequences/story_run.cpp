// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/story_run.h"

#include <algorithm>
#include <limits>

#include "properties/judging/outcome.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::properties {
namespace {

const std::byte* bytes_or_null(const std::vector<std::byte>& tensor) {
  return tensor.empty() ? nullptr : tensor.data();
}

// [B,heads,rows,width] with `more` rows, which begin again.
std::vector<double> repeated(const std::vector<double>& values, int64_t rows,
                             int64_t width, int64_t more) {
  std::vector<double> out;
  const int64_t block = rows * width;
  for (auto at = values.begin(); at < values.end(); at += block)
    for (int64_t t = 0; t < more; ++t) {
      const auto row = at + t % rows * width;
      out.insert(out.end(), row, row + width);
    }
  return out;
}

// Inputs of moderate size, in the shape of `value`.
Inputs normal_inputs(Case value, uint64_t seed) {
  value.q = value.k = value.v = {};
  value.set.clear();
  value.seed = seed;
  return make_inputs(value);
}

}  // namespace

void fill_story_call(const Case& value, const PlannedCall& planned,
                     const Inputs& fresh, const Inputs& own, KernelCall& call) {
  const Snapshot& snapshot = *planned.snapshot;
  call.causal = Causal::kNone;
  call.sequence = snapshot.command.sequence;
  call.tokens = call.other = snapshot.command.count;
  call.first = snapshot.command.first;
  for (const char parent : snapshot.command.parents)
    call.parents.push_back(parent_place(parent));
  call.shape.Tk = planned.operation == Operation::kCacheReadBack
                      ? static_cast<int64_t>(snapshot.history.size())
                      : snapshot.new_tokens;
  call.k = bytes_or_null(fresh.k_bytes);
  call.v = bytes_or_null(fresh.v_bytes);
  if (planned.operation == Operation::kCacheStep) {
    call.tokens = static_cast<int64_t>(snapshot.history.size());
    call.mask =
        fresh.mask.empty() ? nullptr : fresh.bytes(TensorName::kMask).data();
    call.bias = bytes_or_null(fresh.bias_bytes);
    call.mask_own = value.mask.own;
    call.bias_own = value.score_bias_own;
  }
  if (planned.operation != Operation::kCacheCreate) return;
  call.shape = value.shape;
  call.tokens = value.capacity;
  call.cache = value.cache;
  call.k_scale = bytes_or_null(own.k_scale_bytes);
  call.v_scale = bytes_or_null(own.v_scale_bytes);
  call.slopes = bytes_or_null(own.slopes_bytes);
  call.sink = bytes_or_null(own.sink_bytes);
}

KernelCall story_call(const Case& value, const PlannedCall& planned,
                      const StoryInputs& inputs, const Inputs& own) {
  const Case step = step_case(value, *planned.snapshot);
  KernelCall call = call_of(step, inputs.history, planned.operation);
  call.mistake = planned.mistake;
  call.want_lse = planned.want_lse;
  call.placement = planned.placement;
  call.threads = planned.threads;
  fill_story_call(value, planned, inputs.fresh, own, call);
  return call;
}

std::vector<CallOutcome> run_commands(const Case& value,
                                      std::span<const PlannedCall> planned,
                                      std::span<const StoryInputs> inputs,
                                      const Inputs& own, int index,
                                      Executor& executor, TimeUse& time) {
  std::vector<KernelCall> calls;
  calls.reserve(planned.size());
  for (size_t i = 0; i < planned.size(); ++i)
    calls.push_back(story_call(value, planned[i], inputs[i], own));
  const Stopwatch watch(time.kernel);
  return executor.run(index, calls);
}

Judgement judge_answer(const Case& value, const PlannedCall& planned,
                       const Inputs& inputs, const CallOutcome& outcome,
                       const JudgedKernel& kernel, Oracle oracle,
                       bool with_twin) {
  const auto errors = [](const std::vector<double>& values) {
    return values.empty() ? nullptr : values.data();
  };
  const Case step = step_case(value, *planned.snapshot);
  const OwnedProblem owned(step, inputs, reading_of(step, kernel.info.dialect));
  Answer answer(owned.problem(), truth_of(step, oracle), with_twin,
                {nullptr, errors(inputs.k_error), errors(inputs.v_error)});
  if (!answer.twin_disagrees().empty()) {
    Judgement doubt;
    doubt.verdict = Verdict::kGaveUp;
    doubt.reason = answer.twin_disagrees();
    return doubt;
  }
  const PrecisionModel model =
      for_storage(kernel.model, value.kv_dtype, value.o_dtype);
  const CallView view{&planned, &inputs, &outcome,
                      &answer.truth_for(kernel.info, model,
                                        /*want_weights=*/false)};
  return step_judgement({value, kernel.info, kernel.model, {&view, 1}}, view);
}

StoryRun::StoryRun(const Case& value, const std::vector<PlannedCall>& plan,
                   size_t at, const JudgedKernel& kernel, int index,
                   Executor& executor, TimeUse& time)
    : value_(value),
      wide_(value),
      kernel_(kernel),
      index_(index),
      executor_(executor),
      time_(time),
      rows_(value.shape.Tk) {
  size_t from = at;
  while (plan[from].operation != Operation::kCacheCreate) --from;
  for (size_t i = from; i <= at; ++i) {
    calls_.push_back(plan[i]);
    const Snapshot& snapshot = *plan[i].snapshot;
    added_ = std::max(added_, -snapshot.first_new);
    rows_ = std::max(rows_, snapshot.first_new + snapshot.new_tokens);
  }
  wide_.shape.Tk = rows_ + added_;
  for (size_t i = from; i <= at; ++i) {
    const bool is_nan = plan[i].snapshot->first_new < 0;
    Snapshot& snapshot = *calls_[i - from].snapshot;
    rename(snapshot);
    for (int64_t t = 0; t < snapshot.new_tokens; ++t) {
      const Token token{snapshot.command.sequence, snapshot.first_new + t};
      // Calls with a mistake bring a token that another call has brought.
      if (find(token) == nullptr)
        tokens_.push_back({token, i, is_nan, !plan[i].expects_refusal});
    }
  }
  if (gives_back_as_stored(kernel.info) && !snapshot().history.empty() &&
      calls_.back().operation != Operation::kCacheReadBack) {
    Plan read;
    add_read_back(snapshot(), snapshot().command.sequence, read);
    read_ = std::move(read.calls.back());
  }
  other_ = nan_ = normal_inputs(wide_, value.seed + 1);
  for (auto* values : {&nan_.k, &nan_.v})
    std::fill(values->begin(), values->end(),
              std::numeric_limits<double>::quiet_NaN());
}

// The tags -N .. -1 become the last N.
void StoryRun::rename(Snapshot& snapshot) const {
  const auto renamed = [this](int64_t tag) {
    return tag < 0 ? rows_ + added_ + tag : tag;
  };
  snapshot.first_new = renamed(snapshot.first_new);
  for (Token& token : snapshot.history) token.tag = renamed(token.tag);
}

const BroughtToken* StoryRun::find(const Token& token) const {
  for (const BroughtToken& one : tokens_)
    if (one.token == token) return &one;
  return nullptr;
}

std::string StoryRun::name_of(const Token& token) const {
  const BroughtToken* brought = find(token);
  if (brought != nullptr && brought->is_nan)
    return "the NaN of call " + std::to_string(brought->call);
  return static_cast<char>('a' + token.sequence) + std::to_string(token.tag);
}

void StoryRun::copy_row(const Inputs& from, const Token& token,
                        Inputs& to) const {
  const Shape& s = wide_.shape;
  const auto copy = [&](const std::vector<double>& source,
                        std::vector<double>& target, int64_t width) {
    for (int64_t h = 0; h < s.Hkv; ++h) {
      const int64_t row = (token.sequence * s.Hkv + h) * s.Tk + token.tag;
      std::copy_n(source.begin() + row * width, width,
                  target.begin() + row * width);
    }
  };
  copy(from.k, to.k, s.d);
  copy(from.v, to.v, s.dv);
}

void StoryRun::change(const Token& token, bool finite, Inputs& data) const {
  copy_row(finite ? other_ : nan_, token, data);
}

Inputs StoryRun::own_data(bool finite) const {
  const Shape& s = value_.shape;
  Inputs data = make_inputs(value_);
  data.k = repeated(data.k, s.Tk, s.d, wide_.shape.Tk);
  data.v = repeated(data.v, s.Tk, s.dv, wide_.shape.Tk);
  // Other numbers than change() will give them.
  const Inputs added = finite ? normal_inputs(wide_, value_.seed + 2) : nan_;
  for (const BroughtToken& one : tokens_)
    if (one.is_nan && one.token.sequence < s.B)
      copy_row(added, one.token, data);
  return data;
}

Inputs StoryRun::moderate_data() const {
  Inputs data = make_inputs(value_);
  Inputs normal = normal_inputs(wide_, value_.seed);
  data.q = std::move(normal.q);
  data.k = std::move(normal.k);
  data.v = std::move(normal.v);
  data.k_scale = std::move(normal.k_scale);
  data.v_scale = std::move(normal.v_scale);
  data.k_scale_bytes = std::move(normal.k_scale_bytes);
  data.v_scale_bytes = std::move(normal.v_scale_bytes);
  return data;
}

std::optional<StoryRun::Ran> StoryRun::run(const Inputs& data) const {
  std::vector<PlannedCall> planned = calls_;
  if (read_) planned.push_back(*read_);
  std::vector<StoryInputs> inputs;
  inputs.reserve(planned.size());
  for (const PlannedCall& one : planned)
    inputs.push_back(pick_inputs(wide_, *one.snapshot, data));
  std::vector<CallOutcome> outcomes =
      run_commands(value_, planned, inputs, data, index_, executor_, time_);
  for (size_t i = 0; i < calls_.size(); ++i)
    if (judge_outcome(calls_[i], outcomes[i])) return std::nullopt;
  Ran ran;
  ran.answer = std::move(outcomes[calls_.size() - 1]);
  if (calls_.back().operation == Operation::kCacheReadBack)
    ran.read = ran.answer;
  else if (read_ && !judge_outcome(*read_, outcomes.back()))
    ran.read = std::move(outcomes.back());
  return ran;
}

Snapshot StoryRun::snapshot_of(const std::vector<Token>& tokens) const {
  Snapshot all = snapshot();
  all.history = tokens;
  all.positions.resize(tokens.size());  // never queried
  all.new_tokens = all.queries = 0;
  return all;
}

}  // namespace qkvet::properties
