// SPDX-License-Identifier: Apache-2.0
// Every fault is a fault: it differs from its skeleton where its trigger says
// so, equals it elsewhere, and breaks the laws that it names, here in the
// smallest form in which each law can be asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "impl/abi/declare.h"
#include "impl/testing/family_fixture.h"
#include "impl/testing/faults/fault_problems.h"

namespace qkvet::impl::faults_test {
namespace {

const qkvet_library& faulty_library() {
  for (const Family& family : all_families()) {
    if (std::strcmp(family.library().name, "faulty") == 0) {
      return family.library();
    }
  }
  return all_families()[0].library();
}

// Those of half storage have half_faults_test.cpp, those of caches, layers and
// gradients tests of their own.
std::vector<const qkvet_kernel*> f32_faults() {
  return kernels_that(/*faulty=*/true, [](const qkvet_kernel& kernel) {
    return kernel.forward != nullptr && kernel.backward == nullptr &&
           takes(&kernel, Storage::kF32);
  });
}

// Those that need an option: without it they are right.
bool needs_option(const qkvet_kernel* kernel) {
  return (kernel->capabilities->options & ~kCommonOptions) != 0;
}

const qkvet_fault& fault_of(const qkvet_kernel& kernel) {
  return *static_cast<const qkvet_fault*>(
      kernel.get_extension(&kernel, QKVET_EXTENSION_FAULT));
}

bool is_killed_by(const qkvet_fault& fault, const std::string& law) {
  for (const char* const* id = fault.killed_by; *id != nullptr; ++id) {
    if (law == *id) {
      return true;
    }
  }
  return false;
}

std::vector<float> outputs_of(const qkvet_kernel* kernel, Call* call) {
  OpenKernel open(kernel);
  EXPECT_EQ(open.forward(call->args()), QKVET_OK) << kernel->name;
  return call->outputs();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void multiply(GuardedTensor* tensor, float factor) {
  for (int64_t n = 0; n < tensor->count(); ++n) {
    tensor->begin()[n] *= factor;
  }
}

TEST(Faults, AllAreThereAndTellTheirStory) {
  const qkvet_library& library = faulty_library();
  ASSERT_STREQ(library.name, "faulty");
  EXPECT_GT(library.kernel_count, 0);
  for (int32_t i = 0; i < library.kernel_count; ++i) {
    const qkvet_kernel& kernel = *library.kernels[i];
    EXPECT_EQ(kernel.get_extension(&kernel, "qkvet.other/1"), nullptr);
    const qkvet_fault& fault = fault_of(kernel);
    EXPECT_EQ(fault.struct_size, sizeof(qkvet_fault));
    for (const char* text : {fault.mechanism, fault.symptom, fault.cause,
                             fault.fix, fault.source, fault.trigger}) {
      ASSERT_NE(text, nullptr) << kernel.name;
      EXPECT_NE(std::string(text), "") << kernel.name;
      EXPECT_EQ(std::strchr(text, '\n'), nullptr) << kernel.name;
    }
    // That each of them is a law is seen where the laws are: `qkvet check
    // --faults`.
    EXPECT_NE(fault.killed_by[0], nullptr) << kernel.name;
  }
}

// "QKVET_FAULT(name) = {" begins a block, and nothing else has this macro.
std::string name_in(const std::string& line) {
  const std::string macro = "QKVET_FAULT(";
  const size_t begin = line.find(macro);
  if (begin == std::string::npos) {
    return "";
  }
  const size_t name = begin + macro.size();
  return line.substr(name, line.find(')', name) - name);
}

// Kernel, file and line of every block in the theme files.
std::set<std::string> blocks_in_sources() {
  std::set<std::string> blocks;
  const std::filesystem::path root = QKVET_SOURCE_ROOT;
  for (const auto& file :
       std::filesystem::directory_iterator(root / "impl/faulty")) {
    const std::filesystem::path& path = file.path();
    if (path.extension() != ".cpp") {
      continue;
    }
    std::ifstream in(path);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (const std::string name = name_in(line); !name.empty()) {
        blocks.insert("faulty/" + name + " impl/faulty/" +
                      path.filename().string() + ":" + std::to_string(number));
      }
    }
  }
  return blocks;
}

// The blocks in the sources are the list that the family is built from.
TEST(Faults, EveryBlockIsAKernelAndPointsAtItself) {
  const qkvet_library& library = faulty_library();
  std::set<std::string> kernels;
  for (int32_t i = 0; i < library.kernel_count; ++i) {
    const qkvet_kernel& kernel = *library.kernels[i];
    kernels.insert(std::string(kernel.name) + " " + kernel.source_file + ":" +
                   std::to_string(kernel.source_line));
  }
  EXPECT_EQ(static_cast<int32_t>(kernels.size()), library.kernel_count);
  EXPECT_EQ(kernels, blocks_in_sources());
}

TEST(Faults, DifferFromTheSkeletonInTheirTrigger) {
  for (const qkvet_kernel* kernel : f32_faults()) {
    if (needs_option(kernel) || needs_other_problem(kernel)) {
      continue;
    }
    Problem problem = trigger();
    if (std::string(kernel->name) == "faulty/offset_ignored") {
      problem.queries = 4;  // a chunk on earlier keys
    }
    Call call(problem);
    if (needs_large_scores(kernel)) {
      multiply(&call.q, 200);
    }
    const Expected expected = expected_of(call);
    const std::vector<float> faulty = outputs_of(kernel, &call);
    EXPECT_FALSE(same_bits(faulty, outputs_of(skeleton_of(kernel), &call)))
        << kernel->name;
    double worst = 0;
    for (size_t n = 0; n < faulty.size(); ++n) {
      const double error = std::fabs(faulty[n] - expected.outputs[n]);
      worst = error <= worst ? worst : error;  // NaN counts
    }
    EXPECT_FALSE(worst <= 0.01) << kernel->name << " agrees_with_oracle";
    EXPECT_TRUE(is_killed_by(fault_of(*kernel), "agrees_with_oracle"));
  }
}

TEST(Faults, EqualTheSkeletonOutsideOfTheirTrigger) {
  for (const qkvet_kernel* kernel : f32_faults()) {
    if (is_never_harmless(kernel)) {
      continue;
    }
    Call call(needs_option(kernel) ? trigger() : harmless(kernel->name));
    const std::vector<float> right = outputs_of(skeleton_of(kernel), &call);
    const std::vector<float> faulty = outputs_of(kernel, &call);
    if (!needs_large_scores(kernel)) {
      EXPECT_TRUE(same_bits(faulty, right)) << kernel->name;
      continue;
    }
    for (size_t n = 0; n < right.size(); ++n) {  // other roundings, no more
      EXPECT_NEAR(faulty[n], right[n], kRoom) << kernel->name;
    }
  }
}

// With V = 1 all outputs are 1.
bool sums_to_one(const qkvet_kernel* kernel) {
  Call call(trigger());
  if (needs_large_scores(kernel)) {
    multiply(&call.q, 200);
  }
  call.v.fill(1);
  outputs_of(kernel, &call);
  for (int64_t i = 0; i < call.problem.queries; ++i) {
    if (!(std::fabs(call.o.at(0, 0, i, 0) - 1) <= kRoom)) {
      return false;
    }
  }
  return true;
}

// Row 2 sees keys 0, 1, 2. V is 0 there and 1 behind.
bool future_weighs_nothing(const qkvet_kernel* kernel) {
  Call call(trigger());
  call.v.fill(0);
  for (int64_t j = 3; j < 6; ++j) {
    call.v.at(0, 0, j, 0) = 1;
  }
  outputs_of(kernel, &call);
  return call.o.at(0, 0, 2, 0) == 0;
}

bool future_changes_nothing(const qkvet_kernel* kernel) {
  Call call(trigger());
  outputs_of(kernel, &call);
  const float before = call.o.at(0, 0, 2, 0);
  for (int64_t j = 3; j < 6; ++j) {
    for (int64_t c = 0; c < call.problem.width; ++c) {
      call.k.at(0, 0, j, c) += 1;
    }
    call.v.at(0, 0, j, 0) += 1;
  }
  outputs_of(kernel, &call);
  return std::bit_cast<uint32_t>(before) ==
         std::bit_cast<uint32_t>(call.o.at(0, 0, 2, 0));
}

// Two keys whose raw scores differ by 1: the ratio of their weights is
// exp(scale), with the scale left to the kernel and with one given. Row 0 of
// three is looked at: a fault takes it for none where it is one of many.
bool scale_is_right(const qkvet_kernel* kernel) {
  for (const bool given : {false, true}) {
    Problem p = trigger();
    p.queries = 3;
    p.keys = 2;
    p.causal = QKVET_CAUSAL_NONE;
    p.scale_given = given;
    p.scale = 0.5f;
    Call call(p);
    call.q.fill(0.25f);  // q.k = 0.25 * 8 * k
    call.k.fill(0);
    call.v.fill(0);
    for (int64_t c = 0; c < p.width; ++c) {
      call.k.at(0, 0, 1, c) = 0.5f;
    }
    call.v.at(0, 0, 1, 0) = 1;
    outputs_of(kernel, &call);
    const double w = double(call.o.at(0, 0, 0, 0));
    if (!(std::fabs(std::log(w / (1 - w)) - double(p.effective_scale())) <=
          1e-4)) {
      return false;
    }
  }
  return true;
}

TEST(Faults, BreakTheLawsThatTheyName) {
  const qkvet_kernel* const skeleton = find_kernel("controls/plain_hooks");
  const struct {
    const char* law;
    bool (*holds)(const qkvet_kernel*);
  } laws[] = {{"weights_sum_to_one", sums_to_one},
              {"future_weights_are_zero", future_weighs_nothing},
              {"future_changes_nothing", future_changes_nothing},
              {"scale_is_one_over_sqrt_d", scale_is_right}};
  for (const auto& [law, holds] : laws) {
    EXPECT_TRUE(holds(skeleton)) << law;
    for (const qkvet_kernel* kernel : f32_faults()) {
      if (is_killed_by(fault_of(*kernel), law) && !needs_option(kernel) &&
          !needs_other_problem(kernel)) {
        EXPECT_FALSE(holds(kernel)) << kernel->name << " " << law;
      }
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::faults_test
