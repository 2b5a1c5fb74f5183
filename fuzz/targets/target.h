// SPDX-License-Identifier: Apache-2.0
// A fuzz target is data: what is hunted, and one check. Targets about kernels
// name the laws that every input is judged by; targets about text and bytes
// that strangers write have a function.
#ifndef QKVET_FUZZ_TARGETS_TARGET_H_
#define QKVET_FUZZ_TARGETS_TARGET_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/input/input.h"

namespace qkvet::fuzz {

struct FuzzTarget {
  const char* name;
  const char* sentence;  // what holds for every input
  // For targets about kernels: globs over the laws of the subject, which are
  // judged.
  Subject subject = Subject::kAttention;
  std::span<const char* const> laws = {};
  int values_percent = 0;  // of the changes that are changes of numbers
  int64_t most_work = InputRules{}.most_work;
  // Two kernels on one input: they may differ by the sum of their bounds.
  bool differential = false;
  // For targets about bytes: "" or the problem. *said is the parser's reply,
  // such as the reason of a refusal: a new kind of reply is progress where
  // there is no coverage.
  std::string (*check)(std::span<const uint8_t> bytes,
                       std::string* said) = nullptr;

  bool about_kernels() const { return check == nullptr; }
};

// In the order of lists.
std::span<const FuzzTarget* const> fuzz_targets();
const FuzzTarget* find_fuzz_target(std::string_view name);

// The laws that the target's globs name, in their order.
std::vector<const Law*> laws_of(const FuzzTarget& target);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_TARGETS_TARGET_H_
