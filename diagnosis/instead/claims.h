// SPDX-License-Identifier: Apache-2.0
// Claims about wrong numbers that come of these numbers themselves: one number
// throughout, fewer bits, a factor or a term that has no name.
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
  std::string text;
  IsTrueOf is_true_of;
  Stage stage = Stage::kUnknown;
  // True by chance of what is something else now and then, such as memory that
  // held NaN: held against more answers than the others.
  bool is_cheap = false;
  // Of what a row sees, by other scores than the right ones.
  bool of_other_scores = false;
  // Seen of most of what is wrong, and not looked at in all.
  bool of_most = false;
  // One number throughout, as what stood in memory makes of everything: true as
  // long as other bytes in that memory change nothing.
  bool of_one_number = false;
  // The answers that it is about, where these are not all.
  std::function<bool(const WrongAnswer& answer)> is_about = nullptr;
};

inline constexpr const char* kNoNumber = "NaN";
std::vector<Claim> claims_of_one_number(const Wrongs& wrongs);
std::optional<Claim> claim_of_rounding(const Wrongs& wrongs);
// Of rows that see no key: the mean of values.
std::vector<Claim> claims_of_means();
// What is measured is that of the element that tells most about it.
std::optional<Claim> claim_of_factor(const Wrongs& wrongs);
std::optional<Claim> claim_of_constant(const Wrongs& wrongs);
// Each row with a factor of its own. True of all, if it is there.
std::optional<Claim> claim_of_rows(const Wrongs& wrongs);
// Of lse = largest score + ln(sum), one part of which has a factor.
std::vector<Claim> claims_of_lse_parts(const Wrongs& wrongs);

// by_measure.cpp: the same call with one number of it turned by as much as the
// wrong numbers say. True of all, if it is there. `most_work`: multiplications.
std::optional<Claim> claim_of_measure(const Wrongs& wrongs,
                                      const JudgedKernel& kernel, TimeUse& time,
                                      int64_t most_work);

// by_mixture.cpp: where each case has a place or weights of its own. True of
// all, if they are there.
std::optional<Claim> claim_of_places(const Wrongs& wrongs);
std::optional<Claim> claim_of_shifted_rows(const Wrongs& wrongs);
std::optional<Claim> claim_of_means(const Wrongs& wrongs);
// The same with any weights: what nothing else is true of.
std::optional<Claim> claim_of_sums(const Wrongs& wrongs);

// by_asking.cpp: the kernel is asked again, in a new process, behind another
// call and with other data elsewhere, here and by whoever asks the claim;
// `calls` grows by those made here.
std::optional<Claim> claim_of_asking_again(const Wrongs& wrongs,
                                           const KernelUnderTest& kernel,
                                           Executor& executor, TimeUse& time,
                                           int* calls);
// The same of memory alone: whether it decides any of the first answers, and
// the claim where it decides all of them.
struct ClaimOfMemory {
  bool is_of_any = false;
  std::optional<Claim> claim;
};
ClaimOfMemory claim_of_memory(const Wrongs& wrongs,
                              const KernelUnderTest& kernel, Executor& executor,
                              TimeUse& time, int* calls);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_CLAIMS_H_
