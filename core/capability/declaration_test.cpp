// SPDX-License-Identifier: Apache-2.0
#include "core/capability/declaration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/dtype.h"

namespace qkvet::declaration_test {
namespace {

class File {
 public:
  explicit File(const std::string& content)
      : path_(testing::TempDir() + "declaration_" + std::to_string(getpid())) {
    std::ofstream(path_) << content;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Declaration, DialectFieldsAreReadByName) {
  const File file(
      "# found by probes\n\nlse_base = base2   # FlashInfer\n"
      "empty_row=zero\r\n");
  qkvet_dialect dialect{};
  dialect.sink_in_lse = QKVET_SINK_IN_LSE;
  ASSERT_EQ(read_dialect(file.path(), dialect), "");
  EXPECT_EQ(dialect.lse_base, QKVET_LSE_BASE2);
  EXPECT_EQ(dialect.empty_row, QKVET_EMPTY_ROW_ZERO);
  EXPECT_EQ(dialect.sink_in_lse, QKVET_SINK_IN_LSE);
}

TEST(Declaration, PrecisionKnobsAreMarkedAsDeclared) {
  const File file(
      "preset = flash_half\ntile = 64\np_dtype = bf16\nexp_error = 1.2e-7\n"
      "dot_sum = lanes\ndot_lanes = 8\nscore_dtype = f16\n"
      "operand_dtype = bf16\nlse_dtype = f16\nsink_dtype = bf16\n"
      "softmax_dtype = f32\ndot_sum_dtype = f16\nvalue_sum_dtype = bf16\n");
  qkvet_precision precision{};
  ASSERT_EQ(read_precision(file.path(), precision), "");
  EXPECT_EQ(precision.preset, QKVET_PRECISION_FLASH_HALF);
  EXPECT_EQ(precision.tile, 64);
  EXPECT_EQ(precision.exp_error, 1.2e-7);
  EXPECT_EQ(precision.dot_lanes, 8);
  EXPECT_TRUE(same_dtype(precision.p_dtype, dtype_to_abi(Dtype::kBf16)));
  EXPECT_TRUE(same_dtype(precision.score_dtype, dtype_to_abi(Dtype::kF16)));
  EXPECT_TRUE(same_dtype(precision.operand_dtype, dtype_to_abi(Dtype::kBf16)));
  EXPECT_TRUE(same_dtype(precision.lse_dtype, dtype_to_abi(Dtype::kF16)));
  EXPECT_TRUE(same_dtype(precision.sink_dtype, dtype_to_abi(Dtype::kBf16)));
  EXPECT_TRUE(same_dtype(precision.softmax_dtype, dtype_to_abi(Dtype::kF32)));
  EXPECT_TRUE(same_dtype(precision.dot_sum_dtype, dtype_to_abi(Dtype::kF16)));
  EXPECT_TRUE(
      same_dtype(precision.value_sum_dtype, dtype_to_abi(Dtype::kBf16)));
  EXPECT_EQ(precision.declared,
            QKVET_KNOB_TILE | QKVET_KNOB_P_DTYPE | QKVET_KNOB_EXP_ERROR |
                QKVET_KNOB_DOT_SUM | QKVET_KNOB_SCORE_DTYPE |
                QKVET_KNOB_OPERAND_DTYPE | QKVET_KNOB_LSE_DTYPE |
                QKVET_KNOB_SINK_DTYPE | QKVET_KNOB_SOFTMAX_DTYPE |
                QKVET_KNOB_DOT_SUM_DTYPE | QKVET_KNOB_VALUE_SUM_DTYPE);
  EXPECT_GT(precision.struct_size, 0u);
}

TEST(Declaration, APrecisionIsWrittenAsItIsRead) {
  EXPECT_TRUE(precision_lines({}).empty());
  const std::vector<std::string> written = {
      "preset = flash_half",  "accumulator_u = 5.960464477539063e-08",
      "scale_stage = folded", "tile = 64",
      "p_dtype = bf16",       "p_normalised = 1",
      "sum_of_rounded_p = 0", "softmax_dtype = f16"};
  const auto text_of = [](const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  };
  qkvet_precision read{};
  ASSERT_EQ(parse_precision("here", text_of(written), read), "");
  EXPECT_EQ(precision_lines(read), written);
  // Fields that are set but not declared are not printed.
  read.norm_roundings = 3;
  EXPECT_EQ(precision_lines(read), written);
  // Only a preset.
  qkvet_precision preset{};
  preset.struct_size = sizeof preset;
  EXPECT_EQ(precision_lines(preset),
            std::vector<std::string>{"preset = generic"});
}

TEST(Declaration, BadLinesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"lse_base", ":1: \"lse_base\": write field = value"},
      {"\nlse_base = ten", ":2: \"ten\": allowed: natural base2"},
      {"colour = red", "unknown field \"colour\"; allowed: empty_row"}};
  for (const auto& [content, expected] : cases) {
    const File file(content);
    qkvet_dialect dialect{};
    const std::string error = read_dialect(file.path(), dialect);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  const std::pair<const char*, const char*> numbers[] = {
      {"tile = many", "a number is wanted"},
      {"tile = 1.5", "an integer is wanted"},
      {"p_dtype = f17", "storage types"},
      {"merge = all", "allowed: none mlo lse"}};
  for (const auto& [content, expected] : numbers) {
    const File file(content);
    qkvet_precision precision{};
    EXPECT_NE(read_precision(file.path(), precision).find(expected),
              std::string::npos)
        << content;
  }
  qkvet_dialect dialect{};
  EXPECT_EQ(read_dialect("/nowhere/at.all", dialect),
            "/nowhere/at.all: cannot be read");
}

}  // namespace
}  // namespace qkvet::declaration_test
