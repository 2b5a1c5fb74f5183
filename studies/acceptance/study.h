// SPDX-License-Identifier: Apache-2.0
// Runs every rule and the bound on every defect, on the data of the rule's
// suite and on data that targets the defect. They also run on the correct
// kernel: a rule that refuses it has noticed nothing, but raised an alarm.
#ifndef QKVET_STUDIES_ACCEPTANCE_STUDY_H_
#define QKVET_STUDIES_ACCEPTANCE_STUDY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "studies/acceptance/defects.h"
#include "studies/acceptance/rules.h"

namespace qkvet::studies {

// The results of one judge for one defect on one kind of data. Lengths are
// numbers of keys.
struct Cell {
  std::vector<int64_t> tried;
  std::vector<int64_t> noticed;
  std::vector<int64_t> alarms;   // the correct kernel was refused
  std::optional<double> amount;  // kAmount: the smallest that was noticed
};

// How much was noticed, in steps of a factor of two; comparable between cells
// of one defect.
double noticed_octaves(const Cell& cell, Measure measure);

struct Comparison {
  const Rule* rule = nullptr;
  const Defect* defect = nullptr;
  Cell theirs, ours, ours_with_lse;     // on the data of the suite
  Cell theirs_targeted, ours_targeted;  // on targeted data; without lse
};

struct Effort {
  std::vector<int64_t> lengths;  // ascending
  int64_t square_heads;
};
Effort quick_effort();
Effort full_effort();

// The side of the squares, causal or not.
inline constexpr int64_t kSquare = 256;
// The largest scale error that is tried: a factor of 9.
inline constexpr double kLargestAmount = 8;

using Models = PrecisionModel (*)(Dtype);
// In the order of the defects, and of the rules within. `models`: the model
// that the bound assumes; declared_model except in tests of wrong declarations.
std::vector<Comparison> compare_rules(const Effort& effort,
                                      std::span<const Rule> rules,
                                      Models models);

// Cells in which the bound refused the correct kernel; in which a rule did so
// on the data of its own suite.
int64_t alarms_of_ours(std::span<const Comparison> comparisons);
int64_t alarms_of_theirs(std::span<const Comparison> comparisons);
// 1 if there are any false alarms: the comparison is then meaningless.
int exit_code(std::span<const Comparison> comparisons);

}  // namespace qkvet::studies

#endif  // QKVET_STUDIES_ACCEPTANCE_STUDY_H_
