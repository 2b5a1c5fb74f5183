// SPDX-License-Identifier: Apache-2.0
// Each fault against the laws that it names: they fail, the case they shrink
// to is nearly the smallest there is, and its spelling fails again.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>

#include "cli/hunt/fault_hunt.h"
#include "cli/kernels/kernels.h"
#include "cli/terminal/report.h"
#include "core/base/at_night.h"
#include "properties/cases/generate.h"
#include "properties/checking/simpler.h"
#include "properties/conventions/domain.h"
#include "properties/run/shrink.h"

namespace qkvet::cli::kill_test {
namespace {

constexpr int64_t kWalk = 4;   // extents of attention in the walk
constexpr int64_t kSlack = 2;  // the shrunk case may be this much larger
constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();

// As declared: each test is a separate process and probes only its fault.
const SelectedKernels& faults() {
  static const SelectedKernels selected = [] {
    KernelSelection all{{"faulty/*"}};
    all.calls = false;
    return select_kernels(all);
  }();
  return selected;
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const KernelUnderTest& kernel : faults().kernels)
    names.push_back(kernel.judged.info.name.substr(7));
  return names;
}

// Every shape of attention up to kWalk.
std::vector<Shape> walk_shapes() {
  std::vector<Shape> shapes;
  for (int64_t B = 1; B <= kWalk; ++B)
    for (int64_t H = 1; H <= kWalk; ++H)
      for (int64_t Hkv = 1; Hkv <= H; ++Hkv)
        for (int64_t Tq = 1; Tq <= kWalk; ++Tq)
          for (int64_t Tk = 1; Tk <= kWalk; ++Tk)
            for (int64_t d = 1; d <= kWalk; ++d)
              for (int64_t dv = 1; dv <= kWalk; ++dv)
                if (H % Hkv == 0) shapes.push_back({B, H, Hkv, Tq, Tk, d, dv});
  return shapes;
}

// Layers with up to two heads and members, three rows, heads of width two.
std::vector<Case> walk_layers() {
  std::vector<Case> cases;
  for (int64_t B = 1; B <= 2; ++B)
    for (const auto& [H, Hkv] :
         {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {2, 2}})
      for (int64_t T = 1; T <= 3; ++T)
        for (int64_t d = 1; d <= 2; ++d) {
          Case value;
          value.shape = {B, H, Hkv, T, T, d, d, H * d};
          cases.push_back(value);
          value.biases = kBiasQ | kBiasK | kBiasV | kBiasO;
          cases.push_back(value);
        }
  return cases;
}

bool moves(const StoryCommand& command) {
  return command.verb >= StoryVerb::kFork;
}

bool evicts(const StoryCommand& command) {
  return command.verb == StoryVerb::kEvict;
}

// Stories of up to four commands on up to two sequences; moves and evictions
// add many more.
std::vector<Case> walk_stories(bool with_moves, bool with_evictions) {
  using enum StoryVerb;
  std::vector<StoryCommand> commands = {
      {kStep, 0, 1},   {kStep, 0, 2},     {kStep, 0, 3},  {kAppend, 0, 2},
      {kAttend, 0, 1}, {kTruncate, 0, 1}, {kReset, 0, 0}, {kStep, 1, 1}};
  if (with_moves)
    for (const StoryCommand& move :
         {StoryCommand{kFork, 0, 1}, StoryCommand{kReorder, 0, 0, "aa"},
          StoryCommand{kReorder, 0, 0, "ba"}})
      commands.push_back(move);
  if (with_evictions)
    for (const int64_t first : {0, 1})
      commands.push_back({kEvict, 0, 1, {}, first});
  std::vector<Story> stories = {{}};
  for (size_t from = 0, length = 0; length < 4; ++length) {
    const size_t to = stories.size();
    for (; from < to; ++from)
      for (const StoryCommand& command : commands) {
        stories.push_back(stories[from]);
        stories.back().push_back(command);
      }
  }
  std::vector<Case> cases;
  for (const auto& [H, Hkv] :
       {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {2, 2}})
    for (const Story& story : stories) {
      if (story.empty()) continue;
      Case value;
      value.story = story;
      value.capacity = 4;
      value.shape.H = H;
      value.shape.Hkv = Hkv;
      constrain_extents_to_story(value);
      const bool alone = std::none_of(
          story.begin(), story.end(), [](const StoryCommand& command) {
            return command.sequence > 0 || moves(command);
          });
      if (alone) cases.push_back(value);
      value.shape.B = 2;
      cases.push_back(value);
    }
  return cases;
}

// The cases of the walk, the smallest first. If the case has a rotation,
// channels come in pairs; moves and evictions are included if it has any.
std::vector<Case> walk(Subject subject, const Case& asked) {
  std::vector<Case> cases;
  if (asked.is_layer()) cases = walk_layers();
  if (subject == Subject::kLayerBackward)
    for (Case& value : cases) value.backward = true;
  if (subject == Subject::kCache)
    cases = walk_stories(
        std::any_of(asked.story.begin(), asked.story.end(), moves),
        std::any_of(asked.story.begin(), asked.story.end(), evicts));
  if (asked.has_options())
    for (const Shape& shape : walk_shapes()) {
      cases.emplace_back();
      cases.back().shape = shape;
      cases.back().backward = asked.backward;
      cases.back().merge = asked.merge;
    }
  if (asked.rope.style != RopeStyle::kNone)
    for (Case& value : cases) value.shape.d *= 2;
  std::stable_sort(
      cases.begin(), cases.end(),
      [](const Case& a, const Case& b) { return size_of(a) < size_of(b); });
  return cases;
}

// The data and options that a case of the walk is tried with.
std::vector<Case> variants_of(const Case& plain) {
  std::vector<Case> variants;
  const bool is_attention = plain.has_options();
  for (const Causal causal :
       {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight})
    for (const DataPreset& preset : data_presets())
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Case value = plain;
        value.seed = seed;
        value.q = make_recipe(preset.q);
        value.k = make_recipe(preset.k);
        value.v = make_recipe(preset.v);
        if (value.backward) value.d_o = make_recipe(RecipeKind::kLattice);
        if (is_attention) value.causal = causal;
        // One data set is enough to tell the tokens of a story apart.
        const bool one_mask = causal == Causal::kNone ||
                              (value.subject() == Subject::kLayerBackward &&
                               causal == Causal::kBottomRight);
        if (value.is_layer()) value.causal = causal;
        const bool usual =
            one_mask && seed == 1 && preset.q == RecipeKind::kNormal;
        if (is_attention || usual) variants.push_back(value);
      }
  return variants;
}

// `asked` with the extents, the data and the story of a case of the walk;
// lengths as far as they fit.
Case with_options_of(const Case& asked, const Case& plain) {
  Case to = asked;
  to.shape = plain.shape;
  to.q_dtype = plain.q_dtype;
  to.kv_dtype = plain.kv_dtype;
  to.o_dtype = plain.o_dtype;
  to.q = plain.q, to.k = plain.k, to.v = plain.v;
  to.seed = plain.seed;
  to.causal = plain.causal;
  to.biases = plain.biases;
  to.story = plain.story;
  const auto constrain_lengths = [&to](std::vector<int64_t>& lengths,
                                       int64_t most) {
    if (lengths.empty()) return;
    lengths.resize(static_cast<size_t>(to.shape.B), lengths.back());
    for (int64_t& length : lengths) length = std::min(length, most);
  };
  constrain_lengths(to.q_len, to.shape.Tq);
  constrain_lengths(to.kv_len, to.shape.Tk);
  to.append = std::min(to.append, to.shape.Tk);
  for (int64_t& length : to.kv_len)  // new tokens are among those
    length = std::max(length, to.append);
  if (asked.context > 0) {  // as much longer than the text
    to.causal = Causal::kBottomRight;
    to.context = to.shape.Tq + asked.context - asked.shape.Tq;
  }
  for (const auto extent : {&Shape::B, &Shape::Tq, &Shape::Tk})
    if (asked.shape.*extent == 0) to.shape.*extent = 0;
  return to;
}

// Whether the case is larger than all cases of the walk: the walk would find
// nothing, and takes long.
bool is_beyond_walk(const Case& value) {
  const Shape& s = value.shape;
  return value.has_options() && std::max({s.Tq, s.Tk, s.d, s.dv}) > 2 * kWalk;
}

// The control of the walk: whether it must find the smallest case of this
// fault, one of each subject.
bool walk_finds(const std::string& fault) {
  return fault == "mask_after_softmax" || fault == "backward_delta_missing" ||
         fault == "cache_truncate_keeps_values" ||
         fault == "output_projection_omitted" ||
         fault == "layer_backward_bias_of_last_member";
}

bool dies(const RunResult& result) {
  const std::vector<Cell>& cells = result.kernels[0].cells;
  return std::any_of(cells.begin(), cells.end(), [](const Cell& cell) {
    return cell.failure && cell.failure->judgement.kind == FailureKind::kCrash;
  });
}

class Kill : public testing::TestWithParam<std::string> {
 protected:
  const KernelUnderTest& kernel() const { return fault_.kernels.at(0); }

  bool fails(const Law& law, const Case& value) {
    TimeUse time;
    return check_case(law, value, kernel().judged, kernel().index, *executor(),
                      /*with_twin=*/false, time)
               .verdict == Verdict::kFailed;
  }

  // This case of the walk in any storage type, with any data and mask, with the
  // options of `asked` and without them.
  std::vector<Case> forms_of(const Case& plain, const Case& asked) {
    std::vector<Case> forms;
    for (const StorageTypes& types : declared_dtypes({kernel()}))
      for (Case value : variants_of(plain)) {
        store_as(types, value);
        forms.push_back(value);
        const bool stored_plainly =
            asked.fused == FusedOrder::kNone && asked.context == 0;
        if (options_of(asked) == 0 && asked.story.empty() && stored_plainly)
          continue;
        value = with_options_of(asked, value);
        forms.push_back(value);
        if (asked.story.empty()) continue;
        // Tokens that are equal are a matter of the data.
        value.q = asked.q, value.k = asked.k, value.v = asked.v;
        forms.push_back(value);
      }
    return forms;
  }

  // The first of these cases that fails. They are called in one batch, because
  // single calls would spend most of the time on the way to the worker.
  std::optional<Case> first_failing(const Law& law,
                                    const std::vector<Case>& values) {
    TimeUse time;
    std::vector<CaseWork> works;
    std::vector<KernelCall> calls;
    std::vector<size_t> ends;
    for (const Case& value : values) {
      works.emplace_back(law, value, /*with_twin=*/false, time);
      if (!works.back().settled(kernel().judged))
        for (KernelCall& call : works.back().calls_for(kernel().judged))
          calls.push_back(std::move(call));
      ends.push_back(calls.size());
    }
    const std::vector<CallOutcome> outcomes =
        executor()->run(kernel().index, calls);
    for (size_t i = 0, from = 0; i < values.size(); from = ends[i++]) {
      if (ends[i] == from) continue;
      const auto own = std::span(outcomes).subspan(from, ends[i] - from);
      if (works[i].judge(kernel().judged, own).verdict == Verdict::kFailed)
        return values[i];
    }
    return std::nullopt;
  }

  // A case of the walk that is smaller than this and fails the law. There are
  // too many options to walk over, so those of `asked` are used.
  std::optional<Case> failing_below(int64_t size, const Law& law,
                                    const Case& asked) {
    constexpr size_t kBatch = 16;
    std::vector<Case> batch;
    for (const Case& plain : walk(law.domain.subject, asked)) {
      if (size_of(plain) >= size) break;
      for (const Case& form : forms_of(plain, asked)) {
        Case value = constrained(law, form);
        if (value.shape != form.shape || value.story != form.story ||
            value.biases != form.biases || !invalid_reason(value).empty())
          continue;
        batch.push_back(std::move(value));
        if (batch.size() < kBatch) continue;
        if (auto failing = first_failing(law, batch)) return failing;
        batch.clear();
      }
    }
    return first_failing(law, batch);
  }

  Executor* executor() {
    if (executor_ == nullptr) {
      Opened opened = executor_factory(fault_, false)(kernel().library);
      if (opened.executor == nullptr) throw std::runtime_error(opened.error);
      executor_ = std::move(opened.executor);
    }
    return executor_.get();
  }

 protected:
  const SelectedKernels fault_ = select_kernels({{"faulty/" + GetParam()}});

 private:
  std::unique_ptr<Executor> executor_;
};

// A law stops at its first failure, so an early kill costs little.
constexpr int64_t kCasesPerLaw = 1500;

TEST_P(Kill, NamedLawsFailAndShrinkToNearlyTheSmallestCase) {
  const FaultInfo& fault = *kernel().judged.info.fault;
  ASSERT_FALSE(fault.killed_by.empty());
  RunOptions options;
  for (const std::string& id : fault.killed_by) {
    ASSERT_NE(find_law(id), nullptr) << id;
    options.laws.push_back(find_law(id));
  }
  options.cases = kCasesPerLaw * static_cast<int64_t>(options.laws.size());
  options.scope.dtypes = declared_dtypes({kernel()});
  keep_to_fault(fault, options.scope);
  const RunResult result =
      run_plan({kernel()}, executor_factory(fault_, false), options);
  ASSERT_EQ(result.error, "");
  const ReportInput report{result, options, fault_, false};
  EXPECT_EQ(exit_code_of(report), dies(result) ? kKernelDied : kLawFailed);
  for (const std::string& id : fault.killed_by) {
    const Law* law = find_law(id);
    const std::vector<Cell>& cells = result.kernels[0].cells;
    const auto cell =
        std::find_if(cells.begin(), cells.end(),
                     [law](const Cell& one) { return one.law == law; });
    ASSERT_NE(cell, cells.end()) << id << " is about something else";
    ASSERT_TRUE(cell->failure) << id << " does not kill it";
    const Case& smallest = cell->failure->smallest;
    const ParsedCase again = parse_case(to_string(smallest));
    ASSERT_TRUE(again.value) << again.error;
    // Threads that race do not lose every time, least of all on a busy machine.
    const bool races = GetParam() == "threads_race_for_sums" ||
                       id.find("calls_at_once") != std::string::npos;
    const int runs = races ? 100 : 1;
    bool failed = false;
    for (int n = 0; n < runs && !failed; ++n)
      failed = fails(*law, *again.value);
    EXPECT_TRUE(failed) << id << " " << to_string(smallest);
    RecordProperty(id, to_string(smallest));
    // The walk takes longer than everything else: one fault in 24 by day.
    const bool walks = is_sampled(std::hash<std::string>{}(GetParam()), 24) ||
                       walk_finds(GetParam());
    // A case of thousands of calls takes too long for a walk.
    if (!walks || law->domain.lasts || is_beyond_walk(smallest)) continue;
    const std::optional<Case> smaller =
        failing_below(size_of(smallest) - kSlack, *law, smallest);
    EXPECT_FALSE(smaller) << id << ": " << to_string(smallest)
                          << " is not nearly the smallest: "
                          << to_string(smaller.value_or(smallest));
    if (walk_finds(GetParam())) {
      EXPECT_TRUE(failing_below(kAnySize, *law, smallest))
          << id << ": the walk does not know " << to_string(smallest);
    }
  }
}

// A law that kills nothing is not needed.
TEST(Faults, EveryLawIsNamedByOne) {
  std::set<std::string> named;
  for (const KernelUnderTest& kernel : faults().kernels) {
    const FaultInfo& fault = *kernel.judged.info.fault;
    named.insert(fault.killed_by.begin(), fault.killed_by.end());
  }
  for (const Law* law : all_laws())
    EXPECT_EQ(named.count(law->id), 1u) << "no fault is killed by " << law->id;
}

// A kernel that is wrong past its own threshold is found if it declares the
// threshold; the control is the same kernel without the declaration.
TEST(Faults, AThresholdIsTriedWhereItIsDeclared) {
  KernelUnderTest kernel;
  for (const KernelUnderTest& one : faults().kernels)
    if (one.judged.info.name == "faulty/rest_behind_threshold_lost")
      kernel = one;
  ASSERT_EQ(kernel.judged.info.capabilities.path_count, 1);
  RunOptions options;
  for (const std::string& id : kernel.judged.info.fault->killed_by)
    options.laws.push_back(find_law(id));
  options.cases = 48 * std::ssize(options.laws);
  const auto fails = [&options](const KernelUnderTest& one) {
    const RunResult result =
        run_plan({one}, executor_factory(faults(), false), options);
    EXPECT_EQ(result.error, "");
    return some_failed(result);
  };
  EXPECT_TRUE(fails(kernel));
  kernel.judged.info.capabilities.path_count = 0;
  EXPECT_FALSE(fails(kernel));
}

INSTANTIATE_TEST_SUITE_P(Faults, Kill, testing::ValuesIn(fault_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace qkvet::cli::kill_test
