// SPDX-License-Identifier: Apache-2.0
// The defects on which all rules are run, and the data that targets each.
#ifndef QKVET_STUDIES_ACCEPTANCE_DEFECTS_H_
#define QKVET_STUDIES_ACCEPTANCE_DEFECTS_H_

#include <cstdint>
#include <span>

#include "studies/acceptance/acceptance.h"

namespace qkvet::studies {

// The quantity that is measured for a defect.
enum class Measure : uint8_t {
  kAmount,   // the smallest one that is noticed, on a square of rows and keys
  kLengths,  // the numbers of keys at which it is noticed, decoding
  kSquare,   // whether it is noticed, on a causal square
};

struct Defect {
  const char* name;
  const char* text;
  const char* target;  // why the targeted data shows it
  Measure measure;
  Hooks hooks;
  // On the output of the kernel; null: unchanged.
  void (*spoil)(Output& output);
  Recipes (*targeted)(int64_t n, int64_t d);
};

// Defects with the same targeted data are next to each other.
std::span<const Defect> defects();
const Defect& defect_named(const char* name);

// The output of the kernel with the defect; of kAmount so far off.
Output defective_output(const Kernel& kernel, const Defect& defect,
                        double amount);

}  // namespace qkvet::studies

#endif  // QKVET_STUDIES_ACCEPTANCE_DEFECTS_H_
