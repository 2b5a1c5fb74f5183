// SPDX-License-Identifier: Apache-2.0
// Many mutants in one library: each behaves as it does alone, mutants that do
// not compile are left out, and functions are distinguished from code that only
// resembles one.
#include "cli/mutate/schemata.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/base/program_run.h"

namespace qkvet::cli::schemata_test {
namespace {

namespace fs = std::filesystem;

// The results of a library's `f` for some numbers. No mutant of a source here
// runs forever or reads memory out of bounds: it would end the test.
using Answers = std::array<int, 6>;
Answers answers_of(const std::string& library) {
  Answers answers = {};
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  if (handle == nullptr) return answers;
  using Function = int (*)(int);
  const auto f = reinterpret_cast<Function>(dlsym(handle, "f"));
  for (int n = 0; n < 6; ++n) answers[static_cast<size_t>(n)] = f(n);
  dlclose(handle);
  return answers;
}

// All that compiles together of a source, and the compiler it was made by.
struct Made {
  MutantCompiler compiler;
  std::vector<Mutation> mutations;
  Schemata schemata;
};
Made made_of(const fs::path& folder, const std::string& name,
             const std::string& source) {
  Made made;
  fs::create_directories(folder);
  const std::string path = (folder / name).string();
  write_text(path, source);
  EXPECT_EQ(find_mutant_compiler(path, "", &made.compiler), "");
  const Tokens tokens(source, made.compiler.language);
  made.mutations = all_mutations(tokens);
  std::vector<size_t> chosen;
  for (size_t n = 0; n < made.mutations.size(); ++n)
    if (body_around(tokens, made.mutations[n])) chosen.push_back(n);
  // One that no compiler accepts, before the others.
  Mutation broken = made.mutations[chosen[chosen.size() / 2]];
  broken.variant = "broken";
  broken.edits[0].text = ")";
  chosen.insert(chosen.begin(), made.mutations.size());
  made.mutations.push_back(broken);
  made.schemata = build_schemata(made.compiler, tokens, made.mutations, chosen,
                                 folder.string());
  return made;
}

void each_does_what_it_does_alone(const std::string& name,
                                  const std::string& source) {
  const fs::path folder = scratch() / "schemata";
  const Made made = made_of(folder, name, source);
  ASSERT_FALSE(made.schemata.library.empty());
  EXPECT_GT(made.schemata.mutants.size(), 8u);
  EXPECT_EQ(std::count(made.schemata.refused.begin(),
                       made.schemata.refused.end(), made.mutations.size() - 1),
            1);
  // Each opened file has a unique name: a library is loaded once per name.
  const auto chosen = [&](size_t number) {
    std::string path = (folder / (name + std::to_string(number) + ".so"));
    EXPECT_EQ(choose_mutant(made.schemata.library, number, path), "");
    return answers_of(path);
  };
  const auto alone = [&](const std::string& text, const std::string& as) {
    const std::string path = folder / (name + as + "-alone.so");
    EXPECT_EQ(build_mutant(made.compiler, text, folder, path), "");
    return answers_of(path);
  };
  const Answers original = alone(source, "original");
  EXPECT_EQ(chosen(0), original);
  int differ = 0;
  for (size_t n = 0; n < made.schemata.mutants.size(); ++n) {
    const Mutation& mutation = made.mutations[made.schemata.mutants[n]];
    const Answers together = chosen(n + 1);
    EXPECT_EQ(together, alone(mutated(source, mutation), mutation.id()))
        << mutation.id();
    differ += together != original;
  }
  EXPECT_GT(differ, 4);
}

TEST(Schemata, EachMutantDoesWhatItDoesAlone) {
  each_does_what_it_does_alone("some.cpp", R"(#include <vector>
namespace some {
struct Sum {
  explicit Sum(int first) : sum_(first) { sum_ += 2; }
  void add(int x) { sum_ += x * 3; }
  int sum() const noexcept { return sum_ - 1; }
  int sum_;
};
constexpr int twice(int x) { return x + x; }
template <class T>
auto third(T x) -> T {
  return x / 3;
}
static_assert(twice(2) == 4);
}  // namespace some
extern "C" int f(int n) {
  some::Sum sum(n);
  const std::vector<int> more = {1, n, 3};
  for (const int x : more) sum.add(x);
  if (n > 3 || n == 1) sum.add(n - 4);
  return sum.sum() + some::twice(n) - some::third(n + 5);
}
)");
}

TEST(Schemata, EachMutantDoesWhatItDoesAloneInC) {
  each_does_what_it_does_alone("some.c", R"(#include <stdlib.h>
static int clamped(int x) {
  if (x < 0) return 0;
  return x > 2 ? 2 : x;
}
int f(int n) {
  int sum = clamped(n - 1) * 3;
  if (n > 2 && n != 4) sum += clamped(sum - 5) * (n + 1);
  return sum - abs(n - 3);
}
)");
}

TEST(Schemata, AFunctionIsToldFromWhatOnlyLooksLikeOne) {
  const std::string source = R"(int a = 1 + 2;
namespace n { int b[] = {1 + 3}; }
struct alignas(1 << 4) S { int c = 1 + 4; };
constexpr int d(int x) { return x + 5; }
int e(int x) noexcept(true) { if (x > 0) { return x + 6; } return 0; }
auto g = [](int x) { return x + 7; };
auto h(int x) -> decltype(x + 8) { return x; }
#define TWICE(x) ((x) + (x))
template <class T> constexpr T i(T x) { return x + 9; }
int j(int x) { const auto k = [&] { return x + 10; }; return k(); }
)";
  const Tokens tokens(source, Language::kCxx);
  const auto line_of_body = [&](const std::string& number) {
    for (const Mutation& one : all_mutations(tokens)) {
      const auto& edit = one.edits[0];
      if (one.operation != "arithmetic" ||
          source.compare(edit.at, 2 + number.size(), "+ " + number) != 0)
        continue;
      const auto body = body_around(tokens, one);
      return body ? tokens[body->open].line : 0;
    }
    return -1;
  };
  EXPECT_EQ(line_of_body("2"), 0);
  EXPECT_EQ(line_of_body("3"), 0);
  EXPECT_EQ(line_of_body("4"), 0);
  EXPECT_EQ(line_of_body("5"), 0);
  EXPECT_EQ(line_of_body("6"), 5);
  EXPECT_EQ(line_of_body("7"), 6);
  EXPECT_EQ(line_of_body("8"), 0);
  EXPECT_EQ(line_of_body("9"), 0);
  EXPECT_EQ(line_of_body("10"), 10);
  // The whole of `e` and `j`, not the block or the lambda within.
  const Mutation inner = [&] {
    for (const Mutation& one : all_mutations(tokens))
      if (source.compare(one.edits[0].at, 4, "+ 10") == 0) return one;
    return Mutation{};
  }();
  const auto body = body_around(tokens, inner);
  ASSERT_TRUE(body);
  EXPECT_EQ(tokens.span(body->open, body->open + 2), "{ const auto");
}

// A library without such a number, such as one of a single mutant, is refused.
TEST(Schemata, ALibraryOfOneMutantHasNoChoice) {
  const fs::path folder = scratch() / "schemata";
  fs::create_directories(folder);
  write_text(folder / "none.so", "no library");
  EXPECT_NE(choose_mutant(folder / "none.so", 1, folder / "copy.so"), "");
  EXPECT_FALSE(fs::exists(folder / "copy.so"));
}

}  // namespace
}  // namespace qkvet::cli::schemata_test
