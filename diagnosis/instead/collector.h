// SPDX-License-Identifier: Apache-2.0
// Collects failing answers near a failure.
#ifndef QKVET_DIAGNOSIS_INSTEAD_COLLECTOR_H_
#define QKVET_DIAGNOSIS_INSTEAD_COLLECTOR_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "diagnosis/instead/facts.h"
#include "diagnosis/instead/instead.h"

namespace qkvet::diagnosis {

inline constexpr int kMostAsked = 48;
// Each costs as much as a hundred that end.
inline constexpr int kMostHung = 12;
// For stories that end in a call, because they have many calls.
inline constexpr int kMostStoriesEnded = 24;
// With fewer failing cases nothing is reported.
inline constexpr int kFewestCases = 3;

class Collector {
 public:
  explicit Collector(Witness& witness, size_t most_answers = kMostAnswers,
                     int most_asked = kMostAsked)
      : witness_(witness),
        most_answers_(most_answers),
        most_asked_(most_asked) {}

  bool is_full() const {
    return answers_.size() >= most_answers_ || asked_ >= most_asked_ ||
           hung_ >= kMostHung || stories_ended_ >= kMostStoriesEnded;
  }
  // Whether to stop drawing cases: cases of thousands of rows take time even if
  // they are not run.
  std::function<bool()> is_over() const {
    return [this] { return is_full() || witness_.is_too_slow(); };
  }
  void ask(const Case& value);
  // For caches: the story with the commands that the law adds.
  void ask_with_commands_of(const Law& law, const Case& value);
  // Works with any law.
  void note_touch(const Evidence* evidence);
  const std::vector<Touch>& touches() const { return touches_; }
  // Facts of failing cases that end in a call, and of those that are stored
  // wrongly.
  const std::vector<Facts>& ends() const { return ends_; }
  const std::vector<Facts>& stored() const { return stored_; }
  // The cheapest first: most descriptions are dropped by the first.
  std::vector<WrongAnswer> take();

 private:
  void ask_of_storage(const Case& value);

  Witness& witness_;
  size_t most_answers_;
  int most_asked_;
  std::set<std::string> known_;
  std::vector<WrongAnswer> answers_;
  std::vector<Touch> touches_;
  std::vector<Facts> ends_, stored_;
  int asked_of_storage_ = 0;
  int hung_ = 0;
  int stories_ended_ = 0;
  int asked_ = 0;
};

// Runs cases of a seed that should fail.
void ask_fresh(const Failure& failure, const FailsWhere& where, uint64_t seed,
               int count, Collector& collector);
// Runs the cases for which descriptions are searched. `answered`: the recorded
// answers, or null.
void ask_for_failing_answers(const Failure& failure, const FailsWhere& where,
                             const Answered* answered, Witness& witness,
                             Collector& collector);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_COLLECTOR_H_
