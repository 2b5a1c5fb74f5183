// SPDX-License-Identifier: Apache-2.0
// Claims that need only the wrong numbers: one number throughout, fewer bits, a
// factor or a term without a name.
#ifndef QKVET_DIAGNOSIS_INSTEAD_CLAIMS_H_
#define QKVET_DIAGNOSIS_INSTEAD_CLAIMS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diagnosis/instead/description.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {

// One output of several failing answers.
using Wrongs = std::vector<std::pair<const WrongAnswer*, const WrongOutput*>>;
using IsTrueOf =
    std::function<bool(const WrongAnswer& answer, const WrongOutput& output)>;

struct Claim {
  std::string text = {};  // "the right value times sqrt(d)"
  IsTrueOf is_true_of = nullptr;
  Stage stage = Stage::kUnknown;
  // A claim that also fits something else now and then, such as memory that
  // held NaN; it is checked against more answers than the others.
  bool is_cheap = false;
  // Means of the visible values, with wrong scores.
  bool of_other_scores = false;
  // Holds for most wrong numbers; it was not tested on all.
  bool of_most = false;
  // One number throughout, as unwritten memory may produce it: the claim holds
  // as long as other bytes in that memory change nothing.
  bool of_one_number = false;
  // The answers that it covers, if not all.
  std::function<bool(const WrongAnswer& answer)> is_about = nullptr;
};

Claim claim_of(const Description& description);
bool is_true_of_all(const Claim& claim, const Wrongs& wrongs);

inline constexpr const char* kNoNumber = "NaN";
std::vector<Claim> claims_of_one_number(const Wrongs& wrongs);
std::optional<Claim> claim_of_rounding(const Wrongs& wrongs);
// Rows that see no key: the mean of values.
std::vector<Claim> claims_of_means();
// Measured at the most informative element.
std::optional<Claim> claim_of_factor(const Wrongs& wrongs);
std::optional<Claim> claim_of_constant(const Wrongs& wrongs);
// Each row has a factor of its own. If reported, it holds for all of them.
std::optional<Claim> claim_of_rows(const Wrongs& wrongs);
// lse = largest score + ln(sum), where one part has a factor.
std::vector<Claim> claims_of_lse_parts(const Wrongs& wrongs);

// by_measure.cpp: the same call with one of its numbers changed by the amount
// that fits the wrong numbers. If reported, it holds for all. `most_work`:
// multiplications.
std::optional<Claim> claim_of_measure(const Wrongs& wrongs,
                                      const JudgedKernel& kernel, TimeUse& time,
                                      int64_t most_work);

// by_mixture.cpp: each case has its own place or weights. If reported, they
// hold for all.
std::optional<Claim> claim_of_places(const Wrongs& wrongs);
std::optional<Claim> claim_of_means(const Wrongs& wrongs);
// The same with any weights; used when no other claim holds.
std::optional<Claim> claim_of_sums(const Wrongs& wrongs);

// by_asking.cpp: runs the kernel again, in a new process, after another call,
// and with other data elsewhere. The same is done when the claim is checked;
// `calls` counts only the runs made here.
std::optional<Claim> claim_of_asking_again(const Wrongs& wrongs,
                                           const EvidencePool& pool,
                                           int* calls);
// The same for memory alone: whether it decides any of the first answers, and
// the claim if it decides all of them.
struct ClaimOfMemory {
  bool is_of_any = false;
  std::optional<Claim> claim;
};
ClaimOfMemory claim_of_memory(const Wrongs& wrongs, const EvidencePool& pool,
                              int* calls);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_CLAIMS_H_
