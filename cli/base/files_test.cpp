// SPDX-License-Identifier: Apache-2.0
// File arguments of all commands and options that `qkvet man` lists: arguments
// that are no files, outputs that are also inputs, outputs that cannot be
// written, empty values; and limits of the machine.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "cli/base/program_run.h"

namespace qkvet::cli::files_test {
namespace {

namespace fs = std::filesystem;

struct ListedOption {
  std::string command;  // "golden verify"
  std::string name;     // "--json", or the word of a positional argument
  std::string type;     // "FILE"; "" for a place
};

// All options with a value.
const std::vector<ListedOption>& listed_options() {
  static const std::vector<ListedOption> all = [] {
    std::vector<ListedOption> found;
    std::istringstream page(
        std::regex_replace(run_qkvet("man").out, std::regex(R"(\\-)"), "-"));
    const std::regex heading(
        R"re(\.SS "qkvet (.*?) (COMMAND |)\[OPTIONS\].*)re");
    const std::regex option(
        R"re((?:.*, )?\\fB([^\\]*)\\fR(?: \\fI(.*)\\fR)?)re");
    std::string command;
    std::smatch match;
    for (std::string line; std::getline(page, line);) {
      if (std::regex_match(line, match, heading))
        command = match[1];
      else if (!command.empty() && std::regex_match(line, match, option))
        if (match[2].matched || match[1].str()[0] != '-')
          found.push_back({command, match[1], match[2]});
    }
    return found;
  }();
  return all;
}

// Words with which a command would run, were it not for the value in question.
// Kept short: most runs end before they begin.
const std::map<std::string, std::string>& words_of() {
  static const std::map<std::string, std::string> words = {
      {"check", "-k scalar/plain -n 20"},
      {"fuzz", "shapes -k scalar/plain --cases 1"},
      {"mutate", "good.cpp -n 20 --sample 1"},
      {"identify", "-k scalar/plain -n 20"},
      {"bench call", "-k scalar/plain f32,B1,H1,Tq1,Tk1,d1 --repeat 1"},
      {"bench decode", "-k kv_cache/contiguous Tk16 --repeat 1"},
      {"demo memory", "f16,L1,B1,Hkv1,T1,d1"},
      {"golden verify", "-k scalar/plain"},
      {"golden record", "recorded f32,B1,H1,Tq1,Tk1,d1 -k scalar/plain"},
      {"golden show", ""},
      {"golden import", ""},
      {"judge", "call.safetensors"},
      {"verdict", "prefill_causal_f16"},
      {"demo inspect", "f32,B1,H1,Tq1,Tk1,d1 -k scalar/plain"},
      {"demo trace", ""},
      {"demo train", "--repeat 1"},
      {"report", "run.jsonl"},
      {"replay", "f32,B1,H1,Tq1,Tk1,d1 -k scalar/plain"},
      {"explain", "causal_off_by_one"},
      {"new", "new.cpp"},
      {"bench", ""},
      {"demo", ""},
      {"golden", ""}};
  return words;
}

// Options of type FILE and the like that a command writes.
const std::set<std::string> kOutputs = {"--json",  "--junit",    "--html",
                                        "--sarif", "--markdown", "--out"};

bool reads_file(const ListedOption& option) {
  static const std::set<std::string> types = {
      "FILE", "FILE|CONVENTION", "FILE[:config]", "RUN.jsonl", "PATH", "PLAN"};
  return types.contains(option.type) && !kOutputs.contains(option.name);
}

// Positional arguments that name files: the words, with % for the file.
struct Place {
  const char* words;
  const char* ending;
};
constexpr Place kPlaces[] = {
    {"check % -n 20", ".cpp"},
    {"check % -n 20", ".cu"},
    {"check % -n 20", ".so"},
    {"check %:f -n 20", ".py"},
    {"check ffi:good.cpp:f:% -n 20", ""},
    {"mutate %", ".cpp"},
    {"mutate --repair %", ".cpp"},
    {"identify %", ".cpp"},
    {"fuzz shapes % --cases 1", ".c"},
    {"demo inspect f32,B1,H1,Tq1,Tk1,d1 %", ".cpp"},
    {"replay f32,B1,H1,Tq1,Tk1,d1 %", ".cpp"},
    {"replay @% -k scalar/plain", ""},
    {"replay % -k kv_cache/contiguous", ".story"},
    {"report %", ""},
    {"report % run.jsonl", ""},
    {"report run.jsonl %", ""},
    {"report run.jsonl % -o all.jsonl", ""},
    {"golden verify %", ".safetensors"},
    {"golden show %", ".safetensors"},
    {"golden import % sets/a --pins x --source y", ".npz"},
    {"golden record recorded @% -k scalar/plain", ""},
    {"judge %", ".safetensors"},
    {"judge %", ".npz"}};

// Two seconds, on a machine that may be busy.
constexpr std::chrono::seconds kMost{8};

constexpr const char* kKinds[] = {"pipe", "folder", "device", "sparse"};

class Files : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* kind : kKinds) fs::create_directories(scratch() / kind);
    ASSERT_EQ(run_qkvet("new good.cpp").exit, 0);
    ASSERT_EQ(run_qkvet("check -k scalar/plain -n 20 --json run.jsonl").error,
              "");
  }

  // The path of such a thing with this ending.
  static std::string bad(const std::string& kind, const std::string& ending) {
    constexpr off_t kHuge = off_t{100} << 30;
    const fs::path path = scratch() / kind / ("x" + ending);
    std::error_code code;
    fs::remove_all(path, code);
    if (kind == "pipe") {
      EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    } else if (kind == "folder") {
      fs::create_directory(path);
    } else if (kind == "device") {
      fs::create_symlink("/dev/zero", path);
    } else {
      write_text(path, "");
      EXPECT_EQ(truncate(path.c_str(), kHuge), 0);
    }
    return kind + "/x" + ending;
  }

  // Commands that hang are killed, and memory is limited.
  static Ran run(const std::string& words) {
    return run_qkvet(
        words, scratch(),
        "sh -c 'ulimit -v 8000000; exec timeout 20 \"$0\" \"$@\"'");
  }

  static void expect_refused(const std::string& words) {
    const auto start = std::chrono::steady_clock::now();
    const Ran ran = run(words);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kMost) << words;
    EXPECT_EQ(ran.exit, 2) << words << "\n" << ran.out << ran.error;
    EXPECT_EQ(std::count(ran.error.begin(), ran.error.end(), '\n'), 1)
        << words << "\n"
        << ran.error;
  }

  static std::string line(const ListedOption& option,
                          const std::string& value) {
    return option.command + " " + words_of().at(option.command) + " " +
           option.name + " " + value;
  }
};

TEST_F(Files, EveryCommandIsKnownHere) {
  EXPECT_GT(listed_options().size(), 150u);
  for (const ListedOption& option : listed_options())
    EXPECT_TRUE(words_of().contains(option.command)) << option.command;
}

// Each option with everything that is no file, and the same option of other
// commands with a pipe, which never ends.
TEST_F(Files, OptionsThatNameAFileReadRegularFilesAlone) {
  std::set<std::string> seen;
  for (const ListedOption& option : listed_options()) {
    if (!reads_file(option)) continue;
    const bool first = seen.insert(option.name + option.type).second;
    for (const std::string kind : kKinds) {
      if (!first && kind != "pipe") continue;
      std::string ending;
      if (option.name == "--data") ending = ".safetensors";
      if (option.name == "--replay" && kind == "folder") continue;
      expect_refused(line(option, bad(kind, ending)));
    }
  }
  EXPECT_GT(seen.size(), 5u);
}

TEST_F(Files, PlacesInTheLineReadRegularFilesAlone) {
  for (const Place& place : kPlaces)
    for (const std::string kind : kKinds) {
      // A folder of sets, and of an ONNX test.
      if (kind == "folder" &&
          std::string_view(place.words).starts_with("golden"))
        continue;
      expect_refused(std::regex_replace(
          std::string(place.words), std::regex("%"), bad(kind, place.ending)));
    }
}

TEST_F(Files, AnEmptyValueIsNoMissingOption) {
  std::string place_of;  // the command that it is a place of
  for (const ListedOption& option : listed_options()) {
    const bool is_place = option.name[0] != '-';
    // Places are filled from the first on.
    if (is_place && std::exchange(place_of, option.command) == option.command)
      continue;
    std::vector<std::string> words = {"''"};
    if (!is_place) words = {option.name + " ''", option.name + "="};
    for (const std::string& word : words) {
      const std::string line = "--parse-only " + option.command + " " + word;
      const Ran ran = run_qkvet(line);
      EXPECT_EQ(ran.exit, 2) << line;
      EXPECT_TRUE(has(ran.error, option.name + ": an empty value")) << line;
    }
  }
  for (const char* line :
       {"check -k scalar/plain --junit ''", "check -k scalar/plain --pin ''",
        "check -k scalar/plain --budget ''", "golden record ''"})
    expect_wrong_use(run_qkvet(line), "an empty value");
}

TEST_F(Files, OutputsThatCannotBeWrittenAreRefusedBeforeTheWork) {
  std::set<std::string> seen;
  for (const ListedOption& option : listed_options()) {
    if (option.type != "FILE" || !kOutputs.contains(option.name)) continue;
    seen.insert(option.name);
    const Ran ran = run(line(option, "nowhere/x"));
    expect_wrong_use(ran, "nowhere/x: cannot be written");
    EXPECT_EQ(ran.out, "") << option.command;
  }
  EXPECT_EQ(seen.size(), kOutputs.size());
  expect_wrong_use(run("golden record nowhere/x -k scalar/plain"),
                   "nowhere/x: cannot be written");
  expect_wrong_use(run("judge --ask nowhere/x"),
                   "nowhere/x: cannot be written");
}

TEST_F(Files, NoOutputTakesThePlaceOfAnInput) {
  write_text(scratch() / "known.txt", "# none\n");
  fs::create_hard_link(scratch() / "run.jsonl", scratch() / "linked.jsonl");
  fs::create_symlink("run.jsonl", scratch() / "pointer.jsonl");
  const struct {
    const char* words;
    const char* output;
  } rows[] = {
      {"report run.jsonl --html run.jsonl", "run.jsonl"},
      {"report run.jsonl --html ./run.jsonl", "./run.jsonl"},
      {"report run.jsonl --junit linked.jsonl", "linked.jsonl"},
      {"report run.jsonl --markdown pointer.jsonl", "pointer.jsonl"},
      {"report run.jsonl linked.jsonl -o run.jsonl", "run.jsonl"},
      {"check good.cpp -n 20 --json good.cpp", "good.cpp"},
      {"check good.cpp -n 20 --sarif good.cpp", "good.cpp"},
      {"check -k scalar/plain -n 20 --known known.txt --json known.txt",
       "known.txt"},
      {"check -k scalar/plain -n 20 --baseline run.jsonl --json "
       "run.jsonl",
       "run.jsonl"},
      {"mutate good.cpp --only x -o good.cpp", "good.cpp"},
      {"mutate good.cpp --sample 1 --json good.cpp", "good.cpp"},
      {"replay @known.txt -k scalar/plain --out known.txt", "known.txt"}};
  for (const auto& row : rows) {
    const std::string before = read_text(scratch() / row.output);
    const Ran ran = run(row.words);
    EXPECT_EQ(ran.exit, 2) << row.words << ran.out;
    EXPECT_TRUE(has(ran.error, row.output));
    EXPECT_EQ(read_text(scratch() / row.output), before) << row.words;
  }
  expect_wrong_use(run("report run.jsonl --html x.html --junit x.html"),
                   "x.html: is named for two outputs");
}

TEST_F(Files, AFullDiskIsNoSuccess) {
  const std::string check = "check -k scalar/plain -n 20 ";
  for (const std::string& words :
       {check + "> /dev/full", check + "--json /dev/full",
        check + "--html /dev/full", check + "--junit /dev/full",
        std::string("man > /dev/full"), std::string("man -o /dev/full"),
        std::string("explain laws > /dev/full"),
        std::string("explain weights_sum_to_one > /dev/full"),
        std::string("report run.jsonl > /dev/full")}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.exit, 2) << words << ran.out;
    EXPECT_TRUE(has(ran.error, "cannot be written in full")) << words;
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Files, OneRunAtATimeWritesARecord) {
  write_text(scratch() / "busy.jsonl", "of another run\n");
  const int fd = open((scratch() / "busy.jsonl").c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const char* words = "check -k scalar/plain -n 20 --json busy.jsonl";
  expect_wrong_use(run(words), "busy.jsonl: another run writes this file");
  EXPECT_EQ(read_text(scratch() / "busy.jsonl"), "of another run\n");
  close(fd);
  EXPECT_NE(run(words).exit, 2);
  EXPECT_EQ(run("report busy.jsonl").exit, 0);
}

TEST_F(Files, WhatAKilledRunLeftIsSwept) {
  const std::string dead = ".x.html.qkvet-2147483646";
  const std::string live = ".x.html.qkvet-" + std::to_string(getpid());
  for (const std::string& name : {dead, live}) write_text(scratch() / name, "");
  EXPECT_EQ(run("report run.jsonl --html x.html").exit, 0);
  EXPECT_FALSE(fs::exists(scratch() / dead));
  EXPECT_TRUE(fs::exists(scratch() / live));
  fs::remove(scratch() / live);
}

TEST_F(Files, LimitsOfTheMachineAreNoFaultOfAKernel) {
  const struct {
    const char* limit;
    const char* line;
  } rows[] = {
      {"-v 200000",
       "address space: 200000 KiB (ulimit -v); kernels are run with at least "
       "4194304 KiB"},
      {"-s 64",
       "stack: 64 KiB (ulimit -s); kernels are run with at least 2048 KiB"},
      {"-n 64",
       "open files: 64 (ulimit -n); kernels are run with at least 128"},
      {"-f 1000",
       "file size: 500 KiB (ulimit -f); kernels are run with unlimited"}};
  for (const auto& row : rows)
    expect_wrong_use(run_qkvet("check -k scalar/plain -n 20", scratch(),
                               std::string("sh -c 'ulimit ") + row.limit +
                                   "; exec \"$0\" \"$@\"'"),
                     row.line);
  const Ran tiny = run_qkvet("check -k scalar/plain -n 20", scratch(),
                             "sh -c 'ulimit -v 50000; exec \"$0\" \"$@\"'");
  expect_wrong_use(tiny, "ulimit -v");
}

// The least required limits suffice: only lower limits are refused.
TEST_F(Files, WithTheLeastThatIsAskedForKernelsPass) {
  const Ran ran = run_qkvet(
      "check -k scalar/plain -n 300", scratch(),
      "sh -c 'ulimit -v 4194304; ulimit -s 2048; ulimit -n 128; exec \"$0\" "
      "\"$@\"'");
  EXPECT_EQ(ran.error, "");
  EXPECT_TRUE(has(ran.out, " 0 failed"));
}

}  // namespace
}  // namespace qkvet::cli::files_test
