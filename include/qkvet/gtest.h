// SPDX-License-Identifier: Apache-2.0
// A plug-in's conformance as GoogleTest tests, one per law:
//
//   #include <qkvet/gtest.h>
//   QKVET_CONFORMANCE_TEST(MyKernel, "path/to/libmine.so")
//   QKVET_CONFORMANCE_TEST(MyFast, qkvet::Plugin("libmine.so")
//                                      .kernel("mine/fast").cases(500))
//
// gives Laws/MyKernel.Holds/weights_sum_to_one and so on. A failing test shows
// the report of `qkvet check`, with the line that replays the case; a law that
// the kernel or the machine does not support is skipped with the reason.
//
// The tests run the program QKVET_PROGRAM, which the CMake target qkvet::gtest
// defines: once when the tests are listed, and once per law.
//
// For kernels that are linked into the test program, with qkvet::linked, which
// defines QKVET_LINKED:
//
//   QKVET_LINKED_CONFORMANCE_TEST(MyKernel, mine_open)
//   QKVET_LINKED_CONFORMANCE_TEST(MyFast, qkvet::Linked(mine_open).cases(500))
//
// They run in this process, without the program: what ends the kernel ends the
// test program (linked.h).
#ifndef QKVET_GTEST_H_
#define QKVET_GTEST_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qkvet/suite.h"

#ifdef QKVET_LINKED
#include "qkvet/linked.h"
#endif

#if !defined(QKVET_PROGRAM) && !defined(QKVET_LINKED)
#error "define QKVET_PROGRAM, the path of qkvet, or link qkvet::gtest"
#endif

namespace qkvet {

// A parameter is the name of a law.
class LawTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void report(const LawResult& result) {
    if (result.outcome == LawOutcome::kSkipped) GTEST_SKIP() << result.text;
    if (result.outcome == LawOutcome::kFails) FAIL() << result.text;
  }
};

inline std::string name_of_law(
    const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

#ifdef QKVET_PROGRAM
class ConformanceTest : public LawTest {
 protected:
  static void judge(const Plugin& plugin) {
    report(judge_law(QKVET_PROGRAM, plugin, GetParam()));
  }
};

// Without a program there is one test, which fails with the reason.
inline std::vector<std::string> laws_to_test() {
  std::vector<std::string> names = law_names(QKVET_PROGRAM);
  if (names.empty()) names.emplace_back("no_program");
  return names;
}
#endif  // QKVET_PROGRAM

#ifdef QKVET_LINKED
class LinkedConformanceTest : public LawTest {
 protected:
  static void judge(const Linked& linked) {
    report(judge_linked(linked, GetParam()));
  }
};
#endif  // QKVET_LINKED

}  // namespace qkvet

#define QKVET_CONFORMANCE_TEST(name, ...)                                \
  class name : public ::qkvet::ConformanceTest {};                       \
  TEST_P(name, Holds) { judge(__VA_ARGS__); }                            \
  INSTANTIATE_TEST_SUITE_P(Laws, name,                                   \
                           ::testing::ValuesIn(::qkvet::laws_to_test()), \
                           ::qkvet::name_of_law)

#define QKVET_LINKED_CONFORMANCE_TEST(name, ...)                             \
  class name : public ::qkvet::LinkedConformanceTest {};                     \
  TEST_P(name, Holds) { judge(__VA_ARGS__); }                                \
  INSTANTIATE_TEST_SUITE_P(Laws, name,                                       \
                           ::testing::ValuesIn(::qkvet::linked_law_names()), \
                           ::qkvet::name_of_law)

#endif  // QKVET_GTEST_H_
