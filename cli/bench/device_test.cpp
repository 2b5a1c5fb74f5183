// SPDX-License-Identifier: Apache-2.0
// Kernels of a device as users meet them: on the fake driver, and without one.
#include <gtest/gtest.h>

#include "cli/base/program_run.h"

namespace qkvet::cli::device_test {
namespace {

std::string fake(const std::string& name) {
  return std::string(QKVET_BAD_DIR) + "/" + name + ".so";
}

Ran check(const std::string& kernel, const std::string& more,
          const std::string& driver = fake("fake_cuda")) {
  return run_qkvet(
      "check '" + fake("device") + "' --kernel device/" + kernel + " " + more,
      scratch(), "COLUMNS=1000 QKVET_CUDA_DRIVER='" + driver + "'");
}

void expect_says(const Ran& ran, const std::string& part) {
  EXPECT_TRUE(has(ran.out, part)) << ran.error;
}

TEST(Device, ARightKernelPassesItsLaws) {
  for (const char* more : {"--cases 400 -v", "--cases 400 -v --in-process"}) {
    const Ran ran = exits(0, check("good", more));
    expect_says(ran, "PASSED  1 kernel, ");
    // The report claims only what was observed.
    expect_says(ran, "reads beside a tensor in memory of a device");
    EXPECT_EQ(ran.error, "");
  }
}

TEST(Device, FaultyOnesFailTheLawOfMemory) {
  const struct {
    const char* kernel;
    const char* part;
  } rows[] = {
      {"past_o", "WRITE of o, 0 bytes past its end"},
      {"before_o", "WRITE of o, 4 bytes before its start"},
      {"into_k", "bytes from its start, which is read-only"},
      {"past_k", "WRITE of k, 0 bytes past its end"},
      {"past_workspace", "WRITE of memory that belongs to no tensor"},
      {"read_past_v", "in memory of a device"},
      {"unwritten", "was never written"},
  };
  for (const auto& row : rows) {
    const Ran ran = check(row.kernel, "--law reads_only_its_inputs --cases 20");
    EXPECT_EQ(ran.exit, 1) << row.kernel << ran.out << ran.error;
    expect_says(ran, row.part);
    EXPECT_FALSE(has(ran.out, "guard page "));
  }
  const Ran gap =
      exits(1, check("into_gap", "--law layout_changes_nothing --cases 40"));
  expect_says(gap, "WRITE of o, ");
}

TEST(Device, NothingLiesFarApartInItsMemory) {
  const auto replay = [](const std::string& layout) {
    return run_qkvet(
        "replay f32,B2,H1,Tq2,Tk2,d4" + layout + " --law agrees_with_oracle '" +
            fake("device") + "' --kernel device/good",
        scratch(), "QKVET_CUDA_DRIVER='" + fake("fake_cuda") + "'");
  };
  const Ran far = exits(3, replay(",layout=far"));
  expect_says(far, "unsupported  agrees_with_oracle");
  expect_says(far, "layout=far in memory of a device is not judged");
  // Strides are not the reason.
  const Ran gaps = exits(0, replay(",layout=gaps"));
}

TEST(Device, WhatFailsOnTheDeviceIsADeath) {
  const Ran ran =
      exits(4, check("fails", "--law weights_sum_to_one --cases 20"));
  expect_says(ran, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(Device, ALeakFails) {
  const Ran ran =
      exits(4, check("leaks", "--law weights_sum_to_one --cases 200"));
  expect_says(ran, "the device is full");
}

// Independent of their storage types, which are only f16 and bf16 for one of
// them.
TEST(Device, WithoutADriverListSaysSoOfEveryKernelOfADevice) {
  const Ran list = run_qkvet("explain kernels", scratch(),
                             "QKVET_CUDA_DRIVER=/nowhere/libcuda.so");
  EXPECT_EQ(list.exit, 0) << list.error;
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = list.out.find(text); at != std::string::npos;
         at = list.out.find(text, at + 1))
      ++found;
    return found;
  };
  // Merges in memory of a device are not judged, on any machine.
  const int kernels = count("\n  cuda/") - count("\n  cuda/merge ");
  if (kernels == 0) GTEST_SKIP() << "the family cuda was not built: no nvcc";
  EXPECT_EQ(count("not on this machine: "), kernels) << list.out;
}

TEST(Device, WithoutADriverNothingIsChecked) {
  for (const auto& [driver, why] :
       {std::pair{std::string("/nowhere/cuda.so"),
                  "no CUDA driver: /nowhere/cuda.so: cannot open shared"},
        {fake("device"), "no CUDA driver: "},
        {fake("fake_cuda_none"), "no CUDA device"},
        {fake("fake_cuda_no_init"), "CUDA_ERROR_NO_DEVICE"}}) {
    const Ran ran =
        exits(3, check("good", "--law weights_sum_to_one --cases 5", driver));
    expect_says(ran, "INCOMPLETE  1 kernel");
    expect_says(ran, why);
  }
}

}  // namespace
}  // namespace qkvet::cli::device_test
