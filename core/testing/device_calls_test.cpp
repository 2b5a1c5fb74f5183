// SPDX-License-Identifier: Apache-2.0
// Kernels that declare a device, through the door, on a driver that is none
// (testdata/fake_cuda.cpp): its memory is closed to everybody but the driver
// and what was launched, so that a host that reaches around it dies.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "core/door/crash_report.h"
#include "core/door/device_driver.h"
#include "core/testing/bad_plugin_calls.h"
#include "core/testing/case_calls.h"

namespace qkvet::device_calls_test {
namespace {

constexpr char kVariable[] = "QKVET_CUDA_DRIVER";

// For this process before its first query, and for the workers it starts.
const bool g_chosen =
    setenv(kVariable, plugin("fake_cuda").c_str(), /*overwrite=*/1) == 0;

// Workers that are started while it lives find this driver.
class OtherDriver {
 public:
  explicit OtherDriver(const std::string& path) {
    setenv(kVariable, path.c_str(), 1);
  }
  ~OtherDriver() { setenv(kVariable, plugin("fake_cuda").c_str(), 1); }
};

// q is 0, so that a row is the mean of v, which is 1.
constexpr char kOnes[] = "f32,B1,H1,Tq5,Tk3,d3,q=zero,v=one";
// In one block, as the kernels declare.
constexpr char kBlock[] = "f32,B1,H1,Tq5,Tk5,d3,layout=packed,q=zero,v=one";
constexpr char kGaps[] = "f32,B1,H1,Tq5,Tk3,d3,layout=gaps,q=zero,v=one";

CallOutcome run(Executor& executor, const std::string& kernel,
                Placement placement = Placement::kEnd,
                const std::string& text = kOnes) {
  CaseCall one(text);
  one.call.placement = placement;
  one.call.want_lse = true;
  return run_call(executor, kernel, one.call, "device");
}

void expect_good(const CallOutcome& outcome) {
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  EXPECT_TRUE(outcome.on_device);
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.fault);
  EXPECT_FALSE(outcome.unwritten);
  const std::vector<float> o = floats(outcome.o);
  ASSERT_EQ(o.size(), 15u);
  for (const float value : o) EXPECT_FLOAT_EQ(value, 1);
}

// In a sandbox and in this process, for every placement of tensors.
template <class Check>
void everywhere(Check check) {
  const std::unique_ptr<Executor> both[] = {
      sandbox(patient_options(), "device"), in_process("device")};
  for (const auto& executor : both)
    for (const Placement placement : kPlacements) check(*executor, placement);
}

std::string load_error(const std::string& path) {
  std::string why;
  EXPECT_EQ(DeviceDriver::load(path, &why), nullptr);
  return why;
}

TEST(DeviceDriver, WhyThereIsNoneIsOneLine) {
  EXPECT_EQ(load_error("/nowhere/libcuda.so.1"),
            "no CUDA driver: /nowhere/libcuda.so.1: cannot open shared object "
            "file: No such file or directory");
  const std::string text = ::testing::TempDir() + "qkvet_driver.txt";
  std::ofstream(text) << "not a library";
  EXPECT_EQ(load_error(text), "no CUDA driver: " + text + ": file too short");
  EXPECT_EQ(load_error(plugin("fake_cuda_old")),
            "no CUDA driver: " + plugin("fake_cuda_old") + " has no cuMemcpy");
  EXPECT_EQ(load_error(plugin("fake_cuda_none")), "no CUDA device");
  EXPECT_EQ(load_error(plugin("fake_cuda_no_init")),
            "no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE");
}

TEST(DeviceDriver, WhatFailsIsNamed) {
  std::string why;
  const auto driver = DeviceDriver::load(plugin("fake_cuda"), &why);
  ASSERT_NE(driver, nullptr) << why;
  std::byte* memory = nullptr;
  EXPECT_EQ(driver->allocate(int64_t{1} << 40, &memory),
            "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(memory, nullptr);
  EXPECT_FALSE(driver->lost());
  // Copying 0 bytes makes no call; a failed copy costs the device.
  std::byte byte{};
  EXPECT_EQ(driver->to_host(&byte, nullptr, 0), "");
  EXPECT_EQ(driver->to_host(&byte, &byte, 1),
            "cuMemcpyDtoH: CUDA_ERROR_INVALID_VALUE");
  EXPECT_TRUE(driver->lost());
}

TEST(DeviceCalls, AreMadeWithTensorsOfTheDevice) {
  everywhere([](Executor& executor, Placement placement) {
    for (const char* text : {kOnes, kGaps, kBlock})
      for (const char* kernel : {"good", "host_table"})
        expect_good(run(executor, kernel, placement, text));
  });
}

TEST(DeviceCalls, StreamsTakeTurns) {
  everywhere([](Executor& executor, Placement placement) {
    const CallOutcome outcome = run(executor, "show_stream", placement);
    expect_outcome(
        outcome, CallStatus::kRefused,
        std::string("forward() returned INVALID_ARGUMENT: ") +
            (placement == Placement::kEndAligned ? "its own" : "default"));
  });
}

void expect_touched(const std::optional<MemoryFault>& touched,
                    TensorName tensor, bool before, bool inside,
                    int64_t bytes) {
  ASSERT_TRUE(touched);
  EXPECT_EQ(touched->tensor, tensor);
  EXPECT_TRUE(touched->is_write);
  EXPECT_EQ(touched->before_start, before);
  EXPECT_EQ(touched->inside, inside);
  EXPECT_EQ(touched->bytes, bytes);
  EXPECT_EQ(touched->tensor_bytes, tensor == TensorName::kO ? 60 : 36);
}

// The same in every placement; the next call, of a good kernel, succeeds.
void check_writes(Executor& executor, Placement placement) {
  const struct {
    const char* kernel;
    bool before;
    int64_t bytes;
  } beside[] = {
      {"past_o", false, 0}, {"far_past_o", false, 8000}, {"before_o", true, 4}};
  for (const auto& row : beside) {
    const CallOutcome outcome = run(executor, row.kernel, placement);
    EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    expect_touched(outcome.damage, TensorName::kO, row.before, false,
                   row.bytes);
    expect_good(run(executor, "good", placement));
  }
  const CallOutcome into = run(executor, "into_k", placement);
  expect_outcome(into, CallStatus::kFault, "write into k, offset 8");
  expect_touched(into.fault, TensorName::kK, false, true, 8);
  const CallOutcome past = run(executor, "past_k", placement);
  expect_outcome(past, CallStatus::kFault, "write past the end of k, offset 0");
  expect_touched(past.fault, TensorName::kK, false, false, 0);
  expect_good(run(executor, "good", placement));
}

TEST(DeviceCalls, WritesWhereNobodyMayAreSeen) { everywhere(check_writes); }

TEST(DeviceCalls, GapsTheWorkspaceAndUnwrittenElementsAreSeen) {
  everywhere([](Executor& executor, Placement placement) {
    const CallOutcome gap = run(executor, "into_gap", placement, kGaps);
    ASSERT_TRUE(gap.damage);
    EXPECT_EQ(gap.damage->tensor, TensorName::kO);
    EXPECT_TRUE(gap.damage->inside);
    EXPECT_EQ(gap.damage->bytes, 12);
    const CallOutcome work = run(executor, "past_workspace", placement);
    ASSERT_TRUE(work.damage);
    EXPECT_FALSE(work.damage->tensor);
    EXPECT_EQ(work.damage->bytes, 0);
    EXPECT_EQ(work.damage->tensor_bytes, 32);
    const CallOutcome unwritten = run(executor, "unwritten", placement);
    EXPECT_EQ(unwritten.unwritten, TensorName::kO);
    EXPECT_EQ(unwritten.unwritten_index, 12);
    expect_good(run(executor, "good", placement));
  });
}

TEST(DeviceCalls, ReadsBesideATensorMeetNan) {
  everywhere([](Executor& executor, Placement placement) {
    const CallOutcome outcome = run(executor, "read_past_v", placement);
    EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    for (const float value : floats(outcome.o)) EXPECT_TRUE(value != value);
  });
}

TEST(DeviceCalls, NewTokensComeBack) {
  everywhere([](Executor& executor, Placement placement) {
    CaseCall input("f32,B2,H1,Tq1,Tk4,d2,kvlen=2.4,append=2");
    input.call.placement = placement;
    input.call.want_lse = true;
    const CallOutcome outcome =
        run_call(executor, "good", input.call, "device");
    ASSERT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    EXPECT_FALSE(outcome.damage);
    ASSERT_EQ(outcome.k_cache.size(), input.inputs.k_bytes.size());
    const std::vector<float> k = floats(outcome.k_cache);
    std::vector<float> k_new(8);  // [2,1,2,2]
    std::memcpy(k_new.data(), input.call.k_new, 32);
    // Members begin at 0 and 8; their first new tokens are 0 and 2.
    EXPECT_EQ(std::vector<float>(k.begin(), k.begin() + 4),
              std::vector<float>(k_new.begin(), k_new.begin() + 4));
    EXPECT_EQ(std::vector<float>(k.begin() + 12, k.end()),
              std::vector<float>(k_new.begin() + 4, k_new.end()));
  });
}

// o and lse of the call before a gradient with dropout are in the door's own
// memory on the device, like all tensors: the kernel refuses others.
TEST(DeviceCalls, WhatIsGivenToAGradientWithDropoutLiesThere) {
  everywhere([](Executor& executor, Placement placement) {
    CaseCall input("f32,B1,H1,Tq2,Tk3,d2,layout=gaps,dropout=0.5");
    input.call.placement = placement;
    std::vector<float> d_o(4, 1), lse(2, 0);
    input.call.operation = Operation::kBackward;
    input.call.d_o = input.call.given_o =
        reinterpret_cast<const std::byte*>(d_o.data());
    input.call.given_lse = reinterpret_cast<const std::byte*>(lse.data());
    const CallOutcome outcome =
        run_call(executor, "zero_gradient", input.call, "device");
    EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    EXPECT_TRUE(outcome.on_device);
  });
}

TEST(DeviceCalls, AFailureOfTheDeviceIsItsCalls) {
  constexpr char kText[] =
      "the work on the device failed: cuCtxSynchronize: "
      "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)";
  const auto executor = sandbox(patient_options(), "device");
  expect_good(run(*executor, "good"));
  for (const Placement placement : kPlacements) {
    const CallOutcome outcome = run(*executor, "fails", placement);
    expect_outcome(outcome, CallStatus::kCrash, kText);
    EXPECT_TRUE(outcome.on_device);
    expect_good(run(*executor, "good", placement));
  }
  const CaseCall input(kOnes);
  const std::vector<KernelCall> calls(3, input.call);
  for (const CallOutcome& outcome :
       executor->run(number_of(*executor, "fails", "device"), calls))
    EXPECT_EQ(outcome.text, kText);
}

TEST(DeviceCalls, WhatReachesAroundTheDriverDies) {
  const auto executor = sandbox(patient_options(), "device");
  const CallOutcome outcome = run(*executor, "reads_on_host");
  EXPECT_EQ(outcome.status, CallStatus::kCrash);
  EXPECT_EQ(outcome.text.rfind("SIGSEGV at address 0x", 0), 0u) << outcome.text;
  expect_good(run(*executor, "good"));
}

// Addresses of a device may by chance be near those of the workspace.
TEST(DeviceCalls, AnAddressBesideTheWorkspaceIsNoGuardPage) {
  const auto slot = std::make_unique<Slot>();
  slot->reply.workspace = 0x10000;
  slot->reply.workspace_bytes = 4096;
  CrashRecord crash{};
  crash.signal = SIGSEGV;
  crash.code = SEGV_ACCERR;
  crash.address = slot->reply.workspace + 4096 + 64;
  CallOutcome on_device;
  on_device.on_device = true;
  report_death(CallPlan{}, *slot, crash, 0, &on_device);
  expect_outcome(on_device, CallStatus::kCrash, "SIGSEGV at address 0x11040");
  CallOutcome on_host;
  report_death(CallPlan{}, *slot, crash, 0, &on_host);
  expect_outcome(on_host, CallStatus::kFault,
                 "read past the end of the workspace, offset 64");
}

// 1 MiB with every call, of 64.
TEST(DeviceCalls, ALeakEndsWithoutMemory) {
  const auto executor = sandbox(patient_options(), "device");
  CallOutcome outcome;
  int calls = 0;
  while (outcome.status == CallStatus::kDone && calls < 100) {
    outcome = run(*executor, "leaks");
    ++calls;
  }
  expect_outcome(outcome, CallStatus::kOutOfMemory,
                 "forward() returned OUT_OF_MEMORY: the device is full");
  EXPECT_GT(calls, 50);
}

TEST(DeviceCalls, AreUnavailableWithoutADriver) {
  const struct {
    std::string path, text;
  } rows[] = {
      {"/nowhere/cuda.so",
       "no CUDA driver: /nowhere/cuda.so: cannot open shared object "
       "file: No such file or directory"},
      {plugin("fake_cuda_old"),
       "no CUDA driver: " + plugin("fake_cuda_old") + " has no cuMemcpy"},
      {plugin("fake_cuda_none"), "no CUDA device"}};
  for (const auto& row : rows) {
    const OtherDriver other(row.path);
    const auto executor = sandbox(patient_options(), "device");
    for (const char* kernel : {"good", "fails"}) {
      const CallOutcome outcome = run(*executor, kernel);
      expect_outcome(outcome, CallStatus::kUnavailable, row.text);
    }
  }
}

// The last test in this process: it loses the device.
TEST(DeviceCallsInProcess, ALostDeviceEndsTheCalls) {
  const auto executor = in_process("device");
  expect_good(run(*executor, "good"));
  const CallOutcome lost = run(*executor, "fails");
  EXPECT_EQ(lost.status, CallStatus::kCrash);
  const CallOutcome after = run(*executor, "good");
  expect_outcome(after, CallStatus::kNotRun,
                 "an earlier call has lost the device");
}

}  // namespace
}  // namespace qkvet::device_calls_test
