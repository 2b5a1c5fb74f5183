// SPDX-License-Identifier: Apache-2.0
// Guides an engine, with or without code coverage: by an input's distance to
// its bound, to the largest number and to a longer chain of rescalings, and by
// its combination of options. Each step has a counter: an input that reaches a
// step for the first time stays in the corpus.
#ifndef QKVET_FUZZ_HUNT_GUIDE_H_
#define QKVET_FUZZ_HUNT_GUIDE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fuzz/input/input.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {

// One for what was executed at all: an engine gives up on a first input that
// shows nothing.
inline constexpr size_t kGuideCounters = 1 << 14;

class Guide {
 public:
  // The parts that the guide observes: kNumbers leaves out extents and options,
  // which would let a corpus of numbers grow in a thousand directions.
  enum class Sight : uint8_t { kNothing, kNumbers, kAll };
  // Counters of the engine, kGuideCounters of them; with kNothing only the
  // first one is set.
  Guide(std::span<uint8_t> counters, Sight sight)
      : counters_(counters), sight_(sight) {}

  // Before a kernel is called: the properties of the case.
  void look_at(const FuzzInput& input, size_t law_number, const Inputs& inputs);
  // The result for an input of bytes; a new kind of result is progress.
  void answered(const std::string& said);
  // The result of a kernel: error/bound of its worst element.
  void judged(size_t law_number, size_t kernel, double ratio);

 private:
  void set(size_t counter) { counters_[counter] = 1; }
  void reach(size_t first, size_t count, int64_t step);
  void look_at_values(const Case& value, const Inputs& inputs);
  void look_at_options(const FuzzInput& input, size_t law_number);
  void look_at_story(const Story& story);

  std::span<uint8_t> counters_;
  Sight sight_;
};

// Targets that change mostly numbers are guided only by numbers.
Guide::Sight sight_of(const FuzzTarget& target);

// Properties of the scores of some rows, over the keys that they see; also for
// tests.
struct ScoreShape {
  double largest = 0;         // |score|
  double largest_gap = 0;     // between the maximum of a row and another key
  double lowest_maximum = 0;  // of a row, if it is below 0
  int64_t longest_chain = 0;  // new maxima of a row, from its first key on
};
// For attention: the shape of the scores, over rows until about 2^15 products
// are spent.
ScoreShape score_shape(const Case& value, const Inputs& inputs);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_HUNT_GUIDE_H_
