// SPDX-License-Identifier: Apache-2.0
// qkvet judge FILE...: recorded calls, one in each file, of a kernel that
// cannot be opened.
#include <fmt/core.h>

#include <chrono>
#include <filesystem>

#include "cli/commands/judge.h"
#include "cli/judge/recorded_call.h"
#include "cli/kernels/compiler.h"
#include "cli/reproduce/plan_kernel.h"
#include "cli/terminal/select.h"
#include "golden/check/call_file.h"
#include "golden/check/verify.h"
#include "properties/judging/subject.h"
#include "properties/run/one_cell.h"

namespace qkvet::cli {
namespace {

struct Recorded {
  std::string path;
  Recording recording;
  KernelUnderTest kernel;
  std::vector<std::string> notes;
};

// "step" of a/step.safetensors, in letters that a kernel's name may have.
std::string stem_of(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  for (char& c : stem)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return stem;
}

std::string read_one(const JudgeOptions& options, const std::string& path,
                     Recorded* out) {
  ImportRules rules;
  CallFile file;
  std::string wrong = parse_import_words(options.words, rules);
  if (wrong.empty()) wrong = read_call_file(path, rules, options.value, &file);
  if (!wrong.empty()) return wrong;
  auto recording = make_recording(file.tensors, file.value, path, &wrong);
  if (!recording) return path + ": " + wrong;
  if (recording->value.subject() == Subject::kCache)
    return path +
           ": a story, which lives in a kernel; allowed: a call of "
           "attention or of a layer (qkvet golden verify takes stories)";
  for (const std::string& name : file.ignored)
    out->notes.push_back(path + ": " + shown(name) +
                         " is no tensor of a call and was left out");
  out->path = path;
  out->recording = std::move(*recording);
  wrong = recorded_kernel(out->recording, "recorded/" + stem_of(path),
                          file.dialect, &out->kernel.judged);
  if (wrong.empty())
    wrong =
        declare_more(options.dialect, options.precision, &out->kernel.judged);
  return wrong.empty() ? "" : path + ": " + wrong;
}

Judgement judged(const Recorded& one, const KernelInfo& info,
                 RecordedCalls& answers, TimeUse& time,
                 const Reading& reading = nullptr) {
  JudgedKernel kernel = one.kernel.judged;
  kernel.info = info;
  CaseWork work(agreement_about(one.recording.value.subject()),
                one.recording.value, /*with_twin=*/reading == nullptr, time,
                plain_forward, reading);
  if (auto settled = work.settled(kernel)) return *settled;
  const auto calls = work.calls_for(kernel);
  return work.judge(kernel, answers.run(0, calls));
}

// For fields that are not declared and that no further call can probe: if the
// numbers are right under one of the dialects, it is assumed.
void assume_dialect(Recorded& one, RecordedCalls& answers, TimeUse& time) {
  KernelInfo& info = one.kernel.judged.info;
  const struct {
    int32_t qkvet_dialect::*field;
    int32_t other;
    Assumption said;
  } fields[] = {{&qkvet_dialect::lse_base,
                 QKVET_LSE_BASE2,
                 {"lse_base", "QKVET_LSE_BASE2"}},
                {&qkvet_dialect::softcap_order,
                 QKVET_SOFTCAP_AFTER_MASK,
                 {"softcap_order", "QKVET_SOFTCAP_AFTER_MASK"}},
                {&qkvet_dialect::sink_in_lse,
                 QKVET_SINK_NOT_IN_LSE,
                 {"sink_in_lse", "QKVET_SINK_NOT_IN_LSE"}}};
  if (judged(one, info, answers, time).verdict != Verdict::kFailed) return;
  for (unsigned set = 1; set < 1U << std::size(fields); ++set) {
    KernelInfo other = info;
    std::vector<Assumption> assumed;
    bool declared = false;
    for (size_t i = 0; i < std::size(fields); ++i) {
      if ((set >> i & 1) == 0) continue;
      declared |= info.dialect.*fields[i].field != 0;
      other.dialect.*fields[i].field = fields[i].other;
      assumed.push_back(fields[i].said);
    }
    if (declared ||
        judged(one, other, answers, time).verdict != Verdict::kPassed)
      continue;
    info = other;
    one.kernel.judged.assumed = assumed;
    return;
  }
}

KernelResult judge_one(const Recorded& one, RecordedCalls& answers,
                       const RunOptions& run, TimeUse& time) {
  const auto start = std::chrono::steady_clock::now();
  const Judgement judgement =
      judged(one, one.kernel.judged.info, answers, time);
  Cell cell = one_cell(
      agreement_about(one.recording.value.subject()), judgement,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count());
  const std::string mistrust = mistrust_in(one.kernel.judged, run);
  if (cell.verdict == Verdict::kPassed && cell.checked == 0)
    cell.reason = "the bound is uninformative for every element of this call";
  else if (cell.verdict == Verdict::kPassed)
    cell.reason = mistrust;
  if (cell.verdict == Verdict::kPassed && !cell.reason.empty())
    cell.verdict = Verdict::kMistrusted;
  if (judgement.verdict == Verdict::kFailed) {
    Failure failure;
    failure.law = cell.law;
    failure.number = 1;
    failure.found = failure.smallest = one.recording.value;
    failure.judgement = judgement;
    failure.seconds = cell.seconds;
    failure.digest = input_digest(make_inputs(one.recording.value));
    failure.recorded = "recorded";
    failure.where = one.path + "; recorded: not repeated, not shrunk";
    cell.failure = std::move(failure);
  }
  return {one.kernel, {std::move(cell)}};
}

// The causal rule is the option that recordings forget most often: it is the
// cause if the numbers are right under it.
std::optional<Diagnosis> forgotten_causal(const Recorded& one,
                                          RecordedCalls& answers,
                                          TimeUse& time) {
  const Case& value = one.recording.value;
  if (value.causal != Causal::kNone || value.subject() != Subject::kAttention)
    return std::nullopt;
  constexpr std::pair<Causal, const char*> kAlignments[] = {
      {Causal::kBottomRight, "br"}, {Causal::kTopLeft, "tl"}};
  for (const auto& [causal, word] : kAlignments) {
    const auto reading = [causal = causal](Problem p) {
      p.causal = causal;
      return p;
    };
    const Judgement judgement =
        judged(one, one.kernel.judged.info, answers, time, reading);
    if (judgement.verdict != Verdict::kPassed || judgement.compared == 0)
      continue;
    const bool square = value.shape.Tq == value.shape.Tk;
    Diagnosis diagnosis;
    diagnosis.certainty = Certainty::kLikely;
    diagnosis.causes.push_back(
        {"causal_not_declared",
         fmt::format("The call looks causal: its numbers are right under "
                     "causal={}{}.",
                     word, square ? ", which is causal=tl where Tq = Tk" : ""),
         fmt::format("Declare it: --case causal={}.", word),
         {}});
    diagnosis.predicted = diagnosis.failing = diagnosis.probes = 1;
    return diagnosis;
  }
  return std::nullopt;
}

// All files are evidence for each failure: they are of one kernel.
Diagnoses causes_of(const RunResult& result, const std::vector<Recorded>& all,
                    RecordedCalls& answers, bool wanted) {
  Diagnoses causes;
  causes.kernels.resize(result.kernels.size());
  Answered answered;
  for (const Recorded& one : all)
    answered.push_back(
        {&agreement_about(one.recording.value.subject()), one.recording.value});
  std::unique_ptr<Catalogue> catalogue;
  TimeUse time;
  for (size_t k = 0; k < result.kernels.size(); ++k) {
    const KernelResult& kernel = result.kernels[k];
    if (!kernel.cells[0].failure) continue;
    if (!wanted) {
      ++causes.not_looked_at;
      continue;
    }
    if (auto causal = forgotten_causal(all[k], answers, time)) {
      causes.kernels[k].push_back(
          {std::move(*causal), &*kernel.cells[0].failure, {}});
      continue;
    }
    if (catalogue == nullptr) catalogue = known_faults(&causes.no_faults);
    causes.kernels[k] = diagnose_all({&*kernel.cells[0].failure}, kernel.kernel,
                                     answers, *catalogue, time, &answered);
  }
  return causes;
}

std::string again_of(const JudgeOptions& options) {
  std::string again = "qkvet judge";
  for (const std::string& target : options.targets)
    again += " " + shell_quoted(target);
  const std::pair<const char*, const std::string*> words[] = {
      {"--case", &options.value},
      {"--map", &options.words.map},
      {"--layout", &options.words.layout},
      {"--dialect", &options.dialect},
      {"--precision", &options.precision}};
  for (const auto& [option, text] : words)
    if (!text->empty())
      again += std::string(" ") + option + " " + shell_quoted(*text);
  return again;
}

}  // namespace

ExitCode judge_calls(const JudgeOptions& options) {
  std::vector<Recorded> all(options.targets.size());
  RecordedCalls answers;
  for (size_t i = 0; i < all.size(); ++i) {
    std::string wrong = read_one(options, options.targets[i], &all[i]);
    if (!wrong.empty()) return wrong_use(wrong);
    wrong = answers.add(all[i].recording, all[i].kernel.judged);
    if (!wrong.empty()) return wrong_use(options.targets[i] + ": " + wrong);
  }
  RunOptions run;
  run.cases = 1;
  run.laws = {&agreement_about(all[0].recording.value.subject())};
  RunResult result;
  result.planned_cases = 1;
  result.rounds = 1;
  for (Recorded& one : all) {
    assume_dialect(one, answers, result.time);
    result.kernels.push_back(judge_one(one, answers, run, result.time));
  }
  const Diagnoses causes =
      causes_of(result, all, answers, options.diagnose > 0);
  SelectedKernels selected;
  selected.libraries.push_back({options.targets[0], ""});
  selected.names.emplace_back();
  selected.again = again_of(options);
  for (const Recorded& one : all)
    selected.notes.insert(selected.notes.end(), one.notes.begin(),
                          one.notes.end());
  return report_answers(options, result, run, selected, causes, answers);
}

}  // namespace qkvet::cli
