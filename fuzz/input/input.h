// SPDX-License-Identifier: Apache-2.0
// Decodes an engine's bytes to a law and a case. "LAW CASE" is decoded as
// written. Every other input is a source of choices for the generator, so that
// each input decodes to a legal case, and a changed byte changes a choice.
#ifndef QKVET_FUZZ_INPUT_INPUT_H_
#define QKVET_FUZZ_INPUT_INPUT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "properties/cases/scope.h"
#include "properties/judging/law.h"

namespace qkvet::fuzz {

// A spelled case, and the law before it.
inline constexpr size_t kMostInputBytes = kMaxCaseText + 64;

struct FuzzInput {
  const Law* law = nullptr;
  Case value;
};

// The constraints on the inputs of a hunt.
struct InputRules {
  std::vector<const Law*> laws;  // of one subject, at least one
  Scope scope;
  // False: data is N(0,1), and only single values can change it. To measure the
  // effect of guidance alone.
  bool recipes = true;
  // Multiply-adds of an attention call, about: what is larger is cut down, so
  // that thousands of cases can be judged in a second.
  int64_t most_work = int64_t{1} << 16;
};

FuzzInput decode_input(std::span<const uint8_t> bytes, const InputRules& rules);
std::string encode_input(const FuzzInput& input);

// The nearest case that the rules allow and the law is about.
Case nearest_legal(const Law& law, Case value, const InputRules& rules);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_INPUT_INPUT_H_
