// SPDX-License-Identifier: Apache-2.0
// examples/: every good one conforms, every broken one fails a law, and
// examples/README.md shows the program's output.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

#include "cli/base/program_run.h"

namespace qkvet::cli::examples_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = QKVET_EXAMPLES;
constexpr const char* kIndent = "    ";
constexpr const char* kPrompt = "    $ qkvet ";
constexpr const char* kRest = "    [...]";

// Times, folders, hashes and the compiler's name differ between machines.
std::string stable(std::string text) {
  const std::pair<const char*, const char*> changes[] = {
      {"-I\\S+", "-I_"},
      {"-o '?.*/qkvet/([^ /]+)-[0-9a-f]{16}\\.so'?", "-o _/$1.so"},
      {"^( *)(cc|c\\+\\+) ", "$1cc "},
      {"[0-9.]+ s\\b", "_ s"},
  };
  for (const auto& [from, to] : changes)
    text = std::regex_replace(text, std::regex(from), to);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A command of the README, and the lines below it.
struct Block {
  std::string arguments;
  size_t first = 0, end = 0;  // of the lines that show its output
};

std::vector<Block> blocks_of(const std::vector<std::string>& lines) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with(kPrompt)) continue;
    Block block{lines[i].substr(std::string(kPrompt).size()), i + 1, i + 1};
    while (block.end < lines.size() && lines[block.end].starts_with(kIndent))
      ++block.end;
    blocks.push_back(block);
  }
  return blocks;
}

// The compiler's command and the first report, as in the README. The rest has
// figures that depend on the machine's exp.
std::vector<std::string> shown(const std::string& out) {
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(out)) {
    if (line.empty()) break;
    lines.push_back(kIndent + line);
  }
  lines.emplace_back(kRest);
  return lines;
}

std::string joined(const std::vector<std::string>& lines, size_t from,
                   size_t end) {
  std::string text;
  for (size_t i = from; i < end; ++i) text += lines[i] + "\n";
  return text;
}

// Examples that answer a plan are no kernels: judge_examples_test runs them.
bool is_kernel(const fs::path& file) {
  return (file.extension() == ".c" || file.extension() == ".cpp") &&
         file.stem() != "answer_plan";
}

// A file, or the arguments of a command.
bool is_broken(const std::string& text) {
  return text.find("_broken") != std::string::npos ||
         text.find("-DBROKEN") != std::string::npos;
}

// Has a mistake that a macro of the compiler switches on.
bool can_be_broken(const fs::path& file) {
  return is_kernel(file) &&
         read_text(file).find("def BROKEN") != std::string::npos;
}

TEST(Examples, ReadmeShowsWhatTheProgramPrints) {
  std::vector<std::string> lines = lines_of(read_text(kFolder / "README.md"));
  const bool rewrite = std::getenv("QKVET_REWRITE_EXAMPLES") != nullptr;
  const std::vector<Block> blocks = blocks_of(lines);
  std::set<std::string> missing;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (is_broken(entry.path().filename()) || can_be_broken(entry.path()))
      missing.insert(entry.path().filename());
  EXPECT_GE(missing.size(), 5U);
  // From the last to the first, so that rewriting one does not move the others.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const Ran ran = run_qkvet(block->arguments, kFolder);
    EXPECT_EQ(ran.exit, is_broken(block->arguments) ? 1 : 0)
        << block->arguments << ran.out << ran.error;
    std::istringstream words(block->arguments);
    for (std::string word; words >> word && is_broken(block->arguments);)
      missing.erase(word);
    const std::vector<std::string> now = shown(ran.out);
    const auto place = lines.begin();
    if (rewrite) {
      std::vector<std::string> text = now;
      const std::regex cache("-o '?/.*/qkvet/([^ /]+\\.so)'?");
      text[0] = std::regex_replace(text[0], cache, "-o ~/.cache/qkvet/$1");
      text[0] = std::regex_replace(text[0], std::regex("-I\\S+"),
                                   "-I/usr/local/include");
      const auto at = lines.erase(place + static_cast<ptrdiff_t>(block->first),
                                  place + static_cast<ptrdiff_t>(block->end));
      lines.insert(at, text.begin(), text.end());
      continue;
    }
    EXPECT_EQ(stable(joined(lines, block->first, block->end)),
              stable(joined(now, 0, now.size())))
        << block->arguments;
  }
  EXPECT_EQ(missing, std::set<std::string>()) << "not shown in the README";
  if (rewrite)
    write_text(kFolder / "README.md", joined(lines, 0, lines.size()));
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

// The comparison must be able to fail.
TEST(Examples, OnlyWhatDiffersBetweenMachinesIsPutAside) {
  const std::string report =
      "    c++ -O1 -I/usr/include x.cpp -o "
      "~/.cache/qkvet/x-0123456789abcdef.so\n"
      "    FAIL  law   x/x   x.cpp:3   case 3, 0.1 s\n"
      "      actual      0.5            error/bound 2.5e+05\n";
  const std::string elsewhere =
      "    c++ -O1 -I/opt/q x.cpp -o '/a b/qkvet/x-fedcba9876543210.so'\n"
      "    FAIL  law   x/x   x.cpp:3   case 3, 12.0 s\n"
      "      actual      0.5            error/bound 2.5e+05\n";
  EXPECT_EQ(stable(report), stable(elsewhere));
  for (const char* part : {"law", "x.cpp:3", "case 3", "0.5", "2.5e", "-O1"}) {
    std::string other = report;
    other.replace(other.find(part), 1, "#");
    EXPECT_NE(stable(other), stable(report)) << part;
  }
}

}  // namespace
}  // namespace qkvet::cli::examples_test
