// SPDX-License-Identifier: Apache-2.0
// Thousands of equal calls.
#include "properties/run/long_use.h"

#include <algorithm>

#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/merge_calls.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_long_use {

// Small, because it is made thousands of times, and with plain data, in which
// each key counts.
template <int64_t most_tokens>
Case small(Case value) {
  Shape& s = value.shape;
  s.Tq = std::min(s.Tq, most_tokens);
  s.Tk = std::min(s.Tk, most_tokens);
  value.q = value.k = value.v = value.d_o = {};
  value.set.clear();
  return value;
}

// A story is short, because it runs thousands of times, each time on a new
// cache.
Case short_story(Case value) {
  constexpr size_t kMostCommands = 12;
  if (value.story.size() > kMostCommands) value.story.resize(kMostCommands);
  return constrain_to_legal(std::move(value));
}

constexpr Law long_use(Law law) {
  law.reason =
      "A call has no other arguments than its own, and owns nothing after it.";
  law.rounding =
      "A deterministic kernel gives the same bits; of another one each answer "
      "is within its own bound.";
  law.kept_for = "(c) it reaches counters, and what is never given back";
  law.domain.lasts = true;
  law.own_plan = plan_long_use;
  law.own_judge = judge_long_use;
  return law;
}

constexpr Law kRows[] = {
    long_use(
        {.id = "long_use_changes_nothing",
         .sentence =
             "A call gives the same answer the thousandth time as the first "
             "time, and leaks no memory, no descriptor and no thread.",
         .formula = "forward(x | x .. x) = forward(x)",
         .rank = 567,
         .domain = {.free_v = false,
                    .free_data = false,
                    .allows =
                        kAllowUnshared | QKVET_OPTION_KEY_LISTS | kAllowFields},
         .constrain = small<64>}),
    long_use({.id = "cache_long_use_changes_nothing",
              .sentence = "A cache that is made, used and destroyed gives the "
                          "same answer the thousandth time as the first time, "
                          "and leaks no memory, no descriptor and no thread.",
              .formula = "story(x | x .. x) = story(x)",
              .rank = 125,
              .domain = {.subject = Subject::kCache, .allows = kAllowForms},
              .constrain = short_story}),
    long_use({.id = "backward_long_use_changes_nothing",
              .sentence = "A call of backward() gives the same answer the "
                          "thousandth time as the first time, and leaks no "
                          "memory, no descriptor and no thread.",
              .formula = "backward(x | x .. x) = backward(x)",
              .rank = 107,
              .domain = {.subject = Subject::kBackward,
                         .free_v = false,
                         .free_data = false,
                         .allows = kAllowGradients},
              .constrain = small<32>}),
    long_use({.id = "layer_long_use_changes_nothing",
              .sentence = "A call of a layer gives the same answer the "
                          "thousandth time as the first time, and leaks no "
                          "memory, no descriptor and no thread.",
              .formula = "layer(x | x .. x) = layer(x)",
              .rank = 87,
              .domain = {.subject = Subject::kLayer, .allows = kLayerOptions},
              .constrain = constrain_layer}),
    long_use({.id = "layer_backward_long_use_changes_nothing",
              .sentence = "A call of layer_backward() gives the same answer "
                          "the thousandth time as the first time, and leaks no "
                          "memory, no descriptor and no thread.",
              .formula = "layer_backward(x | x .. x) = layer_backward(x)",
              .rank = 33,
              .domain = {.subject = Subject::kLayerBackward,
                         .allows = kLayerOptions},
              .constrain = constrain_layer}),
    long_use(
        {.id = "merge_long_use_changes_nothing",
         .sentence =
             "A merge gives the same answer the thousandth time as the first "
             "time, and leaks no memory, no descriptor and no thread.",
         .formula = "merge(x | x .. x) = merge(x)",
         .rank = 93,
         .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
         .constrain = with_states<1>}),
};

}  // namespace of_long_use

extern constinit const LawTable long_use_laws{of_long_use::kRows};

}  // namespace qkvet::properties
