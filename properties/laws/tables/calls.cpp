// SPDX-License-Identifier: Apache-2.0
// A call gives its own answer: again, at once with others, after others, with
// more threads.
#include <string>

#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/merge_calls.h"
#include "properties/calls/other_calls.h"
#include "properties/calls/other_data.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/law_texts.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_calls {

// ---- One, two and three threads

void with_threads(const Case&, const KernelInfo& kernel, Plan& plan) {
  plan.unsupported = nondeterministic_reason(kernel);
  plan.calls.push_back(plan.calls[1]);
  for (size_t n = 0; n < plan.calls.size(); ++n)
    plan.calls[n].threads = static_cast<int>(n) + 1;
}

void name_threads(const JudgeInput& input, CallPair& pair) {
  constexpr const char* kThreadsNames[] = {
      "with one thread", "with two threads", "with three threads"};
  constexpr const char* kOrderNames[] = {"with GPU threads in turn",
                                         "with GPU threads in reverse",
                                         "with GPU threads in random order"};
  const bool orders = input.kernel.orders_threads;
  const auto& names = orders ? kOrderNames : kThreadsNames;
  pair.first_name = names[0];
  pair.second_name = names[pair.second];
  pair.looks = orders
                   ? "a barrier is missing (__syncthreads, __syncwarp), or "
                     "threads race otherwise"
                   : "the work is divided so that parts are lost or raced for";
}

// ---- The same call again, after calls with other data and other shapes

std::vector<PlannedCall> of_other_shapes(const Case& value,
                                         const KernelInfo& kernel,
                                         const PlannedCall& call) {
  auto others = calls_of_other_shapes(value, kernel, call.operation);
  for (PlannedCall& other : others) {
    other.want_lse = call.want_lse;
    other.want_weights = call.want_weights;
  }
  return others;
}

Plan plan_again(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  const PlannedCall same = whole_call(value, kernel);
  plan.calls = {same, same, same};
  plan.calls[1].edit = put_all_other_data;
  for (PlannedCall& other : of_other_shapes(value, kernel, same)) {
    plan.calls.push_back(std::move(other));
    plan.calls.push_back(same);
  }
  return plan;
}

Judgement judge_again(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 2; n < input.calls.size(); n += 2) {
    const std::string name = std::string("again, after a call with ") +
                             (n == 2 ? "other data" : kOtherShapes[n / 2 - 2]);
    CallPair pair;
    pair.second = n;
    pair.first_name = "the first time";
    pair.second_name = name.c_str();
    pair.looks =
        input.value.backward
            ? "something is left over from another call: a sum that does not "
              "begin at zero, or is added up in another order each time"
            : "something is left over from another call";
    compare_all_bits(input, pair, judgement);
  }
  return judgement;
}

// ---- The same calls one by one and at once: the case, the case with other
// data, and a larger one. The executor makes them at once several times
// (core/door/door.h).

Plan plan_at_once(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = not_at_once_reason(kernel);
  const PlannedCall call = whole_call(value, kernel);
  plan.calls = {call, call};
  plan.calls[1].edit = put_all_other_data;
  if (value.subject() == Subject::kAttention) {
    const auto others = of_other_shapes(value, kernel, call);
    if (!others.empty()) plan.calls.push_back(others[0]);
  }
  add_at_once(plan);
  return plan;
}

Judgement judge_at_once(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 0; n < input.calls.size() / 2; ++n) {
    const CallView& call = input.calls[n];
    const CallPair pair = pair_at_once(input, n);
    if (!call.planned->variant) {
      compare_all_bits(input, pair, judgement);
      continue;
    }
    const Case& larger = *call.planned->variant;
    const Visibility seen(larger, *call.inputs,
                          ranges_in_window(input.kernel.dialect));
    compare_all_bits({larger, input.kernel, input.model, input.calls, &seen,
                      input.same_bits},
                     pair, judgement);
  }
  return judgement;
}

// ---- Texts that the subjects have in common

constexpr Law again(Law law) {
  law.precondition = "a deterministic kernel";
  law.reason = "A function has one value for one argument.";
  law.rounding = kSameOperations;
  law.own_plan = plan_again;
  law.own_judge = judge_again;
  return law;
}

constexpr Law at_once(Law law) {
  law.precondition =
      "a deterministic kernel on the CPU that declares reentrant";
  law.reason = kOwnArguments;
  law.rounding = kSameOperations;
  law.kept_for = "(a) it is bitwise, (c) it reaches what calls share";
  law.own_plan = plan_at_once;
  law.own_judge = judge_at_once;
  return law;
}

constexpr Law after_others(Law law) {
  law.reason = kOwnArguments;
  law.rounding =
      "The same operations on the same numbers give the same bits; of a kernel "
      "that is not deterministic each call is within its own bound.";
  law.kept_for =
      "(c) it reaches what a kernel keeps between calls, by extents, layout, "
      "option or address";
  law.own_plan = plan_calls_before;
  law.own_judge = judge_calls_before;
  return law;
}

constexpr Law threads(Law law) {
  law.precondition = "a deterministic kernel";
  law.reason = "How work is divided is no part of the formula.";
  law.rounding =
      "Bit for bit where the kernel declares threads_invariant; else each side "
      "within its own bound.";
  law.relation.claim = QKVET_FLAG_THREADS_INVARIANT;
  law.relation.more_plan = with_threads;
  return law;
}

constexpr Law kRows[] = {
    threads(
        {.id = "threads_change_nothing",
         .sentence =
             "Threads change nothing: one, two or three give the same output.",
         .formula = "forward(threads = n) = forward(threads = 1)",
         .kept_for = "(c) it reaches the borders between the shares of threads",
         .rank = 150,
         .domain = {.allows = kAllowListsAndFields},
         .relation = {.pair = name_threads}}),
    threads(
        {.id = "backward_threads_change_nothing",
         .sentence = "Threads change nothing: one, two or three give the same "
                     "gradients.",
         .formula = "backward(threads = n) = backward(threads = 1)",
         .kept_for = "(c) it reaches sums over rows that threads share: dk and "
                     "dv, or dq",
         .rank = 70,
         .domain = {.subject = Subject::kBackward, .allows = kAllowGradients},
         .relation = {.pair = name_threads}}),
    again({.id = "same_call_same_bits",
           .sentence = "The same call gives the same bits, whatever was called "
                       "in between: other data, and other shapes.",
           .formula = "forward(x) = forward(x)",
           .kept_for = "(a) it is bitwise, (c) it reaches what a kernel keeps "
                       "between calls",
           .rank = 140,
           .domain = {.allows = kAllowUnshared | QKVET_OPTION_KEY_LISTS |
                                kAllowFields}}),
    again(
        {.id = "backward_same_call_same_bits",
         .sentence =
             "The same call of backward() gives the same bits, whatever was "
             "called in between: other data, and other shapes.",
         .formula = "backward(x) = backward(x)",
         .kept_for = "(a) it is bitwise, (c) it reaches sums that are kept "
                     "between calls",
         .rank = 60,
         .domain = {.subject = Subject::kBackward, .allows = kAllowGradients}}),
    at_once({.id = "calls_at_once_change_nothing",
             .sentence = "Calls from several threads at once, each with a "
                         "context of its own, give what they give one by one, "
                         "where the kernel declares it.",
             .formula = "forward(x) || forward(y) = forward(x), forward(y)",
             .rank = 160,
             .domain = {.allows = kAllowUnshared | QKVET_OPTION_KEY_LISTS |
                                  kAllowFields}}),
    at_once(
        {.id = "backward_calls_at_once_change_nothing",
         .sentence = "Gradients from several threads at once, each with a "
                     "context of its own, are what they are one by one, where "
                     "the kernel declares it.",
         .formula = "backward(x) || backward(y) = backward(x), backward(y)",
         .rank = 75,
         .domain = {.subject = Subject::kBackward, .allows = kAllowGradients}}),
    at_once({.id = "layer_calls_at_once_change_nothing",
             .sentence = "Layers from several threads at once, each with a "
                         "context of its own, give what they give one by one, "
                         "where the kernel declares it.",
             .formula = "layer(x) || layer(y) = layer(x), layer(y)",
             .rank = 65,
             .domain = {.subject = Subject::kLayer, .allows = kLayerOptions},
             .constrain = constrain_layer}),
    at_once({.id = "layer_backward_calls_at_once_change_nothing",
             .sentence = "Gradients of layers from several threads at once, "
                         "each with a context of its own, are what they are "
                         "one by one, where the kernel declares it.",
             .formula = "layer_backward(x) || layer_backward(y) = "
                        "layer_backward(x), layer_backward(y)",
             .rank = 25,
             .domain = {.subject = Subject::kLayerBackward,
                        .allows = kLayerOptions},
             .constrain = constrain_layer}),
    after_others(
        {.id = "backward_calls_before_change_nothing",
         .sentence =
             "Gradients are those of their own call whatever calls of "
             "backward() came before: other data, another layout, options that "
             "come and go or have other values, other shapes.",
         .formula = "backward(x | y) = backward(x)",
         .precondition = "a call of backward() that differs from the case",
         .rank = 62,
         .domain = {.subject = Subject::kBackward, .allows = kAllowGradients}}),
    after_others(
        {.id = "layer_calls_before_change_nothing",
         .sentence =
             "A layer gives its own answer whatever layers were called before: "
             "other data, fused matrices or none, biases, a rotation and a "
             "causal rule that come and go, another scale, more tokens or few.",
         .formula = "layer(x | y) = layer(x)",
         .precondition = "a call of the layer that differs from the case",
         .rank = 62,
         .domain = {.subject = Subject::kLayer, .allows = kLayerOptions},
         .constrain = constrain_layer}),
    after_others(
        {.id = "layer_backward_calls_before_change_nothing",
         .sentence =
             "Gradients of a layer are those of their own call whatever calls "
             "came before: other data, biases, a rotation and a causal rule "
             "that come and go, another scale, more tokens or few.",
         .formula = "layer_backward(x | y) = layer_backward(x)",
         .precondition =
             "a call of layer_backward() that differs from the case",
         .rank = 32,
         .domain = {.subject = Subject::kLayerBackward,
                    .allows = kLayerOptions},
         .constrain = constrain_layer}),
    after_others(
        {.id = "merge_calls_before_change_nothing",
         .sentence = "A merge gives its own answer whatever merges came "
                     "before: other states, another layout, lists of states "
                     "that come and go, more rows and states or few.",
         .formula = "merge(x | y) = merge(x)",
         .precondition = "a merge that differs from the case",
         .rank = 92,
         .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
         .constrain = with_states<1>}),
};

}  // namespace of_calls

extern constinit const LawTable calls_laws{of_calls::kRows};

}  // namespace qkvet::properties
