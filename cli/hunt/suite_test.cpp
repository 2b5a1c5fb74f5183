// SPDX-License-Identifier: Apache-2.0
// <qkvet/suite.h> as C++17 programs use it, and by it the plug-ins that the
// program must refuse in one line.
#include "qkvet/suite.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace {

using qkvet::LawOutcome;
using qkvet::Plugin;

std::string bad(const std::string& name) {
  return std::string(QKVET_BAD_DIR) + "/" + name;
}

std::string family(const std::string& name) {
  return std::string(QKVET_FAMILIES) + "/qkvet_" + name + ".so";
}

qkvet::ProgramRun check(const std::string& plugin) {
  return qkvet::run_program(QKVET_PROGRAM, {"check", "--cases", "12", plugin});
}

void expect_refused(const std::string& plugin, const std::string& part) {
  const qkvet::ProgramRun run = check(plugin);
  EXPECT_EQ(run.exit, 2) << plugin << run.out << run.error;
  EXPECT_EQ(run.out, "") << plugin;
  EXPECT_EQ(run.error.rfind("qkvet: " + plugin.substr(0, plugin.find(':')), 0),
            0u)
      << run.error;
  EXPECT_NE(run.error.find(part), std::string::npos) << run.error;
  EXPECT_EQ(std::count(run.error.begin(), run.error.end(), '\n'), 1)
      << run.error;
}

TEST(Plugins, ThatCannotBeJudgedAreOneLineAndTwo) {
  const std::pair<const char*, const char*> rows[] = {
      {"nowhere.so", "no such file"},
      {"bad_no_entry.so", "does not export qkvet_open"},
      {"bad.so:newer", "is for ABI 2, this program speaks 1"},
      {"bad.so:silent", "declares nothing (capabilities is NULL)"},
      {"bad.so:name", "is not of the form family/variant"},
      {"bad.so:crash", "while it was loaded"},
      {"bad.so:exit",
       "exited with status 7 while it was loaded; it said: no licence for "
       "this machine"},
      {"bad.so:refuse", "this config is not for me"},
      {"tables.so:nothing",
       "has no forward(), no cache, no layer, no merge and no plans"},
      {"tables.so:no_step", "its cache has no step()"},
      {"tables.so:no_layer_forward", "its layer has no forward()"},
  };
  for (const auto& [file, part] : rows) expect_refused(bad(file), part);
  expect_refused(QKVET_BAD_DIR, "is a directory");
  expect_refused("/etc/passwd", "not a shared library");
}

TEST(Plugins, OfAnotherMachineAreOneLineAndTwo) {
  std::ifstream in(bad("bad.so"), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  bytes.at(offsetof(Elf64_Ehdr, e_machine)) = EM_PPC64;
  const std::string path = ::testing::TempDir() + "qkvet_suite_other.so";
  std::ofstream(path, std::ios::binary) << bytes;
  expect_refused(path, "is for PowerPC 64, this program for ");
}

TEST(Plugins, WithAddressSanitizerAreOneLineAndTwo) {
  if (dlsym(RTLD_DEFAULT, "__asan_init") != nullptr)
    GTEST_SKIP() << "this build has AddressSanitizer, too";
  for (const char* name : {"bad_asan.so", "bad_asan_unlinked.so"})
    expect_refused(bad(name), "was built with AddressSanitizer");
}

TEST(Suite, LawsAreThoseOfTheProgram) {
  const std::vector<std::string> laws = qkvet::law_names(QKVET_PROGRAM);
  EXPECT_GE(laws.size(), 8u);
  EXPECT_EQ(std::count(laws.begin(), laws.end(), "weights_sum_to_one"), 1);
  EXPECT_TRUE(qkvet::law_names("/nowhere/qkvet").empty());
}

TEST(Suite, ALawHoldsFailsOrIsSkipped) {
  const auto judge = [](const Plugin& plugin, const char* law) {
    return qkvet::judge_law(QKVET_PROGRAM, plugin, law);
  };
  Plugin scalar = family("scalar");
  scalar.kernel("scalar/plain").cases(60);
  EXPECT_EQ(judge(scalar, "weights_sum_to_one").outcome, LawOutcome::kHolds);
  const auto skipped = judge(scalar, "cache_length_grows");
  EXPECT_EQ(skipped.outcome, LawOutcome::kSkipped);
  EXPECT_NE(skipped.text, "");

  Plugin faulty = family("faulty");
  faulty.kernel("faulty/no_scale").cases(200);
  const auto failed = judge(faulty, "scale_is_one_over_sqrt_d");
  EXPECT_EQ(failed.outcome, LawOutcome::kFails);
  EXPECT_NE(failed.text.find("again       qkvet replay"), std::string::npos)
      << failed.text;

  // A crash and a plug-in that does not load are failures, not skips.
  for (const char* kernel : {"bad/abort", "bad/nobody"})
    EXPECT_EQ(judge(Plugin(bad("bad.so")).kernel(kernel).cases(12),
                    "weights_sum_to_one")
                  .outcome,
              LawOutcome::kFails)
        << kernel;
  const auto unavailable =
      judge(Plugin(bad("bad.so")).kernel("bad/unavailable").cases(12),
            "weights_sum_to_one");
  EXPECT_EQ(unavailable.outcome, LawOutcome::kSkipped) << unavailable.text;
  EXPECT_NE(unavailable.text.find("bad/unavailable: unsupported: "),
            std::string::npos)
      << unavailable.text;
  EXPECT_EQ(judge(Plugin(bad("bad.so")).kernel("bad/copy").config("refuse"),
                  "weights_sum_to_one")
                .outcome,
            LawOutcome::kFails);
}

TEST(Suite, AProgramThatCannotRunIsAFailureThatSaysSo) {
  const auto result = qkvet::judge_law("/nowhere/qkvet", "x.so", "law");
  EXPECT_EQ(result.outcome, LawOutcome::kFails);
  EXPECT_EQ(result.text,
            "cannot run /nowhere/qkvet: No such file or directory");
  const auto run = qkvet::run_program("/bin/sh", {"-c", "kill -9 $$"});
  EXPECT_EQ(run.exit, -1);
  EXPECT_NE(run.error.find("signal 9"), std::string::npos);
}

TEST(Suite, TextOfJsonIsUnescaped) {
  EXPECT_EQ(
      qkvet::suite_detail::json_field(
          R"({"type":"result","reason":"a \"b\" \\ c\nd\u0007e"})", "reason"),
      "a \"b\" \\ c d e");
  EXPECT_EQ(qkvet::suite_detail::json_field("{\"a\":\"b", "a"), "b");
  EXPECT_EQ(qkvet::suite_detail::json_field("{\"a\":\"b\\", "a"), "b");
  EXPECT_EQ(qkvet::suite_detail::json_field("{}", "a"), "");
}

}  // namespace
