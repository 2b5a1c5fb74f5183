// SPDX-License-Identifier: Apache-2.0
// examples/: every good one conforms, and every broken one fails where its
// README says. ci/pages_test.py runs the commands of the README.
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::examples_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = QKVET_EXAMPLES;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Examples that answer a plan are no kernels: judge_examples_test runs them.
bool is_kernel(const fs::path& file) {
  return (file.extension() == ".c" || file.extension() == ".cpp") &&
         file.stem() != "answer_plan";
}

bool is_broken(const std::string& text) {
  return text.find("_broken") != std::string::npos;
}

TEST(Examples, GoodOnesConform) {
  int good = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename();
    if (!is_kernel(entry.path()) || is_broken(name)) continue;
    ++good;
    // The threads of a GPU are slow on a CPU.
    const char* cases = name.starts_with("simt_") ? " -n 100" : " -n 400";
    const Ran ran = run_qkvet(
        "check " + name + cases + " --cflags '-Wall -Wextra'", kFolder);
    EXPECT_EQ(ran.exit, 0) << ran.out << ran.error;
    EXPECT_EQ(ran.error, "") << "warnings";
  }
  EXPECT_GE(good, 5);
}

// The README's conditions under which the faults hide, each with its opposite.
TEST(Examples, FaultsHideWhereTheReadmeSays) {
  const struct {
    const char* example;
    const char* law;
    const char* hidden;
    const char* seen;
  } rows[] = {
      {"twelve_lines_broken.cpp", "agrees_with_oracle", "f32,B1,H1,Tq3,Tk3,d4",
       "f32,B1,H1,Tq3,Tk3,d4,causal=br"},
      {"full_abi.c --cflags -DBROKEN", "weights_sum_to_one",
       "f32,B1,H1,Tq3,Tk3,d4,v=one", ""},
      {"cache.cpp --cflags -DBROKEN", "cache_agrees_with_history",
       "f32,B1,H1,d4,cap8,story=step.a.1+step.a.1+step.a.1",
       "f32,B1,H1,d4,cap8,story=step.a.1+step.a.2"},
      {"ggml_like.cpp --cflags -DBROKEN", "agrees_with_oracle",
       "f16,B1,H1,Tq5,Tk64,d8,causal=br", "f16,B1,H1,Tq5,Tk63,d8,causal=br"},
      {"simt_kernel.cpp --cflags -DBROKEN", "agrees_with_oracle",
       "f32,B1,H1,Tq4,Tk1,d4", "f32,B1,H1,Tq4,Tk2,d4"},
  };
  const auto exit_of = [](const std::string& of, const std::string& law,
                          const std::string& example) {
    return run_qkvet("replay " + of + " --law " + law + " " + example, kFolder)
        .exit;
  };
  for (const auto& row : rows) {
    EXPECT_EQ(exit_of(row.hidden, row.law, row.example), 0) << row.example;
    const std::string seen = row.seen;
    if (seen.empty())
      EXPECT_EQ(
          exit_of("f32,B1,H1,Tq3,Tk3,d4", "agrees_with_oracle", row.example),
          1);
    else
      EXPECT_EQ(exit_of(seen, row.law, row.example), 1) << row.example;
  }
}

// g++ takes a file with the ending of CUDA for an input of the linker.
TEST(Examples, ACudaSourceIsCompiledForTheEmulator) {
  write_text(scratch() / "attend.cu", read_text(kFolder / "simt_kernel.cpp"));
  const std::string check =
      "check attend.cu -n 60 --law agrees_with_oracle --diagnose 0";
  const Ran right = exits(0, run_qkvet(check));
  EXPECT_TRUE(has(right.out, " -x c++ attend.cu -x none -o "));
  const Ran wrong = exits(1, run_qkvet(check + " --cflags -DBROKEN"));
}

// One source: the code that runs here is the code that nvcc compiles.
TEST(Examples, KernelsOfTheEmulatorAreThoseOfNvcc) {
  const char* const there = "/usr/local/cuda/bin/nvcc";
  const char* const wish = std::getenv("CUDACXX");
  const std::string nvcc = wish != nullptr ? wish : there;
  if (std::system((nvcc + " --version >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no nvcc: neither $CUDACXX nor " << there;
  ASSERT_EQ(run_qkvet("new of_template.cu").exit, 0);
  for (const fs::path& source :
       {kFolder / "simt_kernel.cpp", scratch() / "of_template.cu"}) {
    const std::string compile = nvcc + " -std=c++17 -x cu -c -o /dev/null -I" +
                                QKVET_HEADERS + " '" + source.string() +
                                "' >/dev/null 2>&1";
    EXPECT_EQ(std::system(compile.c_str()), 0) << compile;
    EXPECT_NE(std::system((compile + " -DkThreads=").c_str()), 0);
  }
}

// "NAME:LINE" of the only line of an example that has `text`.
std::string place_of(const std::string& name, const std::string& text) {
  const std::vector<std::string> lines = lines_of(read_text(kFolder / name));
  std::string place;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(text) == std::string::npos) continue;
    EXPECT_EQ(place, "") << text;
    place = name + ":" + std::to_string(i + 1);
  }
  EXPECT_NE(place, "") << text;
  return place;
}

// As in impl/cuda/simt/README.md: in a program without a sanitizer.
TEST(Examples, ThreadSanitizerNamesTheLinesOfTheRace) {
  const fs::path found = scratch() / "libtsan";
  const std::string ask =
      "c++ -print-file-name=libtsan.so > '" + found.string() + "'";
  ASSERT_EQ(std::system(ask.c_str()), 0);
  const std::string library = lines_of(read_text(found)).at(0);
  if (!library.starts_with("/")) GTEST_SKIP() << "c++ has no libtsan.so";
  if (std::system("setarch -R true 2>/dev/null") != 0)
    GTEST_SKIP() << "addresses cannot be fixed here (setarch -R)";
  const auto replay = [&](const std::string& flags) {
    const std::string command =
        "replay f32,B1,H1,Tq1,Tk2,d1 --law agrees_with_oracle --in-process "
        "simt_kernel.cpp --cflags '-fsanitize=thread " +
        flags + "'";
    // Compiles it; with the library each program of the compiler is slow.
    EXPECT_EQ(run_qkvet(command, kFolder).exit, 2);
    return run_qkvet(
        command, kFolder,
        "setarch -R env TSAN_OPTIONS=atexit_sleep_ms=0 LD_PRELOAD=" + library);
  };
  const Ran broken = replay("-DBROKEN");
  EXPECT_NE(broken.exit, 0);
  for (const std::string& words :
       {std::string("ThreadSanitizer: data race"),
        place_of("simt_kernel.cpp", "parts[threadIdx.x] = mine"),
        place_of("simt_kernel.cpp", "all + parts[n]")})
    EXPECT_TRUE(has(broken.error, words)) << words;
  const Ran right = exits(0, replay(""));
  EXPECT_FALSE(has(right.error, "ThreadSanitizer"));
}

}  // namespace
}  // namespace qkvet::cli::examples_test
