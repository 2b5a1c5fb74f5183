// SPDX-License-Identifier: Apache-2.0
// Opens the libraries of testdata/ and calls the kernels of bad_plugin.cpp, for
// tests.
#ifndef QKVET_CORE_TESTING_BAD_PLUGIN_CALLS_H_
#define QKVET_CORE_TESTING_BAD_PLUGIN_CALLS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/door/executor.h"

namespace qkvet {

inline constexpr Placement kPlacements[] = {
    Placement::kEnd, Placement::kEndAligned, Placement::kStart};

inline std::string plugin(const std::string& name) {
  return std::string(QKVET_BAD_DIR) + "/" + name + ".so";
}

// Limits of time that a busy machine does not meet by accident.
inline SandboxOptions patient_options() {
  SandboxOptions options;
  options.worker = QKVET_WORKER;
  options.hang_floor_seconds = 60;
  options.resident_limit = int64_t{256} << 20;
  return options;
}

// For tests of the limits of time themselves, one limit each: on a busy machine
// a kernel that computes without end may wait for a processor longer than any
// short limit of time without progress.
inline SandboxOptions soon_hanging() {
  SandboxOptions options = patient_options();
  options.hang_floor_seconds = 0.2;
  options.stall_seconds = 600;
  return options;
}
inline SandboxOptions soon_stalling() {
  SandboxOptions options = patient_options();
  options.stall_seconds = 0.4;
  return options;
}

inline std::unique_ptr<Executor> sandbox(
    const SandboxOptions& options = patient_options(),
    const std::string& name = "bad") {
  Opened opened = open_sandbox({plugin(name), ""}, options);
  EXPECT_NE(opened.executor, nullptr) << opened.error;
  return std::move(opened.executor);
}

inline std::unique_ptr<Executor> in_process(const std::string& name = "bad") {
  Opened opened = open_in_process({plugin(name), ""});
  EXPECT_NE(opened.executor, nullptr) << opened.error;
  return std::move(opened.executor);
}

// Tests that a kernel passes in a sandbox and in this process.
class BothWays : public testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<Executor> open(const std::string& name) {
    return GetParam() ? sandbox(patient_options(), name) : in_process(name);
  }
};
inline std::string way_name(const testing::TestParamInfo<bool>& way) {
  return way.param ? "Sandbox" : "InProcess";
}

// q is [1, 1, 5, 3]: 60 bytes, no multiple of 64.
struct BadInputs {
  explicit BadInputs(Placement placement = Placement::kEnd) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    call.shape = {1, 1, 1, 5, 7, 3, 3};
    call.placement = placement;
    call.q = call.k = call.v = reinterpret_cast<const std::byte*>(data.data());
  }
  std::vector<float> data = std::vector<float>(4096);
  KernelCall call;
};

inline int number_of(const Executor& executor, const std::string& name,
                     const std::string& family = "bad") {
  for (size_t i = 0; i < executor.kernels().size(); ++i)
    if (executor.kernels()[i].name == family + "/" + name)
      return static_cast<int>(i);
  ADD_FAILURE() << "no kernel " << name;
  return -1;
}

inline CallOutcome run_call(Executor& executor, const std::string& name,
                            const KernelCall& call,
                            const std::string& family = "bad") {
  auto outcomes =
      executor.run(number_of(executor, name, family), {&call, size_t{1}});
  EXPECT_EQ(outcomes.size(), 1u);
  return std::move(outcomes.at(0));
}

inline CallOutcome run_one(Executor& executor, const std::string& name,
                           Placement placement = Placement::kEnd) {
  return run_call(executor, name, BadInputs(placement).call);
}

inline void expect_copy(const CallOutcome& outcome) {
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.unwritten);
  ASSERT_EQ(outcome.o.size(), 60u);
  const BadInputs inputs;
  EXPECT_EQ(std::memcmp(outcome.o.data(), inputs.call.q, 60), 0);
}

// Runs the kernel, and then a good one in the same executor.
inline CallOutcome survive(Executor& executor, const std::string& name,
                           Placement placement = Placement::kEnd) {
  CallOutcome outcome = run_one(executor, name, placement);
  expect_copy(run_one(executor, "copy", placement));
  return outcome;
}

// The kernel's text when `function` ("forward()") refused its arguments.
inline std::string refusal_of(const CallOutcome& outcome,
                              const std::string& function) {
  EXPECT_EQ(outcome.status, CallStatus::kRefused);
  const std::string lead = function + " returned INVALID_ARGUMENT: ";
  EXPECT_EQ(outcome.text.substr(0, lead.size()), lead);
  return outcome.text.substr(std::min(lead.size(), outcome.text.size()));
}

inline void expect_outcome(const CallOutcome& outcome, CallStatus status,
                           const std::string& text) {
  EXPECT_EQ(outcome.status, status) << text;
  EXPECT_EQ(outcome.text, text);
}

inline void expect_fault(const std::optional<MemoryFault>& fault,
                         std::optional<TensorName> tensor, bool is_write,
                         bool before_start, int64_t bytes) {
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->tensor, tensor);
#if defined(__x86_64__)
  EXPECT_EQ(fault->is_write, is_write);
#else
  (void)is_write;
#endif
  EXPECT_EQ(fault->before_start, before_start);
  EXPECT_EQ(fault->bytes, bytes);
}

}  // namespace qkvet

#endif  // QKVET_CORE_TESTING_BAD_PLUGIN_CALLS_H_
