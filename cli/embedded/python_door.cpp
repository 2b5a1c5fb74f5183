// SPDX-License-Identifier: Apache-2.0
#include "cli/embedded/python_door.h"

#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/base/interrupts.h"
#include "cli/judge/recorded_call.h"
#include "cli/reproduce/plan_kernel.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/json.h"
#include "core/call/tensor_table.h"
#include "core/capability/declaration.h"
#include "core/case/case.h"
#include "core/door/worker_protocol.h"
#include "core/files/named_tensors.h"
#include "core/sandbox/armour.h"
#include "core/sandbox/worker.h"
#include "golden/check/call_file.h"
#include "properties/conventions/conventions.h"
#include "properties/judging/subject.h"
#include "reference/arithmetic/precision.h"
#include "report/run_record.h"

namespace qkvet::cli {
namespace {

// The part of the struct that both sides have.
template <class Sized>
void copy_out(const Sized& from, Sized* to) {
  const size_t room = to->struct_size;
  Sized sized = from;
  sized.struct_size = std::min(room, sizeof from);
  std::memcpy(to, &sized, sized.struct_size);
}

// The words of `qkvet check` in a request; its cases are at least one.
RunWords words_of(const ReadJson& request) {
  RunWords words;
  words.laws = request.value("laws", words.laws);
  words.cases = request.value("cases", kDefaultCases);
  words.seed = request.value("seed", words.seed);
  words.budget = request.value("budget", words.budget);
  words.sizes = request.value("sizes", words.sizes);
  words.pin = request.value("pin", words.pin);
  words.strict = request.value("strict", false) ? "all" : "";
  words.fail_fast = request.value("fail_fast", false);
  words.jobs = 1;  // there is one interpreter
  return words;
}

struct Told {
  ExitCode code = kWrongUse;
  std::string text, json, wrong;
};

// Replays one case under each law that applies to it.
std::string replay_here(const std::string& text, const RunOptions& run,
                        bool all_laws, const SelectedKernels& selected,
                        RunResult& result) {
  const ParsedCase value = parse_case(text);
  if (!value.value) return value.error;
  const Opened opened = executor_factory(selected, /*in_process=*/true)(0);
  if (opened.executor == nullptr) return opened.error;
  for (const KernelUnderTest& kernel : selected.kernels) {
    KernelResult of_kernel;
    for (const Law* law : run.laws) {
      if (law->domain.subject != value.value->subject()) continue;
      KernelResult one =
          replay_one(*law, *value.value, kernel, *opened.executor, result.time);
      of_kernel.kernel = one.kernel;
      // A law that does not apply to the one case is not open.
      for (Cell& cell : one.cells)
        if (!all_laws || (cell.verdict != Verdict::kGaveUp &&
                          cell.verdict != Verdict::kMistrusted))
          of_kernel.cells.push_back(std::move(cell));
    }
    result.kernels.push_back(std::move(of_kernel));
  }
  result.planned_cases = 1;
  return "";
}

Told check_here(const LibrarySpec& library, const std::string& text) {
  Told told;
  const ReadJson request = read_json(text);
  if (!request.is_object()) {
    told.wrong = "the request is no JSON object";
    return told;
  }
  const RunWords words = words_of(request);
  RunOptions run;
  told.wrong =
      *words.cases < 1 ? "cases: at least 1" : read_run_words(words, run);
  if (!told.wrong.empty()) return told;
  const SelectedKernels selected = select_linked(library, {});
  told.wrong = selected.error;
  if (!told.wrong.empty()) return told;
  run.scope.dtypes = declared_dtypes(selected.kernels);
  const std::string only = request.value("case", std::string());
  RunResult result;
  const Interrupts interrupts;
  run.stop = Interrupts::seen;
  if (only.empty()) {
    result = run_plan(selected.kernels,
                      executor_factory(selected, /*in_process=*/true), run);
    told.wrong = result.error;
  } else {
    told.wrong = replay_here(only, run, words.laws.empty(), selected, result);
  }
  if (!told.wrong.empty()) return told;
  const Diagnoses diagnoses =
      diagnose_run(result, selected, /*in_process=*/true,
                   request.value("diagnose", kDefaultDiagnosed));
  const ReportInput report{.result = result,
                           .options = run,
                           .selected = selected,
                           .in_process = true,
                           .diagnoses = &diagnoses};
  const RunRecord record = record_of(report);
  told.text =
      text_report(report, record, {.verbose = request.value("verbose", false)});
  told.json = record_lines(record);
  told.code = record.end.exit;
  return told;
}

struct CallWords {
  const char *file, *case_words, *layout, *dialect, *precision;
};

using Give = void (*)(const char* name, const double* values,
                      const double* bounds, int64_t count);

// "" or one line.
std::string give_reference(const CallWords& words, Give give) {
  ImportWords import;
  import.layout = words.layout;
  ImportRules rules;
  CallFile file;
  std::string wrong = parse_import_words(import, rules);
  if (wrong.empty())
    wrong = read_call_file(words.file, rules, words.case_words, &file);
  if (!wrong.empty()) return wrong;
  const auto recording =
      make_recording(file.tensors, file.value, words.file, &wrong);
  if (!recording) return wrong;
  JudgedKernel kernel;
  wrong = recorded_kernel(*recording, "reference/call", file.dialect, &kernel);
  if (wrong.empty())
    wrong = declare_more(words.dialect, words.precision, &kernel);
  if (!wrong.empty()) return wrong;
  TimeUse time;
  CaseWork work(agreement_about(recording->value.subject()), recording->value,
                /*with_twin=*/false, time, plain_forward);
  if (const auto settled = work.settled(kernel)) return settled->reason;
  if (work.calls_for(kernel).empty()) return "asks for no call";
  const CaseWork::WholeCall whole = work.whole_call(kernel, 0);
  if (whole.truth == nullptr || whole.truth->bound == nullptr)
    return "has no bound";
  const OracleOutput& oracle = whole.truth->oracle;
  const Bound& bound = *whole.truth->bound;
  const struct {
    const char* name;
    const std::vector<double>& values;
    const std::vector<double>& bounds;
  } rows[] = {{"o", oracle.o, bound.o},
              {"lse", oracle.lse, bound.lse},
              {"weights", oracle.weights, bound.weights}};
  for (const auto& row : rows)
    if (!row.values.empty() && row.values.size() == row.bounds.size())
      give(row.name, row.values.data(), row.bounds.data(),
           std::ssize(row.values));
  return "";
}

using GiveInput = void (*)(const char* name, const char* dtype, int32_t rank,
                           const int64_t* extents, const double* values);

// All except those that are made from others: the outputs of forward(), and the
// states of a merge. Masks are bool.
void give_inputs(const Case& value, const Inputs& inputs, GiveInput give) {
  const KernelCall call =
      call_of(value, inputs,
              value.is_layer() ? Operation::kLayer : Operation::kForward);
  for (const TensorRow& row : kTensors) {
    const std::span<const std::byte> bytes = inputs.bytes(row.tensor);
    if (row.digest == 0 || bytes.empty()) continue;
    std::array<int64_t, 4> extents{};
    for (size_t n = 0; n < extents.size(); ++n)
      extents[n] = extent_of(call, row.extents[n]);
    if (has_tensor(value, row.tensor))
      extents = tensor_extents(value, row.tensor);
    const Dtype dtype = storage_type(value, row.tensor);
    const bool mask = row.data == TensorData::kMask;
    const std::vector<double> values = numbers_of(
        NamedTensor{file_dtype(dtype), {}, {bytes.begin(), bytes.end()}});
    give(row.name, mask ? "bool" : std::string(dtype_name(dtype)).c_str(),
         row.rank(), extents.data(), values.data());
  }
}

// "" or one line.
std::string tell_case(const char* text, void (*say)(int32_t, const char*),
                      GiveInput give) {
  const ParsedCase parsed = parse_case(text);
  if (!parsed.value) return parsed.error;
  const Case& value = *parsed.value;
  const Shape& s = value.shape;
  Json told{{"case", to_string(value)},
            {"subject", subject_row(value.subject()).id},
            {"extents",
             {{"B", s.B},
              {"H", s.H},
              {"Hkv", s.Hkv},
              {"Tq", s.Tq},
              {"Tk", s.Tk},
              {"d", s.d},
              {"dv", s.dv}}}};
  if (value.is_layer()) told["extents"]["D"] = s.D;
  std::string why_not = invalid_reason(value);
  for (const Dtype dtype : {value.q_dtype, value.kv_dtype, value.o_dtype})
    if (!can_store(dtype))
      why_not = std::string(dtype_name(dtype)) + " is not made here";
  if (why_not.empty()) {
    const Inputs inputs = make_inputs(value);
    std::array<char, 9> digest{};
    std::snprintf(digest.data(), digest.size(), "%08x", input_digest(inputs));
    told["digest"] = digest.data();
    give_inputs(value, inputs, give);
  } else {
    told["no_tensors"] = why_not;
  }
  say(QKVET_PYTHON_JSON, json_text(told).c_str());
  return "";
}

}  // namespace
}  // namespace qkvet::cli

int qkvet_python_case(const char* text,
                      void (*say)(int32_t what, const char* text),
                      void (*give)(const char* name, const char* dtype,
                                   int32_t rank, const int64_t* extents,
                                   const double* values),
                      char* why, size_t why_size) {
  std::string wrong;
  try {
    wrong = qkvet::cli::tell_case(text, say, give);
  } catch (const std::exception& failure) {
    wrong = failure.what();
  }
  if (wrong.empty()) return 0;
  std::snprintf(why, why_size, "%s", wrong.c_str());
  return qkvet::cli::kWrongUse;
}

int qkvet_python_reference(const char* file, const char* case_words,
                           const char* layout, const char* dialect,
                           const char* precision,
                           void (*give)(const char* name, const double* values,
                                        const double* bounds, int64_t count),
                           char* why, size_t why_size) {
  std::string wrong;
  try {
    wrong = qkvet::cli::give_reference(
        {file, case_words, layout, dialect, precision}, give);
  } catch (const std::exception& failure) {
    wrong = failure.what();
  }
  if (wrong.empty()) return 0;
  std::snprintf(why, why_size, "%s", wrong.c_str());
  return qkvet::cli::kWrongUse;
}

void qkvet_python_armour(const char* visible, char* missing, size_t size) {
  std::snprintf(missing, size, "%s", qkvet::enter_armour(visible).c_str());
}

void qkvet_python_begin(void) {
  if (qkvet::has_worker_descriptors()) qkvet::begin_worker();
}

int qkvet_python_serve(const char* target, const char* config,
                       qkvet_open_function open) {
  if (!qkvet::has_worker_descriptors()) return qkvet::kUsageExit;
  return qkvet::serve_library({target, config, open});
}

int qkvet_python_declare(const char* lines, const char* precision,
                         qkvet_capabilities* capabilities,
                         qkvet_dialect* dialect, qkvet_precision* precision_out,
                         uint64_t* layer_options, char* why, size_t why_size) {
  using namespace qkvet::cli;
  Convention convention;
  convention.declared.capabilities.struct_size = sizeof(qkvet_capabilities);
  convention.declared.dialect.struct_size = sizeof(qkvet_dialect);
  qkvet_precision arithmetic{};
  arithmetic.struct_size = sizeof arithmetic;
  std::string wrong = declare_lines(lines, convention);
  if (wrong.empty() && *precision != 0)
    wrong = qkvet::parse_precision("precision", precision, arithmetic);
  if (wrong.empty()) wrong = resolve_precision(arithmetic).error;
  if (!wrong.empty()) {
    std::snprintf(why, why_size, "%s", wrong.c_str());
    return 1;
  }
  copy_out(convention.declared.capabilities, capabilities);
  copy_out(convention.declared.dialect, dialect);
  copy_out(arithmetic, precision_out);
  *layer_options = convention.declared.layer_options;
  return 0;
}

int qkvet_python_check(const char* target, const char* program,
                       const char* request, qkvet_open_function open,
                       void (*say)(int32_t what, const char* text)) {
  qkvet::cli::use_program(program);
  qkvet::cli::Told told;
  try {
    told = qkvet::cli::check_here({target, "", open}, request);
  } catch (const std::exception& failure) {
    told.wrong = failure.what();
  }
  if (!told.wrong.empty()) {
    say(QKVET_PYTHON_WRONG, told.wrong.c_str());
    return qkvet::cli::kWrongUse;
  }
  say(QKVET_PYTHON_JSON, told.json.c_str());
  say(QKVET_PYTHON_TEXT, told.text.c_str());
  return told.code;
}
