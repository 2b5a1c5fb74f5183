// SPDX-License-Identifier: Apache-2.0
// The options of attention as cases get them, one row each.
#ifndef QKVET_PROPERTIES_CASES_DRAWN_OPTIONS_H_
#define QKVET_PROPERTIES_CASES_DRAWN_OPTIONS_H_

#include <functional>
#include <vector>

#include "properties/cases/draw.h"

namespace qkvet::properties {

inline constexpr int64_t kSmallExtent = 3;  // the largest of the small scope

// Gives a case one value of an option.
using OptionSetting = std::function<void(Case&)>;
using AddSetting = std::function<void(OptionSetting)>;

struct DrawnOption {
  uint64_t option;  // as in kCaseOptions
  void (*draw)(Draw& draw, Case& value);
  // Its settings in the small scope: tokens of a case, separated by spaces,
  // "chunk={1,2}" for chunk=1 and chunk=2; and those that depend on the case.
  const char* settings = "";
  void (*more_settings)(const AddSetting& add) = nullptr;

  // For an option that refines others: whether a case has one of them, how
  // often it is then added, in percent, and how, if not by draw().
  bool (*fits)(const Case& value) = nullptr;
  int chance = 0;
  bool by_itself = true;  // it is drawn where no other one is, too
  void (*add)(Draw& draw, Case& value) = nullptr;
  // Runs before that, in every case.
  void (*settle)(Draw& draw, uint64_t allowed, Case& value) = nullptr;
};

// In the order in which options are added to others, and settings applied.
const std::vector<DrawnOption>& drawn_options();
// The parts of it.
std::vector<DrawnOption> options_of_memory();
std::vector<DrawnOption> options_of_scores();

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_DRAWN_OPTIONS_H_
