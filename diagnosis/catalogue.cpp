// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/catalogue.h"

#include <algorithm>

#include "reference/arithmetic/precision.h"

namespace qkvet::diagnosis {
namespace {

// Without a configuration all are.
bool is_wanted(const FaultSuspect& fault, const Catalogue::Variant& variant) {
  if (variant.config.empty()) return true;
  if (variant.faults.empty()) return fault.fault().info.fault->tiled;
  return std::find(variant.faults.begin(), variant.faults.end(),
                   fault.name()) != variant.faults.end();
}

}  // namespace

Catalogue::Catalogue(Open open, std::vector<Variant> variants) {
  add(open, {});
  for (const Variant& variant : variants)
    if (error_.empty()) add(open, variant);
}

void Catalogue::add(const Open& open, const Variant& variant) {
  Opened opened = open(variant.config);
  if (opened.executor == nullptr) {
    error_ = opened.error;
    return;
  }
  const std::vector<KernelInfo>& kernels = opened.executor->kernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const KernelInfo& info = kernels[i];
    if (!info.fault) continue;
    const ResolvedPrecision precision = resolve_precision(info.precision);
    if (!precision.error.empty()) continue;
    JudgedKernel fault{info, precision.model, precision.looser_than_generic};
    auto suspect =
        std::make_unique<FaultSuspect>(std::move(fault), static_cast<int>(i),
                                       *opened.executor, variant.config);
    if (is_wanted(*suspect, variant)) suspects_.push_back(std::move(suspect));
  }
  executors_.push_back(std::move(opened.executor));
}

double Catalogue::cpu_seconds() const {
  double seconds = 0;
  for (const auto& executor : executors_) seconds += executor->cpu_seconds();
  return seconds;
}

std::vector<FaultSuspect*> Catalogue::about(Subject subject) const {
  std::vector<FaultSuspect*> found;
  for (const auto& suspect : suspects_)
    if (has_subject(suspect->fault().info, subject))
      found.push_back(suspect.get());
  return found;
}

}  // namespace qkvet::diagnosis
