// SPDX-License-Identifier: Apache-2.0
// qkvet identify: kernels of this repository with known declarations are
// identified without them; kernels that differ by one convention are found to
// differ by it; kernels that compute something else than attention get no
// declaration.
#include <gtest/gtest.h>

#include <map>

#include "cli/base/program_run.h"
#include "core/base/at_night.h"
#include "core/base/json.h"

namespace qkvet::cli::identify_test {
namespace {

struct Told {
  int exit = -1;
  std::string text;
  std::map<std::string, std::string> fields;  // lists in one text
  std::map<std::string, std::string> rest;    // why and evidence
};

Told identify(const std::string& words) {
  const auto file = scratch() / "found.jsonl";
  const Ran ran = run_qkvet("identify " + words + " --json found.jsonl");
  Told told;
  told.exit = ran.exit;
  told.text = ran.out + ran.error;
  const ReadJson line = read_json(read_text(file));
  if (!line.is_object()) return told;
  for (const auto& one : line["fields"]) {
    EXPECT_FALSE(one["evidence"].get<std::string>().empty()) << one;
    std::string& value = told.fields[one["field"]];
    value += (value.empty() ? "" : " ") + one["value"].get<std::string>();
  }
  for (const auto& one : line["not_declared"])
    told.rest[one["what"]] += one["why"].get<std::string>() + ": " +
                              one["evidence"].get<std::string>();
  return told;
}

Told identify_kernel(const std::string& kernel) {
  return identify("-n 60 -k " + kernel);
}

bool has_word(const std::string& list, const std::string& word) {
  return (" " + list + " ").find(" " + word + " ") != std::string::npos;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Identify, FindsWhatThePlainKernelDeclares) {
  Told told = identify_kernel("scalar/plain");
  ASSERT_EQ(told.exit, 0) << told.text;
  EXPECT_EQ(told.fields["options"],
            "causal_top_left causal_bottom_right scale default_scale lse "
            "weights grouped_heads value_width cross_lengths empty_extents "
            "window mask bias softcap sink alibi rope lengths packed "
            "alibi_per_member key_lists key_list_lengths "
            "key_list_blocks values_in_keys segments full_ranges chunk "
            "tree_mask rope_part");
  EXPECT_EQ(told.fields["dtypes"], "f32 f16 bf16");
  EXPECT_EQ(told.fields["layouts"], "bhtd bthd packed_qkv any_strides");
  const std::map<std::string, std::string> expected = {
      {"empty_row", "zero"},          {"lse_base", "natural"},
      {"empty_row_lse", "minus_inf"}, {"softcap_order", "before_mask"},
      {"sink_in_lse", "in"},          {"masked_nonfinite", "ignored"},
      {"visible_nan", "reaches"},     {"mask_and_causal", "both"},
      {"dot_sum", "lanes"},           {"dot_lanes", "1"},
      {"value_sum", "lanes"}};
  for (const auto& [field, value] : expected)
    EXPECT_EQ(told.fields[field], value) << field;
  EXPECT_TRUE(has(told.rest["paged"], "refused: block_table")) << told.text;
  EXPECT_TRUE(has(told.text, "lse of 5 equal scores is 1.6094; ln 5 = 1.6094"));
}

TEST(Identify, IsOfOtherFamilies) {
  Told told = identify_kernel("eigen/plain");
  EXPECT_EQ(told.exit, 0) << told.text;
  EXPECT_EQ(told.fields["value_sum"], "lanes") << told.text;
  told = identify_kernel("avx2/flash");
  EXPECT_EQ(told.exit, 0) << told.text;
  EXPECT_TRUE(has(told.rest["fma"], "products of q.k are not rounded"));
}

// Each differs from all others in the tested arithmetic.
TEST(Identify, TellsArithmeticsApart) {
  const struct {
    const char* kernel;
    std::map<std::string, std::string> fields;
  } rows[] = {
      {"controls/reversed", {{"dot_sum", "any"}, {"value_sum", "any"}}},
      {"controls/pairwise",
       {{"dot_sum", "pairwise"}, {"value_sum", "pairwise"}}},
      {"controls/lanes8", {{"dot_sum", "lanes"}, {"dot_lanes", "8"}}},
      {"controls/online16", {{"tile", "16"}, {"fma", "0"}}},
      {"controls/online4", {{"tile", "4"}, {"dot_lanes", "4"}}},
      {"controls/bf16_operands", {{"operand_dtype", "bf16"}}},
      {"controls/bf16_scores", {{"score_dtype", "bf16"}}},
      {"controls/f16_scores", {{"score_dtype", "f16"}, {"p_dtype", "f16"}}},
      {"controls/f16_throughout",
       {{"dot_sum_dtype", "f16"},
        {"value_sum_dtype", "f16"},
        {"softmax_dtype", "f16"}}},
      {"controls/flash_p_rounded", {{"preset", "flash_half"}}},
      {"controls/bf16_p_normalised",
       {{"p_dtype", "bf16"}, {"p_normalised", "1"}}},
      {"controls/coarse_exp", {{"exp_error", "0.000244140625"}}},
      {"controls/coarse_log", {{"log_error", "0.00048828125"}}},
      {"controls/coarse_tanh", {{"tanh_error", "0.000244140625"}}}};
  size_t number = 0;
  for (const auto& row : rows) {
    if (!is_sampled(number++, 3)) continue;
    Told told = identify_kernel(row.kernel);
    EXPECT_EQ(told.exit, 0) << told.text;
    for (const auto& [field, value] : row.fields)
      EXPECT_EQ(told.fields[field], value) << row.kernel << ": " << field;
    // No other field is found. Except: P is rounded with the operands, and f16
    // sums show in scores before the softmax does.
    if (std::string(row.kernel) == "controls/bf16_operands") continue;
    for (const char* field :
         {"tile", "operand_dtype", "score_dtype", "p_dtype", "softmax_dtype",
          "dot_sum_dtype", "value_sum_dtype", "exp_error", "preset",
          "log_error", "tanh_error", "lse_dtype"}) {
      const bool is_found = told.fields.contains(field);
      EXPECT_EQ(is_found, row.fields.contains(field))
          << row.kernel << ": " << field;
    }
  }
}

TEST(Identify, TellsDialectsApart) {
  const struct {
    const char* kernel;
    const char* field;
    const char* value;
  } rows[] = {{"dialect_lse_base2", "lse_base", "base2"},
              {"dialect_empty_row_nan", "empty_row", "nan"},
              {"dialect_empty_row_by_mask", "empty_row_by_mask", "nan"},
              {"dialect_empty_lse_plus_inf", "empty_row_lse", "plus_inf"},
              {"dialect_softcap_after_bias", "softcap_order", "after_mask"},
              {"dialect_sink_not_in_lse", "sink_in_lse", "not_in"},
              {"dialect_masked_nonfinite", "masked_nonfinite", "not_ignored"},
              {"dialect_nan_may_vanish", "visible_nan", "may_vanish"},
              {"says_nothing_of_sink", "sink_in_lse", "not_in"}};
  size_t number = 0;
  for (const auto& row : rows) {
    if (!is_sampled(number++, 2)) continue;
    Told told = identify_kernel(std::string("controls/") + row.kernel);
    EXPECT_EQ(told.exit, 0) << told.text;
    EXPECT_EQ(told.fields[row.field], row.value) << row.kernel;
  }
}

// Faults that amount to another convention: the option is not declared, and the
// report names what the kernel computes instead.
TEST(Identify, SaysWhatAnOptionIsTakenFor) {
  const struct {
    const char* fault;
    const char* option;
    const char* instead;
  } rows[] = {{"offset_ignored", "causal_bottom_right",
               "with the causal rule of the other corner"},
              {"diagonal_always_bottom_right", "causal_top_left",
               "with the causal rule of the other corner"},
              {"no_mask", "causal_bottom_right", "without the causal rule"},
              {"one_ahead", "causal_bottom_right",
               "of one key more, the next after those that a row sees"},
              {"mask_inverted", "mask", "with the mask inverted"},
              {"window_off_by_one_left", "window",
               "with the window one key narrower on its left"},
              {"window_from_top_left", "window",
               "with the window counted from the top left"},
              {"bias_times_scale", "bias", "with the bias times the scale"},
              {"alibi_sign", "alibi", "with minus the ALiBi slopes"},
              {"alibi_slopes_of_first_member", "alibi_per_member",
               "of the ALiBi slopes of the first member in all"},
              {"sqrt_model_width", "default_scale", "of the scale 1/sqrt(H d)"},
              {"block_number_is_key_number", "key_list_blocks",
               "of lists of keys that are lists of blocks"}};
  for (const auto& row : rows) {
    Told told = identify_kernel(std::string("faulty/") + row.fault);
    EXPECT_FALSE(has_word(told.fields["options"], row.option)) << told.text;
    EXPECT_TRUE(
        has(told.rest[row.option],
            std::string("taken, and computes the result ") + row.instead))
        << row.fault << ": " << told.rest[row.option];
    EXPECT_EQ(told.exit, 0) << told.text;
  }
}

// A plain function, with a wrong declaration or none.
std::string source(const std::string& body) {
  return "#include <algorithm>\n#include <cmath>\n#include <vector>\n"
         "#include \"qkvet/plain.h\"\n"
         "static void attend(const float* q, const float* k, const float* v, "
         "float* o, int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d, "
         "int causal) {\n" +
         body + "\n}\nQKVET_PLAIN_KERNEL(attend, \"mine/attend\");\n";
}

// Sums of P v in one part, or in two if `is_long` holds.
std::string in_parts(const std::string& is_long) {
  return source("const bool is_long = " + is_long + R"(;
    for (int64_t n = 0; n < B * H; ++n, k += Tk * d, v += Tk * d)
      for (int64_t i = 0; i < Tq; ++i, q += d, o += d) {
        const int64_t seen = causal ? std::min(Tk, i + 1 + Tk - Tq) : Tk;
        std::vector<float> w(Tk);
        float m = -INFINITY, sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          for (int64_t c = 0; c < d; ++c) w[j] += q[c] * k[j * d + c];
          w[j] /= std::sqrt(float(d));
          m = std::max(m, w[j]);
        }
        for (int64_t j = 0; j < seen; ++j) {
          w[j] = std::exp(w[j] - m);
          sum += w[j];
        }
        const int64_t half = is_long ? seen / 2 : seen;
        for (int64_t c = 0; c < d; ++c) {
          float one = 0, two = 0;
          for (int64_t j = 0; j < half; ++j) one += w[j] * v[j * d + c];
          for (int64_t j = half; j < seen; ++j) two += w[j] * v[j * d + c];
          o[c] = sum > 0 ? (one + two) / sum : 0;
        }
      })");
}

// The control is the same kernel without a threshold.
TEST(Identify, FindsTheNumberOfKeysAtWhichSumsAreSplit) {
  write_text(scratch() / "parts.cpp", in_parts("Tk > 777"));
  Told told = identify("-n 20 parts.cpp");
  EXPECT_EQ(told.exit, 0) << told.text;
  EXPECT_TRUE(has_word(told.fields["paths"], "Tk=777")) << told.text;
  EXPECT_TRUE(has(told.text, "meet in P v at 777 keys above 512")) << told.text;
  write_text(scratch() / "parts.cpp", in_parts("false"));
  told = identify("-n 20 parts.cpp");
  EXPECT_EQ(told.exit, 0) << told.text;
  EXPECT_EQ(told.fields["paths"], "") << told.text;
  EXPECT_TRUE(has(told.rest["paths"], "none is seen")) << told.text;
}

// Within the range in which every number is tried, and in a step after it.
TEST(Identify, FindsTheNumberOfRowsAtWhichSumsAreSplit) {
  for (const int rows : {23, 137}) {
    const std::string at = std::to_string(rows);
    write_text(scratch() / "parts.cpp", in_parts("Tq > " + at));
    Told told = identify("-n 20 parts.cpp");
    EXPECT_EQ(told.exit, 0) << told.text;
    EXPECT_EQ(told.fields["paths"], "Tq=" + at) << told.text;
    const std::string above = std::to_string(rows + 1);
    EXPECT_TRUE(
        has(told.text, "other bits with " + above + " rows than with " + at))
        << told.text;
  }
}

// Tiles, parts, and keys that are lost from a number on; and kernels without
// any, or that follow the number of keys throughout.
TEST(Identify, FindsPathsOfKernelsThatAreKnown) {
  const struct {
    const char* kernel;
    const char* paths;
    const char* rest;
  } rows[] = {
      {"faulty/rest_behind_threshold_lost", "Tk=1777 Tk=1824", "others"},
      {"scalar/plain", "", "none is seen"},
      {"avx2/flash", "Tk=128", "others"},
      {"controls/pairwise", "", "follows the number of keys"},
      {"controls/online16", "Tk=16", "others"},
      {"faulty/partitions_beyond_warp_lost", "Tk=2048", "others"},
      {"simt/decode", "Tk=256 Tk=64 Tk=32", "follows the number of keys"},
      {"controls/naive", "", "none is seen"}};
  size_t number = 0;
  for (const auto& row : rows) {
    if (!is_sampled(number++, 2)) continue;
    Told told = identify_kernel(row.kernel);
    EXPECT_EQ(told.exit, 0) << told.text;
    EXPECT_EQ(told.fields["paths"], row.paths) << row.kernel << told.text;
    EXPECT_TRUE(has(told.rest["paths"], row.rest)) << told.rest["paths"];
  }
  // Lost keys are more than a path.
  Told told = identify_kernel("faulty/rest_behind_threshold_lost");
  EXPECT_TRUE(has(told.rest["Tk = 1778"],
                  "not as it is meant: at 1778 keys of equal scores the last "
                  "weighs 0, not 1/1778"))
      << told.text;
}

TEST(Identify, DeclaresNothingOfWhatIsNoAttention) {
  write_text(scratch() / "mean.cpp", source(R"(
    for (int64_t n = 0; n < B * H; ++n, v += Tk * d)
      for (int64_t i = 0; i < Tq; ++i, o += d)
        for (int64_t c = 0; c < d; ++c) {
          o[c] = 0;
          for (int64_t j = 0; j < Tk; ++j) o[c] += v[j * d + c] / float(Tk);
        })"));
  Told told = identify("mean.cpp");
  EXPECT_EQ(told.exit, 1) << told.text;
  EXPECT_TRUE(has(told.text,
                  "not attention: it computes the result of scores of 0, "
                  "whatever q and k are"))
      << told.text;
  EXPECT_TRUE(told.fields.empty());
  // Scores that are not scaled, and one that is right but for its last key.
  told = identify_kernel("faulty/no_scale");
  EXPECT_EQ(told.exit, 1) << told.text;
  EXPECT_TRUE(has(told.text, "it computes the result of no scale"))
      << told.text;
  EXPECT_TRUE(told.fields.empty());
  told = identify_kernel("faulty/mask_after_softmax");
  EXPECT_EQ(told.exit, 1) << told.text;
}

TEST(Identify, WritesFilesThatAreRead) {
  const Ran ran = run_qkvet("identify -k controls/online4 -n 50 --out found");
  ASSERT_EQ(ran.exit, 0) << ran.out << ran.error;
  ASSERT_EQ(run_qkvet("identify -k controls/online4 -n 50 -o found.c").exit, 0);
  EXPECT_TRUE(
      has(read_text(scratch() / "found.c"), ".lse_base = QKVET_LSE_NATURAL,"));
  EXPECT_TRUE(has(read_text(scratch() / "found.precision"), "tile = 4\n"));
  const Ran check = run_qkvet(
      "check -k controls/online4 --dialect found.dialect --precision "
      "found.precision --cases 200");
  EXPECT_EQ(check.exit, 0) << check.out << check.error;
  // Existing files are not replaced.
  expect_wrong_use(run_qkvet("identify -k controls/online4 --out found"),
                   "found.dialect");
}

TEST(Identify, TakesOneLineForBadInput) {
  expect_wrong_use(run_qkvet("identify"), "identify takes a kernel");
  expect_wrong_use(run_qkvet("identify -k nothing/here"), "nothing/here");
  expect_wrong_use(run_qkvet("identify -k scalar/plain --cases 0"), "--cases");
  expect_wrong_use(run_qkvet("identify -k scalar/plain --seed x"), "x");
  expect_wrong_use(
      run_qkvet("identify -k scalar/plain -k eigen/plain --out both"), "--out");
  // A kernel without forward() is not called.
  const Ran ran = run_qkvet("identify -k scalar/layer");
  EXPECT_EQ(ran.exit, 3);
  EXPECT_TRUE(has(ran.out, "not identified: it has no forward()")) << ran.out;
}

}  // namespace
}  // namespace qkvet::cli::identify_test
