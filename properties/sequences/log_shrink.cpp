// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/log_shrink.h"

#include <algorithm>

#include "properties/sequences/simpler_stories.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace {

constexpr int kMaxTries = 4000;
// Commands of all tries together: some twenty seconds.
constexpr size_t kMaxTriedCommands = 1'000'000;
// A try that hangs takes at least two seconds.
constexpr int kMaxHangingTries = 1;
constexpr int kRepeats = 3;
// Up to this number a try checks every answer, beyond it only that of its last
// command. An earlier failure is shorter, and only then worth the time.
constexpr size_t kAllAnswers = 1000;

class Shrinker {
 public:
  Shrinker(const StoryLog& log, const LogFailure& found,
           const LogKernel& kernel)
      : geometry_(log.geometry),
        kernel_(kernel),
        best_{{log.story.begin(),
               log.story.begin() + static_cast<ptrdiff_t>(found.at) + 1},
              log.geometry.shape.B,
              found} {}

  ShrunkLog shrink();

 private:
  bool hangs() const {
    return best_.failure.judgement.kind == FailureKind::kHang;
  }
  std::optional<LogFailure> failure_of(const Story& story, int64_t sequences);
  bool fails(Story story, int64_t sequences);
  void thin();

  Case geometry_;
  const LogKernel& kernel_;
  ShrunkLog best_;
  int tries_ = 0;
  size_t tried_commands_ = 0;
};

// The failure of this story, if it fails like the recording did.
std::optional<LogFailure> Shrinker::failure_of(const Story& story,
                                               int64_t sequences) {
  LogChecks checks;
  checks.every = story.size() <= kAllAnswers ? 1 : 0;
  geometry_.shape.B = sequences;
  LogRun run = run_log(geometry_, story, kernel_, checks);
  tried_commands_ += run.commands;
  const bool alike =
      run.failure && run.failure->part == best_.failure.part &&
      run.failure->judgement.kind == best_.failure.judgement.kind;
  return alike ? std::move(run.failure) : std::nullopt;
}

// Whether this story fails in the same way; it is then the best one.
bool Shrinker::fails(Story story, int64_t sequences) {
  if (story.empty() || tries_ >= (hangs() ? kMaxHangingTries : kMaxTries) ||
      tried_commands_ + story.size() > kMaxTriedCommands)
    return false;
  ++tries_;
  auto failure = failure_of(story, sequences);
  if (!failure) return false;
  story.resize(failure->at + 1);
  best_.story = std::move(story);
  best_.sequences = sequences;
  best_.failure = std::move(*failure);
  return true;
}

// Removes runs of commands as long as the rest fails: half of them at once, a
// quarter, ..., one. The last command is the one that fails.
void Shrinker::thin() {
  const auto count = [&] { return best_.story.size() - 1; };
  for (size_t size = std::max<size_t>(count() / 2, 1);; size /= 2) {
    bool again = true;
    while (again) {
      again = false;
      for (size_t end = count(); end > 0;) {
        const size_t from = end > size ? end - size : 0;
        Story rest = best_.story;
        rest.erase(rest.begin() + static_cast<ptrdiff_t>(from),
                   rest.begin() + static_cast<ptrdiff_t>(end));
        if (fails(std::move(rest), best_.sequences)) again = size == 1;
        end = std::min(from, count());
      }
    }
    if (size == 1) return;
  }
}

ShrunkLog Shrinker::shrink() {
  best_.repeats = hangs() ? 0 : kRepeats;
  for (int i = 0; i < best_.repeats; ++i)
    best_.repeats_failed +=
        failure_of(best_.story, best_.sequences).has_value();
  if (best_.repeats_failed < best_.repeats) return std::move(best_);
  tried_commands_ = 0;
  fails(history_of_last(best_.story), best_.sequences);
  thin();
  const TakesStory takes = [&](SimplerStory next) {
    return !next.only_if_smaller &&
           sequences_needed(next.story) <= next.sequences &&
           fails(std::move(next.story), next.sequences);
  };
  while (try_simpler_stories(Story(best_.story), best_.sequences, takes)) {
  }
  return std::move(best_);
}

}  // namespace

std::optional<Case> case_of_log(const Case& geometry, const Story& story,
                                int64_t sequences, const KernelInfo& kernel) {
  Case value = geometry;
  value.shape.B = sequences;
  if (sequences > kMostSequences || story.size() > kMostCommands)
    return std::nullopt;
  value.story = story;
  // In a case the capacity is hard, whatever the kernel does with it.
  for (const Snapshot& snapshot : play_story(story, story_rules(value, kernel)))
    for (const int64_t length : snapshot.lengths)
      value.capacity = std::max(value.capacity, length);
  constrain_extents_to_story(value);
  const bool valid =
      invalid_reason(value).empty() && to_string(value).size() <= kMaxCaseText;
  return valid ? std::optional(value) : std::nullopt;
}

ShrunkLog shrink_log(const StoryLog& log, const LogFailure& found,
                     const LogKernel& kernel) {
  return Shrinker(log, found, kernel).shrink();
}

}  // namespace qkvet::properties
