// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/catalogue.h"

#include <algorithm>

#include "reference/arithmetic/precision.h"

namespace qkvet::diagnosis {

Catalogue::Catalogue(Open open, std::vector<Variant> variants) {
  add(open, "", nullptr);
  for (const Variant& variant : variants)
    if (error_.empty()) add(open, variant.config, &variant.faults);
}

void Catalogue::add(const Open& open, const std::string& config,
                    const std::vector<std::string>* wanted) {
  Opened opened = open(config);
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
    auto suspect = std::make_unique<FaultSuspect>(
        std::move(fault), static_cast<int>(i), *opened.executor, config);
    if (wanted == nullptr || std::find(wanted->begin(), wanted->end(),
                                       suspect->name()) != wanted->end())
      suspects_.push_back(std::move(suspect));
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
