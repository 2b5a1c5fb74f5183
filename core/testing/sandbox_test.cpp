// SPDX-License-Identifier: Apache-2.0
// Every misbehaviour gets its outcome, and the next call works.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/read_file.h"
#include "core/door/executor.h"
#include "core/sandbox/worker_process.h"
#include "core/testing/bad_plugin_calls.h"

namespace qkvet::sandbox_test {
namespace {

TEST(Sandbox, DeadlySignalsAreCrashesWithAName) {
  const auto executor = sandbox();
  const struct {
    const char* kernel;
    const char* text;
    std::optional<bool> died_writing = {};
  } rows[] = {
      {"null_write", "SIGSEGV at address 0x10", true},
      {"null_read", "SIGSEGV at address 0x10", false},
      {"divide", "SIGFPE (division by zero)"},
      {"abort", "SIGABRT"},
      {"stack", "stack overflow"},
      {"big_frame", "stack overflow"},
      {"fiber_stack", "stack overflow"},
      {"exit", "exited with status 0"},
      {"throw", "SIGABRT"},
      {"raise", "SIGSEGV"},
      {"kill", "killed by signal 9"},
      {"thread", "SIGSEGV at address 0x20", true},
      {"follow_stride", "SIGSEGV at an impossible address"},
      {"supports_crash", "SIGSEGV at address 0x10 in supports()", true}};
  for (const auto& row : rows)
    for (const Placement placement : kPlacements) {
      SCOPED_TRACE(row.kernel);
      const CallOutcome outcome = survive(*executor, row.kernel, placement);
      expect_outcome(outcome, CallStatus::kCrash, row.text);
      EXPECT_FALSE(outcome.fault);
      EXPECT_EQ(outcome.died_writing, row.died_writing);
      EXPECT_TRUE(outcome.o.empty());
    }
}

TEST(Sandbox, GuardPagesNameTensorAndDistance) {
  const auto executor = sandbox();
  const struct {
    const char* kernel;
    Placement placement;
    TensorName tensor;
    bool is_write, before_start;
    int64_t bytes;
    const char* text;
  } rows[] = {{"read_past_k", Placement::kEnd, TensorName::kK, false, false, 0,
               "read past the end of k, offset 0"},
              // On a stack that the kernel has made, far below the main one.
              {"fiber_past_k", Placement::kEnd, TensorName::kK, false, false, 2,
               "read past the end of k, offset 2"},
              {"read_before_q", Placement::kStart, TensorName::kQ, false, true,
               4, "read before the start of q, offset -4"},
              {"write_past_o", Placement::kEnd, TensorName::kO, true, false, 0,
               "write past the end of o, offset 0"},
              {"write_before_o", Placement::kStart, TensorName::kO, true, true,
               4, "write before the start of o, offset -4"},
              {"far_past_k", Placement::kEndAligned, TensorName::kK, false,
               false, 8192, "read past the end of k, offset 8192"}};
  for (const auto& row : rows) {
    const auto outcome = survive(*executor, row.kernel, row.placement);
    expect_outcome(outcome, CallStatus::kFault, row.text);
    expect_fault(outcome.fault, row.tensor, row.is_write, row.before_start,
                 row.bytes);
    ASSERT_TRUE(outcome.fault);
    if (row.tensor == TensorName::kK) {
      EXPECT_EQ(outcome.fault->tensor_bytes, 7 * 3 * 4);
    }
  }
  for (const Placement placement : kPlacements) {
    // The protection of an input cannot be removed: its file is open only for
    // reading.
    for (const char* kernel : {"write_v", "unlock_v"}) {
      const CallOutcome outcome = survive(*executor, kernel, placement);
      expect_outcome(outcome, CallStatus::kFault, "write into v, offset 8");
      expect_fault(outcome.fault, TensorName::kV, true, false, 8);
      ASSERT_TRUE(outcome.fault);
      EXPECT_TRUE(outcome.fault->inside);
    }
  }
}

// The number of worker processes that are children of this process or of init,
// ended or not. It sets a variable in the environment of all processes that
// this one starts.
int64_t left_behind() {
  const std::string mark = "QKVET_TEST_OF=" + std::to_string(getpid());
  setenv("QKVET_TEST_OF", std::to_string(getpid()).c_str(), 1);
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    std::string stat, environment;
    if (name.find_first_not_of("0123456789") != name.npos ||
        !read_system_file(entry.path() / "stat", &stat) ||
        stat.find("(qkvet-worker)") == stat.npos)
      continue;
    read_system_file(entry.path() / "environ", &environment);
    const size_t end = stat.rfind(')');
    const bool is_here =
        stat.find(" " + std::to_string(getpid()) + " ", end) == end + 3;
    const bool is_lost = stat.compare(end + 3, 3, " 1 ") == 0 &&
                         environment.find(mark) != environment.npos;
    count += is_here || is_lost;
  }
  return count;
}

TEST(Sandbox, AKernelThatForksAndReturnsTwiceIsFound) {
  const auto executor = sandbox();
  for (int n = 0; n < 4; ++n) {
    const CallOutcome outcome = survive(*executor, "fork");
    EXPECT_EQ(outcome.status, CallStatus::kCrash) << n;
    EXPECT_EQ(outcome.text, "it forked, and both processes returned") << n;
  }
  // Control: a process of its own is a kernel's business.
  expect_copy(survive(*executor, "fork_and_wait"));
}

TEST(Sandbox, NoProcessOutlivesTheWorkerThatItCameOf) {
  const int64_t before = left_behind();
  for (const char* kernel : {"child", "daemon", "daemon_and_exit", "fork"}) {
    {
      const auto executor = sandbox();
      for (int n = 0; n < 3; ++n) survive(*executor, kernel);
      survive(*executor, "daemon");
    }
    EXPECT_EQ(left_behind(), before) << kernel;
  }
}

TEST(Sandbox, AKernelThatStopsIsSeenAtOnce) {
  const auto executor = sandbox();
  const auto start = std::chrono::steady_clock::now();
  const CallOutcome outcome = survive(*executor, "stop");
  expect_outcome(outcome, CallStatus::kHang, "stopped by a signal (SIGSTOP)");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

// The output of "bad/tells" for one call.
struct Told {
  float address, context, calls, forked, fresh_byte;
};
std::vector<Told> tell(Executor& executor,
                       const std::vector<KernelCall>& calls) {
  std::vector<Told> told;
  for (const CallOutcome& outcome :
       executor.run(number_of(executor, "tells"), calls)) {
    EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    if (outcome.status != CallStatus::kDone) continue;
    std::memcpy(&told.emplace_back(), outcome.o.data(), sizeof(Told));
  }
  return told;
}

TEST(Sandbox, CallsLieInOnePlaceHaveASecondContextAndANewProcess) {
  BadInputs inputs;
  for (const bool in_sandbox : {true, false}) {
    const auto executor = in_sandbox ? sandbox() : in_process();
    KernelCall call = inputs.call;
    KernelCall here = call, second = call, first = call;
    here.same_place = second.same_place = first.same_place = true;
    second.second_context = true;
    first.new_process = true;
    const std::vector<Told> told =
        tell(*executor, {call, call, here, call, here, second, here, first});
    ASSERT_EQ(told.size(), 8u);
    EXPECT_EQ(told[2].address, told[4].address);
    EXPECT_EQ(told[2].address, told[5].address);
    EXPECT_EQ(told[2].address, told[6].address);
    EXPECT_NE(told[4].context, told[5].context);
    EXPECT_EQ(told[4].context, told[6].context);
    EXPECT_EQ(told[6].calls, told[0].calls + 6);
    // As without it, addresses of neighbours differ.
    if (in_sandbox) {
      EXPECT_NE(told[0].address, told[1].address);
    }
    EXPECT_EQ(told[7].calls, in_sandbox ? 1 : told[6].calls + 1);
    // In any place, and with other calls in the same run.
    first.same_place = false;
    const std::vector<Told> fresh = tell(*executor, {call, call, first, first});
    ASSERT_EQ(fresh.size(), 4u);
    if (in_sandbox) {
      EXPECT_EQ(fresh[1].calls, fresh[0].calls + 1);
      EXPECT_EQ(fresh[2].calls, 1);
      EXPECT_EQ(fresh[3].calls, 1);
    }
  }
}

class GuardedHeap : public testing::Test {
 protected:
  void SetUp() override {
#ifdef QKVET_SANITIZED
    GTEST_SKIP() << "a sanitizer has a malloc() of its own, and ends for what "
                    "malloc() refuses";
#endif
  }
};

// Fresh memory has the requested byte, call by call.
TEST_F(GuardedHeap, FreshMemoryIsFullOfTheByteThatIsAskedFor) {
  BadInputs inputs;
  const auto executor = sandbox();
  std::vector<KernelCall> calls;
  const uint8_t bytes[] = {0x3f, 0x40, 0x3f, 0x81};
  for (const uint8_t byte : bytes) {
    calls.push_back(inputs.call);
    calls.back().fresh_memory = byte;
  }
  const std::vector<Told> told = tell(*executor, calls);
  ASSERT_EQ(told.size(), std::size(bytes));
  for (size_t n = 0; n < told.size(); ++n)
    EXPECT_EQ(told[n].fresh_byte, bytes[n]) << n;
}

// Also a kernel's own memory ends at a guard, is full of NaN at first, and the
// bytes around it must not change; each such call ends as in this test.
TEST_F(GuardedHeap, MemoryThatAKernelAllocatesIsGuarded) {
  const auto executor = sandbox();
  const struct {
    const char* kernel;
    const char* text;
    bool is_write, before_start;
    int64_t bytes, of;
  } rows[] = {
      {"read_past_scratch", "read past the end of", false, false, 0, 80},
      {"write_past_scratch", "write past the end of", true, false, 4, 80},
      {"write_before_scratch", "write before the start of", true, true, 8, 80},
      {"write_past_kept", "write past the end of", true, false, 1, 13}};
  for (int again = 0; again < 3; ++again)
    for (const auto& row : rows) {
      SCOPED_TRACE(row.kernel);
      const CallOutcome outcome = survive(*executor, row.kernel);
      EXPECT_EQ(outcome.status, CallStatus::kFault);
      EXPECT_EQ(outcome.text, std::string(row.text) +
                                  " memory that the kernel allocated, offset " +
                                  (row.before_start ? "-" : "") +
                                  std::to_string(row.bytes));
      expect_fault(outcome.fault, std::nullopt, row.is_write, row.before_start,
                   row.bytes);
      ASSERT_TRUE(outcome.fault);
      EXPECT_TRUE(outcome.fault->of_heap);
      EXPECT_EQ(outcome.fault->tensor_bytes, row.of);
    }
  const struct {
    const char* kernel;
    const char* said;
  } misused[] = {
      {"scratch_freed_twice", "memory was freed twice"},
      {"write_freed_scratch", "memory was written to after it had been freed"}};
  for (const auto& row : misused) {
    const CallOutcome outcome = survive(*executor, row.kernel);
    EXPECT_EQ(outcome.text, "SIGABRT");
    EXPECT_NE(outcome.output.find(row.said), std::string::npos)
        << outcome.output;
  }
}

TEST_F(GuardedHeap, MemoryThatNobodyHasWrittenIsNaNInEachCall) {
  const auto executor = sandbox();
  for (const char* const kernel : {"scratch_not_cleared", "stack_not_cleared"})
    for (int again = 0; again < 3; ++again) {
      const CallOutcome outcome = survive(*executor, kernel);
      ASSERT_EQ(outcome.status, CallStatus::kDone) << kernel;
      float first = 0;
      std::memcpy(&first, outcome.o.data(), sizeof first);
      EXPECT_TRUE(std::isnan(first)) << kernel;
    }
}

// The control: a kernel that stays within its allocations is unaffected.
TEST_F(GuardedHeap, TheHeapIsOneAsAllOthers) {
  const auto executor = sandbox();
  expect_copy(survive(*executor, "scratch"));
  const CallOutcome outcome = survive(*executor, "allocates");
  ASSERT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  float broken = 1;
  std::memcpy(&broken, outcome.o.data(), sizeof broken);
  EXPECT_EQ(broken, 0);
}

// From the third worker on; a fork has made no call either. A library that
// starts threads while it is loaded cannot be forked.
TEST(Sandbox, ManyWorkersAreForkedFromOneThatHasLoadedTheLibrary) {
  BadInputs inputs;
  KernelCall first = inputs.call;
  first.new_process = true;
  for (const bool with_threads : {false, true}) {
    const auto executor =
        sandbox(patient_options(), with_threads ? "bad_thread_on_load" : "bad");
    const std::vector<Told> told =
        tell(*executor, {inputs.call, first, first, inputs.call, first});
    ASSERT_EQ(told.size(), 5u);
    const float calls[] = {1, 1, 1, 2, 1};
    for (size_t n = 0; n < told.size(); ++n) {
      EXPECT_EQ(told[n].calls, calls[n]) << n;
      EXPECT_EQ(told[n].forked, !with_threads && n >= 2 ? 1 : 0) << n;
    }
  }
}

TEST(Sandbox, AForkThatCrashesIsReportedAsAnyWorker) {
  const auto executor = sandbox();
  for (int n = 0; n < 4; ++n)
    EXPECT_EQ(survive(*executor, "print").text, "SIGABRT") << n;
  EXPECT_EQ(survive(*executor, "kill").text, "killed by signal 9");
}

TEST(Sandbox, WorkspaceIsGuarded) {
  const auto executor = sandbox();
  expect_copy(survive(*executor, "workspace"));
  const auto outcome = survive(*executor, "past_workspace");
  expect_outcome(outcome, CallStatus::kFault,
                 "write past the end of the workspace, offset 0");
  expect_fault(outcome.fault, std::nullopt, true, false, 0);
  expect_outcome(survive(*executor, "huge_workspace"), CallStatus::kOutOfMemory,
                 "workspace() asks for 1125899906842624 bytes");
}

class BadKernels : public BothWays {};
INSTANTIATE_TEST_SUITE_P(Ways, BadKernels, testing::Bool(), way_name);

TEST_P(BadKernels, HarmlessMisbehaviour) {
  const auto opened = open("bad");
  Executor& executor = *opened;
  for (const Placement placement : kPlacements) {
    expect_copy(run_one(executor, "copy", placement));
    expect_copy(run_one(executor, "aligned", placement));
    for (const char* name : {"rounding", "flush"}) {
      const auto outcome = survive(executor, name, placement);
      EXPECT_TRUE(outcome.dirty_environment);
      expect_copy(outcome);
    }
    EXPECT_FALSE(run_one(executor, "copy").dirty_environment);

    const auto blank = survive(executor, "unwritten", placement);
    EXPECT_EQ(blank.status, CallStatus::kDone);
    EXPECT_EQ(blank.unwritten, TensorName::kO);
    EXPECT_EQ(blank.unwritten_index, 3);
  }
  for (const Placement placement : {Placement::kEndAligned, Placement::kStart})
    expect_fault(survive(executor, "write_past_o", placement).damage,
                 TensorName::kO, true, false, 0);
  for (const Placement placement : {Placement::kEnd, Placement::kEndAligned})
    expect_fault(survive(executor, "write_before_o", placement).damage,
                 TensorName::kO, true, true, 4);
}

TEST_P(BadKernels, Answers) {
  const auto opened = open("bad");
  Executor& executor = *opened;
  const char* const unavailable = "needs a part that no machine has";
  expect_outcome(survive(executor, "refuse"), CallStatus::kRefused,
                 "forward() returned INVALID_ARGUMENT: changed my mind");
  expect_outcome(survive(executor, "unsupported"), CallStatus::kUnsupported,
                 "not today");
  expect_outcome(survive(executor, "unavailable"), CallStatus::kUnavailable,
                 unavailable);
  const auto number = static_cast<size_t>(number_of(executor, "unavailable"));
  EXPECT_EQ(executor.kernels()[number].unavailable, unavailable);

  BadInputs inputs;
  inputs.call.causal = Causal::kTopLeft;
  expect_outcome(run_call(executor, "copy", inputs.call),
                 CallStatus::kUnsupported,
                 "causal from the top left is not declared");
  EXPECT_EQ(executor.run(-1, {&inputs.call, size_t{1}})[0].status,
            CallStatus::kUnavailable);
}

// UNSUPPORTED of forward() is a refusal where that is declared, and a broken
// promise of supports() where it is not.
TEST_P(BadKernels, RefusalsInTheCall) {
  const auto executor = open("bad");
  const struct {
    const char* kernel;
    CallStatus status;
    const char* text;
    bool gave_reason;
  } rows[] = {{"refuses_in_call", CallStatus::kUnsupported,
               "more than 4 queries", true},
              {"silent_in_call", CallStatus::kUnsupported,
               "forward() returned UNSUPPORTED", false},
              {"breaks_promise", CallStatus::kRefused,
               "forward() returned UNSUPPORTED: more than 4 queries", true},
              {"fails_in_call", CallStatus::kRefused,
               "forward() returned INTERNAL: no such tile", true}};
  for (const auto& row : rows)
    for (const Placement placement : kPlacements) {
      SCOPED_TRACE(row.kernel);
      const CallOutcome outcome = survive(*executor, row.kernel, placement);
      expect_outcome(outcome, row.status, row.text);
      EXPECT_EQ(outcome.gave_reason, row.gave_reason);
      EXPECT_TRUE(outcome.asked_kernel);
      EXPECT_TRUE(outcome.o.empty());
    }
}

TEST(InProcess, Workspace) {
  const auto executor = in_process();
  expect_copy(run_one(*executor, "workspace"));
}

TEST(InProcessDeathTest, WhatEndsTheKernelEndsTheProgram) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(run_one(*in_process(), "read_past_k"), "");
  EXPECT_DEATH(run_one(*in_process(), "write_v"), "");
  EXPECT_DEATH(run_one(*in_process(), "throw"), "thrown by bad/throw");
}

TEST(Sandbox, OutputOfACrashIsKept) {
  const auto executor = sandbox();
  const auto outcome = survive(*executor, "print");
  EXPECT_EQ(outcome.text, "SIGABRT");
  EXPECT_EQ(outcome.output.find("line 10\n"), std::string::npos);
  EXPECT_EQ(outcome.output.rfind("line 11\n", 0), 0u) << outcome.output;
  EXPECT_NE(outcome.output.find("about to fail"), std::string::npos);
  const auto thrown = survive(*executor, "throw");
  EXPECT_NE(thrown.output.find("thrown by bad/throw"), std::string::npos);
}

TEST(Sandbox, HangsAndStallsEnd) {
  const auto computing = sandbox(soon_hanging());
  expect_outcome(survive(*computing, "endless"), CallStatus::kHang,
                 "no end after 0.2 s of CPU time");
  const auto waiting = sandbox(soon_stalling());
  expect_outcome(survive(*waiting, "sleep"), CallStatus::kHang,
                 "no progress for 0.4 s");
}

// A kernel that is known to hang is ended before it takes seconds; calls that
// end, and calls that compile first, get the same time as before.
TEST(Sandbox, HangsThatAreExpectedEndSoon) {
  const auto executor = sandbox();  // a minute, as patience goes
  EXPECT_TRUE(executor->expect_hangs(number_of(*executor, "endless")));
  EXPECT_EQ(survive(*executor, "endless").status, CallStatus::kHang);
  EXPECT_LT(executor->cpu_seconds(), 30);
  EXPECT_TRUE(executor->expect_hangs(number_of(*executor, "copy")));
  expect_copy(run_one(*executor, "copy"));
  EXPECT_FALSE(executor->expect_hangs(number_of(*executor, "compiles")));
  EXPECT_FALSE(executor->expect_hangs(-1));
  EXPECT_FALSE(in_process()->expect_hangs(0));
}

// It includes processes that were ended; sleeping takes none of it.
TEST(Sandbox, CpuTimeIsThatOfWorkers) {
  const auto waiting = sandbox(soon_stalling());
  const double loaded = waiting->cpu_seconds();
  EXPECT_GT(loaded, 0);
  run_one(*waiting, "sleep");
  EXPECT_LT(waiting->cpu_seconds() - loaded, 0.1);
  const auto executor = sandbox(soon_hanging());
  const double before = executor->cpu_seconds();
  run_one(*executor, "endless");
  run_one(*executor, "endless");
  EXPECT_GE(executor->cpu_seconds() - before, 0.4);

  const auto inside = in_process();
  const double here = inside->cpu_seconds();
  run_one(*inside, "compiles");  // 0.4 s, of one processor among many jobs
  EXPECT_GT(inside->cpu_seconds(), here);
}

TEST(Sandbox, CallsAtOnceHaveTheTimeOfAllThatTheyMake) {
  const auto executor = sandbox(soon_hanging());
  BadInputs inputs;
  inputs.call.at_once = true;
  std::vector<KernelCall> calls(1, inputs.call);
  const int endless = number_of(*executor, "endless");
  // A group of one is an ordinary call.
  EXPECT_EQ(executor->run(endless, calls)[0].text,
            "no end after 0.2 s of CPU time");
  calls.push_back(inputs.call);
  EXPECT_EQ(executor->run(endless, calls)[0].text,
            "no end after 2 s of CPU time");
}

TEST(Sandbox, SlowOraclesGiveTime) {
  const auto executor = sandbox(soon_hanging());
  BadInputs inputs;
  inputs.call.oracle_seconds = 1e-3;  // times 1000
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_call(*executor, "endless", inputs.call).text,
            "no end after 1 s of CPU time");
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// Up to a bound: no call may take minutes.
TEST(Sandbox, SlowKernelsHaveTheTimeOfTheirPace) {
  const auto executor = sandbox(soon_hanging());
  const auto text_of = [&](double expected_seconds) {
    BadInputs inputs;
    inputs.call.expected_seconds = expected_seconds;
    return run_call(*executor, "endless", inputs.call).text;
  };
  EXPECT_EQ(text_of(0.05), "no end after 0.5 s of CPU time");
  EXPECT_EQ(text_of(1e-3), "no end after 0.2 s of CPU time");
  // Also for a kernel that is known to hang.
  EXPECT_TRUE(executor->expect_hangs(number_of(*executor, "endless")));
  EXPECT_EQ(text_of(0.01), "no end after 0.1 s of CPU time");
}

TEST(Sandbox, FirstCallOfAShapeMayCompile) {
  const auto executor = sandbox(soon_hanging());
  expect_copy(survive(*executor, "compiles"));
  expect_copy(survive(*executor, "compiles"));
  // A window is compiled for as an extent is.
  BadInputs inputs;
  inputs.call.window = Window{3, 3};
  EXPECT_EQ(run_call(*executor, "compiles", inputs.call).status,
            CallStatus::kDone);
}

TEST(Sandbox, MemoryWithoutEnd) {
  const auto executor = sandbox();
  expect_outcome(survive(*executor, "allocate"), CallStatus::kOutOfMemory,
                 "more than 256.0 MiB of resident memory");
}

TEST(Sandbox, SignalHandlersOfKernelsAreReplaced) {
  const auto executor = sandbox();
  expect_copy(run_one(*executor, "own_handler"));
  EXPECT_EQ(survive(*executor, "null_write").text, "SIGSEGV at address 0x10");
}

TEST(Sandbox, TheRestOfABatchGoesOn) {
  const auto executor = sandbox();
  const BadInputs inputs;
  // 70 calls are three batches; each ends its process.
  const std::vector<KernelCall> calls(70, inputs.call);
  const auto crashes = executor->run(number_of(*executor, "abort"), calls);
  ASSERT_EQ(crashes.size(), calls.size());
  for (const auto& outcome : crashes) EXPECT_EQ(outcome.text, "SIGABRT");
  // A call that is refused beforehand takes no slot.
  std::vector<KernelCall> mixed(100, inputs.call);
  for (size_t i = 0; i < mixed.size(); i += 3) mixed[i].want_weights = true;
  const auto outcomes = executor->run(number_of(*executor, "copy"), mixed);
  for (size_t i = 0; i < mixed.size(); ++i) {
    if (i % 3 == 0)
      EXPECT_EQ(outcomes[i].text, "weights is not declared");
    else
      expect_copy(outcomes[i]);
  }
}

TEST(Sandbox, TensorsOfAllSizes) {
  const auto executor = sandbox();
  std::vector<float> data(1 << 20);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  std::vector<KernelCall> calls;
  for (int64_t tq = 1; tq <= 1 << 16; tq *= 4)
    for (const Placement placement : kPlacements) {
      KernelCall call = BadInputs(placement).call;
      call.shape = {1, 1, 1, tq, 3, 16, 16};
      call.want_lse = true;
      call.q = call.k = call.v =
          reinterpret_cast<const std::byte*>(data.data());
      calls.push_back(call);
    }
  const auto outcomes = executor->run(number_of(*executor, "copy"), calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_EQ(outcomes[i].status, CallStatus::kDone) << outcomes[i].text;
    EXPECT_FALSE(outcomes[i].damage);
    EXPECT_FALSE(outcomes[i].unwritten);
    ASSERT_EQ(outcomes[i].o.size(), size_t(calls[i].shape.Tq) * 64);
    EXPECT_EQ(
        std::memcmp(outcomes[i].o.data(), data.data(), outcomes[i].o.size()),
        0);
  }
}

TEST(Sandbox, TooLargeForMemoryIsAnOutcome) {
  const auto executor = sandbox();
  BadInputs inputs;
  inputs.call.shape = {1, 1, 1, int64_t{1} << 40, 7, 3, 3};
  expect_outcome(run_call(*executor, "copy", inputs.call),
                 CallStatus::kUnsupported, "q is too large for any memory");
  expect_copy(run_one(*executor, "copy"));
}

TEST(Sandbox, LibrariesThatCannotBeLoaded) {
  const std::string bad = plugin("bad");
  SandboxOptions patient = patient_options(), lost = patient;
  lost.worker = "/nowhere/qkvet-worker";
  const struct {
    std::string path, config;
    SandboxOptions options;
    std::string error;
  } rows[] = {
      {"./none.so", "", patient, "./none.so: no such file"},
      {bad, "crash", patient,
       bad + ": SIGSEGV at address 0x10 while it was loaded"},
      {bad, "newer", patient, bad + ": is for ABI 2, this program speaks 1"},
      {bad, "hang", soon_stalling(),
       bad + ": no progress for 0.4 s while it was loaded"},
      {bad, "", lost,
       "cannot start the worker program /nowhere/qkvet-worker: No such file or "
       "directory"}};
  for (const auto& row : rows) {
    const Opened opened = open_sandbox({row.path, row.config}, row.options);
    EXPECT_EQ(opened.executor, nullptr);
    EXPECT_EQ(opened.error, row.error);
  }
}

// Threads that live between calls, in a process that is new after each fault.
TEST(Sandbox, PoolsOfThreadsAreWatched) {
  const auto executor = sandbox();
  for (int i = 0; i < 5; ++i) {
    expect_copy(run_one(*executor, "pool"));
    expect_copy(run_one(*executor, "pool"));
    const auto one = survive(*executor, "pool_past_k");
    expect_outcome(one, CallStatus::kFault, "read past the end of k, offset 8");
    expect_fault(one.fault, TensorName::kK, false, false, 8);
    // Here the pool is made in the process after the windows of the tensors.
    expect_copy(run_one(*executor, "copy"));
    const auto all = survive(*executor, "pool_all_past_k");
    expect_outcome(all, CallStatus::kFault, "read past the end of k, offset 0");
    expect_fault(all.fault, TensorName::kK, false, false, 0);
  }
}

// The exit status of a worker that is stopped without a call.
int end_of_worker(const std::string& config) {
  std::string error;
  const auto arena = Arena::create(&error);
  WorkerProcess worker({plugin("bad"), config}, patient_options());
  EXPECT_TRUE(worker.prepare(&error) && worker.start(arena->fd(), &error))
      << error;
  EXPECT_EQ(worker.wait([] { return WaitLimits{2, 2}; }), WaitEnd::kDone);
  worker.stop();
  return worker.wait_status();
}

TEST(Sandbox, WorkersEndInPeaceWithLivingThreads) {
  EXPECT_EQ(end_of_worker(""), 0);
  EXPECT_EQ(end_of_worker("pool"), 0);
  EXPECT_NE(end_of_worker("bad_close"), 0);
}

TEST(Sandbox, ManyThreadsAndTheirEnds) {
  // Opened in one thread, used in another after the first has ended.
  std::vector<std::unique_ptr<Executor>> executors(4);
  std::vector<std::thread> threads;
  for (auto& executor : executors)
    threads.emplace_back([&executor] { executor = sandbox(); });
  for (auto& thread : threads) thread.join();
  threads.clear();
  for (auto& executor : executors)
    threads.emplace_back([&executor] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(survive(*executor, "abort").text, "SIGABRT");
        EXPECT_EQ(survive(*executor, "read_past_k").status, CallStatus::kFault);
      }
    });
  for (auto& thread : threads) thread.join();
}

// Not a limit, but a number to read: printed with the test.
TEST(Sandbox, Cost) {
  const auto executor = sandbox();
  const BadInputs inputs;
  std::vector<KernelCall> calls(64 * 50, inputs.call);
  std::vector<float> data(1 << 12);
  for (KernelCall& call : calls) {
    call.shape = {1, 1, 1, 32, 32, 32, 32};  // 4 KiB each
    call.q = call.k = call.v = reinterpret_cast<const std::byte*>(data.data());
  }
  const int copy = number_of(*executor, "copy");
  using Clock = std::chrono::steady_clock;
  const auto microseconds = [](Clock::time_point start, size_t count) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start)
               .count() /
           static_cast<double>(count);
  };
  constexpr size_t kRuns = 50;
  const auto part = std::span<const KernelCall>(calls).first(64);
  executor->run(copy, part);
  auto start = Clock::now();
  double inside = 0;
  for (size_t i = 0; i < kRuns; ++i)
    for (const auto& outcome : executor->run(copy, part))
      inside += outcome.seconds;
  const double batched = microseconds(start, calls.size());
  inside *= 1e6 / static_cast<double>(calls.size());
  start = Clock::now();
  for (const KernelCall& call : calls) executor->run(copy, {&call, size_t{1}});
  const double single = microseconds(start, calls.size());
  start = Clock::now();
  const std::vector<KernelCall> crashing(100, inputs.call);
  executor->run(number_of(*executor, "exit"), crashing);
  const double respawn = microseconds(start, crashing.size());
  std::printf(
      "in batches %.2f us, one by one %.2f us per call (kernel %.2f us); "
      "a new process %.0f us\n",
      batched, single, inside, respawn);
  EXPECT_LT(batched, 1000);
}

}  // namespace
}  // namespace qkvet::sandbox_test
