// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/log_run.h"

#include <algorithm>

#include "properties/judging/compare.h"
#include "properties/judging/outcome.h"
#include "properties/sequences/story_run.h"

namespace qkvet::properties {
namespace {

constexpr size_t kBatch = 256;      // commands between two judgings
constexpr int64_t kTwinEvery = 16;  // answers

// Scores of a command's answer; 0: none, or too many of them.
int64_t scores_of(const Shape& shape, const Snapshot& snapshot) {
  const auto keys = static_cast<int64_t>(snapshot.history.size());
  const int64_t scores = shape.H * snapshot.queries * keys;
  return snapshot.illegal.empty() && scores <= kMostScores ? scores : 0;
}

class Runner {
 public:
  Runner(const Case& geometry, const Story& story, const LogKernel& kernel,
         const LogChecks& checks)
      : geometry_(geometry),
        story_(story),
        kernel_(kernel),
        checks_(checks),
        held_(story_rules(geometry, kernel.judged.info)) {}

  LogRun run();

 private:
  // Commands as calls, with the data that these point to. The first batch
  // begins with the call that makes the cache.
  struct Batch {
    std::vector<PlannedCall> calls;
    std::vector<StoryInputs> inputs;
  };

  void fill_own();
  void add(size_t at, Batch& batch);
  bool passes(const Batch& batch);
  LogFailure judge(const PlannedCall& call, const Inputs& inputs,
                   const CallOutcome& outcome);
  void end(LogFailure failure);

  const Case& geometry_;
  const Story& story_;
  const LogKernel& kernel_;
  LogChecks checks_;
  HeldSequences held_;
  Inputs own_;       // tables, slopes, sinks: shared by all calls
  int64_t due_ = 0;  // answers of the calls made so far
  LogRun run_;
};

// Tables have a row for every position up to the last that is reached. Keys and
// values are made token by token: made here, they would fill the memory.
void Runner::fill_own() {
  Case whole = geometry_;
  whole.shape.B = whole.shape.Hkv = whole.shape.dv = whole.shape.Tk = 1;
  if (geometry_.rope.style != RopeStyle::kNone) {
    int64_t longest = geometry_.capacity;
    HeldSequences held = held_;
    for (const StoryCommand& command : story_)
      longest = std::max(longest, next_position(held.play(command).positions));
    whole.shape.Tk = longest + 1;
  }
  own_ = make_inputs(whole);
}

void Runner::add(size_t at, Batch& batch) {
  const Stopwatch watch(kernel_.time.generate);
  PlannedCall call =
      command_call(held_.play(story_[at]), wants_lse(kernel_.judged.info), at);
  due_ += call.snapshot->queries > 0 && !call.expects_refusal;
  const bool in_turn = checks_.every > 0 && due_ % checks_.every == 0;
  call.needs_truth = scores_of(geometry_.shape, *call.snapshot) > 0 &&
                     (in_turn || at + 1 == story_.size());
  const auto fill_row = [this](TensorName tensor, const Token& token,
                               int64_t head, std::span<double> row) {
    const Recipe& recipe = tensor == TensorName::kQ   ? geometry_.q
                           : tensor == TensorName::kK ? geometry_.k
                                                      : geometry_.v;
    recipe_row(recipe, geometry_.seed, tensor, token.sequence, head, token.tag,
               row);
  };
  batch.inputs.push_back(
      step_inputs(geometry_, *call.snapshot, own_, call.needs_truth, fill_row));
  batch.calls.push_back(std::move(call));
}

// The judgement has passed if the call did nothing wrong.
LogFailure Runner::judge(const PlannedCall& call, const Inputs& inputs,
                         const CallOutcome& outcome) {
  LogFailure found;
  if (outcome.status == CallStatus::kUnsupported) {
    found.judgement.verdict = Verdict::kUnsupported;
    found.judgement.reason = outcome.text;
    return found;
  }
  if (auto judgement = judge_outcome(call, outcome))
    return {0, LogPart::kOutcome, std::move(*judgement)};
  const auto failed = [&](LogPart part, std::string expected,
                          std::string actual) {
    found.part = part;
    Finding finding;
    finding.expected = std::move(expected);
    finding.actual = std::move(actual);
    add_failure(found.judgement, std::move(finding));
    return found;
  };
  const Snapshot& snapshot = *call.snapshot;
  if (call.expects_refusal) {
    ++run_.compared;
    if (std::string bad = bad_refusal(snapshot.command, outcome); !bad.empty())
      return failed(LogPart::kRefusal,
                    "refused with a reason: " + snapshot.illegal,
                    std::move(bad));
  }
  if (const auto wrong = wrong_length(snapshot, outcome)) {
    const bool own = std::cmp_equal(wrong->sequence, snapshot.command.sequence);
    return failed(LogPart::kLength,
                  std::to_string(wrong->expected) + " tokens in " +
                      (own ? "the sequence" : "another sequence"),
                  std::to_string(wrong->actual));
  }
  if (!call.needs_truth) return found;
  const Stopwatch watch(kernel_.time.judge);
  const bool with_twin = checks_.with_twin && run_.checked % kTwinEvery == 0;
  found = {0, LogPart::kAnswer,
           judge_answer(geometry_, call, inputs, outcome, kernel_.judged,
                        checks_.oracle, with_twin)};
  run_.checked += found.judgement.verdict != Verdict::kGaveUp;
  run_.compared += found.judgement.compared;
  run_.worst_ratio = std::max(run_.worst_ratio, found.judgement.worst_ratio);
  return found;
}

void Runner::end(LogFailure failure) {
  run_.verdict = failure.judgement.verdict;
  run_.reason = failure.judgement.reason;
  if (run_.verdict != Verdict::kFailed) return;
  failure.at = std::max<size_t>(run_.commands, 1) - 1;
  run_.failure = std::move(failure);
}

// Whether all calls of the batch pass; if not, the run has its verdict.
bool Runner::passes(const Batch& batch) {
  const std::vector<CallOutcome> outcomes =
      run_commands(geometry_, batch.calls, batch.inputs, own_, kernel_.index,
                   kernel_.executor, kernel_.time);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const PlannedCall& call = batch.calls[i];
    LogFailure found = judge(call, batch.inputs[i].history, outcomes[i]);
    run_.commands += call.operation != Operation::kCacheCreate;
    run_.answers += call.snapshot->queries > 0 && !call.expects_refusal;
    run_.illegal += call.expects_refusal;
    if (found.judgement.verdict == Verdict::kPassed) continue;
    end(std::move(found));
    return false;
  }
  return true;
}

LogRun Runner::run() {
  fill_own();
  Batch batch{{create_call(geometry_)}, std::vector<StoryInputs>(1)};
  for (size_t at = 0; at < story_.size(); batch = {}) {
    for (const size_t last = std::min(at + kBatch, story_.size()); at < last;
         ++at)
      add(at, batch);
    if (!passes(batch)) break;
  }
  return std::move(run_);
}

}  // namespace

LogRun run_log(const Case& geometry, const Story& story,
               const LogKernel& kernel, const LogChecks& checks) {
  return Runner(geometry, story, kernel, checks).run();
}

int64_t affordable_share(const StoryLog& log) {
  // Some 40 ns for an element of q, k or v times a key.
  constexpr double kMostElements = 8e8;
  const Shape& s = log.geometry.shape;
  const double width = static_cast<double>(s.Hkv * (s.d + s.dv));
  const double a_query = static_cast<double>(s.H * (s.d + s.dv));
  HeldSequences held({s.B, log.geometry.capacity, true, log.geometry.cache});
  double elements = 0;
  for (const StoryCommand& command : log.story) {
    const Snapshot snapshot = held.play(command);
    if (scores_of(s, snapshot) > 0)
      elements += static_cast<double>(snapshot.history.size()) *
                  (width + a_query * static_cast<double>(snapshot.queries));
  }
  return 1 + static_cast<int64_t>(elements / kMostElements);
}

}  // namespace qkvet::properties
