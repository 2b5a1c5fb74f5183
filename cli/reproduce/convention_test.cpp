// SPDX-License-Identifier: Apache-2.0
// qkvet explain CONVENTION and qkvet explain conventions: the printed
// declarations compile and mean the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cli/base/program_run.h"
#include "cli/reproduce/convention_c.h"
#include "core/capability/declaration.h"
#include "core/capability/extents.h"
#include "core/case/case.h"
#include "properties/conventions/conventions.h"

namespace qkvet::cli::convention_test {
namespace {

TEST(ExplainConvention, SaysWhatMattersAndWhatToWrite) {
  const Ran ran = run_qkvet("explain flash_attention_2");
  ASSERT_EQ(ran.exit, 0) << ran.error;
  EXPECT_TRUE(ran.out.starts_with("flash_attention_2   a convention: "));
  for (const char* part :
       {"\n  mind        Causal has been bottom right since 2.1",
        "\n  read at     Dao-AILab/flash-attention 0251105a",
        "\n  lse         natural; +infinity for an empty row",
        "(softmax.h, normalize_softmax_lse)",
        "\n  takes       f16,B2,H8,Hkv2,Tq7,Tk5,d64,causal=br,layout=bthd\n",
        ".empty_row_lse = QKVET_EMPTY_LSE_PLUS_INF,",
        "QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |", "\nempty_row_lse = plus_inf\n"})
    EXPECT_TRUE(has(ran, part)) << part << ran.out;
  EXPECT_FALSE(has(ran, "`")) << ran.out;
}

TEST(ExplainConvention, ShowsHowMatricesAndPagesAreStored) {
  const Ran linear = run_qkvet("explain nanogpt");
  // D = 32: rows 32 .. 63 of the [96, 32] matrix are k.
  EXPECT_TRUE(has(linear, "\n  w_k         offset 1024   strides 1, 32\n"))
      << linear.out;
  EXPECT_TRUE(has(linear, "\n  b_v         offset 64     stride  1\n"));
  EXPECT_TRUE(has(linear, "kLayerOptions = QKVET_LAYER_BIASES;"));
  const Ran conv1d = run_qkvet("explain hf_gpt2");
  EXPECT_TRUE(has(conv1d, "\n  w_k         offset 32     strides 96, 1\n"));
  const Ran vllm = run_qkvet("explain vllm");
  // 2 heads of 64, 16 tokens a page: v begins after 100 pages.
  EXPECT_TRUE(has(vllm,
                  "\n  k           offset 0        strides 2048, 64, 128, "
                  "1\n"))
      << vllm.out;
  EXPECT_TRUE(has(vllm, "\n  v           offset 204800   strides 2048"));
}

TEST(ExplainConvention, LinesForADialectFileAreRead) {
  const Ran ran = run_qkvet("explain flashinfer");
  const size_t at = ran.out.find("\nempty_row = ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  write_text(scratch() / "dialect.txt", ran.out.substr(at));
  qkvet_dialect dialect{};
  ASSERT_EQ(read_dialect(scratch() / "dialect.txt", dialect), "");
  EXPECT_EQ(dialect_text(dialect),
            dialect_text(find_convention("flashinfer")->declared.dialect));
  // A kernel of another convention fails under it, and by the base of its lse.
  const Ran other = run_qkvet(
      "check --kernel scalar/plain --cases 200 --law lse_counts_equal_keys "
      "--dialect dialect.txt");
  EXPECT_EQ(other.exit, 1) << other.out << other.error;
}

TEST(ExplainConvention, ItsNameStandsForItsDialect) {
  const std::string check =
      "check --kernel scalar/plain --cases 200 --law lse_counts_equal_keys ";
  const Ran natural = exits(0, run_qkvet(check + "--dialect torch_sdpa"));
  const Ran base2 = exits(1, run_qkvet(check + "--dialect flashinfer"));
  // The command that fails again contains it, too.
  const size_t again = base2.out.find("qkvet replay ");
  ASSERT_NE(again, std::string::npos) << base2.out;
  EXPECT_NE(base2.out.find("--dialect flashinfer", again), std::string::npos);
  // A file with this name has priority.
  write_text(scratch() / "flashinfer", "lse_base = natural\n");
  EXPECT_EQ(run_qkvet(check + "--dialect flashinfer").exit, 0);
  std::filesystem::remove(scratch() / "flashinfer");
  expect_wrong_use(run_qkvet(check + "--dialect nanogpt"),
                   "nanogpt: this convention has no dialect");
  expect_wrong_use(run_qkvet(check + "--dialect flashinfo"),
                   "flashinfo: cannot be read, and is no convention");
  // In a plan, too.
  const Ran plan = exits(
      0, run_qkvet("judge --ask planned --cases 20 --dialect flashinfer"));
  EXPECT_TRUE(
      has(read_text(scratch() / "planned/plan.json"), "lse_base = base2"));
}

// Each case runs on a built-in kernel that takes such calls.
TEST(ExplainConvention, CasesAreJudged) {
  const std::string ends[] = {"--law agrees_with_oracle --kernel scalar/plain",
                              "--law agrees_with_oracle --kernel serving/paged",
                              "--law layer_agrees_with_oracle --kernel "
                              "scalar/layer"};
  std::string files[3];
  int left_out = 0;
  for (const Convention& one : built_in_conventions().values)
    for (const std::string& text : one.cases) {
      const Case value = *parse_case(text).value;
      // No built-in kernel stores q and k in different types.
      if (value.q_dtype != value.kv_dtype)
        ++left_out;
      else
        files[value.subject() == Subject::kLayer ? 2
              : value.paging.size > 0            ? 1
                                                 : 0] += text + "\n";
    }
  EXPECT_LE(left_out, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(files[i], "");
    write_text(scratch() / "cases.txt", files[i]);
    const Ran ran = exits(0, run_qkvet("replay @cases.txt " + ends[i]));
    size_t passed = 0;
    for (size_t at = 0; (at = ran.out.find("passed", at)) != std::string::npos;)
      ++passed, ++at;
    EXPECT_GE(passed, static_cast<size_t>(
                          std::count(files[i].begin(), files[i].end(), '\n')))
        << ran.out;
  }
}

// One C program that contains every declaration as the page prints it, and
// prints its values.
TEST(ExplainConvention, TheCodeCompilesAndSaysTheSame) {
  std::ostringstream source, expected;
  source << "#include \"qkvet/kernel.h\"\n#include <inttypes.h>\n"
            "#include <stdio.h>\n";
  const auto& known = built_in_conventions().values;
  ASSERT_GE(known.size(), 12u) << built_in_conventions().error;
  for (const Convention& one : known) {
    const std::string code = convention_c(one);
    EXPECT_TRUE(has(run_qkvet("explain " + one.id), code)) << one.id;
    const bool has_dialect = code.find("kDialect") != std::string::npos;
    const bool has_layer = code.find("kLayerOptions") != std::string::npos;
    source << "static void " << one.id << "(void) {\n"
           << code << "  const qkvet_capabilities* c = &kCapabilities;\n"
           << (has_dialect ? ""
                           : "  static const qkvet_dialect kDialect = {0};\n")
           << (has_layer ? "" : "  static const uint64_t kLayerOptions = 0;\n")
           << "  const qkvet_dialect* l = &kDialect;\n"
              "  printf(\"%\" PRIu64 \" %\" PRIu64 \" %\" PRIu64 \" %d %d %d\","
              " c->options, c->flags, c->layouts, (int)c->dtype_count,"
              " c->dtypes[0].q.bits, c->dtypes[0].kv.bits);\n"
              "  printf(\" %\" PRId64 \" %\" PRId64 \" %\" PRId64 \" %\" PRId64"
              " \" %d\", c->d.min, c->d.max, c->d.multiple, c->tq.multiple,"
              " (int)c->page_size_count);\n"
              "  printf(\" %d %d %d %d %d %d %d %\" PRIu64 \"\\n\","
              " (int)l->empty_row, (int)l->lse_base, (int)l->empty_row_lse,"
              " (int)l->softcap_order, (int)l->masked_nonfinite,"
              " (int)l->sink_in_lse, (int)l->mask_and_causal,"
              " kLayerOptions);\n}\n";
    const qkvet_capabilities& c = one.declared.capabilities;
    const qkvet_dialect& l = one.declared.dialect;
    expected << c.options << ' ' << c.flags << ' ' << c.layouts << ' '
             << c.dtype_count << ' ' << int{c.dtypes[0].q.bits} << ' '
             << int{c.dtypes[0].kv.bits} << ' ' << c.d.min << ' ' << c.d.max
             << ' ' << c.d.multiple << ' ' << c.tq.multiple << ' '
             << c.page_size_count << ' ' << l.empty_row << ' ' << l.lse_base
             << ' ' << l.empty_row_lse << ' ' << l.softcap_order << ' '
             << l.masked_nonfinite << ' ' << l.sink_in_lse << ' '
             << l.mask_and_causal << ' ' << one.declared.layer_options << '\n';
  }
  source << "int main(void) {\n";
  for (const Convention& one : known) source << "  " << one.id << "();\n";
  source << "  return 0;\n}\n";
  write_text(scratch() / "declared.c", source.str());
  const std::string in = "cd '" + scratch().string() + "' && ";
  ASSERT_EQ(std::system((in + "cc -std=c11 -Wall -Wextra -Wpedantic -Werror "
                              "-I'" QKVET_HEADERS "' declared.c -o declared")
                            .c_str()),
            0)
      << source.str();
  EXPECT_EQ(std::system((in + "c++ -std=c++20 -Wall -Werror -fsyntax-only -x "
                              "c++ -I'" QKVET_HEADERS "' declared.c")
                            .c_str()),
            0);
  ASSERT_EQ(std::system((in + "./declared > declared.txt").c_str()), 0);
  EXPECT_EQ(read_text(scratch() / "declared.txt"), expected.str());
}

// Fields and values that no convention has today.
TEST(ExplainConvention, EveryWordHasItsNameInC) {
  Convention all;
  for (const BitKind kind :
       {BitKind::kOption, BitKind::kFlag, BitKind::kLayout, BitKind::kLayer}) {
    uint64_t bits = 0;
    for (const auto& [word, bit] : all_bits(kind)) bits |= bit;
    (kind == BitKind::kOption   ? all.declared.capabilities.options
     : kind == BitKind::kFlag   ? all.declared.capabilities.flags
     : kind == BitKind::kLayout ? all.declared.capabilities.layouts
                                : all.declared.layer_options) = bits;
  }
  all.declared.has_layer = true;
  for (const ExtentRow& row : extent_rows())
    ASSERT_EQ(declare(row.key, "min 1 max 9 multiple 2", all), "");
  ASSERT_EQ(declare("widths", "2 8/6", all), "");
  std::string code = convention_c(all);
  EXPECT_TRUE(has(code, ".h = {.min = 1, .max = 9, .multiple = 2}"));
  EXPECT_TRUE(has(code, ".width_count = 2,\n    .widths = {{2, 0}, {8, 6}}"));
  std::string source =
      "#include \"qkvet/kernel.h\"\nvoid all(void);\nvoid all(void) {\n" +
      code + "(void)kCapabilities; (void)kLayerOptions;\n";
  for (const DeclaredWord& word : dialect_words()) {
    Convention one;
    ASSERT_EQ(declare(word.field, word.word, one), "");
    const std::string text = convention_c(one);
    EXPECT_TRUE(
        has(text, std::string(".") + word.field + " = " + word.constant));
    source += "{" + text + "(void)kCapabilities; (void)kDialect;}\n";
  }
  write_text(scratch() / "all.c", source + "}\n");
  EXPECT_EQ(std::system(("cd '" + scratch().string() +
                         "' && cc -std=c11 -Wall -Wextra -Werror -c "
                         "-I'" QKVET_HEADERS "' all.c")
                            .c_str()),
            0)
      << source;
}

TEST(ListConventions, NamesAllOfThem) {
  const Ran ran = run_qkvet("explain conventions");
  ASSERT_EQ(ran.exit, 0) << ran.error;
  EXPECT_TRUE(std::regex_search(
      ran.out, std::regex("\n  ggml +ggml, ggml_flash_attn_ext\n")))
      << ran.out;
  const Ran json = run_qkvet("explain conventions --json");
  std::istringstream lines(json.out);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_EQ(parsed["type"], "convention");
    EXPECT_NE(find_convention(parsed["id"].get<std::string>()), nullptr);
    EXPECT_GT(parsed["cases"].size(), 0u);
    if (parsed["id"] == "triton_tutorial") {
      EXPECT_EQ(parsed["dialect"]["lse_base"], "base2");
      EXPECT_EQ(parsed["dialect"].size(), 1u);
    }
  }
  EXPECT_EQ(count, built_in_conventions().values.size());
}

TEST(ListConventions, WrongUseIsOneLine) {
  expect_wrong_use(run_qkvet("explain convention"), "convention");
  expect_wrong_use(run_qkvet("explain flash_attention_9"),
                   "perhaps flash_attention_2, flash_attention_3");
  expect_wrong_use(run_qkvet("explain ''"), "an empty value");
}

}  // namespace
}  // namespace qkvet::cli::convention_test
