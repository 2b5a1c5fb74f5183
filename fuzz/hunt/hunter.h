// SPDX-License-Identifier: Apache-2.0
// Runs one input after the other on the kernels of a hunt: judges it under its
// law, shows it to the guide, and reports it if it fails.
#ifndef QKVET_FUZZ_HUNT_HUNTER_H_
#define QKVET_FUZZ_HUNT_HUNTER_H_

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "fuzz/hunt/guide.h"
#include "fuzz/hunt/progress.h"
#include "fuzz/input/input.h"
#include "fuzz/targets/target.h"
#include "properties/run/runner.h"

namespace qkvet::fuzz {

struct Found {
  size_t kernel = 0;  // of Hunter's list
  FuzzInput input;    // as it was judged
  const Judgement* judgement = nullptr;
  int64_t execution = 0;  // from 1
};

class Hunter {
 public:
  // An executor per library; kernels of the target's subject. A finding is
  // reported the first, second, fourth, eighth, ... time that a kernel fails a
  // law.
  Hunter(const FuzzTarget& target, InputRules rules,
         const std::vector<KernelUnderTest>& kernels,
         std::vector<Executor*> executors, Guide guide, HuntProgress& progress,
         std::function<void(const Found&)> tell);

  void run(std::span<const uint8_t> bytes);
  void run(const FuzzInput& input);

  const InputRules& rules() const { return rules_; }
  // A kernel that hangs repeatedly is no longer called.
  bool exhausted() const { return alive_ == 0; }
  // The worst of what passed: error/bound, and where.
  struct Closest {
    double ratio = 0;
    size_t kernel = 0;
    FuzzInput input;
  };
  const Closest& closest() const { return closest_; }

 private:
  void run_on(size_t kernel, const FuzzInput& input, size_t law_number,
              CaseWork& work);
  void hold_against(const FuzzInput& input, size_t law_number, CaseWork& work,
                    std::span<const std::vector<CallOutcome>> outcomes);
  std::vector<CallOutcome> call(size_t kernel, CaseWork& work);
  void record(size_t kernel, const FuzzInput& input,
              const Judgement& judgement);

  const FuzzTarget& target_;
  InputRules rules_;
  const std::vector<KernelUnderTest>& kernels_;
  std::vector<Executor*> executors_;
  Guide guide_;
  HuntProgress& progress_;
  std::function<void(const Found&)> tell_;
  std::map<std::pair<size_t, const Law*>, int64_t> failures_;
  std::vector<int> hangs_;
  size_t alive_ = 0;
  Closest closest_;
  TimeUse time_;
};

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_HUNT_HUNTER_H_
