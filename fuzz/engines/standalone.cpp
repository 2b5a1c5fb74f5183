// SPDX-License-Identifier: Apache-2.0
// A fuzz target with the entry points of engines: libFuzzer, AFL++, honggfuzz
// and the services around them. Kernels run in this process, so that its
// sanitizers see them. The first input that violates the target's claim ends
// the program.
#include "fuzz/engines/standalone.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "fuzz/engines/engine.h"
#include "fuzz/hunt/hunter.h"
#include "fuzz/targets/rules.h"
#include "properties/checking/probe.h"
#include "properties/run/shrink.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::fuzz {
namespace {

struct Standalone {
  std::vector<std::unique_ptr<Executor>> executors;
  std::vector<KernelUnderTest> kernels;
  HuntProgress progress{};
  std::unique_ptr<Hunter> hunter;
};

// Never taken down: engines end the process in ways of their own.
Standalone& standalone() {
  static auto* const all = new Standalone;
  return *all;
}

[[noreturn]] void cannot_begin(const std::string& why) {
  std::fprintf(stderr, "fuzz_%s: %s\n", kStandaloneProgram.target.name,
               why.c_str());
  std::exit(2);
}

[[noreturn]] void tell_and_abort(const Found& found) {
  const char* kernel =
      standalone().kernels[found.kernel].judged.info.name.c_str();
  const char* law = found.input.law->id;
  const std::string value = to_string(found.input.value);
  std::fprintf(stderr,
               "fuzz_%s: %s fails %s, error/bound %.3g\n"
               "  case   %s\n"
               "  again  qkvet replay %s --law %s --kernel %s\n",
               kStandaloneProgram.target.name, kernel,
               failed_law(*found.input.law, *found.judgement).id,
               found.judgement->worst_ratio, value.c_str(), value.c_str(), law,
               kernel);
  std::abort();  // so that the engine keeps the input
}

void open_family(Standalone& all, const LinkedFamily& family) {
  Opened opened = open_in_process({family.name, "", family.open});
  if (opened.executor == nullptr) cannot_begin(opened.error);
  Executor& executor = *opened.executor;
  for (size_t i = 0; i < executor.kernels().size(); ++i) {
    KernelUnderTest kernel;
    kernel.library = all.executors.size();
    kernel.index = static_cast<int>(i);
    JudgedKernel& judged = kernel.judged;
    judged.info = executor.kernels()[i];
    const ResolvedPrecision precision =
        resolve_precision(judged.info.precision);
    if (!precision.error.empty())
      cannot_begin(judged.info.name + ": " + precision.error);
    judged.model = precision.model;
    judged.looser_than_generic = precision.looser_than_generic;
    judged.assumed = probe_dialect(executor, kernel.index, judged.info);
    all.kernels.push_back(std::move(kernel));
  }
  all.executors.push_back(std::move(opened.executor));
}

void open_kernels(Standalone& all) {
  const FuzzTarget& target = kStandaloneProgram.target;
  for (const LinkedFamily& family : kStandaloneProgram.families)
    open_family(all, family);
  keep_subject(target, all.kernels);
  if (all.kernels.empty() || (target.differential && all.kernels.size() != 2))
    cannot_begin("other kernels are linked than the target wants");
  InputRules rules = rules_for(target, laws_of(target), all.kernels);
  if (rules.laws.empty())
    cannot_begin("no law asks for what the kernels declare");
  std::vector<Executor*> executors;
  for (const auto& executor : all.executors)
    executors.push_back(executor.get());
  all.progress.kernel = -1;
  all.hunter = std::make_unique<Hunter>(
      target, std::move(rules), all.kernels, std::move(executors),
      Guide(engine_counters(), sight_of(target)), all.progress, tell_and_abort);
  engine_hooks().rules = &all.hunter->rules();
  engine_hooks().values_percent = target.values_percent;
}

void check_bytes(std::span<const uint8_t> bytes) {
  std::string said;
  const std::string wrong = kStandaloneProgram.target.check(bytes, &said);
  // Other engines provide code coverage, which is more informative than
  // replies.
  Guide(engine_counters(), Guide::Sight::kNothing).answered(said);
  if (wrong.empty()) return;
  std::fprintf(stderr, "fuzz_%s: %s\n", kStandaloneProgram.target.name,
               wrong.c_str());
  std::abort();
}

}  // namespace
}  // namespace qkvet::fuzz

extern "C" {

__attribute__((visibility("default"))) int LLVMFuzzerInitialize(
    int* /*argc*/, char*** /*argv*/) {
  using namespace qkvet::fuzz;
  if (kStandaloneProgram.target.about_kernels()) open_kernels(standalone());
  return 0;
}

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(
    const uint8_t* data, size_t size) {
  using namespace qkvet::fuzz;
  if (kStandaloneProgram.target.about_kernels())
    standalone().hunter->run({data, size});
  else
    check_bytes({data, size});
  return 0;
}

}  // extern "C"
