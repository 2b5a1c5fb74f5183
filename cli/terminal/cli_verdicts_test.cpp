// SPDX-License-Identifier: Apache-2.0
// The program's output about kernels with a fault: in text, in files, alike
// from run to run.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::cli_verdicts_test {
namespace {

namespace fs = std::filesystem;

TEST(CliVerdicts, TheSameRunSaysTheSame) {
  const auto stable = [](const std::string& text) {
    // Only times and rates differ from run to run.
    return std::regex_replace(
        text, std::regex("[0-9.]+ s\\b|time .*\\n.*%|case [0-9]+, "), "_");
  };
  const std::string arguments =
      "check --kernel 'faulty/scale_twice' --cases 300 --jobs ";
  EXPECT_EQ(stable(run_qkvet(arguments + "1").out),
            stable(run_qkvet(arguments + "2").out));
}

TEST(CliVerdicts, AFaultFailsWithAReportThatReplays) {
  const Ran ran =
      exits(1, run_qkvet("check --kernel faulty/no_mask --cases 600"));
  for (const char* part :
       {"FAIL", "law  ", "case  ", "expected", "actual", "again"})
    EXPECT_TRUE(has(ran.out, part)) << part;
  std::smatch again;
  ASSERT_TRUE(std::regex_search(ran.out, again,
                                std::regex("again +qkvet (replay .*)")));
  const Ran replayed = exits(1, run_qkvet(again[1]));
  EXPECT_TRUE(has(replayed.out, "FAIL"));
}

// The law requires values of 1: for other values a right kernel's rows have
// other sums.
TEST(CliVerdicts, ACaseThatALawIsNotAboutIsNotJudgedByIt) {
  const std::string law = " --law weights_sum_to_one --kernel scalar/plain";
  const std::string value = "f32,B1,H1,Tq3,Tk3,d4";
  const Ran other = exits(3, run_qkvet("replay " + value + law));
  EXPECT_TRUE(has(other.out, "the nearest is " + value + ",v=one"));
  const Ran nearest = exits(0, run_qkvet("replay " + value + ",v=one" + law));
}

// Interrupts the run as Ctrl-C does, a while after the start. A busy machine
// needs time until the first case is judged: if the run had not come so far, it
// is interrupted later.
Ran run_interrupted(const std::string& arguments, int expected) {
  const fs::path said = scratch() / "interrupted";
  Ran ran;
  for (int seconds = 2; seconds <= 64; seconds *= 2) {
    const std::string command =
        "timeout --preserve-status -s INT " + std::to_string(seconds) +
        " '" QKVET_PROGRAM "' " + arguments + " >'" + said.string() + "'";
    const int status = std::system(command.c_str());
    ran = {WEXITSTATUS(status), read_text(said), ""};
    if (ran.exit == expected) break;
  }
  return ran;
}

TEST(CliVerdicts, AnInterruptReportsWhatWasCheckedUntilThen) {
  const Ran ran =
      exits(3, run_interrupted("check --kernel scalar/plain --budget 200s", 3));
  EXPECT_TRUE(has(ran.out, "INCOMPLETE  1 kernel"));
  EXPECT_TRUE(has(ran.out, "  why         interrupted\n"));
  const Ran failed = run_interrupted(
      "check --kernel faulty/no_scale --diagnose 0 --budget 200s", 1);
  EXPECT_EQ(failed.exit, 1) << failed.out;
}

// The names that rows of properties/faults.md begin with.
std::set<std::string> faults_of_the_page() {
  const std::string page = read_text(fs::path(QKVET_EXAMPLES).parent_path() /
                                     "properties/faults.md");
  const std::regex row("\n\\| `(\\w+)` \\|");
  std::set<std::string> names;
  for (std::sregex_iterator one(page.begin(), page.end(), row), end; one != end;
       ++one)
    names.insert("faulty/" + (*one)[1].str());
  return names;
}

TEST(CliVerdicts, ListShowsKernelsLawsAndFaults) {
  const Ran all = exits(0, run_qkvet("explain"));
  for (const char* name : {"scalar/plain", "eigen/plain", "controls/naive",
                           "faulty/no_mask", "weights_sum_to_one"})
    EXPECT_TRUE(has(all.out, name)) << name;
  const Ran json = run_qkvet("explain faults --json");
  std::istringstream lines(json.out);
  std::set<std::string> faults;
  for (std::string line; std::getline(lines, line);) {
    const auto fault = nlohmann::json::parse(line);
    EXPECT_EQ(fault["type"], "fault");
    EXPECT_FALSE(fault["killed_by"].empty()) << line;
    faults.insert(fault["name"]);
  }
  // All of them, and no other kernel.
  EXPECT_EQ(faults, faults_of_the_page());
  const Ran kernels = run_qkvet("explain kernels --json");
  EXPECT_TRUE(has(kernels.out, "\"scalar/plain\""));
  EXPECT_FALSE(has(kernels.out, "\"faulty/"));
}

TEST(CliVerdicts, JunitAndJsonSayWhatTheTextSays) {
  const fs::path junit = scratch() / "out.xml", json = scratch() / "out.jsonl";
  const Ran ran = run_qkvet(
      "check --kernel scalar/plain --kernel faulty/no_scale --cases 300 "
      "--junit '" +
      junit.string() + "' --json '" + json.string() + "'");
  EXPECT_EQ(ran.exit, 1);
  const std::string xml = read_text(junit);
  // One of the two has gradients, and additional laws for them.
  int laws = 0;
  for (const char* kernel : {"scalar/plain", "faulty/no_scale"}) {
    const Ran alone =
        run_qkvet(std::string("check --cases 300 --kernel ") + kernel);
    std::smatch asked, row;
    ASSERT_TRUE(std::regex_search(alone.out, asked,
                                  std::regex("1 kernel, ([0-9]+) laws asked")));
    ASSERT_TRUE(std::regex_search(
        alone.out, row,
        std::regex("\n" + std::string(kernel) +
                   " +[0-9]+ +[0-9]+ +([0-9]+) ")));  // not declared
    laws += std::stoi(asked[1]) + std::stoi(row[1]);
  }
  EXPECT_TRUE(has(xml, "tests=\"" + std::to_string(laws) + "\""));
  EXPECT_TRUE(has(xml,
                  "classname=\"scalar/plain\" "
                  "name=\"weights_sum_to_one\""));
  EXPECT_TRUE(has(xml, "<failure message="));
  int results = 0, failures = 0;
  std::istringstream lines(read_text(json));
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_EQ(object["schema"], 1);
    results += object["type"] == "result";
    failures += object.contains("failure");
  }
  EXPECT_EQ(results, laws);
  EXPECT_GE(failures, 2);
  EXPECT_EQ(nlohmann::json::parse(last)["exit"], 1);
}

// The memory law's own calls have one thread. A failure that another law met is
// reported everywhere under the law that replays it.
TEST(CliVerdicts, TextAndJsonNameTheLawThatReplays) {
  const fs::path json = scratch() / "laws.jsonl";
  const Ran ran = run_qkvet(
      "check --cases 60 --law threads_change_nothing --law "
      "reads_only_its_inputs " QKVET_BAD_PLUGIN
      " --kernel bad/threads_past_k --json '" +
      json.string() + "'");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  std::smatch text;
  ASSERT_TRUE(std::regex_search(ran.out, text, std::regex("FAIL +([a-z_]+) ")));
  EXPECT_TRUE(has(ran.out, "READ of k"));
  std::istringstream lines(read_text(json));
  int failures = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (!object.contains("failure")) continue;
    ++failures;
    const std::string law = object["law"], again = object["failure"]["again"];
    EXPECT_EQ(law, text[1]);
    EXPECT_TRUE(has(again, "--law " + law));
    EXPECT_EQ(run_qkvet(again.substr(std::string("qkvet ").size())).exit, 1)
        << again;
    // The control: under the law that owns it, it passes.
    const Ran owner =
        run_qkvet(std::regex_replace(again.substr(std::string("qkvet ").size()),
                                     std::regex(law), "reads_only_its_inputs"));
    EXPECT_EQ(owner.exit, 0) << owner.out;
  }
  EXPECT_EQ(failures, 1);
}

TEST(CliVerdicts, InProcessGivesTheSameVerdicts) {
  EXPECT_EQ(
      run_qkvet("check --kernel scalar/plain --cases 400 --in-process").exit,
      0);
  EXPECT_EQ(
      run_qkvet("check --kernel faulty/no_scale --cases 400 --in-process").exit,
      1);
}

}  // namespace
}  // namespace qkvet::cli::cli_verdicts_test
