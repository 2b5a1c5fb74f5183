// SPDX-License-Identifier: Apache-2.0
// The tokens of a source, and the results of each operator on a tiny one.
#include "cli/mutate/operators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "cli/mutate/mutation_run.h"
#include "cli/mutate/trap.h"

namespace qkvet::cli::operators_test {
namespace {

std::vector<std::string> texts(const std::string& source, Language language) {
  const Tokens tokens(source, language);
  std::vector<std::string> out;
  for (size_t i = 0; i < tokens.size(); ++i) out.emplace_back(tokens.text(i));
  return out;
}
using Texts = std::vector<std::string>;

TEST(Tokens, CommentsStringsAndDirectivesAreNotForMutants) {
  const std::string source =
      "#include <a+b>\n"
      "#define N 3 \\\n + 4 /* a\n comment */ + 5\n"
      "x = 1'000 + 0x1p-3f; // + 2 \\\n + 3\n"
      "s = \"a + b\\\"\" + R\"d(a\")d\" + 'x'; /* + */ y >>= 1e-5f;";
  EXPECT_EQ(
      texts(source, Language::kCxx),
      (Texts{"x", "=", "1'000", "+", "0x1p-3f", ";", "s", "=", "\"a + b\\\"\"",
             "+", "R\"d(a\")d\"", "+", "'x'", ";", "y", ">>=", "1e-5f", ";"}));
}

TEST(Tokens, RustHasRangesLifetimesAndNestedComments) {
  const std::string source =
      "#[inline(a + b)] fn f<'a>(x: &'a [f32]) { /* a /* b */ + */ for i in "
      "0..n { y = 1.0_f32.max(x[i]) + 2.max(3); c = 'c'; r = r#\"+\"\"#; } }";
  EXPECT_EQ(
      texts(source, Language::kRust),
      (Texts{"fn",  "f",  "<",          "'a", ">", "(", "x",       ":",   "&",
             "'a",  "[",  "f32",        "]",  ")", "{", "for",     "i",   "in",
             "0",   "..", "n",          "{",  "y", "=", "1.0_f32", ".",   "max",
             "(",   "x",  "[",          "i",  "]", ")", "+",       "2",   ".",
             "max", "(",  "3",          ")",  ";", "c", "=",       "'c'", ";",
             "r",   "=",  "r#\"+\"\"#", ";",  "}", "}"}));
}

// Tokens follow each other within the source, and brackets pair with brackets.
void expect_well_formed(const Tokens& tokens, std::string_view source) {
  size_t end = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    ASSERT_GE(token.at, end);
    ASSERT_GT(token.size, 0u);
    end = token.at + token.size;
    ASSERT_LE(end, source.size());
    EXPECT_EQ(tokens.text(i), source.substr(token.at, token.size));
    ASSERT_LT(token.partner, tokens.size());
    EXPECT_EQ(tokens[token.partner].partner, i);
    EXPECT_TRUE(token.inside == kNoToken || token.inside < i);
  }
}

TEST(Tokens, AnythingEndsAtItsEnd) {
  for (const char* source :
       {"",   "\"",       "'",     "R\"(",    "/*",    "//", "#",
        "\\", "a[",       "1e",    "r#\"",    "b'",    "}",  ")(",
        "f(", "\xff\xfe", "a<b<c", "x ? y :", "for (", "!",  "-"})
    for (const Language language : {Language::kCxx, Language::kRust}) {
      SCOPED_TRACE(source);
      const Tokens tokens(source, language);
      expect_well_formed(tokens, source);
      for (const Mutation& one : all_mutations(tokens)) {
        EXPECT_NE(mutated(source, one), source) << one.id();
        if (const auto trapped = with_trap(tokens, one)) {
          EXPECT_GT(trapped->size(), std::strlen(source));
        }
      }
    }
}

// The mutations of an operator, "ID -> line".
std::set<std::string> made(const std::string& source,
                           const std::string& operation,
                           Language language = Language::kCxx) {
  const Tokens tokens(source, language);
  std::set<std::string> out;
  for (const Mutation& one : all_mutations(tokens))
    if (one.operation == operation)
      out.insert(one.id() + " -> " + changed_line(source, one).after);
  return out;
}
using Made = std::set<std::string>;

struct Row {
  const char* operation;
  const char* source;
  Made made;
  Language language = Language::kCxx;
};
// Names of tests are made from it: unique, without blanks.
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.operation << "_" << std::string_view(row.source).size();
}

class Operators : public testing::TestWithParam<Row> {};

TEST_P(Operators, MakeThese) {
  const Row& row = GetParam();
  EXPECT_EQ(made(row.source, row.operation, row.language), row.made)
      << row.source;
}

INSTANTIATE_TEST_SUITE_P(
    Mutate, Operators,
    testing::Values(
        Row{"arithmetic",
            "s += -a*b;",
            {"1:3:addset-subset -> s -= -a*b;", "1:3:addset-set -> s = -a*b;",
             "1:6:neg-pos -> s += a*b;", "1:8:mul-div -> s += -a/b;"}},
        // Declarations and values that are no numbers cannot be added to.
        Row{"arithmetic",
            "float s = 0, *p = q; s = x; *o[c]->at = f(s);",
            {"1:24:set-addset -> float s = 0, *p = q; s += x; *o[c]->at = "
             "f(s);",
             "1:39:set-addset -> float s = 0, *p = q; s = x; *o[c]->at += "
             "f(s);"}},
        Row{"arithmetic",
            "p = nullptr; if (a) b.c = 1; const auto [m, k] = g;",
            {"1:25:set-addset -> p = nullptr; if (a) b.c += 1; const auto [m, "
             "k] = g;"}},
        // A star or an ampersand of a declaration is no operator.
        Row{"arithmetic", "const float* f(const T *p, T& r, int64_t*q);", {}},
        Row{"arithmetic",
            "r = _mm256_add_ps(a, b);",
            {"1:3:set-addset -> r += _mm256_add_ps(a, b);",
             "1:5:add-sub -> r = _mm256_sub_ps(a, b);"}},
        Row{"boundary",
            "if (a < b && c >= d) x<y>(z);",
            {"1:7:lt-le -> if (a <= b && c >= d) x<y>(z);",
             "1:16:ge-gt -> if (a < b && c > d) x<y>(z);"}},
        Row{"comparison",
            "a == b;\nc != d;",
            {"1:3:eq-ne -> a != b;", "2:3:ne-eq -> c == d;"}},
        Row{"logic",
            "a && !b;",
            {"1:3:and-or -> a || !b;", "1:6:not-drop -> a && b;"}},
        Row{"bound",
            "for (j = 0; j < n + 1; ++j) a <= b;",
            {"1:15:bound-minus -> for (j = 0; j < (n + 1) - 1; ++j) a <= b;",
             "1:31:bound-plus -> for (j = 0; j < n + 1; ++j) a <= (b) + 1;"}},
        Row{"bound",
            "for i in 0..n {}",
            {"1:11:bound-minus -> for i in 0..(n) - 1 {}",
             "1:11:bound-plus -> for i in 0..(n) + 1 {}"},
            Language::kRust},
        Row{"index",
            "float s[64]; s[i] = p[2 * j](0)[3]; auto f = [&] { return a[0]; "
            "};",
            {"1:15:index-plus -> float s[64]; s[(i) + 1] = p[2 * j](0)[3]; "
             "auto f = [&] { return a[0]; };",
             "1:22:index-plus -> float s[64]; s[i] = p[(2 * j) + 1](0)[3]; "
             "auto f = [&] { return a[0]; };",
             "1:32:index-plus -> float s[64]; s[i] = p[2 * j](0)[(3) + 1]; "
             "auto f = [&] { return a[0]; };",
             "1:60:index-plus -> float s[64]; s[i] = p[2 * j](0)[3]; auto f = "
             "[&] { return a[(0) + 1]; };"}},
        // In n * a * b the last two may be exchanged.
        Row{"stride",
            "x = i * s.row + j * s.col;\ny = n * a * b;",
            {"1:9:factor-21 -> x = i * s.col + j * s.row;"}},
        Row{"constant",
            "x = 2.0f + 3u + 0;",
            {"1:5:scale-1e-2 -> x = 2.02f + 3u + 0;",
             "1:5:scale-1e-3 -> x = 2.0019999999999998f + 3u + 0;",
             "1:5:scale-1e-4 -> x = 2.0002f + 3u + 0;",
             "1:5:scale-1e-5 -> x = 2.0000200000000001f + 3u + 0;",
             "1:12:plus-1 -> x = 2.0f + 4u + 0;",
             "1:12:minus-1 -> x = 2.0f + 2u + 0;",
             "1:17:plus-1 -> x = 2.0f + 3u + 1;",
             "1:17:minus-1 -> x = 2.0f + 3u + (-1);"}},
        Row{"function",
            "float exp(float); x = std::exp(a) / 2;",
            {"1:28:result-1e-2 -> float exp(float); x = (std::exp(a) * 1.01f) "
             "/ 2;",
             "1:28:result-1e-3 -> float exp(float); x = (std::exp(a) * 1.001f) "
             "/ 2;",
             "1:28:result-1e-4 -> float exp(float); x = (std::exp(a) * "
             "1.0001f) / 2;",
             "1:28:result-1e-5 -> float exp(float); x = (std::exp(a) * "
             "1.00001f) / 2;"}},
        Row{"statement",
            "void f() {\nint x = 3;\nstd::vector<int> p(n);\nx = g(x);\n"
            "if (x) h(x); else return;\nreturn x;\n}\nM(f);",
            {"4:1:remove -> ;", "5:8:remove -> if (x) ; else return;",
             "5:19:remove -> if (x) h(x); else ;"}},
        Row{"variable",
            "s += q[i * d + c] * k[j * d + c] + f(a.x, n);",
            {"1:1:swap-8 -> i += q[s * d + c] * k[j * d + c] + f(a.x, n);",
             "1:6:swap-21 -> s += k[i * d + c] * q[j * d + c] + f(a.x, n);",
             "1:12:swap-16 -> s += q[i * c + d] * k[j * d + c] + f(a.x, n);",
             "1:16:swap-23 -> s += q[i * d + j] * k[c * d + c] + f(a.x, n);",
             "1:27:swap-31 -> s += q[i * d + c] * k[j * c + d] + f(a.x, n);",
             "1:31:swap-38 -> s += q[i * d + c] * k[j * d + a.x] + f(c, n);",
             "1:38:swap-43 -> s += q[i * d + c] * k[j * d + c] + f(n, a.x);"}},
        Row{"extreme",
            "max = std::max(max, x) + _mm256_min_ps(a, b);",
            {"1:12:max-min -> max = std::min(max, x) + _mm256_min_ps(a, b);",
             "1:26:min-max -> max = std::max(max, x) + _mm256_max_ps(a, b);"}},
        Row{"condition",
            "for (j = 0; j < n; ++j) if (a) x = b > 0 ? c : d;",
            {"1:1:negate -> for (j = 0; !(j < n); ++j) if (a) x = b > 0 ? c : "
             "d;",
             "1:25:negate -> for (j = 0; j < n; ++j) if (!(a)) x = b > 0 ? c : "
             "d;",
             "1:42:negate -> for (j = 0; j < n; ++j) if (a) x = !(b > 0) ? c : "
             "d;"}},
        Row{"condition",
            "if a && b { x } if let Some(y) = z { y }",
            {"1:1:negate -> if !(a && b) { x } if let Some(y) = z { y }"},
            Language::kRust}));

TEST(Operators, EachHasATest) {
  std::set<std::string> tested;
  const auto* suite = testing::UnitTest::GetInstance();
  for (int n = 0; n < suite->total_test_suite_count(); ++n) {
    const testing::TestSuite* one = suite->GetTestSuite(n);
    if (std::string_view(one->name()) != "Mutate/Operators") continue;
    for (int t = 0; t < one->total_test_count(); ++t) {
      const std::string name = one->GetTestInfo(t)->value_param();
      tested.insert(name.substr(0, name.find('_')));
    }
  }
  for (const Operator& one : mutation_operators())
    EXPECT_EQ(tested.count(one.name), 1U) << one.name;
}

TEST(Operators, IdsAreOneOfAKindAndLinesKeepTheirNumbers) {
  const std::string source =
      "void f(float* o, const float* q, int64_t n, int64_t d) {\n"
      "  for (int64_t i = 0; i < n; ++i)\n"
      "    o[i * d] = q[i * d] +\n"
      "               q[i * d + 1] * std::exp(q[i] - 1.5f);\n"
      "}\n";
  std::set<std::string> ids;
  const std::vector<Mutation> all =
      all_mutations(Tokens(source, Language::kCxx));
  for (const Mutation& one : all) {
    EXPECT_TRUE(ids.insert(one.id()).second) << one.id();
    const std::string text = mutated(source, one);
    EXPECT_NE(text, source) << one.id();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << one.id();
  }
  EXPECT_GT(all.size(), 30U);
}

TEST(Operators, ASampleIsAFunctionOfItsSeed) {
  const std::vector<size_t> one = sample_of(100, 10, 1);
  EXPECT_EQ(one.size(), 10U);
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  EXPECT_EQ(one, sample_of(100, 10, 1));
  EXPECT_NE(one, sample_of(100, 10, 2));
  EXPECT_EQ(sample_of(5, 0, 1).size(), 5U);
  EXPECT_EQ(sample_of(5, 9, 1).size(), 5U);
}

// The source with a trap for the mutation of that id.
std::string trapped(const std::string& source, const std::string& id) {
  const Tokens tokens(source, Language::kCxx);
  for (const Mutation& one : all_mutations(tokens))
    if (one.id() == id) return with_trap(tokens, one).value_or("none");
  return "no such mutant";
}

TEST(Traps, StandInFrontOfTheStatement) {
  EXPECT_EQ(trapped("void f() { a = 0; b = g(c[3]); }", "1:27:plus-1"),
            "void f() { a = 0; __builtin_trap(); b = g(c[3]); }");
  EXPECT_EQ(trapped("void f() { if (a) b += c; }", "1:21:addset-set"),
            "void f() { if (a) if (__builtin_trap(), 1) b += c; }");
  EXPECT_EQ(trapped("void f() { for (; i < n; ++i) b = 0; }", "1:21:lt-le"),
            "void f() { __builtin_trap(); for (; i < n; ++i) b = 0; }");
  // A jump to a label skips the code before it.
  EXPECT_EQ(
      trapped("void f() { switch (x) { case 1: b = a + c; } }", "1:39:add-sub"),
      "none");
  EXPECT_EQ(trapped("const int n = a + b;", "1:17:add-sub"), "none");
}

}  // namespace
}  // namespace qkvet::cli::operators_test
