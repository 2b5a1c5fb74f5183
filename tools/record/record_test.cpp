// SPDX-License-Identifier: Apache-2.0
// Records that are made up here: what is read of them, and what is written.
#include <gtest/gtest.h>

#include <limits>

#include "tools/record/html_parts.h"
#include "tools/record/report_files.h"
#include "tools/record/run_compare.h"
#include "tools/record/run_merge.h"

namespace qkvet::tools::record_test {
namespace {

Json line(const char* type, Json fields) {
  Json out{{"schema", 1}, {"type", type}};
  out.update(fields);
  return out;
}

Json result(const char* kernel, const char* law, const char* verdict,
            Json more = Json::object()) {
  Json out = line("result", {{"kernel", kernel},
                             {"law", law},
                             {"verdict", verdict},
                             {"checked", 10},
                             {"unsupported", 0},
                             {"compared", 100},
                             {"vacuous", 0},
                             {"worst_error_over_bound", 0.5},
                             {"seconds", 1.0}});
  out.update(more);
  return out;
}

Json failure(const char* text, const char* cause = "") {
  Json out{{"case", text},
           {"found", text},
           {"number", 3},
           {"again", "qkvet replay"},
           {"report", "FAIL"}};
  if (*cause != 0)
    out["diagnosis"] = {{"cause", cause},
                        {"certainty", "sure"},
                        {"reported_with", "second"},
                        {"text", "It is wrong."},
                        {"fix", "Mend it."}};
  return out;
}

std::string text_of_lines(const std::vector<Json>& lines) {
  std::string text;
  for (const Json& one : lines) text += json_text(one) + "\n";
  return text;
}

RunRecord record_of_lines(std::vector<Json> results, int exit,
                          Json start = Json::object()) {
  start.update({{"seed", 1}, {"cases", 20}});
  std::vector<Json> lines = {line("start", start)};
  lines.insert(lines.end(), results.begin(), results.end());
  lines.push_back(line("end", {{"exit", exit}, {"thread_seconds", {}}}));
  std::string error;
  auto record = parse_record(text_of_lines(lines), "made", &error);
  EXPECT_TRUE(record) << error;
  return record ? *record : RunRecord();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string error_of(const std::string& text) {
  std::string error;
  EXPECT_FALSE(parse_record(text, "x.jsonl", &error)) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

TEST(Record, WhatIsNoRecordIsOneLineWithItsPlace) {
  EXPECT_EQ(error_of("{\"schema\":1,\"type\":\"start\"}\nno\n"),
            "x.jsonl:2: no JSON");
  EXPECT_TRUE(has(error_of("[]\n"), "x.jsonl:1: no object with a text"));
  EXPECT_TRUE(has(error_of("{\"schema\":2,\"type\":\"start\"}"),
                  "schema 2; allowed: 1"));
  EXPECT_TRUE(has(error_of("{\"schema\":1,\"type\":\"start\"}\n"),
                  "holds no end of a run"));
  EXPECT_TRUE(has(error_of(""), "holds no end of a run"));
  const Json once = result("a/b", "law", "passed");
  EXPECT_TRUE(has(error_of(text_of_lines({once, once})),
                  "x.jsonl:2: a second result of a/b under law"));
  Json bare = once;
  bare.erase("checked");
  EXPECT_TRUE(has(error_of(text_of_lines({bare})), "a number \"checked\""));
}

TEST(Record, LinesOfOtherTypesArePassedOver) {
  const RunRecord record = record_of_lines(
      {line("question", {{"law", "x"}}), result("a/b", "first", "passed")}, 0);
  ASSERT_EQ(record.results.size(), 1u);
  // Older records have no lines of laws and kernels.
  ASSERT_EQ(record.laws.size(), 1u);
  ASSERT_EQ(record.kernels.size(), 1u);
  EXPECT_EQ(text_of(record.kernels[0], "kernel"), "a/b");
}

TEST(Record, ItsLinesReadBackAsTheSame) {
  const RunRecord record = record_of_lines(
      {line("kernel", {{"kernel", "a/b"}}),
       result("a/b", "first", "FAILED", {{"failure", failure("f32")}}),
       line("declared",
            {{"kernel", "a/b"},
             {"drawn", {"windows 8"}},
             {"never_drawn", Json::array()},
             {"pairs",
              {{"settings", {"windows", "softcap"}}, {"met", {"11", "11"}}}},
             {"hints",
              Json::array(
                  {{{"path", "Tk=7"}, {"from", "line 7"}, {"calls", 2}}})}})},
      1);
  std::string error;
  const auto again = parse_record(record_lines(record), "again", &error);
  ASSERT_TRUE(again) << error;
  EXPECT_EQ(again->results, record.results);
  EXPECT_EQ(again->kernels, record.kernels);
  EXPECT_EQ(again->end, record.end);
}

TEST(Record, FailuresOfOneCauseAreReportedUnderTheLawThatSaysMost) {
  const RunRecord record = record_of_lines(
      {result("a/b", "first", "FAILED", {{"failure", failure("f32", "slip")}}),
       result("a/b", "second", "FAILED", {{"failure", failure("f16", "slip")}}),
       result("a/c", "first", "FAILED", {{"failure", failure("f32", "slip")}}),
       result("a/c", "third", "FAILED", {{"failure", failure("f32")}}),
       result("a/c", "fourth", "FAILED", {{"failure", failure("f32")}})},
      1);
  const auto reported = reported_failures(record);
  ASSERT_EQ(reported.size(), 4u);
  EXPECT_EQ(text_of(*reported[0].result, "law"), "second");
  ASSERT_EQ(reported[0].also.size(), 1u);
  EXPECT_EQ(text_of(*reported[0].also[0].first, "law"), "first");
  EXPECT_TRUE(reported[1].also.empty());
}

TEST(Record, TheRuleOfTheVerdict) {
  const auto code = [](std::vector<Json> results, Json end = Json::object()) {
    RunRecord record = record_of_lines(std::move(results), 0);
    record.end.update(end);
    return verdict_of(record).code;
  };
  const Json good = result("a/b", "first", "passed");
  const Json bad =
      result("a/b", "second", "FAILED", {{"failure", failure("f32")}});
  const Json dead =
      result("a/b", "third", "crash", {{"failure", failure("f32")}});
  EXPECT_EQ(code({good}), kConforms);
  EXPECT_EQ(code({good, bad}), kLawFailed);
  EXPECT_EQ(code({good, bad, dead}), kKernelDied);
  EXPECT_EQ(code({good, result("a/b", "second", "mistrusted")}),
            kNothingChecked);
  EXPECT_EQ(code({result("a/b", "first", "unsupported")}), kNothingChecked);
  EXPECT_EQ(code({good}, {{"interrupted", true}}), kNothingChecked);
  EXPECT_EQ(code({}), kNothingChecked);
  Json as_before = bad;
  as_before["baseline"] = {{"verdict", "FAILED"}, {"worse", false}};
  EXPECT_EQ(code({good, as_before}), kConforms);
  as_before["baseline"]["worse"] = true;
  EXPECT_EQ(code({good, as_before}), kLawFailed);
  // Less than half of the cases of its plan, whatever other kernels had.
  const Json few =
      result("a/c", "first", "passed", {{"planned", 300}, {"checked", 149}});
  EXPECT_EQ(code({good, few}), kNothingChecked);
  EXPECT_EQ(code({good, result("a/c", "first", "passed",
                               {{"planned", 300}, {"checked", 150}})}),
            kConforms);
  EXPECT_EQ(code({good}, {{"baseline_gone", {"a/c"}}}), kLawFailed);
  Json lost = result("a/b", "second", "unsupported");
  EXPECT_EQ(code({good, lost}), kConforms);
  lost["baseline"] = {{"verdict", "passed"}, {"worse", true}};
  EXPECT_EQ(code({good, lost}), kLawFailed);
}

TEST(RecordFormats, AnAnnotationIsOneLineAndCannotBeEscapedFrom) {
  Json bad = failure("f32,\nB1");
  bad["again"] = "qkvet\n::error::%0A";
  const RunRecord record = record_of_lines(
      {line("kernel", {{"kernel", "a:b,c"},
                       {"source", {{"file", "x,y:z.cpp"}, {"line", 7}}}}),
       result("a:b,c", "first", "FAILED", {{"failure", bad}})},
      1);
  const std::string text = github_annotations(record);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_TRUE(has(text,
                  "::error file=x%2Cy%3Az.cpp,line=7,title=qkvet%3A "
                  "first::a:b,c: "))
      << text;
  EXPECT_TRUE(has(text, "qkvet%0A::error::%250A")) << text;
}

TEST(RecordFormats, SarifHasThePlaceOfTheKernelOrOfItsLibrary) {
  const RunRecord record = record_of_lines(
      {line("kernel",
            {{"kernel", "a/b"},
             {"source", {{"file", "my kernels/é.cpp"}, {"line", 7}}}}),
       line("kernel", {{"kernel", "a/c"}, {"library", "/usr/lib/x.so"}}),
       result("a/b", "first", "FAILED", {{"failure", failure("f32")}}),
       result("a/c", "first", "FAILED", {{"failure", failure("f32")}}),
       result("a/c", "second", "mistrusted", {{"reason", "vacuous"}})},
      1);
  const Json run = json_of(sarif_report(record))["runs"][0];
  const auto place = [&run](size_t n) {
    return run["results"][n]["locations"][0]["physicalLocation"];
  };
  EXPECT_EQ(place(0)["artifactLocation"]["uri"], "my%20kernels/%C3%A9.cpp");
  EXPECT_EQ(place(0)["region"]["startLine"], 7);
  EXPECT_EQ(place(1)["artifactLocation"]["uri"], "file:///usr/lib/x.so");
  EXPECT_FALSE(place(1).contains("region"));
  EXPECT_EQ(run["results"][2]["kind"], "open");
  EXPECT_EQ(run["results"][2]["level"], "none");
}

TEST(RecordFormats, WhatIsAcceptedIsSuppressedAndSkipped) {
  const RunRecord record = record_of_lines(
      {result("a/b", "first", "FAILED",
              {{"failure", failure("f32")},
               {"known", {{"holds", true}, {"reason", "since ever"}}}}),
       result("a/b", "second", "FAILED",
              {{"failure", failure("f32")},
               {"baseline", {{"verdict", "FAILED"}, {"worse", false}}}})},
      0);
  const Json run = json_of(sarif_report(record))["runs"][0];
  EXPECT_EQ(run["results"][0]["suppressions"][0]["justification"],
            "since ever");
  const std::string junit = junit_report(record);
  EXPECT_TRUE(has(junit, "failures=\"0\" errors=\"0\" skipped=\"2\"")) << junit;
  EXPECT_TRUE(reported_failures(record).empty());
  EXPECT_TRUE(github_annotations(record).empty());
}

TEST(RecordFormats, MarkdownCannotBeLeft) {
  Json bad = failure("f32");
  bad["report"] = "````\n# not a head";
  const RunRecord record = record_of_lines(
      {result("<b>|`x`", "first", "FAILED", {{"failure", bad}})}, 1);
  const std::string text = markdown_report(record);
  EXPECT_TRUE(has(text, "&lt;b\\>\\|\\`x\\`")) << text;
  EXPECT_TRUE(has(text, "`````\n````\n# not a head\n`````")) << text;
}

Json output_of(Json expected, Json low, Json high, Json actual) {
  return {{"calls",
           Json::array({{{"outputs", Json::array({{{"name", "o"},
                                                   {"axes", "bhic"},
                                                   {"dtype", "f32"},
                                                   {"shape", {1, 1, 2, 2}},
                                                   {"expected", expected},
                                                   {"low", low},
                                                   {"high", high},
                                                   {"actual", actual}}})}}})}};
}

TEST(RecordFormats, HeatMapsShowWhatIsOff) {
  const std::string maps = html_heat_maps(output_of(
      {1, 2, 0, 0}, {0.5, 1.5, 0, 0}, {1.5, 2.5, 0, 0}, {1.25, 4, 0, 0}));
  EXPECT_TRUE(has(maps, "expected 2, actual 4, error/bound 4<")) << maps;
  EXPECT_TRUE(has(maps, "expected 1, actual 1.25, error/bound 0.5<")) << maps;
  EXPECT_TRUE(has(maps, "1 of 4 elements outside of what is allowed")) << maps;
  EXPECT_TRUE(has(maps, "class=\"cross frame ")) << maps;
  // NaN is drawn, and an infinity has a colour.
  const std::string odd =
      html_heat_maps(output_of({1, "nan", 0, 0}, {0, "nan", 0, 0},
                               {2, "nan", 0, 0}, {"nan", "inf", 0, 0}));
  EXPECT_TRUE(has(odd, "url(#hatch)")) << odd;
  EXPECT_TRUE(has(odd, "2 of 4 elements")) << odd;
}

TEST(RecordFormats, TensorsThatDoNotFitTogetherAreLeftOut) {
  EXPECT_EQ(html_heat_maps(output_of({1}, {0}, {2}, {1})), "");
  EXPECT_EQ(html_heat_maps({{"calls", "none"}}), "");
  EXPECT_EQ(html_heat_maps(Json::object()), "");
  Json large =
      output_of({1, 2, 1, 2}, {0, 0, 0, 0}, {2, 2, 2, 2}, {1, 2, 1, 2});
  large["calls"][0]["outputs"][0]["shape"] = {1e300, 1, 2, 2};
  EXPECT_EQ(html_heat_maps(large), "");
}

// Fewer than four numbers are a table; a single one is on the card already.
TEST(RecordFormats, AFewNumbersAreNoMap) {
  Json few = output_of({1, 2}, {0.5, 1.5}, {1.5, 2.5}, {1.25, 4});
  few["calls"][0]["outputs"][0]["shape"] = {1, 1, 1, 2};
  const std::string table = html_heat_maps(few);
  EXPECT_FALSE(has(table, "<svg")) << table;
  EXPECT_TRUE(has(table,
                  "<tr class=\"off\"><th scope=\"row\">o[b=0, h=0, i=0, c=1]"
                  "</th><td>2</td><td>1.5 .. 2.5</td><td>4</td><td>4</td>"))
      << table;
  Json one = output_of({1}, {0.5}, {1.5}, {4});
  one["calls"][0]["outputs"][0]["shape"] = {1, 1, 1, 1};
  EXPECT_EQ(html_heat_maps(one), "");
}

TEST(RecordFormats, ACardAnswersBeforeItShowsEvidence) {
  Json bad = failure("f32", "slip");
  bad["diagnosis"]["where"] = {{"text", "where d > 4"}};
  bad["diagnosis"]["stage"] = {{"text", "the softmax"}};
  const std::string card = html_failures(record_of_lines(
      {result("a/b", "first", "FAILED", {{"failure", bad}})}, 1));
  size_t last = 0;
  for (const char* name : {"cause", "fix", "again", "case", "fails", "stage"}) {
    const size_t at = card.find("<dt>" + std::string(name) + "</dt>");
    ASSERT_NE(at, std::string::npos) << name << "\n" << card;
    EXPECT_GT(at, last) << name;
    last = at;
  }
}

TEST(RecordFormats, RowsThatFailAreFirstAndTheOthersFolded) {
  RunRecord record = record_of_lines(
      {result("a/b", "first", "passed"),
       result("a/b", "second", "FAILED", {{"failure", failure("f32")}}),
       result("a/b", "third", "unsupported", {{"undeclared", true}})},
      1);
  const std::string grid = html_grid(record);
  EXPECT_TRUE(has(grid, "<p>2 of 3 laws asked</p>")) << grid;
  const size_t folded = grid.find("<details><summary>laws: 1 passed<");
  ASSERT_NE(folded, std::string::npos) << grid;
  EXPECT_LT(grid.find("#law-second"), folded);
  EXPECT_GT(grid.find("#law-first"), folded);
  EXPECT_EQ(verdict_sentence(record),
            "Not ready: a/b fails 1 of 2 laws asked.");
  EXPECT_TRUE(has(figures_text(record),
                  "1 kernel, 2 laws asked: 1 passed, 1 "
                  "failed, 1 not declared; "));
}

TEST(RecordFormats, ThePageHasWhatTheScreenLeavesOut) {
  RunRecord record = record_of_lines(
      {result("a/b", "first", "passed",
              {{"unsupported", 3}, {"refusal", "d % 8 != 0"}}),
       line("declared", {{"kernel", "a/b"},
                         {"drawn", {"windows 8"}},
                         {"never_drawn", {"softcap"}},
                         {"hints", Json::array({{{"path", "Tk 128"},
                                                 {"from", "line 7"},
                                                 {"calls", 2}}})}})},
      0);
  record.end["not_judged"] = {"f64 (not declared)", "caches (not declared)"};
  const std::string page = html_report(record);
  for (const char* part : {"<li>windows 8</li>", "<li>softcap</li>",
                           "Tk 128, from line 7: 2 calls", "d % 8 != 0",
                           "f64 (not declared)", ">2 features not judged</a>"})
    EXPECT_TRUE(has(page, part)) << part;
}

// The others of the cause are places beside it.
TEST(RecordFormats, SarifHasAResultACause) {
  Json unknown = failure("f16");
  unknown["diagnosis"] = {{"cause", "unknown"},
                          {"certainty", "unknown"},
                          {"reported_with", "third"},
                          {"where", {{"text", "where d > 4"}}}};
  const RunRecord record = record_of_lines(
      {result("a/b", "first", "FAILED", {{"failure", failure("f32", "slip")}}),
       result("a/b", "second", "FAILED", {{"failure", failure("f16", "slip")}}),
       result("a/b", "third", "FAILED", {{"failure", unknown}}),
       result("a/b", "fourth", "FAILED", {{"failure", unknown}})},
      1);
  const Json results = json_of(sarif_report(record))["runs"][0]["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["ruleId"], "second");
  EXPECT_EQ(results[0]["partialFingerprints"]["qkvet/v2"], "a/b/slip");
  ASSERT_EQ(results[0]["relatedLocations"].size(), 1u);
  EXPECT_EQ(results[0]["relatedLocations"][0]["message"]["text"],
            "first: f32\nAgain: qkvet replay");
  EXPECT_EQ(results[1]["partialFingerprints"]["qkvet/v2"], "a/b/third");
  EXPECT_EQ(results[1]["relatedLocations"].size(), 1u);
}

TEST(RecordFormats, ARunThatLeavesSomethingOpenIsIncomplete) {
  for (const char* verdict : {"unsupported", "gave up"})
    EXPECT_STREQ(
        verdict_word(record_of_lines({result("a/b", "first", verdict)}, 3)),
        "INCOMPLETE");
}

TEST(RecordFormats, APassingRunIsOneSentence) {
  RunRecord record = record_of_lines({result("a/b", "first", "passed")}, 0);
  const std::string page = html_report(record);
  EXPECT_TRUE(has(page, "<h1>a/b conforms to every law")) << page;
  EXPECT_FALSE(has(page, "id=\"failures\"")) << page;
  record.end = {{"exit", 3}, {"why", "interrupted"}};
  EXPECT_TRUE(has(html_report(record), "No verdict on a/b: interrupted."));
}

TEST(RecordCompare, WhatIsWorseAndWhatIsBetter) {
  EXPECT_EQ(change_of("passed", "passed"), Change::kSame);
  EXPECT_EQ(change_of("passed", "FAILED"), Change::kWorse);
  EXPECT_EQ(change_of("passed", "mistrusted"), Change::kWorse);
  EXPECT_EQ(change_of("FAILED", "crash"), Change::kWorse);
  EXPECT_EQ(change_of("", "FAILED"), Change::kWorse);
  EXPECT_EQ(change_of("unsupported", "FAILED"), Change::kWorse);
  EXPECT_EQ(change_of("crash", "FAILED"), Change::kBetter);
  EXPECT_EQ(change_of("FAILED", "passed"), Change::kBetter);
  EXPECT_EQ(change_of("", "passed"), Change::kOther);
  EXPECT_EQ(change_of("mistrusted", "unsupported"), Change::kOther);
  // Whatever was judged has to be judged again.
  for (const char* before : {"passed", "FAILED", "crash"})
    for (const char* after : {"", "unsupported", "gave up"})
      EXPECT_EQ(change_of(before, after), Change::kWorse) << before << after;
}

TEST(RecordCompare, AKernelOfOneRunAloneIsALineAndWorseIfItIsGone) {
  const RunRecord both = record_of_lines(
      {result("a/b", "first", "passed"), result("a/c", "first", "passed"),
       result("a/c", "second", "FAILED", {{"failure", failure("f32")}}),
       result("a/c", "third", "unsupported")},
      1);
  const RunRecord one = record_of_lines({result("a/b", "first", "passed")}, 0);
  const std::string gone = comparison_text(compare_records(both, one), 80);
  EXPECT_TRUE(has(gone, "WORSE  2 laws worse, 0 better, 0 otherwise")) << gone;
  EXPECT_TRUE(
      has(gone, "  worse       a/c: 1 passed, 1 failed -> not in the run\n"))
      << gone;
  EXPECT_EQ(std::count(gone.begin(), gone.end(), '\n'), 3) << gone;
  // New, it is worse for what fails, and a change without that.
  EXPECT_EQ(compare_records(one, both).worse.size(), 1u);
  const RunRecord none = record_of_lines({result("a/d", "first", "passed")}, 0);
  EXPECT_EQ(compare_records(none, one).worse.size(), 1u);  // a/d is gone
  EXPECT_EQ(compare_records(none, one).other.size(), 1u);
  // Never judged, it is no loss.
  const RunRecord refused =
      record_of_lines({result("a/d", "first", "unsupported")}, 3);
  EXPECT_TRUE(compare_records(refused, one).worse.empty());
}

TEST(RecordCompare, LawsThatARunLacksAreALineForEachKernel) {
  const RunRecord all = record_of_lines(
      {result("a/b", "first", "passed"), result("a/b", "second", "passed"),
       result("a/b", "third", "passed"), result("a/b", "fourth", "gave up")},
      0);
  const RunRecord few = record_of_lines({result("a/b", "first", "passed")}, 0);
  const std::string text = comparison_text(compare_records(all, few), 80);
  EXPECT_TRUE(has(text, "WORSE  2 laws worse, 0 better, 1 otherwise")) << text;
  EXPECT_TRUE(has(text, "a/b 2 laws: judged -> not in the run")) << text;
}

TEST(RecordCompare, ErrorsAndSpeedAreTold) {
  const RunRecord before = record_of_lines(
      {result("a/b", "first", "passed"), result("a/b", "second", "passed"),
       result("a/b", "third", "passed")},
      0);
  const RunRecord after = record_of_lines(
      {result("a/b", "first", "passed", {{"worst_error_over_bound", 0.9}}),
       result("a/b", "second", "passed", {{"worst_error_over_bound", 1.1}}),
       result("a/b", "third", "FAILED",
              {{"failure", failure("f32")}, {"seconds", 10.0}})},
      1);
  const RunComparison comparison = compare_records(before, after);
  ASSERT_EQ(comparison.larger.size(), 1u);
  EXPECT_EQ(comparison.larger[0].law, "second");
  ASSERT_EQ(comparison.worse.size(), 1u);
  EXPECT_EQ(comparison.worse[0].law, "third");
  ASSERT_EQ(comparison.speed.size(), 1u);
  EXPECT_NEAR(comparison.speed[0].after / comparison.speed[0].before, 4, 1e-9);
  const std::string text = comparison_text(comparison, 80);
  EXPECT_TRUE(has(text, "WORSE  1 law worse")) << text;
  EXPECT_TRUE(has(text, "a/b second: 0.5 -> 1.1")) << text;
  EXPECT_TRUE(has(text, "(4.00 times)")) << text;
}

RunRecord shard_record(int64_t number, int64_t of, std::vector<Json> results) {
  return record_of_lines(std::move(results), 0,
                         {{"shard", {{"number", number}, {"of", of}}}});
}

std::string merge_error(std::vector<RunRecord> parts) {
  std::string error;
  EXPECT_FALSE(merge_records(std::move(parts), &error));
  return error;
}

Json sharpness(int64_t without_error, const Json& quarters) {
  return {{"f32", {{"without_error", without_error}, {"quarters", quarters}}}};
}

TEST(RecordMerge, CountsAreAddedAndTheSmallestCaseIsKept) {
  const char* small = "f32,B1,H1,Tq1,Tk2,d1";
  const char* large = "f32,B1,H1,Tq1,Tk9,d1";
  std::string error;
  const auto merged = merge_records(
      {shard_record(2, 2,
                    {result("a/b", "first", "FAILED",
                            {{"failure", failure(large, "slip")}}),
                     result("a/b", "second", "passed",
                            {{"worst_error_over_bound", 0.75},
                             {"bound_over_error", sharpness(5, {{"9", 2}})},
                             {"error_over_bound_powers", {{"-1", 4}}}})}),
       shard_record(1, 2,
                    {result("a/b", "first", "FAILED",
                            {{"failure", failure(small, "slip")},
                             {"other_failures",
                              Json::array({failure(large, "other")})}}),
                     result("a/b", "second", "passed",
                            {{"bound_over_error", sharpness(1, {{"9", 1}})},
                             {"error_over_bound_powers", {{"-1", 3}}}})})},
      &error);
  ASSERT_TRUE(merged) << error;
  const Json& first = *merged->result("a/b", "first");
  EXPECT_EQ(text_of(first, "verdict"), "FAILED");
  EXPECT_EQ(text_of(first["failure"], "case"), small);
  ASSERT_EQ(first["other_failures"].size(), 1u);
  const Json& second = *merged->result("a/b", "second");
  EXPECT_EQ(count_of(second, "checked"), 20);
  EXPECT_EQ(number_of(second, "worst_error_over_bound"), 0.75);
  EXPECT_EQ(ratio_powers(second).at(-1), 7);
  EXPECT_EQ(second["bound_over_error"], sharpness(6, {{"9", 3}}));
  EXPECT_EQ(count_of(merged->end, "exit"), 1);
}

// What no shard could say alone the sum of their elements says.
TEST(RecordMerge, WhatTheBoundLeavesOpenIsAddedToo) {
  const auto verdict_of = [](const Json& more) {
    std::string error;
    const auto merged = merge_records(
        {shard_record(1, 2, {result("a/b", "first", "passed")}),
         shard_record(2, 2, {result("a/b", "first", "passed", more)})},
        &error);
    return merged ? text_of(*merged->result("a/b", "first"), "verdict") : error;
  };
  EXPECT_EQ(verdict_of({{"vacuous", 50}}), "mistrusted");
  // All of it in one case.
  EXPECT_EQ(verdict_of({{"vacuous", 50},
                        {"emptiest", {{"compared", 0}, {"vacuous", 50}}}}),
            "passed");
  // One long case among twenty, or many.
  Json of_long{{"cases", 1}, {"compared", 0}, {"vacuous", 50}};
  EXPECT_EQ(verdict_of({{"vacuous", 50}, {"long", of_long}}), "passed");
  of_long["cases"] = 10;
  EXPECT_EQ(verdict_of({{"vacuous", 50}, {"long", of_long}}), "mistrusted");
}

// A shard with no case of the law does not take back what the others say.
TEST(RecordMerge, NotDeclaredIsWhatEveryRefusalSays) {
  const Json none{{"checked", 0}}, refused{{"checked", 0}, {"unsupported", 2}};
  Json undeclared = refused;
  undeclared["undeclared"] = true;
  const auto is_undeclared = [](const Json& first, const Json& second) {
    std::string error;
    const auto merged = merge_records(
        {shard_record(1, 2, {result("a/b", "first", "unsupported", first)}),
         shard_record(2, 2, {result("a/b", "first", "unsupported", second)})},
        &error);
    return merged && is_set(*merged->result("a/b", "first"), "undeclared");
  };
  EXPECT_TRUE(is_undeclared(none, undeclared));
  EXPECT_TRUE(is_undeclared(undeclared, none));
  EXPECT_FALSE(is_undeclared(undeclared, refused));
  EXPECT_FALSE(is_undeclared(none, refused));
}

TEST(RecordMerge, MissingShardsAreNamedAndAreNoPass) {
  std::string error;
  auto merged =
      merge_records({shard_record(1, 4, {result("a/b", "first", "passed")}),
                     shard_record(3, 4, {result("a/b", "first", "passed")})},
                    &error);
  ASSERT_TRUE(merged) << error;
  EXPECT_EQ(missing_shards(*merged), "shards 2, 4 of 4 are missing");
  EXPECT_EQ(count_of(merged->end, "exit"), 3);
  // What is merged can be merged on.
  merged = merge_records(
      {*merged, shard_record(2, 4, {result("a/b", "first", "passed")}),
       shard_record(4, 4, {result("a/b", "first", "passed")})},
      &error);
  ASSERT_TRUE(merged) << error;
  EXPECT_EQ(missing_shards(*merged), "");
  EXPECT_EQ(count_of(merged->end, "exit"), 0);
  EXPECT_EQ(count_of(merged->results[0], "checked"), 40);
}

TEST(RecordMerge, WhatIsNoShardOfOnePlanIsRefused) {
  const Json good = result("a/b", "first", "passed");
  EXPECT_TRUE(has(merge_error({record_of_lines({good}, 0)}), "is no shard"));
  EXPECT_TRUE(
      has(merge_error({shard_record(1, 2, {good}), shard_record(1, 2, {good})}),
          "shard 1 is there already"));
  EXPECT_TRUE(
      has(merge_error({shard_record(1, 2, {good}), shard_record(1, 3, {good})}),
          "is one of 3 shards, and made one of 2"));
  RunRecord other = shard_record(2, 2, {good});
  other.start["seed"] = 2;
  EXPECT_TRUE(has(merge_error({shard_record(1, 2, {good}), other}),
                  "\"seed\" differs"));
  EXPECT_TRUE(
      has(merge_error({shard_record(1, 2, {good}),
                       shard_record(2, 2, {result("a/c", "first", "passed")})}),
          "has other kernels"));
}

}  // namespace
}  // namespace qkvet::tools::record_test
