// SPDX-License-Identifier: Apache-2.0
// Recorded lines: for all statements of C; and with marks the source behaves as
// without.
#include "cli/mutate/lines_run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/base/program_run.h"

namespace qkvet::cli::lines_run_test {
namespace {

namespace fs = std::filesystem;

// An else that an earlier if would take, a break that a switch would take, an
// empty statement, and numbers in braces.
constexpr const char* kSource = R"(int f(int n) {
  int sum = 0;
  if (n > 2)
    sum += 1;
  else
    sum += 2;
  for (int i = 0; i < n; ++i) {
    if (i == 3) break;
    sum += i;
  }
  if (n == 4) {
    ;
  }
  int table[] = {1,
                 n - 1};
  for (int i = 0; i < n; ++i)
    if (i == 2) break; else sum *= 2;
  switch (n) {
    case 5:
      sum += 3;
      sum += 4;
  }
  return sum + table[1];
}
)";

// `f` of the text, compiled.
class Compiled {
 public:
  Compiled(const MutantCompiler& compiler, const std::string& text,
           const std::string& name) {
    const fs::path folder = scratch() / "lines";
    EXPECT_EQ(build_mutant(compiler, text, folder, folder / name), "") << text;
    handle_ = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~Compiled() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  int f(int n) const {
    using Function = int (*)(int);
    return handle_ == nullptr
               ? -1
               : reinterpret_cast<Function>(dlsym(handle_, "f"))(n);
  }

 private:
  void* handle_ = nullptr;
};

class LinesRunOf : public testing::TestWithParam<const char*> {};

TEST_P(LinesRunOf, EachStatementIsWrittenDown) {
  const fs::path folder = scratch() / "lines";
  fs::create_directories(folder);
  const std::string path = folder / GetParam();
  const bool is_c = path.ends_with(".c");
  const std::string source =
      is_c ? kSource : "extern \"C\" " + std::string(kSource);
  write_text(path, source);
  MutantCompiler compiler;
  ASSERT_EQ(find_mutant_compiler(path, "", &compiler), "");
  const Tokens tokens(source, compiler.language);
  LinesRun marks(compiler, tokens, folder);
  const Compiled plain(compiler, source, std::string(GetParam()) + ".so");
  const Compiled marked(compiler, marks.text(),
                        std::string(GetParam()) + "-marked.so");
  for (int n = 0; n < 7; ++n) EXPECT_EQ(marked.f(n), plain.f(n)) << n;
  const auto lines_of = [&](int n) {
    marks.forget();
    marked.f(n);
    return marks.lines();
  };
  using Lines = std::set<int>;
  EXPECT_EQ(lines_of(0), (Lines{2, 3, 6, 7, 11, 14, 16, 18, 23}));
  EXPECT_EQ(lines_of(1), (Lines{2, 3, 6, 7, 8, 9, 11, 14, 16, 17, 18, 23}));
  EXPECT_EQ(lines_of(4), (Lines{2, 3, 4, 7, 8, 9, 11, 12, 14, 16, 17, 18, 23}));
  // After a label only the second statement can be recorded.
  EXPECT_EQ(lines_of(5), (Lines{2, 3, 4, 7, 8, 9, 11, 14, 16, 17, 18, 21, 23}));

  const auto line_of = [&](const std::string& text) {
    const size_t at = source.find(text);
    for (const Mutation& one : all_mutations(tokens))
      if (one.edits[0].at >= at && one.edits[0].at < at + text.size())
        return marks.line_of(one);
    return -1;
  };
  EXPECT_EQ(line_of("sum += 2"), 6);
  EXPECT_EQ(line_of("== 3"), 8);
  EXPECT_EQ(line_of("- 1}"), 14);
  EXPECT_EQ(line_of("== 2"), 16);
}

INSTANTIATE_TEST_SUITE_P(Languages, LinesRunOf,
                         testing::Values("some.c", "some.cpp"));

TEST(LinesRun, WhatAllFailingCasesRunAndNoOtherIsMostSuspicious) {
  EXPECT_EQ((LineCount{1, 4, 0}).suspicion(4), 1);
  EXPECT_EQ((LineCount{1, 0, 3}).suspicion(4), 0);
  EXPECT_EQ((LineCount{1, 4, 12}).suspicion(4), 0.5);
  EXPECT_EQ((LineCount{1, 1, 0}).suspicion(4), 0.5);
}

}  // namespace
}  // namespace qkvet::cli::lines_run_test
