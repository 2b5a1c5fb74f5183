// SPDX-License-Identifier: Apache-2.0
// qkvet golden record: freezes the answers of a kernel.
#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/commands/groups.h"
#include "cli/golden/golden_folders.h"
#include "cli/golden/golden_run.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "core/base/sha256.h"
#include "core/capability/declaration.h"
#include "golden/check/verify.h"
#include "properties/cases/generate.h"
#include "properties/judging/subject.h"

namespace qkvet::cli {
namespace {

struct GoldenRecordOptions {
  std::string folder;
  std::vector<std::string> cases;  // CASE, NAME:CASE or @FILE; empty: a plan
  int64_t planned = 32;            // cases of that plan
  KernelSelection selection;       // one kernel
  std::string pins, source;        // "": QKVet's own text
  bool force = false;              // replace existing sets
  bool wrong = false;              // also wrong answers
};

struct WantedSet {
  std::string name;
  std::string text;     // the case, without file=
  NamedTensors inputs;  // out of a file; empty: recipes
};

// "NAME:CASE" or "CASE", which is then called by its number.
std::string read_wanted(const std::string& text,
                        std::vector<WantedSet>& wanted) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const bool is_named = colon != text.npos && is_set_name(name);
  WantedSet one;
  one.name = is_named ? name : fmt::format("case_{:04}", wanted.size() + 1);
  one.text = is_named ? text.substr(colon + 1) : text;
  const ParsedCase parsed = parse_case(one.text);
  if (!parsed.value) return parsed.error;
  if (parsed.value->backward)
    return "case: no gradients are recorded; allowed: cases without backward";
  if (parsed.value->merge)
    return "case: no merges are recorded; allowed: cases without merge";
  one.text = to_string(*parsed.value);
  for (const WantedSet& other : wanted)
    if (other.name == one.name) return one.name + ": two cases have this name";
  wanted.push_back(std::move(one));
  return "";
}

std::string read_list(const std::string& path, std::vector<WantedSet>& wanted) {
  std::string all;
  if (std::string wrong = read_file(path, &all); !wrong.empty()) return wrong;
  std::istringstream file(all);
  std::string line;
  for (int at = 1; std::getline(file, line); ++at) {
    std::string text = line.substr(0, line.find('#'));
    std::erase_if(text,
                  [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (text.empty()) continue;
    const std::string wrong = read_wanted(text, wanted);
    if (!wrong.empty()) return fmt::format("{}:{}: {}", path, at, wrong);
  }
  return wanted.empty() ? path + ": holds no case" : "";
}

// Cases of the law of agreement, as a run would draw them for this kernel.
void plan_cases(const KernelUnderTest& kernel, int64_t n,
                std::vector<WantedSet>& wanted) {
  Scope scope;
  scope.dtypes = declared_dtypes({kernel});
  scope.largest = SizeClass::kSmall;
  keep_scope_to({kernel}, scope);
  std::vector<const Law*> laws;
  for (const Subject subject :
       {Subject::kAttention, Subject::kLayer, Subject::kCache})
    if (has_subject(kernel.judged.info, subject))
      laws.push_back(&agreement_about(subject));
  for (int64_t i = 1; i <= n && !laws.empty(); ++i) {
    const Law& law = *laws[static_cast<size_t>(i) % laws.size()];
    wanted.push_back({fmt::format("case_{:04}", i),
                      to_string(planned_case(law, 1, i, scope)),
                      {}});
  }
}

// The sets to record: those that the user names, the recordings in the folder,
// or a plan.
std::string list_wanted(const GoldenRecordOptions& options,
                        const GoldenFolder& old, const KernelUnderTest& kernel,
                        std::vector<WantedSet>& wanted) {
  std::string wrong;
  for (const std::string& text : options.cases)
    if (wrong.empty())
      wrong = text.starts_with("@") ? read_list(text.substr(1), wanted)
                                    : read_wanted(text, wanted);
  if (!options.cases.empty()) return wrong;
  for (const GoldenSet& set : old.sets)
    if (set.arithmetic == Arithmetic::kKernel)
      wanted.push_back(
          {set.name, set.metadata.at("case"), set.recording.inputs});
  if (old.sets.empty()) plan_cases(kernel, options.planned, wanted);
  if (wanted.empty() && old.sets.empty())
    return kernel.judged.info.name +
           " does nothing that is recorded; allowed: attention, layers, caches";
  return wanted.empty()
             ? options.folder + ": holds no recording; name the cases to record"
             : "";
}

std::string source_of(const KernelInfo& kernel) {
  utsname machine{};
  const bool known = uname(&machine) == 0;
  return fmt::format("{}, recorded by QKVet {} on {}", kernel.name,
                     QKVET_VERSION, known ? machine.machine : "this machine");
}

NamedTensor tensor_of(const Case& value, const OutputName& name,
                      const std::vector<std::byte>& bytes) {
  return {file_dtype(output_dtype(value, name.tensor)),
          output_extents(value, name), bytes};
}

void add_outputs(const Case& value, const std::vector<CallOutcome>& outcomes,
                 NamedTensors& tensors) {
  const bool is_story = value.subject() == Subject::kCache;
  for (size_t n = 0; n < outcomes.size(); ++n)
    for (const TensorName tensor : recorded_outputs(is_story)) {
      const OutputName name{tensor,
                            is_story ? static_cast<int64_t>(n) - 1 : -1};
      const auto& bytes = outcomes[n].*output_member(tensor);
      // A call without queries has an answer, too: one without numbers.
      const bool has_none = !is_story && tensor == TensorName::kO &&
                            value.shape.o_elements() == 0;
      if (has_none || !bytes.empty())
        tensors[output_text(name)] = tensor_of(value, name, bytes);
    }
}

class Recorder {
 public:
  Recorder(const GoldenRecordOptions& options, const KernelUnderTest& kernel,
           Executor& executor)
      : options_(options), kernel_(kernel), executor_(executor) {}

  // Runs the kernel and keeps the set; "" or one line: why there is no set.
  std::string record(const WantedSet& wanted) {
    std::string error;
    const std::optional<Case> value = case_of(wanted, &error);
    if (!value) return error;
    CaseWork work(agreement_about(value->subject()), *value, true, time_);
    const auto settled = work.settled(kernel_.judged);
    refused_ = settled.has_value();
    if (settled) return wanted.name + ": " + settled->reason;
    const std::vector<KernelCall> calls = work.calls_for(kernel_.judged);
    const auto outcomes = executor_.run(kernel_.index, calls);
    const Judgement judgement = work.judge(kernel_.judged, outcomes);
    refused_ = judgement.verdict == Verdict::kUnsupported;
    if (judgement.verdict == Verdict::kFailed && !options_.wrong)
      return fmt::format(
          "{}: the kernel is wrong there ({} is {}, expected {}); --wrong "
          "records it all the same",
          wanted.name, judgement.finding ? judgement.finding->where : "it",
          judgement.finding ? judgement.finding->actual : "broken",
          judgement.finding ? judgement.finding->expected : "a result");
    if (judgement.verdict != Verdict::kPassed &&
        judgement.verdict != Verdict::kFailed)
      return fmt::format("{}: {}", wanted.name, judgement.reason);
    return keep(wanted, *value, outcomes);
  }

  // Whether the kernel refused the last case.
  bool refused() const { return refused_; }

  std::vector<NewSet> sets;

 private:
  static std::optional<Case> case_of(const WantedSet& wanted,
                                     std::string* error) {
    // With inputs from a file it is a recording already, except for the
    // outputs.
    uint64_t fingerprint = 0;
    *error = add_inputs(wanted.inputs, wanted.name, &fingerprint);
    if (!error->empty()) return std::nullopt;
    const ParsedCase parsed =
        parse_case(with_fingerprint(wanted.text, fingerprint));
    *error = parsed.error;
    return parsed.value;
  }

  std::string keep(const WantedSet& wanted, const Case& value,
                   const std::vector<CallOutcome>& outcomes) {
    NamedTensors tensors = wanted.inputs;
    const size_t before = tensors.size();
    add_outputs(value, outcomes, tensors);
    if (tensors.size() == before)
      return wanted.name + ": the kernel returned no number";
    const KernelInfo& info = kernel_.judged.info;
    ManifestRow row{wanted.name, wanted.text,
                    options_.pins.empty() ? "what " + info.name + " returned"
                                          : options_.pins,
                    options_.source.empty() ? source_of(info) : options_.source,
                    ""};
    std::string error;
    const auto bytes =
        safetensors_bytes(tensors,
                          {{"qkvet", kGoldenFormat},
                           {"case", row.value},
                           {"pins", row.pins},
                           {"source", row.source},
                           {"generator", ""},
                           {"arithmetic", "kernel"},
                           {"dialect", dialect_text(info.dialect)},
                           {"digest", digest_text(value)}},
                          &error);
    if (!bytes) return wanted.name + ": " + error;
    row.sha256 = sha256_hex(*bytes);
    sets.push_back({std::move(row), *bytes});
    return "";
  }

  const GoldenRecordOptions& options_;
  const KernelUnderTest& kernel_;
  Executor& executor_;
  TimeUse time_;
  bool refused_ = false;
};

const GoldenSet* find_set(const GoldenFolder& folder, const std::string& name) {
  for (const GoldenSet& set : folder.sets)
    if (set.name == name) return &set;
  return nullptr;
}

// Prints the changes to the folder, a line a set; returns whether there are
// any.
bool show_difference(const GoldenFolder& old, const Recorder& now,
                     const KernelUnderTest& kernel, Executor& executor) {
  bool differs = false;
  TimeUse time;
  for (const auto& [row, bytes] : now.sets) {
    const GoldenSet* before = find_set(old, row.set);
    if (before == nullptr) {
      fmt::print("new        {}   {}\n", row.set, row.value);
      differs = true;
      continue;
    }
    const auto same = std::find(old.rows.begin(), old.rows.end(), row);
    if (same != old.rows.end()) continue;
    differs = true;
    const bool other_case = before->metadata.at("case") != row.value;
    const SetVerdict verdict =
        other_case
            ? SetVerdict{}
            : verify_set(*before, kernel.judged, kernel.index, executor, time);
    fmt::print("changed    {}   {}\n", row.set,
               other_case ? "another case: " + row.value
               : verdict.change && verdict.change->changed > 0
                   ? change_text(*verdict.change)
                   : "the same numbers, said otherwise");
  }
  return differs;
}

ExitCode run(const GoldenRecordOptions& options) {
  GoldenFolder old;
  bool there = false;
  std::string wrong = look_at_folder(options.folder, &old, &there);
  if (!wrong.empty()) return wrong_use(wrong);
  const SelectedKernels selected = select_kernels(options.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  if (selected.kernels.size() != 1)
    return wrong_use(
        fmt::format("{} kernels are named; golden record takes one",
                    selected.kernels.size()));
  const KernelUnderTest& kernel = selected.kernels[0];
  std::vector<WantedSet> wanted;
  wrong = list_wanted(options, old, kernel, wanted);
  if (!wrong.empty()) return wrong_use(wrong);
  Opened opened =
      executor_factory(selected, options.selection.in_process)(kernel.library);
  if (opened.executor == nullptr) return wrong_use(opened.error);
  Recorder recorder(options, kernel, *opened.executor);
  for (const WantedSet& one : wanted) {
    const GoldenSet* before = find_set(old, one.name);
    if (before != nullptr && before->arithmetic != Arithmetic::kKernel)
      return wrong_use(one.name + ": comes from " + before->source +
                       ", which no recording replaces");
    wrong = recorder.record(one);
    // Refused cases of a plan are left out; those requested by name are errors.
    const bool is_planned = options.cases.empty() && old.sets.empty();
    if (wrong.empty()) continue;
    if (!is_planned || !recorder.refused()) return wrong_use(wrong);
    fmt::print("left out   {}\n", wrong);
  }
  const bool differs = show_difference(old, recorder, kernel, *opened.executor);
  if (!differs) {
    fmt::print("{}: unchanged, {} sets\n", options.folder, wanted.size());
    return kConforms;
  }
  if (!old.sets.empty() && !options.force)
    return wrong_use(options.folder +
                     ": holds golden sets; --force replaces them by the above");
  FolderFiles files;
  wrong = folder_files(options.folder, old, recorder.sets, &files);
  if (wrong.empty()) wrong = write_folder(options.folder, files, there);
  if (!wrong.empty()) return wrong_use(wrong);
  fmt::print("{}: {} sets\n", options.folder, files.size() - 1);
  return kConforms;
}

void add_flags(CLI::App& command, GoldenRecordOptions& options) {
  command.add_option("folder", options.folder, "Folder of the sets")
      ->required();
  command
      .add_option_function<std::vector<std::string>>(
          "case",
          [&options](const std::vector<std::string>& words) {
            for (const std::string& word : words)
              if (word.starts_with('@') || word.find(',') != std::string::npos)
                options.cases.push_back(word);
              else
                options.selection.add(word);
          },
          "CASE, NAME:CASE, @FILE [those of the folder, or a plan], one kernel")
      ->type_name("CASE|SPEC");
  add_footer(command, std::string("A SPEC is ") + kSpecForms + ".");
  add_selection(command, options.selection);
  command
      .add_option("-n,--cases", options.planned,
                  "Number of cases to draw if none is given")
      ->check(CLI::Range(1, 9999))
      ->capture_default_str();
  command.add_option("--pins", options.pins, "Purpose of the sets");
  command.add_option("--source", options.source, "Origin of the sets");
  command.add_flag("--force", options.force,
                   "Replace recordings that differ, and print the differences");
  command.add_flag("--wrong", options.wrong,
                   "Record incorrect outputs as well");
}

}  // namespace

void add_golden_record(CLI::App& golden, Chosen& chosen) {
  add_command<GoldenRecordOptions>(
      golden, chosen, "record", "Record the outputs of a kernel as golden sets",
      add_flags, run);
}

}  // namespace qkvet::cli
