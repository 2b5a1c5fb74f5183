// SPDX-License-Identifier: Apache-2.0
#include "properties/logs/log_run.h"

#include <algorithm>

#include "properties/checking/story_run.h"
#include "properties/judging/compare.h"
#include "properties/judging/outcome.h"
#include "properties/logs/log_player.h"

namespace qkvet::properties {
namespace {

constexpr size_t kBatch = 256;      // commands between two judgings
constexpr int64_t kTwinEvery = 16;  // answers

// Scores of a command's answer; 0: there is none, or too many of them.
int64_t scores_of(const Shape& shape, const Snapshot& snapshot) {
  const auto keys = static_cast<int64_t>(snapshot.history.size());
  const int64_t scores = shape.H * snapshot.queries * keys;
  return snapshot.illegal.empty() && scores <= kMostScores ? scores : 0;
}

// One command as a call, with what it points to.
struct Entry {
  std::vector<int64_t> parents;  // LogSnapshot::parents
  PlannedCall planned;
  StoryInputs inputs;
  bool due = false, checked = false;  // its answer

  const Snapshot& snapshot() const { return *planned.snapshot; }
};

class Runner {
 public:
  Runner(const StoryLog& log, const LogCommands& commands,
         const LogKernel& kernel, const LogChecks& checks);
  LogRun run();

 private:
  StoryRules rules() const;
  void fill_own();
  std::vector<double> rows(const Recipe& recipe, TensorName tensor,
                           int64_t heads, int64_t width,
                           const std::vector<Token>& tokens) const;
  std::vector<Token> tags(int64_t id, int64_t first, int64_t count) const;
  bool create();
  void fill(size_t at, Entry& entry);
  void run_batch(size_t from, size_t to);
  std::optional<LogFailure> judge(const Entry& entry,
                                  const CallOutcome& outcome);
  std::optional<LogFailure> judge_command(const Entry& entry,
                                          const CallOutcome& outcome);
  std::optional<LogFailure> judge_answer(const Entry& entry,
                                         const CallOutcome& outcome);
  bool settle(const Judgement& judgement);

  const StoryLog& log_;
  const LogCommands& commands_;
  const LogKernel& kernel_;
  LogChecks checks_;
  Case geometry_;  // with as many sequences as the commands need
  PrecisionModel model_;
  LogPlayer player_;
  Inputs own_;       // what all calls share: tables, slopes, sinks
  int64_t due_ = 0;  // answers of the calls made so far
  LogRun run_;
};

Runner::Runner(const StoryLog& log, const LogCommands& commands,
               const LogKernel& kernel, const LogChecks& checks)
    : log_(log),
      commands_(commands),
      kernel_(kernel),
      checks_(checks),
      geometry_(log.geometry),
      model_(for_storage(kernel.judged.model, log.geometry.kv_dtype,
                         log.geometry.o_dtype)),
      player_([&] {
        geometry_.shape.B = std::max(checks.sequences, places_needed(commands));
        return rules();
      }()) {}

StoryRules Runner::rules() const {
  return story_rules(geometry_, kernel_.judged.info);
}

// Tables have a row for every position up to the last that is reached. Keys
// and values are made token by token: here they would fill the memory.
void Runner::fill_own() {
  Case whole = geometry_;
  whole.shape.B = whole.shape.Hkv = whole.shape.dv = whole.shape.Tk = 1;
  if (geometry_.rope.style != RopeStyle::kNone) {
    int64_t longest = geometry_.capacity;
    LogPlayer player(rules());
    for (const LogCommand& command : commands_)
      longest = std::max(
          longest, next_position(player.play(command).snapshot.positions));
    whole.shape.Tk = longest + 1;
  }
  own_ = make_inputs(whole);
}

// [heads, tokens, width]
std::vector<double> Runner::rows(const Recipe& recipe, TensorName tensor,
                                 int64_t heads, int64_t width,
                                 const std::vector<Token>& tokens) const {
  std::vector<double> out(static_cast<size_t>(heads * width) * tokens.size());
  double* at = out.data();
  const auto n = static_cast<size_t>(width);
  for (int64_t h = 0; h < heads; ++h)
    for (const auto& [id, tag] : tokens) {
      recipe_row(recipe, geometry_.seed, tensor, id, h, tag, {at, n});
      at += width;
    }
  return out;
}

std::vector<Token> Runner::tags(int64_t id, int64_t first,
                                int64_t count) const {
  std::vector<Token> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back({id, first + i});
  return tokens;
}

void Runner::fill(size_t at, Entry& entry) {
  const Stopwatch watch(kernel_.time.generate);
  LogSnapshot played = player_.play(commands_[at]);
  entry.parents = std::move(played.parents);
  PlannedCall& planned = entry.planned;
  planned.snapshot = std::move(played.snapshot);
  const Snapshot& snapshot = entry.snapshot();
  planned.operation = story_operation(snapshot.command.verb);
  planned.expects_refusal = !snapshot.illegal.empty();
  planned.want_lse = snapshot.queries > 0 && wants_lse(kernel_.judged.info);
  planned.placement = static_cast<Placement>(at % kPlacementCount);
  const bool due = snapshot.queries > 0 && snapshot.illegal.empty();
  if (due) ++due_;
  const bool in_turn = checks_.every > 0 && due_ % checks_.every == 0;
  entry.due = due;
  entry.checked = scores_of(geometry_.shape, snapshot) > 0 &&
                  (in_turn || at + 1 == commands_.size());

  const Shape& s = geometry_.shape;
  const auto fresh = tags(played.id, snapshot.first_new, snapshot.new_tokens);
  const auto keys = [&](const std::vector<Token>& tokens) {
    return rows(geometry_.k, TensorName::kK, s.Hkv, s.d, tokens);
  };
  const auto values = [&](const std::vector<Token>& tokens) {
    return rows(geometry_.v, TensorName::kV, s.Hkv, s.dv, tokens);
  };
  entry.inputs.fresh.k = keys(fresh);
  entry.inputs.fresh.v = values(fresh);
  entry.inputs.history.q =
      rows(geometry_.q, TensorName::kQ, s.H, s.d,
           tags(played.id, snapshot.first_query, snapshot.queries));
  if (entry.checked) {
    entry.inputs.history.k = keys(snapshot.history);
    entry.inputs.history.v = values(snapshot.history);
  }
  finish_story_inputs(geometry_, snapshot, own_, entry.inputs);
}

// Whether the judgement ends the run, which then has its verdict.
bool Runner::settle(const Judgement& judgement) {
  if (judgement.verdict == Verdict::kPassed) return false;
  run_.verdict = judgement.verdict;
  run_.reason = judgement.reason;
  return true;
}

bool Runner::create() {
  PlannedCall planned;
  planned.operation = Operation::kCacheCreate;
  planned.snapshot = Snapshot{};
  const KernelCall call = story_call(geometry_, planned, {}, own_);
  const auto outcomes =
      kernel_.executor.run(kernel_.index, std::span(&call, 1));
  const auto judgement = judge_outcome(planned, outcomes[0]);
  if (!judgement || !settle(*judgement)) return true;
  if (judgement->verdict == Verdict::kFailed)
    run_.failure = LogFailure{0, LogPart::kOutcome, *judgement};
  return false;
}

std::optional<LogFailure> Runner::judge_command(const Entry& entry,
                                                const CallOutcome& outcome) {
  const Snapshot& snapshot = entry.snapshot();
  if (outcome.status == CallStatus::kUnsupported) {
    Judgement judgement;
    judgement.verdict = Verdict::kUnsupported;
    judgement.reason = outcome.text;
    return LogFailure{0, LogPart::kOutcome, judgement};
  }
  if (auto judgement = judge_outcome(entry.planned, outcome))
    return LogFailure{0, LogPart::kOutcome, std::move(*judgement)};
  const auto failed = [&](LogPart part, std::string expected,
                          std::string actual) {
    LogFailure failure{0, part, {}};
    Finding finding;
    finding.expected = std::move(expected);
    finding.actual = std::move(actual);
    add_failure(failure.judgement, std::move(finding));
    return failure;
  };
  if (entry.planned.expects_refusal) {
    ++run_.compared;
    if (std::string bad = bad_refusal(snapshot.command, outcome); !bad.empty())
      return failed(LogPart::kRefusal,
                    "refused with a reason: " + snapshot.illegal,
                    std::move(bad));
  }
  for (size_t s = 0; s < snapshot.lengths.size(); ++s) {
    const int64_t found = s < outcome.lengths.size() ? outcome.lengths[s] : -1;
    if (found == snapshot.lengths[s]) continue;
    const bool own = static_cast<int64_t>(s) == snapshot.command.sequence;
    return failed(LogPart::kLength,
                  std::to_string(snapshot.lengths[s]) + " tokens in " +
                      (own ? "the sequence" : "another sequence"),
                  std::to_string(found));
  }
  return std::nullopt;
}

std::optional<LogFailure> Runner::judge_answer(const Entry& entry,
                                               const CallOutcome& outcome) {
  const JudgedKernel& kernel = kernel_.judged;
  const Inputs& inputs = entry.inputs.history;
  const auto errors = [](const std::vector<double>& values) {
    return values.empty() ? nullptr : values.data();
  };
  const bool with_twin = checks_.with_twin && run_.checked % kTwinEvery == 0;
  const Case step = step_case(geometry_, entry.snapshot());
  const OwnedProblem owned(step, inputs, reading_of(step, kernel.info.dialect));
  Answer answer(owned.problem(), truth_of(step, checks_.oracle), with_twin,
                {nullptr, errors(inputs.k_error), errors(inputs.v_error)});
  LogFailure failure{0, LogPart::kAnswer, {}};
  Judgement& found = failure.judgement;
  if (!answer.twin_disagrees().empty()) {
    found.verdict = Verdict::kGaveUp;
    found.reason = answer.twin_disagrees();
    return failure;
  }
  const CallView view{&entry.planned, &inputs, &outcome,
                      &answer.truth_for(kernel.info, model_, false)};
  const JudgeInput one{step, kernel.info, kernel.model, {&view, 1}};
  compare_with_truth(one, view, TensorName::kO, found);
  if (!outcome.lse.empty())
    compare_with_truth(one, view, TensorName::kLse, found);
  ++run_.checked;
  run_.compared += found.compared;
  run_.worst_ratio = std::max(run_.worst_ratio, found.worst_ratio);
  if (found.verdict == Verdict::kPassed) return std::nullopt;
  return failure;
}

std::optional<LogFailure> Runner::judge(const Entry& entry,
                                        const CallOutcome& outcome) {
  auto failure = judge_command(entry, outcome);
  if (failure || !entry.checked) return failure;
  const Stopwatch watch(kernel_.time.judge);
  return judge_answer(entry, outcome);
}

void Runner::run_batch(size_t from, size_t to) {
  std::vector<Entry> entries(to - from);
  std::vector<KernelCall> calls;
  for (size_t i = from; i < to; ++i) {
    fill(i, entries[i - from]);
    const Entry& entry = entries[i - from];
    calls.push_back(story_call(geometry_, entry.planned, entry.inputs, own_));
    calls.back().parents = entry.parents;
  }
  std::vector<CallOutcome> outcomes;
  {
    const Stopwatch watch(kernel_.time.kernel);
    outcomes = kernel_.executor.run(kernel_.index, calls);
  }
  for (size_t i = from; i < to; ++i) {
    auto failure = judge(entries[i - from], outcomes[i - from]);
    run_.commands = i + 1;
    run_.answers += entries[i - from].due;
    run_.illegal += entries[i - from].planned.expects_refusal;
    if (!failure || !settle(failure->judgement)) continue;
    failure->at = i;
    if (run_.verdict != Verdict::kFailed)
      run_.reason = "command " + std::to_string(commands_[i].number) + ", " +
                    log_command_text(log_, commands_[i]) + ": " + run_.reason;
    else
      run_.failure = std::move(failure);
    return;
  }
}

LogRun Runner::run() {
  fill_own();
  if (!create()) return std::move(run_);
  for (size_t from = 0; from < commands_.size(); from += kBatch) {
    run_batch(from, std::min(from + kBatch, commands_.size()));
    if (run_.verdict != Verdict::kPassed) break;
  }
  return std::move(run_);
}

}  // namespace

LogRun run_log(const StoryLog& log, const LogCommands& commands,
               const LogKernel& kernel, const LogChecks& checks) {
  return Runner(log, commands, kernel, checks).run();
}

int64_t affordable_share(const StoryLog& log) {
  // Some 40 ns for an element of q, k or v times a key.
  constexpr double kMostElements = 8e8;
  const Shape& s = log.geometry.shape;
  const double width = static_cast<double>(s.Hkv * (s.d + s.dv));
  const double a_query = static_cast<double>(s.H * (s.d + s.dv));
  LogPlayer player({s.B, log.geometry.capacity, true, log.geometry.cache});
  double elements = 0;
  for (const LogCommand& command : log.commands) {
    const Snapshot snapshot = player.play(command).snapshot;
    if (scores_of(s, snapshot) > 0)
      elements += static_cast<double>(snapshot.history.size()) *
                  (width + a_query * static_cast<double>(snapshot.queries));
  }
  return 1 + static_cast<int64_t>(elements / kMostElements);
}

}  // namespace qkvet::properties
