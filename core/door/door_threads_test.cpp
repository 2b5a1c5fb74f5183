// SPDX-License-Identifier: Apache-2.0
// Calls that are made at once, on a kernel that watches who else is at work.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/door/executor.h"

namespace qkvet::door_threads_test {
namespace {

// The kernel's observations since it was last opened.
struct Seen {
  std::mutex mutex;
  std::set<const void*> contexts, workspaces;
  std::set<const void*> at_work;  // contexts
  bool shared_context = false;
  int opened = 0, closed = 0, calls = 0;
  size_t most_at_once = 0;
  bool spoils = false;  // returns other values while others are at work
  bool leaves = false;  // does not return at all then
  int contexts_at_most = 100;
} seen;

qkvet_status open_context(const qkvet_kernel*, const qkvet_exec*,
                          qkvet_context** context, qkvet_text* why) {
  if (seen.opened == seen.contexts_at_most) {
    std::strncpy(why->data, "one context is enough", why->capacity);
    return QKVET_UNAVAILABLE;
  }
  ++seen.opened;
  *context = reinterpret_cast<qkvet_context*>(new int);
  return QKVET_OK;
}
void close_context(const qkvet_kernel*, qkvet_context* context) {
  ++seen.closed;
  delete reinterpret_cast<int*>(context);
}
qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                       const qkvet_forward_args*, size_t* bytes) {
  *bytes = 64;
  return QKVET_OK;
}

// One head, one key: o is v, plus a change while other calls are running.
qkvet_status forward(const qkvet_kernel*, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text*) {
  float spoiled = 0;
  bool left = false;
  {
    const std::lock_guard<std::mutex> lock(seen.mutex);
    ++seen.calls;
    seen.contexts.insert(context);
    seen.workspaces.insert(exec->workspace);
    seen.shared_context |= !seen.at_work.insert(context).second;
    seen.most_at_once = std::max(seen.most_at_once, seen.at_work.size());
  }
  // Others come, if there are any.
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  {
    const std::lock_guard<std::mutex> lock(seen.mutex);
    if (seen.spoils && seen.most_at_once > 1) spoiled = 1;
    left = seen.leaves && seen.most_at_once > 1;
    seen.at_work.erase(context);
  }
  if (left) return QKVET_OK;
  const float o = *static_cast<const float*>(args->v.data) + spoiled;
  std::memcpy(args->o.data, &o, sizeof o);
  return QKVET_OK;
}

qkvet_status open_library(const qkvet_host*, const char*, qkvet_library* out,
                          qkvet_text*) {
  static const qkvet_capabilities kCan = [] {
    qkvet_capabilities c = {};
    c.struct_size = sizeof c;
    c.options = QKVET_OPTION_DEFAULT_SCALE;
    c.flags = QKVET_FLAG_REENTRANT;
    return c;
  }();
  static const qkvet_kernel kKernel = [] {
    qkvet_kernel k = {};
    k.struct_size = sizeof k;
    k.name = "watching/kernel";
    k.description = "watches who else is at work";
    k.capabilities = &kCan;
    k.open = open_context;
    k.close = close_context;
    k.workspace = workspace;
    k.forward = forward;
    return k;
  }();
  static const qkvet_kernel* const kKernels[] = {&kKernel};
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "watching";
  out->kernel_count = 1;
  out->kernels = kKernels;
  return QKVET_OK;
}

constexpr std::array<float, 3> kNumbers = {3, 5, 7};

std::vector<KernelCall> three_calls(bool at_once) {
  std::vector<KernelCall> calls;
  for (const float& number : kNumbers) {
    KernelCall call;
    call.shape = {1, 1, 1, 1, 1, 1, 1};
    call.q = call.k = call.v = reinterpret_cast<const std::byte*>(&number);
    call.at_once = at_once;
    calls.push_back(call);
  }
  return calls;
}

std::vector<float> answers_of(const std::vector<CallOutcome>& outcomes) {
  std::vector<float> answers;
  for (const CallOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    EXPECT_FALSE(outcome.damage);
    float o = 0;
    if (outcome.o.size() == sizeof o)
      std::memcpy(&o, outcome.o.data(), sizeof o);
    answers.push_back(o);
  }
  return answers;
}

std::vector<CallOutcome> run_on_fresh_library(bool at_once) {
  seen.contexts.clear();
  seen.workspaces.clear();
  seen.opened = seen.closed = seen.calls = 0;
  seen.most_at_once = 0;
  seen.shared_context = false;
  const Opened opened = open_in_process({"watching", "", open_library});
  EXPECT_NE(opened.executor, nullptr) << opened.error;
  return opened.executor->run(0, three_calls(at_once));
}

TEST(CallsAtOnceInTheDoor, HaveThreadsContextsAndWorkspacesOfTheirOwn) {
  const std::vector<float> right(kNumbers.begin(), kNumbers.end());
  EXPECT_EQ(answers_of(run_on_fresh_library(/*at_once=*/true)), right);
  EXPECT_EQ(seen.most_at_once, 3u);
  EXPECT_FALSE(seen.shared_context);
  EXPECT_EQ(seen.contexts.size(), 3u);
  EXPECT_GE(seen.workspaces.size(), 3u);
  EXPECT_EQ(seen.opened, 3);
  EXPECT_EQ(seen.closed, 3);
  EXPECT_GT(seen.calls, 6);
}

TEST(CallsAtOnceInTheDoor, OthersAreMadeOneByOne) {
  answers_of(run_on_fresh_library(/*at_once=*/false));
  EXPECT_EQ(seen.most_at_once, 1u);
  EXPECT_EQ(seen.opened, 1);
  EXPECT_EQ(seen.calls, 3);
}

TEST(CallsAtOnceInTheDoor, OtherBitsStayWhereTheyWereWritten) {
  seen.spoils = true;
  const std::vector<float> answers =
      answers_of(run_on_fresh_library(/*at_once=*/true));
  seen.spoils = false;
  // Counts the round in which the first of them was met by another one.
  int others = 0;
  for (size_t n = 0; n < kNumbers.size(); ++n) {
    others += answers[n] == kNumbers[n] + 1;
    EXPECT_TRUE(answers[n] == kNumbers[n] || answers[n] == kNumbers[n] + 1);
  }
  EXPECT_GT(others, 0);
}

// Outputs are cleared after the call made alone, so that elements that the next
// one leaves unwritten are NaN.
TEST(CallsAtOnceInTheDoor, WhatWasNotWrittenIsNotWhatWasThere) {
  seen.leaves = true;
  const std::vector<float> answers =
      answers_of(run_on_fresh_library(/*at_once=*/true));
  seen.leaves = false;
  EXPECT_TRUE(std::any_of(answers.begin(), answers.end(),
                          [](float o) { return std::isnan(o); }));
}

TEST(CallsAtOnceInTheDoor, ASecondContextThatIsRefusedIsSaid) {
  seen.contexts_at_most = 1;
  const auto outcomes = run_on_fresh_library(/*at_once=*/true);
  seen.contexts_at_most = 100;
  EXPECT_EQ(outcomes[0].status, CallStatus::kDone);
  EXPECT_EQ(outcomes[1].status, CallStatus::kRefused);
  EXPECT_NE(outcomes[1].text.find("one context is enough"), std::string::npos)
      << outcomes[1].text;
}

}  // namespace
}  // namespace qkvet::door_threads_test
