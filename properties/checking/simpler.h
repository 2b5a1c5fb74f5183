// SPDX-License-Identifier: Apache-2.0
// Internals of simpler_cases(): collecting candidates, shared by all subjects.
#ifndef QKVET_PROPERTIES_CHECKING_SIMPLER_H_
#define QKVET_PROPERTIES_CHECKING_SIMPLER_H_

#include <algorithm>

#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"
#include "properties/sequences/simpler_stories.h"

namespace qkvet::properties {

// The size of a case: its extents, and the commands and tokens of its story.
int64_t size_of(const Case& value);

class Collector {
 public:
  Collector(const Law& law, const Case& origin, bool tiny = true)
      : tries_tiny(tiny), law_(law), origin_(origin) {}

  // Whether all of the tiniest shapes are wanted, which are most candidates.
  const bool tries_tiny;

  // Adds the origin with `change`, if that is a valid, other case. With
  // `smaller`, only if its extents are smaller even after the law has
  // constrained it, so that plainer and wilder data cannot alternate for ever.
  template <class Change>
  void add(Change change, bool smaller = false) {
    Case candidate = origin_;
    change(candidate);
    // A rotation stays while channels go.
    if (candidate.rope.channels >= candidate.shape.d)
      candidate.rope.channels = 0;
    if (candidate.rope.style != RopeStyle::kNone &&
        candidate.rope.channels == 0)
      candidate.shape.d += candidate.shape.d % 2;
    const Shape& heads = candidate.shape;
    if (heads.Hkv < 1 || heads.H < 1 || heads.H % heads.Hkv != 0) return;
    // Single values that are now outside: moved inside, and left out.
    if (!candidate.set.empty())
      if (Case moved = candidate; move_set_values(moved)) keep(moved, smaller);
    keep(std::move(candidate), smaller);
  }
  // Without the option, unless the law puts it back: the two could then
  // alternate for ever.
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

// Storage f32, no scale of its own.
void add_simpler_numbers(const Case& value, Collector& out);
// Plainer numbers, flags and choices of the options.
void add_simpler_fields(const Case& value, Collector& out);
// The same, without each option, and with plainer tensors of those that stay.
void add_simpler_options(const Case& value, Collector& out);
// Plainer recipes for these tensors, small seeds, fewer set values.
void add_plainer_data(const Case& value,
                      std::initializer_list<Recipe Case::*> tensors,
                      Collector& out);

// Without the rotation, and with it on two channels less.
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
