// SPDX-License-Identifier: Apache-2.0
#include "properties/run/own_plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/capability/capability.h"
#include "core/sandbox/wire.h"
#include "properties/cases/generate.h"

namespace qkvet::properties {
namespace {

// Equal for kernels that get the same cases.
std::string declaration_key(const KernelUnderTest& kernel) {
  KernelInfo info = kernel.judged.info;
  info.name = info.description = info.source_file = info.unavailable = "";
  info.source_line = 0;
  info.fault.reset();
  std::string key = pack_kernels({info});
  for (const Hint& hint : kernel.hints)
    key += std::to_string(hint.path.axis) + "=" + std::to_string(hint.path.at) +
           ";";
  return key;
}

// An executor of another part as well.
class Borrowed : public Executor {
 public:
  explicit Borrowed(Executor& lent) : lent_(lent) {}
  const std::vector<KernelInfo>& kernels() const override {
    return lent_.kernels();
  }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    return lent_.run(kernel, calls);
  }
  double cpu_seconds() const override { return lent_.cpu_seconds(); }
  bool expect_hangs(int kernel) override { return lent_.expect_hangs(kernel); }

 private:
  Executor& lent_;
};

}  // namespace

Scope own_scope(const KernelUnderTest& kernel, const Scope& of_run) {
  Scope scope = of_run;
  keep_scope_to({kernel}, scope);
  std::vector<StorageTypes> dtypes = declared_dtypes({kernel});
  std::erase_if(dtypes, [&of_run](const StorageTypes& types) {
    return std::find(of_run.dtypes.begin(), of_run.dtypes.end(), types) ==
           of_run.dtypes.end();
  });
  // A kernel of other types still gets cases, and refuses them visibly.
  if (!dtypes.empty()) scope.dtypes = std::move(dtypes);
  return scope;
}

std::vector<size_t> declarations_of(
    const std::vector<KernelUnderTest>& kernels) {
  std::vector<std::string> keys;
  std::vector<size_t> out;
  for (const KernelUnderTest& kernel : kernels) {
    const auto at =
        std::find(keys.begin(), keys.end(), declaration_key(kernel));
    out.push_back(static_cast<size_t>(at - keys.begin()));
    if (at == keys.end()) keys.push_back(declaration_key(kernel));
  }
  return out;
}

OwnPlan own_plan(const KernelUnderTest& kernel, const RunOptions& options) {
  OwnPlan plan{own_scope(kernel, options.scope), {}};
  for (const Law* law : options.laws)
    plan.needs.push_back(undeclared_need(*law, plan.scope));
  return plan;
}

bool can_be_asked(const Law& law, const Case& value,
                  const KernelUnderTest& kernel, TimeUse& time) {
  CaseWork work(law, value, /*with_twin=*/false, time);
  if (work.settled(kernel.judged)) return false;
  const std::vector<KernelCall> calls = work.calls_for(kernel.judged);
  std::string why;
  return std::all_of(calls.begin(), calls.end(), [&](const KernelCall& call) {
    return capability_allows(kernel.judged.info, call, &why);
  });
}

bool can_be_asked(const Law& law, const KernelUnderTest& kernel,
                  const Scope& own, uint64_t seed, TimeUse& time) {
  constexpr int64_t kLooks = 16;
  for (int64_t number = 1; number <= kLooks; ++number)
    if (can_be_asked(law, planned_case(law, seed, number, own), kernel, time))
      return true;
  return false;
}

ExecutorFactory SharedExecutors::for_part() {
  // A part opens a library once for each of its threads, in their order.
  const auto next = std::make_shared<std::map<size_t, size_t>>();
  return [this, next](size_t library) -> Opened {
    std::vector<std::unique_ptr<Executor>>& mine = opened_[library];
    const size_t n = (*next)[library]++;
    if (n == mine.size()) {
      Opened opened = open_(library);
      if (opened.executor == nullptr) return opened;
      mine.push_back(std::move(opened.executor));
    }
    return {std::make_unique<Borrowed>(*mine[n]), ""};
  };
}

}  // namespace qkvet::properties
