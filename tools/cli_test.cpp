// SPDX-License-Identifier: Apache-2.0
// The program as its users meet it: what it prints, and its exit code.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace {

namespace fs = std::filesystem;

struct Ran {
  int exit = -1;
  std::string out;    // stdout
  std::string error;  // stderr
};

std::string slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::temp_directory_path() /
                          ("qkvet_cli_test_" + std::to_string(getpid()));
  fs::create_directories(folder);
  return folder / name;
}

Ran qkvet(const std::string& arguments, const std::string& environment = "") {
  const fs::path error = scratch("stderr");
  const std::string command = environment + " " + QKVET_PROGRAM + " " +
                              arguments + " 2>" + error.string();
  Ran ran;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    ran.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  ran.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ran.error = slurp(error);
  return ran;
}

std::string bad_plugin() { return QKVET_BAD_PLUGIN; }

void expect_one_line(const Ran& ran, const std::string& part) {
  EXPECT_EQ(ran.exit, 2) << ran.out << ran.error;
  EXPECT_NE(ran.error.find(part), std::string::npos) << ran.error;
  EXPECT_EQ(std::count(ran.error.begin(), ran.error.end(), '\n'), 1)
      << ran.error;
  EXPECT_TRUE(ran.error.starts_with("qkvet: ")) << ran.error;
}

TEST(Cli, CheckPassesTheScalarKernel) {
  const Ran ran = qkvet("check --kernel scalar/plain --cases 300");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_NE(ran.out.find("agrees_with_oracle"), std::string::npos);
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("PASSED  1 kernel, [0-9]+ laws: [0-9]+ passed, 0 "
                          "failed, 5 other")))
      << ran.out;
  // The five are those about pages and new tokens, which it does not take.
  const std::regex unsupported("unsupported");
  EXPECT_EQ(std::distance(std::sregex_iterator(ran.out.begin(), ran.out.end(),
                                               unsupported),
                          std::sregex_iterator()),
            5);
  EXPECT_NE(ran.out.find("pages, new tokens (not declared)"),
            std::string::npos);
  // Silence in a pipe: no progress, no colour.
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
}

TEST(Cli, TheSameRunSaysTheSame) {
  const auto stable = [](const std::string& text) {
    // Times and rates differ from run to run, nothing else.
    return std::regex_replace(
        text, std::regex("[0-9.]+ s\\b|time .*\\n.*%|case [0-9]+, "), "_");
  };
  const std::string arguments =
      "check --kernel 'faulty/scale_twice' --cases 300 --jobs ";
  EXPECT_EQ(stable(qkvet(arguments + "1").out),
            stable(qkvet(arguments + "2").out));
}

TEST(Cli, AFaultFailsWithAReportThatReplays) {
  const Ran ran = qkvet("check --kernel faulty/no_mask --cases 600");
  EXPECT_EQ(ran.exit, 1) << ran.out;
  for (const char* part : {"FAIL", "law  ", "case  ", "shrunk from", "expected",
                           "actual", "again"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << ran.out;
  std::smatch again;
  ASSERT_TRUE(std::regex_search(ran.out, again,
                                std::regex("again +qkvet (replay .*)")));
  const Ran replayed = qkvet(again[1]);
  EXPECT_EQ(replayed.exit, 1) << replayed.out << replayed.error;
  EXPECT_NE(replayed.out.find("FAIL"), std::string::npos);
}

TEST(Cli, WrongUseIsOneLineAndTwo) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "A subcommand is required"},
      {"chekc", "chekc"},
      {"check --kernel nobody/nothing", "nobody/nothing"},
      {"check --kernel 'scalar/x*'", "scalar/x*"},
      {"check --law no_such_law", "no_such_law"},
      {"check --colour", "--colour"},
      {"check --cases 0", "--cases"},
      {"check --cases many", "--cases"},
      {"check --cases 10 --budget 1s", "--budget"},
      {"check --budget soon", "--budget soon"},
      {"check --budget -3s", "--budget"},
      {"check --seed x", "--seed x"},
      {"check --jobs -1", "--jobs"},
      {"check --plugin /nowhere.so", "/nowhere.so"},
      {"check --plugin /etc/passwd", "/etc/passwd"},
      {"check --cases 6 --junit /nowhere/x.xml", "/nowhere/x.xml"},
      {"check --cases 6 --json /nowhere/x.json", "/nowhere/x.json"},
      {"list everything", "everything"},
      {"replay", "case"},
      {"replay f32,B1,H1", "Tq is missing"},
      {"replay nonsense", "nonsense"},
      {"replay f32,B1,H1,Tq1,Tk1,d1 --law x", "\"x\""},
      {"replay @/nowhere.txt", "/nowhere.txt"},
      {"replay f32,B1,H1,Tq1,Tk1,d1 --digest 00000000", "--digest 00000000"},
  };
  for (const auto& [arguments, part] : wrong)
    expect_one_line(qkvet(arguments), part);
}

TEST(Cli, NothingRunIsThree) {
  // fp8 has no bound, so every law is unsupported.
  const Ran ran =
      qkvet("replay fp8e4m3,B1,H1,Tq1,Tk2,d3 --kernel scalar/plain");
  EXPECT_EQ(ran.exit, 3) << ran.out << ran.error;
  // A law that says nothing about a case.
  EXPECT_EQ(qkvet("replay f32,B1,H1,Tq1,Tk2,d3 --law future_weights_are_zero "
                  "--kernel scalar/plain")
                .exit,
            3);
}

#if defined(__x86_64__)
TEST(Cli, WithoutAvx2TheVerdictIsUnsupported) {
  const Ran named =
      qkvet("check --kernel avx2/flash --cases 60", "QKVET_CPU=baseline");
  EXPECT_EQ(named.exit, 3) << named.out << named.error;
  EXPECT_NE(named.out.find("unsupported"), std::string::npos);
  EXPECT_NE(named.out.find("AVX2"), std::string::npos);
  // By default it is shown and does not spoil the run.
  const Ran all = qkvet("check --cases 400", "QKVET_CPU=baseline");
  EXPECT_EQ(all.exit, 0) << all.out << all.error;
  EXPECT_NE(all.out.find("unsupported"), std::string::npos);
}
#endif

TEST(Cli, ReplayTakesListsAndDigests) {
  const fs::path list = scratch("cases.txt");
  std::ofstream(list) << "# two cases\nf32,B1,H1,Tq1,Tk1,d1\n\n"
                         "f32,B1,H1,Tq2,Tk2,d1,causal=br  # the second\n";
  const Ran ran = qkvet("replay @" + list.string() + " --kernel scalar/plain");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
  EXPECT_NE(ran.out.find("cases.txt:4: "), std::string::npos) << ran.out;
  std::ofstream(list) << "f32,B1,H1,Tq1,Tk1,d1\nf32,B1,H0,Tq1,Tk1,d1\n";
  expect_one_line(qkvet("replay @" + list.string()), "cases.txt:2: case: H0");
  EXPECT_EQ(qkvet("replay f32,B1,H2,Hkv1,Tq3,Tk5,d4 --digest 22e10344 "
                  "--kernel scalar/plain")
                .exit,
            0);
}

// Whether the kernel declares them or not: no law fails on them or ends the
// program.
TEST(Cli, ReplayTakesEmptyExtents) {
  for (const char* const extents :
       {"B0,H1,Tq2,Tk2", "B1,H1,Tq0,Tk2", "B1,H1,Tq2,Tk0", "B0,H1,Tq0,Tk0"})
    for (const char* const causal : {"", ",causal=tl", ",causal=br"}) {
      const Ran ran = qkvet("replay f32," + std::string(extents) + ",d1" +
                            causal + " --kernel scalar/plain");
      EXPECT_TRUE(ran.exit == 0 || ran.exit == 3) << ran.out << ran.error;
    }
}

// One value per flag, so that a flag never swallows the case behind it.
TEST(Cli, FlagsAndCasesComeInAnyOrder) {
  const Ran ran = qkvet(
      "replay --law agrees_with_oracle --kernel scalar/plain "
      "f32,B1,H1,Tq1,Tk2,d3");
  EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
}

TEST(Cli, ListShowsKernelsLawsAndFaults) {
  const Ran all = qkvet("list");
  EXPECT_EQ(all.exit, 0) << all.error;
  for (const char* name : {"scalar/plain", "eigen/plain", "controls/naive",
                           "faulty/no_mask", "weights_sum_to_one"})
    EXPECT_NE(all.out.find(name), std::string::npos) << name;
  const Ran json = qkvet("list faults --json");
  std::istringstream lines(json.out);
  int faults = 0;
  for (std::string line; std::getline(lines, line); ++faults) {
    const auto fault = nlohmann::json::parse(line);
    EXPECT_EQ(fault["type"], "fault");
    EXPECT_FALSE(fault["killed_by"].empty()) << line;
  }
  EXPECT_GE(faults, 10);
}

// It is built where nvcc is, and judged where a device is, too.
TEST(Cli, TheFamilyOfTheDeviceSaysWhyItIsNotJudged) {
  const Ran ran = qkvet("check --kernel cuda/flash --cases 51");
  if (!fs::exists(fs::path(QKVET_PROGRAM).parent_path() / ".." / "lib" /
                  "qkvet" / "qkvet_cuda.so")) {
    EXPECT_EQ(ran.exit, 2) << ran.out;
    EXPECT_NE(ran.error.find("cuda: not built, it takes nvcc"),
              std::string::npos)
        << ran.error;
  } else if (ran.exit != 0) {
    EXPECT_EQ(ran.exit, 3) << ran.out << ran.error;
    EXPECT_NE((ran.out + ran.error).find("no CUDA d"), std::string::npos)
        << ran.out << ran.error;
  }
}

TEST(Cli, JunitAndJsonSayWhatTheTextSays) {
  const fs::path junit = scratch("out.xml"), json = scratch("out.jsonl");
  const Ran ran = qkvet(
      "check --kernel scalar/plain --kernel faulty/no_scale --cases 300 "
      "--junit " +
      junit.string() + " --json " + json.string());
  EXPECT_EQ(ran.exit, 1);
  const std::string xml = slurp(junit);
  // One of the two has gradients, and laws of its own for them.
  int laws = 0;
  for (const char* kernel : {"scalar/plain", "faulty/no_scale"}) {
    const Ran alone =
        qkvet(std::string("check --cases 300 --kernel ") + kernel);
    std::smatch own;
    ASSERT_TRUE(std::regex_search(alone.out, own,
                                  std::regex("1 kernel, ([0-9]+) laws")));
    laws += std::stoi(own[1]);
  }
  EXPECT_NE(xml.find("tests=\"" + std::to_string(laws) + "\""),
            std::string::npos)
      << xml;
  EXPECT_NE(xml.find("classname=\"scalar/plain\" "
                     "name=\"weights_sum_to_one\""),
            std::string::npos);
  EXPECT_NE(xml.find("<failure message="), std::string::npos);
  int results = 0, failures = 0;
  std::istringstream lines(slurp(json));
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

TEST(Cli, InProcessGivesTheSameVerdicts) {
  EXPECT_EQ(qkvet("check --kernel scalar/plain --cases 400 --in-process").exit,
            0);
  EXPECT_EQ(
      qkvet("check --kernel faulty/no_scale --cases 400 --in-process").exit, 1);
}

TEST(Cli, ABudgetBuysWholeRounds) {
  const Ran ran = qkvet("check --kernel scalar/plain --budget 0.2s");
  EXPECT_EQ(ran.exit, 0) << ran.out;
  EXPECT_NE(ran.out.find("whole rounds"), std::string::npos) << ran.out;
}

TEST(Cli, ARandomSeedIsPrinted) {
  const Ran ran =
      qkvet("check --kernel scalar/plain --cases 900 --seed random");
  EXPECT_EQ(ran.exit, 0) << ran.out;
  EXPECT_TRUE(std::regex_search(ran.out, std::regex("seed [0-9]+")));
}

// A kernel that misbehaves gets a verdict with a case, and the run goes on.
Ran bad_beside_good(const std::string& kernel) {
  return qkvet(
      "check --cases 60 --law reads_only_its_inputs --law weights_sum_to_one "
      "--law agrees_with_oracle --plugin " +
      bad_plugin() + " --kernel bad/" + kernel + " --kernel scalar/plain");
}

TEST(Cli, ACrashIsFourAndTheRunGoesOn) {
  for (const char* kernel : {"abort", "null_write", "exit", "throw", "stack"}) {
    const Ran ran = bad_beside_good(kernel);
    EXPECT_EQ(ran.exit, 4) << kernel << ran.out << ran.error;
    EXPECT_NE(ran.out.find("CRASH"), std::string::npos) << ran.out;
    EXPECT_TRUE(std::regex_search(
        ran.out, std::regex("scalar/plain +agrees_with_oracle +passed")))
        << ran.out;
  }
}

// Three kernels of one library, of which the second always crashes.
TEST(Cli, ACrashingSiblingLeavesTheOthersJudged) {
  const Ran ran =
      qkvet("check --plugin " QKVET_BAD_PLUGIN
            " --kernel bad/copy --kernel bad/abort --kernel bad/unwritten "
            "--cases 200");
  EXPECT_EQ(ran.exit, 4) << ran.out << ran.error;
  for (const char* kernel : {"bad/copy", "bad/unwritten"})
    EXPECT_TRUE(std::regex_search(
        ran.out,
        std::regex(
            std::string(kernel) +
            " +(agrees_with_oracle|reads_only_its_inputs) +(passed|FAILED)")))
        << kernel << ran.out;
  EXPECT_NE(ran.out.find("gdb --args qkvet replay"), std::string::npos)
      << ran.out;
}

TEST(Cli, AHangIsFourAndTheRunGoesOn) {
  const Ran ran = bad_beside_good("endless");
  EXPECT_EQ(ran.exit, 4) << ran.out << ran.error;
  EXPECT_NE(ran.out.find("no end after"), std::string::npos) << ran.out;
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("scalar/plain +agrees_with_oracle +passed")));
}

TEST(Cli, AReadPastTheEndOfKIsAFailureOfTheMemoryLaw) {
  const Ran ran = bad_beside_good("read_past_k");
  EXPECT_EQ(ran.exit, 1) << ran.out << ran.error;
  EXPECT_NE(ran.out.find("FAIL  reads_only_its_inputs   bad/read_past_k"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("READ of k, 0 bytes past its end"), std::string::npos)
      << ran.out;
}

TEST(Cli, APluginIsJudgedAndNamedInTheReplayLine) {
  const Ran ran =
      qkvet("check --cases 60 --plugin " + bad_plugin() + " --kernel bad/copy");
  EXPECT_EQ(ran.exit, 1) << ran.out;
  EXPECT_NE(ran.out.find("--plugin " + bad_plugin()), std::string::npos)
      << ran.out;
}

}  // namespace
