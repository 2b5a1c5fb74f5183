// SPDX-License-Identifier: Apache-2.0
// What no function of the inputs gives: the same call has other numbers behind
// another call than in a new process. They come of what that one left, or of
// memory that nobody wrote. It is asked again to know.
#include <algorithm>
#include <cmath>

#include "core/door/call_plan.h"
#include "diagnosis/instead/claims.h"
#include "diagnosis/instead/collector.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// As many calls as tell of one answer: it, another one, it again.
constexpr int kMostOfWitness = 400;
constexpr size_t kFirstAnswers = 5;

// The numbers of an output, asked behind what was asked last or in a new
// process; empty if none came.
std::vector<double> numbers_of(const Case& value, const WrongOutput& output,
                               bool new_process, Witness& witness) {
  auto evidence = witness.prepare(agreement_about(value.subject()), value);
  if (evidence == nullptr || evidence->calls.size() != 1) return {};
  evidence->calls[0].new_process = new_process;
  evidence = witness.ask(std::move(evidence));
  if (evidence == nullptr) return {};
  return as_doubles(evidence->outcomes[0].*output_member(output.name),
                    output.dtype);
}

Case with_other_data(Case value) {
  constexpr uint64_t kOther = 7'919;
  value.seed += kOther;
  value.set.clear();
  return value;
}

// Whether most of what is wrong is another number behind another call.
bool hangs_on_memory(const WrongAnswer& answer, const WrongOutput& output,
                     Witness& witness) {
  const Case& value = answer.evidence->value();
  if (answer.evidence->calls.size() != 1) return false;
  const auto alone = numbers_of(value, output, /*new_process=*/true, witness);
  numbers_of(with_other_data(value), output, /*new_process=*/true, witness);
  const auto behind = numbers_of(value, output, /*new_process=*/false, witness);
  if (alone.size() != output.actual.size() || behind.size() != alone.size())
    return false;
  const auto others =
      std::count_if(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
        return alone[n] != behind[n] &&
               !(std::isnan(alone[n]) && std::isnan(behind[n]));
      });
  return 2 * others >= std::ssize(output.wrong);
}

}  // namespace

std::optional<Claim> claim_of_memory(const Wrongs& wrongs,
                                     const KernelUnderTest& kernel,
                                     Executor& executor, TimeUse& time,
                                     int* calls) {
  const auto witness = std::make_shared<Witness>(
      kernel.judged, kernel.index, executor, time, kMostOfWitness);
  Claim claim{
      "other numbers behind another call than in a new process: what that one "
      "left, or memory that nobody wrote",
      [witness](const WrongAnswer& answer, const WrongOutput& output) {
        return hangs_on_memory(answer, output, *witness);
      },
      Stage::kUnknown,
      /*is_cheap=*/true};
  const size_t looked = std::min(wrongs.size(), kFirstAnswers);
  const bool is_so = std::all_of(
      wrongs.begin(), wrongs.begin() + looked, [&](const auto& one) {
        return claim.is_true_of(*one.first, *one.second);
      });
  *calls += witness->calls_made();
  return is_so ? std::optional(std::move(claim)) : std::nullopt;
}

}  // namespace qkvet::diagnosis
