// SPDX-License-Identifier: Apache-2.0
// Records that are made up here: how they are read and written.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/base/json.h"
#include "report/html_parts.h"
#include "report/report_files.h"
#include "report/run_compare.h"
#include "report/run_merge.h"

namespace qkvet::report::record_test {
namespace {

using More = std::function<void(ResultLine&)>;

ResultLine result(const char* kernel, const char* law, RowVerdict verdict,
                  const More& more = nullptr) {
  ResultLine out;
  out.kernel = kernel;
  out.law = law;
  out.verdict = verdict;
  out.counts.checked = 10;
  out.counts.elements.compared = 100;
  out.counts.worst_ratio = 0.5;
  out.counts.seconds = 1;
  if (more) more(out);
  return out;
}

ResultLine passed(const char* kernel, const char* law,
                  const More& more = nullptr) {
  return result(kernel, law, RowVerdict::kPassed, more);
}

FailureLine failure(const char* text, const char* cause = "") {
  FailureLine out;
  out.law = "a_law";
  out.value = out.found = text;
  out.number = 3;
  out.digest = "00000000";
  out.again = "qkvet replay";
  out.report = "FAIL";
  if (*cause != 0) {
    out.diagnosis.emplace();
    out.diagnosis->cause = cause;
    out.diagnosis->certainty = Certainty::kSure;
    out.diagnosis->reported_with = "second";
    out.diagnosis->text = "It is wrong.";
    out.diagnosis->fix = "Mend it.";
  }
  return out;
}

ResultLine failed(const char* kernel, const char* law, FailureLine failure,
                  const More& more = nullptr) {
  ResultLine out = result(kernel, law, RowVerdict::kFailed, more);
  out.failure = std::move(failure);
  return out;
}

KernelLine kernel(const char* name) {
  KernelLine out;
  out.kernel = name;
  return out;
}

LawLine law(const std::string& name) {
  LawLine out;
  out.law = name;
  out.sentence = name + " holds.";
  return out;
}

// With a line for each law and kernel that lacks one.
RunRecord record_of(const std::vector<ResultLine>& results,
                    ExitCode exit = kConforms,
                    std::vector<KernelLine> kernels = {}) {
  RunRecord out;
  out.name = "made";
  out.kernels = std::move(kernels);
  for (ResultLine one : results) {
    if (out.kernel(one.kernel) == nullptr)
      out.kernels.push_back(kernel(one.kernel.c_str()));
    if (out.law(one.law) == nullptr) out.laws.push_back(law(one.law));
    one.row = static_cast<size_t>(out.kernel(one.kernel) - out.kernels.data());
    out.add_result(one);
  }
  out.end.exit = exit;
  return out;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The record as lines, read again.
RunRecord reread(const RunRecord& record) {
  std::string error;
  const auto again = parse_record(record_lines(record), "again", &error);
  EXPECT_TRUE(again) << error;
  return again ? *again : RunRecord();
}

std::string error_of(const std::string& text) {
  std::string error;
  EXPECT_FALSE(parse_record(text, "x.jsonl", &error)) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

// The result's line is the fourth, after those of its law and kernel.
std::string error_of(const ResultLine& result) {
  return error_of(record_lines(record_of({result})));
}

// The same with another text in one place of its lines.
std::string error_with(const ResultLine& result, const std::string& from,
                       const std::string& to) {
  std::string text = record_lines(record_of({result}));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  return error_of(text.replace(at, from.size(), to));
}

TEST(Record, WhatIsNoRecordIsOneLineWithItsPlace) {
  const ResultLine good = passed("a/b", "law");
  const std::string first = start_text({});
  EXPECT_EQ(error_of(first + "no\n"), "x.jsonl:2: no JSON");
  EXPECT_TRUE(has(error_of("[]\n"), "x.jsonl:1: no object with a text"));
  EXPECT_TRUE(has(error_of("{\"schema\":2,\"type\":\"start\"}"),
                  "schema 2; allowed: 1"));
  EXPECT_TRUE(has(error_of("{\"schema\":\"x\",\"type\":\"start\"}"),
                  "schema \"x\"; allowed: 1"));
  EXPECT_TRUE(has(error_of(first), "holds no end of a run"));
  EXPECT_TRUE(has(error_of(""), "holds no end of a run"));
  EXPECT_EQ(error_of(record_lines(record_of({good, good}))),
            "x.jsonl:5: a second result of a/b under law");
  RunRecord bare = record_of({good});
  bare.laws.clear();
  EXPECT_EQ(error_of(record_lines(bare)),
            "x.jsonl:3: a result of a/b under law before the lines of "
            "both");
  EXPECT_EQ(error_of(result("a/b", "law", RowVerdict::kFailed)),
            "x.jsonl:4: FAILED without a failure");
}

TEST(Record, AFieldIsReadOrNamedWithWhatIsAllowed) {
  const ResultLine good = failed("a/b", "law", failure("f32", "slip"));
  const struct {
    const char *from, *to, *error;
  } rows[] = {
      {"\"checked\":10,", "", "checked: is missing"},
      {"\"checked\":10", "\"checked\":-1",
       "checked: -1; allowed: a count, up to 2^53"},
      {"\"checked\":10", "\"checked\":1e300",
       "checked: 1e+300; allowed: a count, up to 2^53"},
      {"\"checked\":10", "\"checked\":9007199254740993",
       "checked: 9007199254740993; allowed: a count, up to 2^53"},
      {"\"verdict\":\"FAILED\"", "\"verdict\":\"fine\"",
       "verdict: \"fine\"; allowed: passed, FAILED, skipped, unsupported, gave "
       "up, mistrusted, crash"},
      {"\"certainty\":\"sure\"", "\"certainty\":1",
       "failure.diagnosis.certainty: 1; allowed: unknown, likely, sure"},
      {"_powers\":{}", "_powers\":{\"999\":1}",
       "error_over_bound_powers.999: allowed: names from -60 to 240"},
      {"\"seconds\":1.0", "\"seconds\":\"now\"",
       "seconds: \"now\"; allowed: a number, inf, -inf, nan"},
      {"\"failure\":{", "\"other_failures\":[[]],\"failure\":{",
       "other_failures[0]: []; allowed: an object"}};
  for (const auto& row : rows)
    EXPECT_EQ(error_with(good, row.from, row.to),
              std::string("x.jsonl:4: ") + row.error);
  EXPECT_EQ(error_with(good, "\"exit\":0", "\"exit\":2"),
            "x.jsonl:5: exit: 2; allowed: 0, 1, 3, 4");
  EXPECT_EQ(error_of(passed("", "law")), "x.jsonl:3: a kernel without a name");
  EXPECT_EQ(error_of(passed("a/b", "")), "x.jsonl:2: a law without a name");
}

// Each would be a loop or a sum beyond 64 bits.
TEST(Record, ShardsAndPairsHaveLimits) {
  RunRecord record = record_of({passed("a/b", "law")});
  record.start.shard = {3, 2};
  EXPECT_TRUE(has(error_of(record_lines(record)), "shard: shard 3 of 2;"));
  record.start.shard = {1, kMostShards + 1};
  EXPECT_TRUE(has(error_of(record_lines(record)), "N up to 100000"));
  record.start.shard.reset();
  record.start.shards = {kMostShards + 1, {1}, {}};
  EXPECT_TRUE(has(error_of(record_lines(record)), "100001 shards; allowed"));
  record.start.shards.reset();
  record.kernels[0].pairs.settings = {"windows", "softcap"};
  record.kernels[0].pairs.met = {{true, true}};
  EXPECT_TRUE(has(error_of(record_lines(record)),
                  "pairs: settings and \"met\" do not fit together"));
}

TEST(Record, LinesOfOtherTypesArePassedOver) {
  const std::string text = start_text({}) +
                           "{\"schema\":1,\"type\":\"question\",\"law\":7}\n" +
                           result_lines(record_of({passed("a/b", "first")}));
  std::string error;
  const auto record = parse_record(text, "made", &error);
  ASSERT_TRUE(record) << error;
  EXPECT_EQ(record->results.size(), 1u);
}

// A record with something in every field.
RunRecord full_record() {
  FailureLine bad = failure("f32", "slip");
  bad.picture = {"q 1"};
  bad.reaches = {{ReachKind::kStale, "a", "b", {"a1"}, "STALE"}};
  bad.error_over_bound = std::numeric_limits<double>::infinity();
  DiagnosisFound& cause = *bad.diagnosis;
  cause.where.emplace().text = "where d > 4";
  cause.stage = {"softmax", "the softmax"};
  cause.instead.emplace().outputs = {{"o", "0", 3, 1}};
  cause.instead->read_back = {"nothing", 2};
  bad.calls = {
      {"call 5",
       {{"o", "bhic", "f32", {1, 1, 1, 1}, {1}, {0}, {2}, {std::nan("")}}}}};
  KernelLine mine = kernel("a/b");
  mine.source = {"x.cpp", 7};
  mine.assumed = {{"lse", "QKVET_LSE_BASE2", "base2"}};
  mine.mistrust = "--strict: not declared: lse";
  mine.drawn = {{"windows", 8}};
  mine.never_drawn = {"softcap"};
  mine.hints = {{"Tk=7", "line 7", 2}};
  mine.pairs.settings = {"windows", "softcap"};
  mine.pairs.met = {{true, false}, {false, true}};
  mine.pairs.apart = {{false, true}, {true, false}};
  mine.pairs.added = 3;
  RunRecord record = record_of(
      {failed("a/b", "first", bad,
              [](ResultLine& one) {
                one.others = {failure("f16")};
                one.known = {.line = 3, .since = "2026-11-22", .holds = true};
                one.baseline = {RowVerdict::kCrash, false};
                one.counts.long_cases = 2;
                one.counts.of_long.vacuous = 5;
                one.counts.emptiest.vacuous = 1;
                one.counts.ratios = {{-3, 4}};
                one.counts.sharpness["f32"].quarters = {{9, 1}};
                one.counts.warning = {"near", 12};
                one.counts.warned = 1;
              })},
      kLawFailed, {mine});
  record.start.pin = {{"d", 72}};
  record.start.shard = {1, 2};
  record.end.baseline_exit = kConforms;
  record.end.oracle_suspected = {"f32", "o[0]", {"a/b"}, 2};
  return record;
}

TEST(Record, ItsLinesReadBackAsTheSame) {
  const RunRecord record = full_record();
  const RunRecord again = reread(record);
  EXPECT_EQ(record_lines(again), record_lines(record));
  ASSERT_EQ(again.results.size(), 1u);
  EXPECT_TRUE(
      std::isnan(again.results[0].failure->calls[0].outputs[0].actual[0]));
  EXPECT_EQ(again.kernels[0].pairs.apart, record.kernels[0].pairs.apart);
  EXPECT_EQ(html_report(again), html_report(record));
}

TEST(Record, FailuresOfOneCauseAreReportedUnderTheLawThatSaysMost) {
  const RunRecord record =
      record_of({failed("a/b", "first", failure("f32", "slip")),
                 failed("a/b", "second", failure("f16", "slip")),
                 failed("a/c", "first", failure("f32", "slip")),
                 failed("a/c", "third", failure("f32")),
                 failed("a/c", "fourth", failure("f32"))},
                kLawFailed);
  const auto reported = reported_failures(record);
  ASSERT_EQ(reported.size(), 4u);
  EXPECT_EQ(reported[0].result->law, "second");
  EXPECT_EQ(reported[0].also_laws(), Texts{"first"});
  EXPECT_TRUE(reported[1].also.empty());
}

TEST(Record, TheRuleOfTheVerdict) {
  using Change = std::function<void(RunRecord&)>;
  const auto code = [](const std::vector<ResultLine>& results,
                       const Change& change = nullptr) {
    RunRecord record = record_of(results);
    if (change) change(record);
    return verdict_of(record).code;
  };
  const ResultLine good = passed("a/b", "first");
  const ResultLine bad = failed("a/b", "second", failure("f32"));
  ResultLine dead = failed("a/b", "third", failure("f32"));
  dead.verdict = RowVerdict::kCrash;
  EXPECT_EQ(code({good}), kConforms);
  EXPECT_EQ(code({good, bad}), kLawFailed);
  EXPECT_EQ(code({good, bad, dead}), kKernelDied);
  EXPECT_EQ(code({good, result("a/b", "second", RowVerdict::kMistrusted)}),
            kNothingChecked);
  EXPECT_EQ(code({result("a/b", "first", RowVerdict::kUnsupported)}),
            kNothingChecked);
  EXPECT_EQ(code({good}, [](auto& record) { record.end.interrupted = true; }),
            kNothingChecked);
  EXPECT_EQ(code({}), kNothingChecked);
  ResultLine as_before = bad;
  as_before.baseline = {RowVerdict::kFailed, false};
  EXPECT_EQ(code({good, as_before}), kConforms);
  as_before.baseline->worse = true;
  EXPECT_EQ(code({good, as_before}), kLawFailed);
  // Less than half of the cases of its plan, independent of other kernels.
  ResultLine few = passed("a/c", "first");
  few.counts.planned = 300;
  few.counts.checked = 149;
  EXPECT_EQ(code({good, few}), kNothingChecked);
  // Shards do not replace what the kernel does not declare.
  const auto in_shards = [](RunRecord& record) { record.start.shard = {1, 2}; };
  EXPECT_EQ(code({good, few}, in_shards), kNothingChecked);
  few.counts.unsupported = 2;
  EXPECT_EQ(code({good, few}), kNothingChecked);
  EXPECT_EQ(code({good, few}, in_shards), kConforms);
  few.counts.refused = 2;
  EXPECT_EQ(code({good, few}, in_shards), kNothingChecked);
  few.counts.checked = 150;
  EXPECT_EQ(code({good, few}), kConforms);
  EXPECT_EQ(
      code({good}, [](auto& record) { record.end.baseline_gone = {"a/c"}; }),
      kLawFailed);
  // For a single shard, options that were not drawn have no consequence.
  const auto never = [](RunRecord& record) {
    record.end.whole_plan = true;
    record.kernels[0].never_drawn = {"softcap"};
  };
  EXPECT_EQ(code({good}, never), kNothingChecked);
  EXPECT_EQ(code({good},
                 [&never](auto& record) {
                   never(record);
                   record.start.shard = {1, 2};
                 }),
            kConforms);
  ResultLine lost = result("a/b", "second", RowVerdict::kUnsupported);
  EXPECT_EQ(code({good, lost}), kConforms);
  lost.baseline = {RowVerdict::kPassed, true};
  EXPECT_EQ(code({good, lost}), kLawFailed);
}

TEST(RecordFormats, AnAnnotationIsOneLineAndCannotBeEscapedFrom) {
  FailureLine bad = failure("f32,\nB1");
  bad.again = "qkvet\n::error::%0A";
  KernelLine odd = kernel("a:b,c");
  odd.source = {"x,y:z.cpp", 7};
  const std::string text = github_annotations(
      record_of({failed("a:b,c", "first", bad)}, kLawFailed, {odd}));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_TRUE(has(text,
                  "::error file=x%2Cy%3Az.cpp,line=7,title=qkvet%3A "
                  "first::a:b,c: "))
      << text;
  EXPECT_TRUE(has(text, "qkvet%0A::error::%250A")) << text;
}

TEST(RecordFormats, SarifHasThePlaceOfTheKernelOrOfItsLibrary) {
  KernelLine of_source = kernel("a/b"), of_library = kernel("a/c");
  of_source.source = {"my kernels/é.cpp", 7};
  of_library.library = "/usr/lib/x.so";
  ResultLine open = result("a/c", "second", RowVerdict::kMistrusted);
  open.counts.reason.text = "vacuous";
  const RunRecord record =
      record_of({failed("a/b", "first", failure("f32")),
                 failed("a/c", "first", failure("f32")), open},
                kLawFailed, {of_source, of_library});
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
  EXPECT_EQ(run["results"][2]["ruleIndex"], 1);
}

TEST(RecordFormats, WhatIsAcceptedIsSuppressedAndSkipped) {
  const RunRecord record =
      record_of({failed("a/b", "first", failure("f32"),
                        [](ResultLine& one) {
                          one.known = {.holds = true, .reason = "since ever"};
                        }),
                 failed("a/b", "second", failure("f32"), [](ResultLine& one) {
                   one.baseline = {RowVerdict::kFailed, false};
                 })});
  const Json run = json_of(sarif_report(record))["runs"][0];
  EXPECT_EQ(run["results"][0]["suppressions"][0]["justification"],
            "since ever");
  const std::string junit = junit_report(record);
  EXPECT_TRUE(has(junit, "failures=\"0\" errors=\"0\" skipped=\"2\"")) << junit;
  EXPECT_TRUE(reported_failures(record).empty());
  EXPECT_TRUE(github_annotations(record).empty());
}

TEST(RecordFormats, MarkdownCannotBeLeft) {
  FailureLine bad = failure("f32");
  bad.report = "````\n# not a head";
  const std::string text =
      markdown_report(record_of({failed("<b>|`x`", "first", bad)}, kLawFailed));
  EXPECT_TRUE(has(text, "&lt;b\\>\\|\\`x\\`")) << text;
  EXPECT_TRUE(has(text, "`````\n````\n# not a head\n`````")) << text;
}

using Numbers = std::vector<double>;

FailureLine failure_with(std::vector<int64_t> shape, Numbers expected,
                         Numbers low, Numbers high, Numbers actual) {
  FailureLine out = failure("f32");
  out.calls = {
      {"", {{"o", "bhic", "f32", shape, expected, low, high, actual}}}};
  return out;
}

TEST(RecordFormats, HeatMapsShowWhatIsOff) {
  const std::string maps =
      html_heat_maps(failure_with({1, 1, 2, 2}, {1, 2, 0, 0}, {0.5, 1.5, 0, 0},
                                  {1.5, 2.5, 0, 0}, {1.25, 4, 0, 0}));
  EXPECT_TRUE(has(maps, "expected 2, actual 4, error/bound 4<")) << maps;
  EXPECT_TRUE(has(maps, "expected 1, actual 1.25, error/bound 0.5<")) << maps;
  EXPECT_TRUE(has(maps, "1 of 4 elements outside of what is allowed")) << maps;
  EXPECT_TRUE(has(maps, "class=\"cross frame ")) << maps;
  // NaN is drawn, and an infinity has a colour.
  const double nan = std::nan("");
  const std::string odd = html_heat_maps(
      failure_with({1, 1, 2, 2}, {1, nan, 0, 0}, {0, nan, 0, 0}, {2, nan, 0, 0},
                   {nan, std::numeric_limits<double>::infinity(), 0, 0}));
  EXPECT_TRUE(has(odd, "url(#hatch)")) << odd;
  EXPECT_TRUE(has(odd, "2 of 4 elements")) << odd;
}

// Extents with a product of more than 64 bits are refused like any others.
TEST(Record, NumbersThatDoNotFitTheirShapeAreRefused) {
  const auto error = [](std::vector<int64_t> shape, const char* axes) {
    FailureLine bad = failure_with(shape, {1}, {0}, {2}, {1});
    bad.calls[0].outputs[0].axes = axes;
    return error_of(failed("a/b", "law", bad));
  };
  const std::string place = "x.jsonl:4: failure.calls[0].outputs[0]: ";
  EXPECT_EQ(error({1, 1, 1, 2}, "bhic"),
            place + "1 numbers; allowed: 2, as shape [1, 1, 1, 2] has");
  constexpr int64_t kHuge = int64_t{1} << 40;
  for (const auto& [shape, axes] :
       {std::pair(std::vector<int64_t>{kHuge, kHuge, kHuge, 1}, "bhic"),
        {{1, 1, 1, 1, 1}, "bhicc"},
        {{}, "bhic"},
        {{1, 1}, "bh"},
        {{1, 0}, "bhi"},
        {{64, 65}, "bhi"}})
    EXPECT_TRUE(has(error(shape, axes),
                    "\"; allowed: 1 to 4 axes with a letter each, 1 to 4096 "
                    "elements"))
        << error(shape, axes);
}

// Fewer than four numbers are a table; a single one is on the card already.
TEST(RecordFormats, AFewNumbersAreNoMap) {
  const std::string table = html_heat_maps(
      failure_with({1, 1, 1, 2}, {1, 2}, {0.5, 1.5}, {1.5, 2.5}, {1.25, 4}));
  EXPECT_FALSE(has(table, "<svg")) << table;
  EXPECT_TRUE(has(table,
                  "<tr class=\"off\"><th scope=\"row\">o[b=0, h=0, i=0, c=1]"
                  "</th><td>2</td><td>1.5 .. 2.5</td><td>4</td><td>4</td>"))
      << table;
  EXPECT_EQ(html_heat_maps(failure_with({1, 1, 1, 1}, {1}, {0.5}, {1.5}, {4})),
            "");
  EXPECT_EQ(html_heat_maps(failure("f32")), "");
}

TEST(RecordFormats, ACardAnswersBeforeItShowsEvidence) {
  FailureLine bad = failure("f32", "slip");
  bad.diagnosis->where.emplace().text = "where d > 4";
  bad.diagnosis->stage = {"softmax", "the softmax"};
  const std::string card =
      html_failures(record_of({failed("a/b", "first", bad)}, kLawFailed));
  size_t last = 0;
  for (const char* name : {"cause", "fix", "again", "case", "fails", "stage"}) {
    const size_t at = card.find("<dt>" + std::string(name) + "</dt>");
    ASSERT_NE(at, std::string::npos) << name << "\n" << card;
    EXPECT_GT(at, last) << name;
    last = at;
  }
}

TEST(RecordFormats, RowsThatFailAreFirstAndTheOthersFolded) {
  ResultLine undeclared = result("a/b", "third", RowVerdict::kUnsupported);
  undeclared.counts.reason.about = About::kDeclaration;
  const RunRecord record =
      record_of({passed("a/b", "first"),
                 failed("a/b", "second", failure("f32")), undeclared},
                kLawFailed);
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
  RunRecord record = record_of({passed("a/b", "first", [](ResultLine& one) {
    one.counts.unsupported = 3;
    one.counts.refusal.text = "d % 8 != 0";
  })});
  record.kernels[0].drawn = {{"windows", 8}};
  record.kernels[0].never_drawn = {"softcap"};
  record.kernels[0].hints = {{"Tk 128", "line 7", 2}};
  record.end.not_judged = {"f64 (not declared)", "caches (not declared)"};
  const std::string page = html_report(record);
  for (const char* part : {"<li>windows 8</li>", "<li>softcap</li>",
                           "Tk 128, from line 7: 2 calls", "d % 8 != 0",
                           "f64 (not declared)", ">2 features not judged</a>"})
    EXPECT_TRUE(has(page, part)) << part;
}

// The other failures of the cause are related locations.
TEST(RecordFormats, SarifHasAResultACause) {
  FailureLine unknown = failure("f16");
  unknown.diagnosis.emplace().cause = "unknown";
  unknown.diagnosis->reported_with = "third";
  unknown.diagnosis->where.emplace().text = "where d > 4";
  const RunRecord record = record_of(
      {failed("a/b", "first", failure("f32", "slip")),
       failed("a/b", "second", failure("f16", "slip")),
       failed("a/b", "third", unknown), failed("a/b", "fourth", unknown)},
      kLawFailed);
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

TEST(RecordFormats, APassingRunIsOneSentence) {
  RunRecord record = record_of({passed("a/b", "first")});
  const std::string page = html_report(record);
  EXPECT_TRUE(has(page, "<h1>a/b conforms to every law")) << page;
  EXPECT_FALSE(has(page, "id=\"failures\"")) << page;
  record.end.exit = kNothingChecked;
  record.end.why = "interrupted";
  EXPECT_TRUE(has(html_report(record), "No verdict on a/b: interrupted."));
  EXPECT_TRUE(has(html_report(record), ">INCOMPLETE<"));
}

TEST(RecordCompare, WhatIsWorseAndWhatIsBetter) {
  using enum RowVerdict;
  EXPECT_EQ(change_of(kPassed, kPassed), Change::kSame);
  EXPECT_EQ(change_of(kPassed, kFailed), Change::kWorse);
  EXPECT_EQ(change_of(kPassed, kMistrusted), Change::kWorse);
  EXPECT_EQ(change_of(kFailed, kCrash), Change::kWorse);
  EXPECT_EQ(change_of({}, kFailed), Change::kWorse);
  EXPECT_EQ(change_of(kUnsupported, kFailed), Change::kWorse);
  EXPECT_EQ(change_of(kCrash, kFailed), Change::kBetter);
  EXPECT_EQ(change_of(kFailed, kPassed), Change::kBetter);
  EXPECT_EQ(change_of({}, kPassed), Change::kOther);
  EXPECT_EQ(change_of(kMistrusted, kUnsupported), Change::kOther);
  // A judged law has to be judged again.
  for (const RowVerdict before : {kPassed, kFailed, kCrash})
    for (const PerhapsVerdict after :
         {PerhapsVerdict(), PerhapsVerdict(kUnsupported),
          PerhapsVerdict(kGaveUp)})
      EXPECT_EQ(change_of(before, after), Change::kWorse) << word_of(before);
}

TEST(RecordCompare, AKernelOfOneRunAloneIsALineAndWorseIfItIsGone) {
  const RunRecord both =
      record_of({passed("a/b", "first"), passed("a/c", "first"),
                 failed("a/c", "second", failure("f32")),
                 result("a/c", "third", RowVerdict::kUnsupported)},
                kLawFailed);
  const RunRecord one = record_of({passed("a/b", "first")});
  const std::string gone = comparison_text(compare_records(both, one), 80);
  EXPECT_TRUE(has(gone, "WORSE  2 laws worse, 0 better, 0 otherwise")) << gone;
  EXPECT_TRUE(
      has(gone, "  worse       a/c: 1 passed, 1 failed -> not in the run\n"))
      << gone;
  EXPECT_EQ(std::count(gone.begin(), gone.end(), '\n'), 3) << gone;
  // A new kernel is worse if it fails, and otherwise a change.
  EXPECT_EQ(compare_records(one, both).worse.size(), 1u);
  const RunRecord none = record_of({passed("a/d", "first")});
  EXPECT_EQ(compare_records(none, one).worse.size(), 1u);  // a/d is gone
  EXPECT_EQ(compare_records(none, one).other.size(), 1u);
  // A kernel that was never judged is no loss.
  const RunRecord refused =
      record_of({result("a/d", "first", RowVerdict::kUnsupported)});
  EXPECT_TRUE(compare_records(refused, one).worse.empty());
}

TEST(RecordCompare, LawsThatARunLacksAreALineForEachKernel) {
  const RunRecord few = record_of({passed("a/b", "first")});
  const ResultLine open = result("a/b", "fourth", RowVerdict::kGaveUp);
  const RunRecord all =
      record_of({passed("a/b", "first"), passed("a/b", "second"),
                 passed("a/b", "third"), open});
  const std::string text = comparison_text(compare_records(all, few), 80);
  EXPECT_TRUE(has(text, "WORSE  2 laws worse, 0 better, 1 otherwise")) << text;
  EXPECT_TRUE(has(text, "a/b 2 laws: judged -> not in the run")) << text;
  const RunRecord two =
      record_of({passed("a/b", "first"), passed("a/b", "second")});
  EXPECT_TRUE(has(comparison_text(compare_records(two, few), 80),
                  "  worse       a/b second: passed -> not in the run\n"));
}

TEST(RecordCompare, ErrorsAndSpeedAreTold) {
  const RunRecord before =
      record_of({passed("a/b", "first"), passed("a/b", "second"),
                 passed("a/b", "third")});
  const auto with_ratio = [](const char* law, double ratio) {
    return passed("a/b", law,
                  [ratio](ResultLine& one) { one.counts.worst_ratio = ratio; });
  };
  ResultLine slow = failed("a/b", "third", failure("f32"));
  slow.counts.seconds = 10;
  const RunRecord after = record_of(
      {with_ratio("first", 0.9), with_ratio("second", 1.1), slow}, kLawFailed);
  const RunComparison comparison = compare_records(before, after);
  ASSERT_EQ(comparison.larger.size(), 1u);
  ASSERT_EQ(comparison.worse.size(), 1u);
  EXPECT_EQ(comparison.worse[0].name, "a/b third");
  ASSERT_EQ(comparison.speed.size(), 1u);
  EXPECT_NEAR(comparison.speed[0].after / comparison.speed[0].before, 4, 1e-9);
  const std::string text = comparison_text(comparison, 80);
  EXPECT_TRUE(has(text, "WORSE  1 law worse")) << text;
  EXPECT_TRUE(has(text, "larger      a/b second: 0.5 -> 1.1")) << text;
  EXPECT_TRUE(has(text, "(4.00 times)")) << text;
}

RunRecord shard(int64_t number, int64_t of,
                const std::vector<ResultLine>& results) {
  RunRecord out = record_of(results);
  out.start.shard = {number, of};
  return out;
}

RunRecord merged(std::vector<RunRecord> parts) {
  std::string error;
  const auto out = merge_records(std::move(parts), &error);
  EXPECT_TRUE(out) << error;
  return out ? *out : record_of({passed("a/b", "first")});
}

std::string merge_error(std::vector<RunRecord> parts) {
  std::string error;
  EXPECT_FALSE(merge_records(std::move(parts), &error));
  return error;
}

TEST(RecordMerge, CountsAreAddedAndTheSmallestCaseIsKept) {
  const char* small = "f32,B1,H1,Tq1,Tk2,d1";
  const char* large = "f32,B1,H1,Tq1,Tk9,d1";
  const RunRecord all =
      merged({shard(2, 2,
                    {failed("a/b", "first", failure(large, "slip")),
                     passed("a/b", "second",
                            [](ResultLine& one) {
                              one.counts.worst_ratio = 0.75;
                              one.counts.sharpness["f32"] = {5, {{9, 2}}};
                              one.counts.ratios = {{-1, 4}};
                            })}),
              shard(1, 2,
                    {failed("a/b", "first", failure(small, "slip"),
                            [large](ResultLine& one) {
                              one.others = {failure(large, "other")};
                            }),
                     passed("a/b", "second", [](ResultLine& one) {
                       one.counts.sharpness["f32"] = {1, {{9, 1}}};
                       one.counts.ratios = {{-1, 3}};
                     })})});
  const ResultLine& first = *all.result("a/b", "first");
  EXPECT_EQ(first.verdict, RowVerdict::kFailed);
  EXPECT_EQ(first.failure->value, small);
  EXPECT_EQ(first.others.size(), 1u);
  const Tally& second = all.result("a/b", "second")->counts;
  EXPECT_EQ(second.checked, 20);
  EXPECT_EQ(second.worst_ratio, 0.75);
  EXPECT_EQ(second.ratios.at(-1), 7);
  EXPECT_EQ(second.sharpness.at("f32").without_error, 6);
  EXPECT_EQ(second.sharpness.at("f32").quarters.at(9), 3);
  EXPECT_EQ(all.end.exit, kLawFailed);
}

// The sum of the shards' elements decides, even if no shard decides alone.
TEST(RecordMerge, WhatTheBoundLeavesOpenIsAddedToo) {
  const auto verdict = [](const More& more) {
    const RunRecord all = merged({shard(1, 2, {passed("a/b", "first")}),
                                  shard(2, 2, {passed("a/b", "first", more)})});
    return all.results[0].verdict;
  };
  EXPECT_EQ(verdict([](auto& one) { one.counts.elements.vacuous = 50; }),
            RowVerdict::kMistrusted);
  // All of it in one case.
  EXPECT_EQ(verdict([](auto& one) {
              one.counts.elements.vacuous = one.counts.emptiest.vacuous = 50;
            }),
            RowVerdict::kPassed);
  // One long case among twenty, or many.
  for (const int64_t cases : {1, 10})
    EXPECT_EQ(verdict([cases](auto& one) {
                one.counts.elements.vacuous = one.counts.of_long.vacuous = 50;
                one.counts.long_cases = cases;
              }),
              cases == 1 ? RowVerdict::kPassed : RowVerdict::kMistrusted);
}

// Mistrust of a precision belongs to the kernel, not to the text of a reason.
TEST(RecordMerge, AMistrustedKernelStaysOne) {
  const auto of = [](int64_t number, const std::string& mistrust) {
    RunRecord out = shard(
        number, 2, {passed("a/b", "first", [](ResultLine& one) {
          one.counts.reason.text = "--strict: a text alone decides nothing";
        })});
    out.kernels[0].mistrust = mistrust;
    return out;
  };
  EXPECT_EQ(merged({of(1, ""), of(2, "")}).results[0].verdict,
            RowVerdict::kPassed);
  const RunRecord all = merged({of(1, "--strict: x"), of(2, "--strict: x")});
  EXPECT_EQ(all.results[0].verdict, RowVerdict::kMistrusted);
  EXPECT_EQ(all.results[0].counts.reason.text, "--strict: x");
  EXPECT_EQ(all.end.exit, kNothingChecked);
}

// A shard with no case of the law does not contradict the others.
TEST(RecordMerge, NotDeclaredIsWhatEveryRefusalSays) {
  const auto refusing = [](int64_t cases, bool undeclared) {
    ResultLine out = result("a/b", "first", RowVerdict::kUnsupported);
    out.counts.checked = 0;
    out.counts.unsupported = cases;
    out.counts.reason.text = "d % 8 != 0";
    if (undeclared) out.counts.reason.about = About::kDeclaration;
    return out;
  };
  const auto both = [](const ResultLine& first, const ResultLine& second) {
    return merged({shard(1, 2, {first}), shard(2, 2, {second})}).results[0];
  };
  const ResultLine none = refusing(0, false), refused = refusing(2, false),
                   undeclared = refusing(2, true);
  EXPECT_TRUE(both(none, undeclared).is_undeclared());
  EXPECT_TRUE(both(undeclared, none).is_undeclared());
  EXPECT_FALSE(both(undeclared, refused).is_undeclared());
  EXPECT_FALSE(both(none, refused).is_undeclared());
  EXPECT_EQ(both(refused, refused).counts.reason.text, "d % 8 != 0");
}

TEST(RecordMerge, WhatWasDrawnIsAdded) {
  const auto of = [](int64_t number, std::vector<DrawnCalls> drawn,
                     Texts never) {
    RunRecord out = shard(number, 2, {passed("a/b", "first")});
    KernelLine& kernel = out.kernels[0];
    kernel.drawn = std::move(drawn);
    kernel.never_drawn = std::move(never);
    kernel.hints = {{"Tk=7", "line 7", 2}};
    return out;
  };
  const KernelLine kernel =
      merged({of(1, {{"a", 1}, {"c", 4}}, {"b", "d"}),
              of(2, {{"a", 2}, {"b", 3}, {"c", 1}}, {"d"})})
          .kernels[0];
  ASSERT_EQ(kernel.drawn.size(), 3u);
  EXPECT_EQ(kernel.drawn[0].calls, 3);
  EXPECT_EQ(kernel.drawn[1].what, "b");
  EXPECT_EQ(kernel.never_drawn, Texts{"d"});
  EXPECT_EQ(kernel.hints[0].calls, 4);
}

TEST(RecordMerge, MissingShardsAreNamedAndAreNoPass) {
  const ResultLine good = passed("a/b", "first");
  const auto part = [&good](int64_t number) {
    return shard(number, 4, {good, passed("a/c", "first")});
  };
  const RunRecord some = merged({part(1), part(3)});
  EXPECT_EQ(missing_shards(some), "shards 2, 4 of 4 are missing");
  EXPECT_EQ(some.end.exit, kNothingChecked);
  // A merged record can be merged again.
  const RunRecord all = merged({reread(some), part(2), part(4)});
  EXPECT_EQ(missing_shards(all), "");
  EXPECT_EQ(all.end.exit, kConforms);
  for (const KernelLine& kernel : all.kernels)
    EXPECT_EQ(counts_of(all.results_of(kernel)).checked, 40);
}

TEST(RecordMerge, WhatIsNoShardOfOnePlanIsRefused) {
  const ResultLine good = passed("a/b", "first");
  EXPECT_TRUE(has(merge_error({record_of({good})}), "is no shard"));
  EXPECT_TRUE(has(merge_error({shard(1, 2, {good}), shard(1, 2, {good})}),
                  "shard 1 is there already"));
  EXPECT_TRUE(has(merge_error({shard(1, 2, {good}), shard(1, 3, {good})}),
                  "is one of 3 shards, and made one of 2"));
  RunRecord other = shard(2, 2, {good});
  other.start.seed = 2;
  EXPECT_TRUE(
      has(merge_error({shard(1, 2, {good}), other}), "\"seed\" differs"));
  EXPECT_TRUE(has(
      merge_error({shard(1, 2, {good}), shard(2, 2, {passed("a/c", "first")})}),
      "has other kernels"));
}

}  // namespace
}  // namespace qkvet::report::record_test
