// SPDX-License-Identifier: Apache-2.0
// qkvet judge PLAN --out: a row for each question, with any outcome; and
// gradients, which are judged by files, too.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/judge/judge_run.h"

namespace qkvet::cli::judge_rows_test {
namespace {

namespace fs = std::filesystem;

using Row = std::map<std::string, std::string>;  // by the names of the columns

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  if (!text.empty() && text.back() == at && at != '\n') parts.emplace_back();
  return parts;
}

std::vector<Row> rows_of(const std::string& table) {
  const std::vector<std::string> lines = split(table, '\n');
  EXPECT_FALSE(lines.empty());
  const std::vector<std::string> names = split(lines.at(0), '\t');
  std::vector<Row> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = split(lines[i], '\t');
    EXPECT_EQ(cells.size(), names.size()) << lines[i];
    rows.emplace_back();
    for (size_t c = 0; c < std::min(cells.size(), names.size()); ++c)
      rows.back()[names[c]] = cells[c];
  }
  return rows;
}

struct Judged {
  Ran ran;
  std::vector<Row> rows;
};

Judged judged_rows(const fs::path& plan) {
  Judged out;
  out.ran = judged(plan, "--diagnose 0 --out rows.tsv --json rows.jsonl");
  out.rows = rows_of(read_text(scratch() / "rows.tsv"));
  return out;
}

size_t count(const std::vector<Row>& rows, const std::string& verdict) {
  return static_cast<size_t>(std::count_if(
      rows.begin(), rows.end(),
      [&](const Row& row) { return row.at("verdict") == verdict; }));
}

// "-0.5 .. 0.5"
bool is_allowed(const Row& row) {
  const std::string& text = row.at("allowed");
  const size_t dots = text.find(" .. ");
  if (dots == std::string::npos) return false;
  const double actual = std::stod(row.at("actual"));
  return std::stod(text.substr(0, dots)) <= actual &&
         actual <= std::stod(text.substr(dots + 4));
}

TEST(JudgeRows, EveryQuestionHasARowAndAnObject) {
  const fs::path plan = emitted("rows");
  answer_plan(plan, "scalar/plain");
  const Judged judged = judged_rows(plan);
  EXPECT_EQ(judged.ran.exit, 0) << judged.ran.out << judged.ran.error;
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  ASSERT_EQ(judged.rows.size(), json["cases"].size());
  EXPECT_EQ(count(judged.rows, "failed"), 0U);
  std::vector<nlohmann::json> objects;
  for (const std::string& line :
       split(read_text(scratch() / "rows.jsonl"), '\n'))
    if (const auto one = nlohmann::json::parse(line); one["type"] == "question")
      objects.push_back(one);
  ASSERT_EQ(objects.size(), judged.rows.size());
  size_t placed = 0;
  for (size_t i = 0; i < judged.rows.size(); ++i) {
    const Row& row = judged.rows[i];
    const auto& asked = json["cases"][i];
    EXPECT_EQ(asked["law"], row.at("law"));
    EXPECT_EQ(row.at("number"), std::to_string(int64_t{asked["number"]}));
    EXPECT_EQ(asked["case"], row.at("case"));
    EXPECT_EQ(split(row.at("calls"), ',').size(), asked["calls"].size());
    EXPECT_EQ(objects[i]["law"], asked["law"]);
    EXPECT_EQ(objects[i]["verdict"], row.at("verdict"));
    EXPECT_EQ(objects[i].value("at", ""), row.at("at"));
    EXPECT_EQ(objects[i].value("actual", ""), row.at("actual"));
    if (row.at("law") != "agrees_with_oracle") continue;
    // The number nearest to its bound, though it passed.
    EXPECT_EQ(row.at("verdict"), "passed");
    EXPECT_EQ(row.at("at").substr(0, 4), "o[b=") << row.at("at");
    EXPECT_EQ(row.at("from"), row.at("calls"));
    EXPECT_LT(std::stod(row.at("error_over_bound")), 1);
    EXPECT_TRUE(is_allowed(row)) << row.at("actual") << row.at("allowed");
    ++placed;
  }
  EXPECT_GT(placed, 3U);
}

// One wrong number is found in its row, with its call and its place.
TEST(JudgeRows, AWrongNumberStandsInItsRow) {
  const fs::path plan =
      emitted("wrong_row", "--law agrees_with_oracle --cases 6");
  answer_plan(plan, "scalar/plain");
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  const std::string call = json["calls"].back()["call"];
  const fs::path file = plan / call / "o.npy";
  std::string wrong = read_text(file);
  const float number = 1000;
  std::memcpy(wrong.data() + wrong.size() - sizeof number, &number,
              sizeof number);
  write_text(file, wrong);
  const Judged judged = judged_rows(plan);
  EXPECT_EQ(judged.ran.exit, 1);
  EXPECT_EQ(count(judged.rows, "failed"), 1U);
  EXPECT_EQ(count(judged.rows, "passed"), 5U);
  const Row& row = judged.rows.back();
  EXPECT_EQ(row.at("verdict"), "failed");
  EXPECT_EQ(row.at("from"), call);
  EXPECT_EQ(row.at("actual"), "1000");
  EXPECT_GT(std::stod(row.at("error_over_bound")), 1);
  EXPECT_FALSE(is_allowed(row)) << row.at("allowed");
  // Its last element.
  const auto& shape = json["calls"].back()["outputs"]["o"]["shape"];
  std::string place = "o[";
  const char* letters = "bhic";
  for (size_t i = 0; i < 4; ++i)
    place += std::string(i > 0 ? "," : "") + letters[i] + "=" +
             std::to_string(int64_t{shape[i]} - 1);
  EXPECT_EQ(row.at("at"), place + "]");
}

TEST(JudgeRows, RefusedAndUnansweredQuestionsSaySo) {
  const fs::path plan =
      emitted("open_rows", "--law agrees_with_oracle --cases 6");
  answer_plan(plan, "scalar/plain");
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  const auto folder = [&](size_t question) {
    const size_t call = json["cases"][question]["calls"][0];
    return plan / std::string(json["calls"][call]["call"]);
  };
  fs::remove(folder(1) / "o.npy");
  fs::remove(folder(3) / "o.npy");
  write_text(folder(3) / "refused.txt", "no\tsuch width\nat all\n");
  const Judged judged = judged_rows(plan);
  EXPECT_EQ(judged.ran.exit, 3) << judged.ran.out;
  ASSERT_EQ(judged.rows.size(), 6U);
  EXPECT_EQ(judged.rows[1].at("verdict"), "not answered");
  EXPECT_EQ(judged.rows[1].at("reason"),
            "no answer to " + folder(1).filename().string());
  EXPECT_EQ(judged.rows[3].at("verdict"), "refused");
  EXPECT_EQ(judged.rows[3].at("reason"), "no such width");
  EXPECT_EQ(judged.rows[3].at("error_over_bound"), "");
  EXPECT_EQ(count(judged.rows, "passed"), 4U);
}

// ---- Gradients --------------------------------------------------------------

constexpr const char* kGradients =
    "--law 'backward_*' --law '*_gradients*' --cases 120 "
    "--options backward,causal,gqa,cross_lengths";

TEST(JudgeGradients, ARightGradientPasses) {
  const fs::path plan = emitted("gradients", kGradients);
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  // A law that files cannot show keeps its reason.
  EXPECT_EQ(json["not_asked"]["backward_reads_only_its_inputs"],
            "what a kernel does to memory is in no file");
  EXPECT_EQ(json["not_asked"]["backward_same_call_same_bits"],
            "a call is answered once");
  EXPECT_TRUE(json["not_asked"].contains("layer_future_gradients_are_zero"));
  size_t asked = 0;
  for (const auto& call : json["calls"]) {
    if (call["operation"] != "backward") continue;
    ++asked;
    for (const char* name : {"q", "k", "v", "d_o", "o", "lse"})
      EXPECT_TRUE(call["inputs"].contains(name)) << call;
    for (const auto& [name, of] :
         {std::pair{"d_q", "q"}, std::pair{"d_k", "k"}, std::pair{"d_v", "v"}})
      EXPECT_EQ(call["outputs"][name]["shape"], call["inputs"][of]["shape"]);
    EXPECT_EQ(call["outputs"].size(), 3U) << call;
  }
  EXPECT_GT(asked, 100U);
  answer_plan(plan, "eigen/plain");
  const Judged judged = judged_rows(plan);
  EXPECT_EQ(judged.ran.exit, 0) << judged.ran.out << judged.ran.error;
  EXPECT_GT(count(judged.rows, "passed"), 100U);
  EXPECT_EQ(count(judged.rows, "refused"), 0U);
}

// dk without the scale: only the laws fail that compare a gradient with the
// forward pass or with the definition; with its cause.
TEST(JudgeGradients, AWrongOneFailsUnderItsLaws) {
  const fs::path plan = emitted("wrong_gradients", kGradients);
  answer_plan(plan, "faulty/backward_key_scale_missing");
  const Ran ran = exits(1, judged(plan, "--out rows.tsv"));
  EXPECT_EQ(cause_in(ran.out), "backward_key_scale_missing, sure") << ran.out;
  std::set<std::string> laws;
  for (const Row& row : rows_of(read_text(scratch() / "rows.tsv"))) {
    if (row.at("verdict") != "failed") continue;
    laws.insert(row.at("law"));
    EXPECT_EQ(row.at("at").substr(0, 3), "dk[") << row.at("at");
  }
  EXPECT_EQ(laws, (std::set<std::string>{"backward_agrees_with_oracle",
                                         "backward_is_the_adjoint"}));
}

// With masks, biases, softcap, lengths and sinks, and their gradients.
TEST(JudgeGradients, OptionsHaveGradientsToo) {
  const fs::path plan = emitted(
      "gradient_options",
      "--law 'backward_*' --cases 100 --options causal,gqa,cross_lengths,"
      "mask,bias,softcap,sink,alibi,lengths,packed,window,backward,"
      "backward_bias,backward_sink");
  const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
  size_t bias = 0, sink = 0;
  for (const auto& call : json["calls"]) {
    bias += call["outputs"].contains("d_bias") ? 1 : 0;
    sink += call["outputs"].contains("d_sink") ? 1 : 0;
  }
  EXPECT_GT(bias, 3U);
  EXPECT_GT(sink, 3U);
  answer_plan(plan, "eigen/plain");
  const Judged judged = judged_rows(plan);
  EXPECT_EQ(count(judged.rows, "failed"), 0U) << judged.ran.out;
  EXPECT_GT(count(judged.rows, "passed"), 50U) << judged.ran.out;
}

// o and lse are given in the plan's own dialect: a kernel with another lse is
// not judged by calls that do not fit it.
TEST(JudgeGradients, AnotherDialectThanThePlansIsSaid) {
  const std::string options =
      "--law 'backward_*' --law lse_counts_equal_keys --cases 24 --options "
      "backward,causal,lse";
  const fs::path plan = emitted("gradient_dialect", options);
  answer_plan(plan, "eigen/plain");
  EXPECT_EQ(judged_rows(plan).ran.exit, 0);
  write_text(scratch() / "base2.txt", "lse_base = base2\n");
  const Ran ran =
      exits(1, judged(plan, "--diagnose 0 --dialect base2.txt --out rows.tsv"));
  for (const Row& row : rows_of(read_text(scratch() / "rows.tsv"))) {
    if (row.at("law").substr(0, 8) != "backward") continue;
    EXPECT_EQ(row.at("verdict"), "not applicable");
    EXPECT_TRUE(has(row.at("reason"), "emit it with that --dialect"));
  }
}

}  // namespace
}  // namespace qkvet::cli::judge_rows_test
