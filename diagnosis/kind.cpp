// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/kind.h"

#include <algorithm>

#include "properties/cases/generate.h"
#include "properties/judging/needs_a_run.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {
namespace {

// Options of kernels that serve: faults in these options are about serving.
constexpr uint64_t kTables =
    QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR | QKVET_OPTION_APPEND;

}  // namespace

KernelKind::KernelKind(const JudgedKernel& kernel, bool is_recorded)
    : kernel_(&kernel), is_recorded_(is_recorded) {
  keep_scope_to({KernelUnderTest{kernel}}, scope_);
}

bool KernelKind::can_be_asked(const Law& law) {
  const auto [at, is_new] = asked_.try_emplace(&law, false);
  if (is_new)
    at->second = undeclared_need(law, scope_).empty() &&
                 !(is_recorded_ && !needs_a_run(law).empty());
  return at->second;
}

bool KernelKind::can_have(const KernelInfo& fault, Subject subject) {
  if (fault.has_gpu_threads() && !kernel_->info.has_gpu_threads()) return false;
  if (fault.has_option(kTables) && !kernel_->info.has_option(kTables))
    return false;
  const std::vector<std::string>& laws = fault.fault->killed_by;
  return laws.empty() ||
         std::any_of(laws.begin(), laws.end(), [&](const std::string& id) {
           const Law* law = find_law(id);
           return law != nullptr && law->domain.subject == subject &&
                  can_be_asked(*law);
         });
}

}  // namespace qkvet::diagnosis
