// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/diagnoses.h"

#include <algorithm>

namespace qkvet::cli {
namespace {

// The widths of real kernels.
std::vector<Catalogue::Variant> other_tiles() {
  std::vector<Catalogue::Variant> variants;
  for (const int tile : {8, 16, 32, 64, 128, 256})
    variants.push_back({"tile=" + std::to_string(tile)});
  return variants;
}

std::vector<const Failure*> failures_of(const KernelResult& kernel) {
  std::vector<const Failure*> failures;
  for (const Cell& cell : kernel.cells)
    if (cell.failure) failures.push_back(&*cell.failure);
  // After the first failure of each law, because these may explain the rest.
  for (const Cell& cell : kernel.cells)
    for (const Failure& other : cell.others) failures.push_back(&other);
  return failures;
}

}  // namespace

std::unique_ptr<Catalogue> known_faults(std::string* missing) {
  const Family& faults = faults_family();
  *missing = why_missing(faults);
  if (!missing->empty()) return std::make_unique<Catalogue>();
  const auto open = [&faults](const std::string& config) {
    SandboxOptions options;
    options.worker = worker_path();
    return open_sandbox({family_path(faults), config}, options);
  };
  auto catalogue = std::make_unique<Catalogue>(open, other_tiles());
  *missing = catalogue->error();
  return missing->empty() ? std::move(catalogue)
                          : std::make_unique<Catalogue>();
}

Diagnoses diagnose_run(const RunResult& result, const SelectedKernels& selected,
                       bool in_process, int most) {
  Diagnoses diagnoses;
  diagnoses.kernels.resize(result.kernels.size());
  std::unique_ptr<Catalogue> catalogue;
  int looked_at = 0;
  TimeUse time;
  for (size_t i = 0; i < result.kernels.size(); ++i) {
    const KernelUnderTest& kernel = result.kernels[i].kernel;
    const auto failures = failures_of(result.kernels[i]);
    if (failures.empty()) continue;
    if (++looked_at > most) {
      ++diagnoses.not_looked_at;
      continue;
    }
    if (catalogue == nullptr) catalogue = known_faults(&diagnoses.no_faults);
    Opened opened = executor_factory(selected, in_process)(kernel.library);
    if (opened.executor == nullptr) continue;
    diagnoses.kernels[i] =
        diagnose_all(failures, kernel, *opened.executor, *catalogue, time);
  }
  return diagnoses;
}

const CauseOfFailures* cause_of(const Diagnoses* diagnoses,
                                const Failure& failure) {
  if (diagnoses == nullptr) return nullptr;
  for (const auto& causes : diagnoses->kernels)
    for (const CauseOfFailures& cause : causes)
      if (cause.best == &failure ||
          std::find(cause.others.begin(), cause.others.end(), &failure) !=
              cause.others.end())
        return &cause;
  return nullptr;
}

}  // namespace qkvet::cli
