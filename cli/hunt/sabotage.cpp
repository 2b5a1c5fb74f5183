// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/sabotage.h"

#include <fmt/core.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "cli/hunt/fault_verdict.h"
#include "properties/cases/generate.h"
#include "properties/run/shrink.h"

namespace qkvet::cli {
namespace {

// Every pair sees the same cases, in every run.
constexpr uint64_t kSeed = 1;

template <SeededFault fault>
OracleOutput seeded(const Problem& problem) {
  return seeded_forward(fault, problem);
}

bool everywhere(const Case&) { return true; }

// For rows that rightly see no key, a kernel answers by its dialect; the
// reference gives them keys.
bool rows_see_keys(const Case& value) {
  return value.causal != Causal::kBottomRight ||
         value.shape.Tq <= value.shape.Tk;
}
// The other way round: the reference leaves rows without keys that rightly see
// one.
bool keys_before_the_first_row(const Case& value) {
  return value.causal == Causal::kNone ||
         (value.causal == Causal::kBottomRight &&
          value.shape.Tq < value.shape.Tk);
}
// The reference goes too far only with the bottom-right rule.
bool not_from_top_left(const Case& value) {
  return value.causal != Causal::kTopLeft;
}
// The reference keeps the diagonal in a window that ends there.
bool window_before_diagonal(const Case& value) {
  return !value.window || value.window->left != 0;
}
// The reference misplaces only the left side, and only without earlier keys.
bool window_to_the_left(const Case& value) {
  return !value.window ||
         (value.window->right < 0 && value.shape.Tq <= value.shape.Tk);
}

// The bound finds heads and sinks independently and correctly. It is still wide
// enough for the wrong ones if no number, and no score of whole numbers, is far
// larger than the others.
bool even_data(const Case& value) {
  return !is_stress(value) && value.q.kind != RecipeKind::kLattice &&
         value.k.kind != RecipeKind::kLattice;
}
bool sink_like_scores(const Case& value) {
  return even_data(value) &&
         (!value.sink || value.sink->kind != RecipeKind::kLargeN);
}

template <SeededFault fault>
constexpr SabotagePair pair_of(const char* name, bool (*alike)(const Case&),
                               const char* agreement_alone = "") {
  return {name, fault, seeded<fault>, alike, agreement_alone};
}

using enum SeededFault;

constexpr SabotagePair kPairs[] = {
    pair_of<kPlainTopLeft>("offset_ignored", rows_see_keys),
    pair_of<kPlainHeadModulo>("key_head_modulo", even_data),
    pair_of<kTwinHeadsInterleaved>("key_head_modulo", even_data),
    pair_of<kPlainStrictDiagonal>("diagonal_masked", keys_before_the_first_row),
    pair_of<kTwinDiagonalTooFar>("one_ahead", not_from_top_left),
    pair_of<kTwinLengthIgnored>("diagonal_from_capacity", everywhere),
    pair_of<kPlainWindowShort>("window_off_by_one_left",
                               window_before_diagonal),
    pair_of<kTwinWindowTopLeft>("window_from_top_left", window_to_the_left),
    pair_of<kPlainAlibiSigned>("alibi_distance_signed", everywhere),
    pair_of<kPlainSinkLost>("sink_ignored", sink_like_scores),
    pair_of<kPlainPairsSwapped>("rope_style_swapped", everywhere),
    pair_of<kTwinTurnedBack>("rope_turns_back", everywhere),
    pair_of<kTwinCapLast>("softcap_claimed_first", everywhere,
                          "no other law speaks of a softcap beside a bias: the "
                          "order of the two is a convention"),
};

}  // namespace

std::span<const SabotagePair> sabotage_pairs() { return kPairs; }

std::vector<const Law*> Sabotage::laws() {
  std::vector<const Law*> laws;
  for (const Law* law : all_laws())
    if (law->domain.subject == Subject::kAttention) laws.push_back(law);
  return laws;
}

Sabotage::Sabotage() {
  KernelSelection selection;
  selection.kernels = {"faulty/*"};
  selected_ = select_kernels(selection);
  error_ = selected_.error;
  for (const SabotagePair& pair : kPairs)
    if (error_.empty() && kernel_of(pair) == nullptr)
      error_ = std::string("no kernel faulty/") + pair.fault;
  if (!error_.empty()) return;
  Opened opened = executor_factory(
      selected_, /*in_process=*/false)(kernel_of(kPairs[0])->library);
  executor_ = std::move(opened.executor);
  if (executor_ == nullptr) error_ = opened.error;
}

const KernelUnderTest* Sabotage::kernel_of(const SabotagePair& pair) const {
  for (const KernelUnderTest& kernel : selected_.kernels)
    if (kernel.judged.info.name == std::string("faulty/") + pair.fault)
      return &kernel;
  return nullptr;
}

SabotageResult Sabotage::run(const SabotagePair& pair, Oracle oracle,
                             const Law& law, int64_t cases) {
  const KernelUnderTest& kernel = *kernel_of(pair);
  Scope scope;
  scope.dtypes = declared_dtypes({kernel});
  keep_scope_to({kernel}, scope);
  SabotageResult result;
  TimeUse time;
  for (int64_t number = 1; number <= cases && !result.killed; ++number) {
    Case value = planned_case(law, kSeed, number, scope);
    if (!pair.alike(value)) continue;
    CaseWork work(law, std::move(value), /*with_twin=*/false, time, oracle);
    if (work.settled(kernel.judged)) continue;
    const std::vector<CallOutcome> outcomes =
        executor_->run(kernel.index, work.calls_for(kernel.judged));
    const Judgement judgement = work.judge(kernel.judged, outcomes);
    const bool failed = judgement.verdict == Verdict::kFailed;
    result.checked += failed || judgement.verdict == Verdict::kPassed;
    result.killed = failed && &failed_law(law, judgement) == &law;
    if (result.killed && judgement.finding)
      result.by = to_string(work.value()) + " at " + judgement.finding->where;
  }
  return result;
}

std::vector<SabotageLine> run_sabotage(int64_t cases, int jobs,
                                       std::string* error) {
  std::vector<SabotageLine> lines;
  for (const SabotagePair& pair : sabotage_pairs())
    for (const bool shares : {false, true})
      for (const Law* law : Sabotage::laws())
        lines.push_back({&pair, shares, law, {}});
  std::atomic<size_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    Sabotage sabotage;
    if (!sabotage.error().empty()) {
      const std::lock_guard<std::mutex> lock(mutex);
      *error = sabotage.error();
      return;
    }
    for (size_t i = next++; i < lines.size(); i = next++) {
      SabotageLine& line = lines[i];
      line.result = sabotage.run(
          *line.pair, line.shares ? line.pair->oracle : plain_forward,
          *line.law, cases);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return lines;
}

namespace {

constexpr const char* kRow = "{:<36} {:<37} {:>4}  {}\n";

struct PairSum {
  std::string first;  // law without an oracle that kills it
  int64_t killers = 0;
};

std::map<const SabotagePair*, PairSum> sums_of(
    const std::vector<SabotageLine>& lines) {
  std::map<const SabotagePair*, PairSum> sums;
  for (const SabotageLine& line : lines) {
    if (!line.shares) continue;
    PairSum& sum = sums[line.pair];
    if (!line.result.killed || is_agreement(*line.law)) continue;
    ++sum.killers;
    if (sum.first.empty()) sum.first = line.law->id;
  }
  return sums;
}

}  // namespace

std::string sabotage_text(const std::vector<SabotageLine>& lines) {
  std::string out;
  out += fmt::format(kRow, "with an oracle that shares the fault",
                     "first killer", "laws", "oracle");
  for (const auto& [pair, sum] : sums_of(lines)) {
    out +=
        fmt::format(kRow, pair->fault, sum.first.empty() ? "no law" : sum.first,
                    sum.killers, seeded_fault_name(pair->seeded));
    if (sum.first.empty())
      out += fmt::format("    {}\n", *pair->agreement_alone == 0
                                         ? "no reason is known"
                                         : pair->agreement_alone);
  }
  return out;
}

ExitCode sabotage_exit(const std::vector<SabotageLine>& lines) {
  for (const auto& [pair, sum] : sums_of(lines))
    if (sum.first.empty() && *pair->agreement_alone == 0) return kLawFailed;
  return kConforms;
}

}  // namespace qkvet::cli
