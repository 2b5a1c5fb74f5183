// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/earlier_calls.h"

#include <algorithm>

#include "diagnosis/where/setting.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr uint64_t kSeedOfEarlier = 0x4541;  // any: the same for every search
constexpr int kPlannedBefore = 96, kPlannedAtOnce = 4;
// An unread list of calls proves nothing.
constexpr size_t kMostBefore = 3;
// Laws of more calls are sequences themselves. In those that begin in a new
// process, each call is a part of one.
constexpr size_t kMostCallsAlone = 16, kMostCallsOfSequence = 64;
constexpr int64_t kValuesBefore[] = {1, 2, 3, 4, 5, 8, 16, 17, 33, 65, 300};

// An answer depends on its call alone, except in a story, where the cache keeps
// state, and for calls that share a plan or run at once.
bool is_about_single_calls(const Failure& failure) {
  const Domain& domain = failure.law->domain;
  return domain.subject != Subject::kCache && !domain.plans &&
         failure.judgement.kind != FailureKind::kHang;
}

bool are_single(const std::vector<KernelCall>& calls) {
  return std::none_of(calls.begin(), calls.end(), [](const KernelCall& call) {
    return call.plan_use != PlanUse::kNone || call.at_once;
  });
}

// Whether the law holds; nullopt if it does not apply. All calls use the same
// memory, so that addresses decide nothing. A law that begins in a new process
// determines its own addresses.
std::optional<bool> passes(const Failure& failure, bool each_alone,
                           Witness& witness) {
  auto evidence = witness.prepare(*failure.law, failure.smallest);
  if (evidence == nullptr || !are_single(evidence->calls)) return std::nullopt;
  const bool begins_anew = evidence->calls.front().new_process;
  evidence->calls.front().new_process = true;
  for (KernelCall& call : evidence->calls) {
    call.same_place |= !begins_anew;
    call.new_process |= each_alone;
  }
  evidence = witness.ask(std::move(evidence));
  if (evidence == nullptr) return std::nullopt;
  return !evidence->failed();
}

// Twice, because an unsteady case may pass once.
bool passes_twice(const Failure& failure, bool each_alone, Witness& witness) {
  return passes(failure, each_alone, witness).value_or(false) &&
         passes(failure, each_alone, witness).value_or(false);
}

bool fails_twice(const Failure& failure, Witness& witness) {
  return !passes(failure, /*each_alone=*/false, witness).value_or(true) &&
         !passes(failure, /*each_alone=*/false, witness).value_or(true);
}

// Calls that are all wrong in the same way may pass a law that compares them.
// Scratch that is never written has that effect: it is the same in each new
// process.
bool is_right_alone(const Failure& failure, Witness& witness) {
  const Law& truth = law_of_answers(failure.smallest);
  return failure.law == &truth ||
         is_right_in_new_process(failure.smallest, witness);
}

bool case_fails_after(const std::vector<Case>& before, const Failure& failure,
                      Witness& witness) {
  const auto evidence =
      witness.ask_after(before, *failure.law, failure.smallest);
  return evidence != nullptr && evidence->failed();
}

class EarlierSearch {
 public:
  EarlierSearch(const Failure& failure, const KernelUnderTest& kernel,
                Witness& witness)
      : failure_(failure),
        witness_(witness),
        setting_(agreement_about(failure.law->domain.subject),
                 Setting::Data::kOfPlan, failure.smallest, kernel) {}

  std::vector<Case> run() {
    for (const std::vector<Case>& group : groups()) {
      if (witness_.is_too_slow()) break;
      if (group.empty() || !fails_after(group)) continue;
      std::vector<Case> fewest = with_fewest(group);
      if (fewest.size() <= kMostBefore &&
          calls_decide(fewest, failure_, witness_))
        return fewest;
    }
    return {};
  }

 private:
  bool fails_after(const std::vector<Case>& before) {
    return case_fails_after(before, failure_, witness_);
  }

  // Returns a single call if one suffices, else a subset without superfluous
  // calls.
  std::vector<Case> with_fewest(std::vector<Case> before) {
    for (size_t n = before.size(); n-- > 0 && before.size() > 1;)
      if (fails_after({before[n]})) return {before[n]};
    for (size_t n = before.size(); n-- > 0 && before.size() > 1;) {
      std::vector<Case> fewer = before;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(n));
      if (fails_after(fewer)) before = std::move(fewer);
    }
    return before;
  }

  void add(const Case& other, std::vector<Case>& group) const {
    if (!invalid_reason(other).empty()) return;
    const Case dressed = setting_.dressed(other);
    if (setting_.allows(dressed) && !(dressed == failure_.smallest))
      group.push_back(dressed);
  }

  // The likeliest first: kept state is usually found again by some of a call's
  // properties, and the call differs in the others.
  std::vector<std::vector<Case>> groups() const {
    const Case& own = failure_.smallest;
    std::vector<std::vector<Case>> all;
    const auto add_alone = [&](const Case& other) {
      all.emplace_back();
      add(other, all.back());
    };
    Case other = own;
    for (int n = 0; n < kLayoutCount; ++n) {
      other.layout = static_cast<Layout>(n);
      if (other.layout != Layout::kFar) add_alone(other);
    }
    other = own;
    other.seed += 1;
    add_alone(other);
    other.q = other.k = other.v = make_recipe(RecipeKind::kNormal);
    add_alone(other);
    other = own;
    for (const int64_t block : {1, 2, 3, 4}) {
      other.listed.block = block;
      if (own.listed.entries > 0) add_alone(other);
    }
    add_numbers(all);
    for (const Case& fewer : variations_of_options(own, setting_))
      add_alone(fewer);
    add_planned(all);
    return all;
  }

  // With the extents of the case, a few at a time, because the first of them
  // may keep the right state. And with their own extents.
  void add_planned(std::vector<std::vector<Case>>& all) const {
    for (int n = 0; n < kPlannedBefore; ++n) {
      if (n % kPlannedAtOnce == 0) all.emplace_back();
      Case planned = with_extents_of(setting_.planned(kSeedOfEarlier, n + 1),
                                     failure_.smallest);
      planned.causal = failure_.smallest.causal;
      add(planned, all.back());
    }
    all.emplace_back();
    for (int n = 0; n < kPlannedBefore; ++n)
      add(setting_.planned(kSeedOfEarlier, n + 1), all.back());
  }

  // Calls that differ in one number, with several values of it.
  void add_numbers(std::vector<std::vector<Case>>& all) const {
    for (const Term& term : vocabulary()) {
      if (term.kind != Term::Kind::kNumber || is_of_scores(term)) continue;
      all.emplace_back();
      for (const int64_t to : kValuesBefore)
        if (const auto other = with_term(failure_.smallest, term, to))
          add(*other, all.back());
    }
  }

  const Failure& failure_;
  Witness& witness_;
  Setting setting_;
};

}  // namespace

std::string EarlierCalls::text() const {
  std::string after;
  for (const Case& one : before)
    after += (after.empty() ? "" : " and ") + to_string(one);
  switch (part) {
    case Part::kNone:
      break;
    case Part::kUnknown:
      return "The case alone passes, in a new process, twice; no earlier call "
             "was found after which it fails there.";
    case Part::kOfLaw:
      return "An earlier call decides: the law holds where each of its calls "
             "has a process of its own.";
    case Part::kTheseOnes:
      return "An earlier call decides: the case passes in a new process, and "
             "fails there after " +
             after + ".";
  }
  return "";
}

bool is_right_in_new_process(const Case& value, Witness& witness) {
  auto evidence = witness.prepare(law_of_answers(value), value);
  if (evidence == nullptr || !are_single(evidence->calls)) return true;
  for (KernelCall& call : evidence->calls) call.new_process = true;
  evidence = witness.ask(std::move(evidence));
  return evidence == nullptr || !evidence->failed();
}

EarlierCalls part_of_earlier_calls(const Failure& failure, Witness& witness) {
  using Part = EarlierCalls::Part;
  if (!is_about_single_calls(failure)) return {};
  const auto evidence = witness.prepare(*failure.law, failure.smallest);
  if (evidence == nullptr || evidence->calls.empty() ||
      !are_single(evidence->calls))
    return {};
  const size_t calls = evidence->calls.size();
  const bool is_steady = failure.repeats_failed == failure.repeats;
  // A law that begins in a new process is about the state that its own calls
  // leave.
  const bool begins_anew = evidence->calls.front().new_process;
  if (!begins_anew) {
    const auto alone = passes(failure, /*each_alone=*/false, witness);
    if (!alone) return {};
    if (*alone)
      return {passes(failure, /*each_alone=*/false, witness).value_or(false)
                  ? Part::kUnknown
                  : Part::kNone,
              {}};
  }
  const bool is_of_law =
      is_steady && calls > 1 &&
      calls <= (begins_anew ? kMostCallsOfSequence : kMostCallsAlone) &&
      passes_twice(failure, /*each_alone=*/true, witness) &&
      fails_twice(failure, witness) && is_right_alone(failure, witness);
  return {is_of_law ? Part::kOfLaw : Part::kNone, {}};
}

bool calls_decide(const std::vector<Case>& before, const Failure& failure,
                  Witness& witness) {
  for (int n = 0; n < 2; ++n)
    if (!passes_twice(failure, /*each_alone=*/false, witness) ||
        !case_fails_after(before, failure, witness))
      return false;
  return true;
}

std::vector<Case> find_earlier_calls(const Failure& failure,
                                     const KernelUnderTest& kernel,
                                     Witness& witness) {
  return EarlierSearch(failure, kernel, witness).run();
}

}  // namespace qkvet::diagnosis
