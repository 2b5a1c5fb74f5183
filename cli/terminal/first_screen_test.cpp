// SPDX-License-Identifier: Apache-2.0
// `qkvet check` as it is met first: on one screen, all laws with cases, on a
// terminal, and with families that were not built.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/base/program_run.h"
#include "properties/run/runner.h"

namespace qkvet::cli::first_screen_test {
namespace {

namespace fs = std::filesystem;

// The text on one line, wherever it was broken.
std::string words_of(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

// The laws that no kernel was checked under, from a run's JSON Lines.
std::set<std::string> laws_without_cases(const std::string& arguments) {
  const Ran ran = run_qkvet(arguments + " --json out.jsonl");
  std::set<std::string> missing;
  for (const Law* law : all_laws()) missing.insert(law->id);
  std::istringstream lines(read_text(scratch() / "out.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object["type"] == "result" && object["checked"] > 0)
      missing.erase(object["law"]);
  }
  // A law without a case is open if the kernel declares the law's requirements:
  // exit 3.
  EXPECT_EQ(ran.exit, missing.empty() ? 0 : 3) << ran.out << ran.error;
  return missing;
}

// The report fits one screen, and every law has had cases in which it could
// fail.
TEST(FirstScreen, TheShortPlanLeavesNoLawOut) {
  EXPECT_EQ(laws_without_cases("check"), std::set<std::string>());
  // The control: with fewer cases than laws, some have none.
  EXPECT_FALSE(laws_without_cases("check --cases 20").empty());
}

TEST(FirstScreen, AllKernelsFitOnAScreen) {
  const Ran ran = run_qkvet(
      "check --law agrees_with_oracle --law '*_oracle' "
      "--law cache_length_grows");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  std::istringstream lines(ran.out);
  int count = 0, kernels = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_LE(line.size(), 100u) << line;
    kernels += line.find('/') < line.find(' ');
  }
  EXPECT_LE(count, 40) << ran.out;
  EXPECT_GE(kernels, 15) << ran.out;
  EXPECT_TRUE(has(ran.out, "  plan        short: "));
  EXPECT_TRUE(has(ran.out, "  coverage    "));
  EXPECT_FALSE(has(ran.out, "  not judged  "));
  EXPECT_EQ(ran.error, "");
}

// A user's own kernel is judged as deeply as ever, and so is a run with a given
// number of cases.
TEST(FirstScreen, OnlyTheDefaultPlanIsShort) {
  const auto planned = [](const std::string& arguments) {
    run_qkvet(
        "check --law cache_length_grows --law cache_agrees_with_history "
        "--fail-fast --json out.jsonl " +
        arguments);
    std::istringstream lines(read_text(scratch() / "out.jsonl"));
    std::string first;
    std::getline(lines, first);
    return nlohmann::json::parse(first)["cases"].get<int64_t>();
  };
  EXPECT_EQ(planned(""), 2 * kShortCasesPerLaw);
  EXPECT_EQ(planned("--cases 50"), 50);
  // It fails at once, so the plan is not completed.
  EXPECT_EQ(planned("--kernel faulty/cache_truncate_keeps_values"),
            kDefaultCases);
}

TEST(FirstScreen, VerboseIsLawByLaw) {
  const Ran brief = run_qkvet("check --kernel scalar/plain --cases 300");
  const Ran full = run_qkvet("check --kernel scalar/plain --cases 300 -v");
  EXPECT_FALSE(has(brief.out, "agrees_with_oracle"));
  EXPECT_TRUE(has(full.out, "agrees_with_oracle"));
  EXPECT_TRUE(has(full.out, "  time  "));
  const Ran quiet = run_qkvet("check --kernel scalar/plain --cases 300 -q");
  EXPECT_EQ(std::count(quiet.out.begin(), quiet.out.end(), '\n'), 3)
      << quiet.out;
  expect_wrong_use(run_qkvet("check -q -v"), "-q");
}

// All output of `qkvet check ...` on a pseudo-terminal.
std::string on_terminal(const std::vector<std::string>& arguments, int* exit) {
  winsize size{};
  size.ws_row = 50;
  size.ws_col = 70;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("NO_COLOR", "1", 1);
    unsetenv("COLUMNS");
    std::vector<char*> argv = {const_cast<char*>("qkvet")};
    for (const std::string& one : arguments)
      argv.push_back(const_cast<char*>(one.c_str()));
    argv.push_back(nullptr);
    execv(QKVET_PROGRAM, argv.data());
    _exit(127);
  }
  std::string out;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = read(terminal, buffer.data(), buffer.size())) > 0;)
    out.append(buffer.data(), static_cast<size_t>(n));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  *exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

TEST(FirstScreen, OnATerminalItSaysHowFarItIs) {
  int exit = -1;
  const std::string out =
      on_terminal({"check", QKVET_BAD_PLUGIN, "--kernel", "bad/unwritten",
                   "--law", "agrees_with_oracle", "--cases", "60"},
                  &exit);
  EXPECT_EQ(exit, 1) << out;
  EXPECT_TRUE(has(out, "\rmaking 1 failure smaller"));
  EXPECT_TRUE(has(out, "\rlooking for causes"));
  // It is erased before the report, without an escape sequence.
  EXPECT_TRUE(has(out, "\r" + std::string(18, ' ') + "\r"));
  EXPECT_FALSE(has(out, "\x1b"));
  // 70 columns are too few for a whole line.
  EXPECT_TRUE(has(out, "checked  error/bound"));
  EXPECT_FALSE(has(out, "error/bound      time"));
}

// The first failure of a run of hours is shown within seconds.
TEST(FirstScreen, OnATerminalTheFirstFailureIsShownWhenItIsFound) {
  int exit = -1;
  const std::vector<std::string> arguments = {
      "check",      QKVET_BAD_PLUGIN,
      "--kernel",   "bad/unwritten",
      "--law",      "agrees_with_oracle",
      "--cases",    "600",
      "--diagnose", "0"};
  const std::string out = on_terminal(arguments, &exit);
  EXPECT_EQ(exit, 1) << out;
  const size_t first = out.find("1 failure smaller; agrees_with_oracle fails:");
  ASSERT_NE(first, std::string::npos) << out;
  EXPECT_LT(first, out.find("FAIL  agrees_with_oracle")) << out;
  EXPECT_EQ(out.find("FAIL  agrees"), out.rfind("FAIL  agrees")) << out;
}

// The program in a folder that looks like a build tree or an installation with
// these families.
fs::path installed(const std::string& name,
                   const std::vector<std::string>& families) {
  const fs::path root = scratch() / name;
  const fs::path built = fs::path(QKVET_PROGRAM).parent_path();
  fs::create_directories(root / "bin");
  fs::create_directories(root / "lib/qkvet");
  for (const char* file : {"qkvet", "qkvet-worker"})
    fs::copy_file(built / file, root / "bin" / file,
                  fs::copy_options::overwrite_existing);
  for (const std::string& family : families) {
    const std::string file = "qkvet_" + family + ".so";
    fs::copy_file(built / "../lib/qkvet" / file, root / "lib/qkvet" / file,
                  fs::copy_options::overwrite_existing);
  }
  return root / "bin/qkvet";
}

std::vector<std::string> default_families() {
  std::vector<std::string> names = {"scalar", "eigen", "kv_cache", "serving"};
  if (fs::exists(fs::path(QKVET_PROGRAM).parent_path() /
                 "../lib/qkvet/qkvet_avx2.so"))
    names.emplace_back("avx2");
  return names;
}

TEST(FamiliesNotBuilt, ABuildTreeNamesTheCommand) {
  const fs::path program = installed("build", default_families());
  write_text(program.parent_path() / "../CMakeCache.txt", "");
  const std::string command =
      "the family faulty is not built; `cmake --build build --target "
      "qkvet_faulty` builds it";
  const auto run = [&](const std::string& arguments) {
    return run_qkvet(arguments, scratch(), "", program);
  };
  expect_wrong_use(run("check --kernel faulty/no_mask"),
                   "faulty/no_mask: " + command);
  expect_wrong_use(run("check --kernel 'faulty/*' --kernel scalar/plain"),
                   command);
  expect_wrong_use(run("check --kernel 'controls/*'"),
                   "--target qkvet_controls");
  expect_wrong_use(run("check --faults=named"), command);
  expect_wrong_use(run("explain faults"), command);
  expect_wrong_use(run("explain faults --json"), command);
  expect_wrong_use(run("explain no_mask"), command);
  expect_wrong_use(run("replay f32,B1,H1,Tq1,Tk1,d1 --kernel faulty/no_mask"),
                   command);
  // If it is not needed, its absence is a note, and the rest continues.
  const Ran list = exits(0, run("explain kernels"));
  EXPECT_TRUE(has(list.out, "scalar/plain"));
  EXPECT_TRUE(has(list.out, "controls are not built; `cmake"));
  EXPECT_FALSE(has(list.out, "family faulty"));
  const Ran all = run("explain");
  EXPECT_TRUE(has(all.out, command));
  const Ran law = exits(0, run("explain weights_sum_to_one"));
  EXPECT_TRUE(has(law.out, command));
  const Ran some = exits(0, run("check --kernel '*/plain' --cases 300"));
  EXPECT_TRUE(has(some.out, "note        the famil"));
  EXPECT_TRUE(has(words_of(some.out), "qkvet_faulty` builds them")) << some.out;
  // From elsewhere the tree has its full name.
  const Ran far =
      run_qkvet("explain faults", scratch() / "build/lib", "", program);
  EXPECT_TRUE(has(far.error, "cmake --build '" +
                                 (scratch() / "build").string() +
                                 "' --target qkvet_faulty"));
}

TEST(FamiliesNotBuilt, TheCauseOfAFailureSaysWhatItWouldTake) {
  const fs::path program = installed("build", {"scalar"});
  write_text(program.parent_path() / "../CMakeCache.txt", "");
  const std::string line =
      "  cause       not looked up: the family faulty is not built; `cmake "
      "--build build --target qkvet_faulty` builds it\n";
  const std::string kernel =
      "--kernel bad/unwritten " QKVET_BAD_PLUGIN " --law agrees_with_oracle";
  const Ran checked =
      exits(1, run_qkvet("check --cases 60 " + kernel, scratch(), "", program));
  EXPECT_TRUE(has(checked.out, line));
  // These need no known fault.
  for (const char* name : {"fails", "instead"})
    EXPECT_TRUE(has(checked.out, std::string("\n  ") + name + " "));
  const Ran replayed = run_qkvet("replay f32,B1,H1,Tq1,Tk2,d1 " + kernel,
                                 scratch(), "", program);
  EXPECT_EQ(replayed.exit, 1) << replayed.out << replayed.error;
  EXPECT_TRUE(has(replayed.out, line));
  // A known cause cannot be compared with one that is not looked for.
  write_text(scratch() / "known.txt",
             "bad/unwritten agrees_with_oracle no_scale 2026-11-22 why\n");
  expect_wrong_use(run_qkvet("check --known known.txt --cases 60 " + kernel,
                             scratch(), "", program),
                   "known.txt: names causes, and the family faulty");
}

TEST(FamiliesNotBuilt, AnInstallationSaysThatItHasNone) {
  const fs::path program = installed("installed", default_families());
  const auto run = [&](const std::string& arguments) {
    return run_qkvet(arguments, scratch(), "", program);
  };
  expect_wrong_use(run("check --kernel 'faulty/*'"),
                   "faulty/*: the family faulty is no part of this "
                   "installation");
  // Without a selection, nothing is missing, and no note is printed.
  const Ran all = exits(0, run("check --cases 400"));
  EXPECT_FALSE(has(all.out, "family"));
}

// A default run without a family that everybody expects in it is an error.
TEST(FamiliesNotBuilt, WithoutADefaultFamilyThereIsNoDefaultRun) {
  const fs::path program = installed("half", {"scalar", "kv_cache", "serving"});
  expect_wrong_use(run_qkvet("check", scratch(), "", program),
                   "the family eigen is no part of this installation");
  EXPECT_EQ(run_qkvet("check --cases 200 --kernel scalar/plain", scratch(), "",
                      program)
                .exit,
            0);
}

}  // namespace
}  // namespace qkvet::cli::first_screen_test
