// SPDX-License-Identifier: Apache-2.0
// Inside of simpler_cases(): collecting candidates, and what all subjects
// share.
#ifndef QKVET_PROPERTIES_CHECKING_SIMPLER_H_
#define QKVET_PROPERTIES_CHECKING_SIMPLER_H_

#include <algorithm>

#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::properties {

// What counts as the size of a case: its extents, and the commands and tokens
// of its story.
int64_t size_of(const Case& value);

class Collector {
 public:
  Collector(const Law& law, const Case& origin, bool tiny = true)
      : tries_tiny(tiny), law_(law), origin_(origin) {}

  // Whether all of the tiniest shapes are wanted, which are most candidates.
  const bool tries_tiny;

  // Adds what `change` makes of the origin, if that is a valid, other case;
  // with `smaller` only if its extents are smaller even after the law has
  // constrained it, so that plainer and wilder data cannot take turns for ever.
  template <class Change>
  void add(Change change, bool smaller = false) {
    Case candidate = origin_;
    change(candidate);
    // A rotation stays while channels go.
    if (candidate.rope.style != RopeStyle::kNone)
      candidate.shape.d += candidate.shape.d % 2;
    const Shape& heads = candidate.shape;
    if (heads.Hkv < 1 || heads.H < 1 || heads.H % heads.Hkv != 0) return;
    // Single values that stand outside now: moved inside, and left out.
    if (!candidate.set.empty())
      if (Case moved = candidate; move_set_values(moved)) keep(moved, smaller);
    keep(std::move(candidate), smaller);
  }
  // Without the option, unless the law puts one back in its place: then the
  // two could take turns for ever.
  void drop(uint64_t option) {
    const Case without = constrained(law_, keep_allowed(origin_, ~option));
    if ((options_of(without) & option) == 0)
      add([&](Case& candidate) { candidate = without; });
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  void keep(Case candidate, bool smaller) {
    candidate = constrained(law_, std::move(candidate));
    if (smaller && size_of(candidate) >= size_of(origin_)) return;
    if (candidate == origin_ || !invalid_reason(candidate).empty()) return;
    if (std::find(cases_.begin(), cases_.end(), candidate) == cases_.end())
      cases_.push_back(std::move(candidate));
  }

  const Law& law_;
  const Case& origin_;
  std::vector<Case> cases_;
};

// Passes lower numbers than `now` to `takes` until it returns true; whether it
// did.
template <class Takes>
bool try_lower(int64_t now, int64_t least, Takes takes) {
  for (const int64_t next : {least, now / 2, now - 1})
    if (next >= least && next < now && takes(next)) return true;
  return false;
}

// The same with a command of a story or of a recording: fewer tokens or
// queries, or an eviction nearer to the first token.
template <class Command, class Takes>
bool try_lower(const Command& command, Takes takes) {
  const auto with = [&](int64_t Command::*number) {
    return [&, number](int64_t next) {
      Command less = command;
      less.*number = next;
      return takes(less);
    };
  };
  return try_lower(command.count, least_count(command.verb),
                   with(&Command::count)) ||
         try_lower(command.first, 0, with(&Command::first));
}

// Fewer options: storage f32, no scale of its own.
void add_simpler_options(const Case& value, Collector& out);
// Plainer recipes for these tensors, small seeds, fewer set values.
void add_plainer_data(const Case& value,
                      std::initializer_list<Recipe Case::*> tensors,
                      Collector& out);

// Without the rotation, or a plainer one, on two channels less.
void add_simpler_rope(const Case& value, Collector& out);

// Shorter lengths and packed members, with and without their extents.
void add_simpler_lengths(const Case& value, Collector& out);

// Simpler cases of each subject.
void add_simpler_attention(const Case& value, Collector& out);
void add_simpler_backward(const Case& value, Collector& out);
void add_simpler_story(const Case& value, Collector& out);
void add_simpler_merge(const Case& value, Collector& out);
void add_simpler_layer(const Case& value, Collector& out);
void add_simpler_layer_backward(const Case& value, Collector& out);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_SIMPLER_H_
