// SPDX-License-Identifier: Apache-2.0
#include "fuzz/targets/rules.h"

#include "properties/cases/generate.h"

namespace qkvet::fuzz {

InputRules rules_for(const FuzzTarget& target, std::vector<const Law*> laws,
                     const std::vector<KernelUnderTest>& kernels,
                     std::vector<Pin> pins) {
  InputRules rules;
  rules.laws = std::move(laws);
  rules.most_work = target.most_work;
  rules.scope.dtypes = declared_dtypes(kernels);
  rules.scope.pins = std::move(pins);
  keep_scope_to(kernels, rules.scope);
  std::erase_if(rules.laws, [&rules](const Law* law) {
    return !undeclared_need(*law, rules.scope).empty();
  });
  return rules;
}

void keep_subject(const FuzzTarget& target,
                  std::vector<KernelUnderTest>& kernels) {
  std::erase_if(kernels, [&target](const KernelUnderTest& kernel) {
    return !has_subject(kernel.judged.info, target.subject);
  });
}

}  // namespace qkvet::fuzz
