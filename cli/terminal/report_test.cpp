// SPDX-License-Identifier: Apache-2.0
// Reports of verdicts that are made up here, and the progress line.
#include "cli/terminal/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli/base/program_run.h"
#include "cli/terminal/progress_line.h"
#include "report/run_record.h"

namespace qkvet::cli::report_test {
namespace {

Cell cell(const char* law, Verdict verdict, const std::string& reason = "",
          About about = About::kOther) {
  Cell made;
  made.law = find_law(law);
  made.verdict = verdict;
  made.reason = reason;
  made.about = about;
  if (verdict == Verdict::kPassed || verdict == Verdict::kFailed)
    made.checked = 1500;
  made.worst_ratio = verdict == Verdict::kPassed ? 0.5 : 0;
  made.seconds = 0.25;
  if (verdict == Verdict::kFailed) {
    made.failure.emplace();
    made.failure->law = made.law;
    made.failure->found = made.failure->smallest =
        *parse_case("f32,B1,H1,Tq1,Tk2,d1").value;
  }
  return made;
}

struct Made {
  RunResult result;
  RunOptions options;
  SelectedKernels selected;
  std::optional<KnownFailures> known;
  Diagnoses diagnoses;

  Made() {
    options.laws = {all_laws().begin(), all_laws().end()};
    selected.libraries.push_back({"made.so", ""});
    selected.names.emplace_back();
  }
  void add(const std::string& name, std::vector<Cell> cells) {
    KernelUnderTest kernel;
    kernel.judged.info.name = name;
    selected.kernels.push_back(kernel);
    result.kernels.push_back({kernel, std::move(cells)});
  }
  std::string text(const ReportStyle& style = {}) const {
    const ReportInput input{result,
                            options,
                            selected,
                            /*in_process=*/false,
                            known ? &*known : nullptr,
                            &diagnoses};
    return text_report(input, record_of(input), style);
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}
// The only line that contains the part.
std::string line_with(const std::string& text, const std::string& part) {
  std::string found;
  for (const std::string& line : lines_of(text)) {
    if (line.find(part) == std::string::npos) continue;
    EXPECT_EQ(found, "") << part << " stands twice:\n" << text;
    found = line;
  }
  EXPECT_NE(found, "") << part << " is not in\n" << text;
  return found;
}
constexpr const char* kNoPages = "pages (block_table) is not declared";

TEST(Report, AKernelIsALine) {
  Made made;
  made.add("mine/fast",
           {cell("weights_sum_to_one", Verdict::kPassed),
            cell("agrees_with_oracle", Verdict::kPassed),
            cell("page_size_changes_nothing", Verdict::kUnsupported, kNoPages,
                 About::kDeclaration),
            cell("page_placement_changes_nothing", Verdict::kUnsupported,
                 kNoPages, About::kDeclaration)});
  made.add("mine/slow", {cell("agrees_with_oracle", Verdict::kPassed)});
  const std::string text = made.text();
  EXPECT_EQ(line_with(text, "kernel  "),
            "kernel     passed  failed  not declared    checked  error/bound   "
            "   time");
  EXPECT_EQ(line_with(text, "mine/fast"),
            "mine/fast       2       0             2      3,000          0.5   "
            " 1.00 s");
  EXPECT_EQ(line_with(text, "mine/slow"),
            "mine/slow       1       0             -      1,500          0.5   "
            " 0.25 s");
  EXPECT_TRUE(has(text,
                  "PASSED  2 kernels, 2 laws asked: 3 passed, 0 failed; 4,500 "
                  "checked cases"))
      << text;
  EXPECT_FALSE(has(text, kNoPages));
}

// The failure of the first call is enough.
TEST(Report, ALawOfManyCallsThatGaveUpIsNoNewsBesideAFailure) {
  const Cell gave_up =
      cell("calls_before_change_nothing", Verdict::kGaveUp,
           "the first call is wrong by itself", About::kOtherCall);
  for (const Verdict other : {Verdict::kPassed, Verdict::kFailed}) {
    Made made;
    made.add("mine/fast", {cell("agrees_with_oracle", other), gave_up});
    EXPECT_EQ(bool(has(made.text(), "wrong by itself")),
              other == Verdict::kPassed);
  }
}

TEST(Report, LawByLawWhatIsNotDeclaredStandsOncePerKernel) {
  Made made;
  made.add("mine/fast",
           {cell("agrees_with_oracle", Verdict::kPassed),
            cell("page_size_changes_nothing", Verdict::kUnsupported, kNoPages,
                 About::kDeclaration),
            cell("page_placement_changes_nothing", Verdict::kUnsupported,
                 kNoPages, About::kDeclaration)});
  const std::string text = made.text({.verbose = true});
  EXPECT_TRUE(has(line_with(text, "agrees_with_oracle"), "passed")) << text;
  EXPECT_EQ(line_with(text, kNoPages),
            std::string("mine/fast  ") + kNoPages +
                ": page_size_changes_nothing, page_placement_changes_nothing");
}

// Neither counts as checked, and the reason is shown.
TEST(Report, AnOpenVerdictIsShownWithItsReason) {
  Made made;
  made.add(
      "mine/fast",
      {cell("weights_sum_to_one", Verdict::kPassed),
       cell("agrees_with_oracle", Verdict::kMistrusted, "it is vacuous"),
       cell("rows_stay_in_hull", Verdict::kGaveUp, "the twin disagrees"),
       cell("every_key_counts_once", Verdict::kUnsupported, "d % 8 != 0")});
  const std::string text = made.text();
  EXPECT_EQ(line_with(text, "  mistrusted"),
            "  mistrusted  agrees_with_oracle: it is vacuous");
  EXPECT_EQ(line_with(text, "the twin disagrees"),
            "  gave up     rows_stay_in_hull: the twin disagrees");
  EXPECT_EQ(line_with(text, "d % 8"),
            "  unsupported every_key_counts_once: d % 8 != 0");
  EXPECT_TRUE(has(text,
                  "INCOMPLETE  1 kernel, 4 laws asked: 1 passed, 0 failed, 1 "
                  "unsupported, 2 open;\n            1,500 checked cases"))
      << text;
  // The last line contains the reason why this is no pass.
  EXPECT_TRUE(has(
      text, "  why         mine/fast, agrees_with_oracle mistrusted: it is"))
      << text;
}

TEST(Report, UnsteadyFailuresSuggestWhatTheyAreMadeOf) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kFailed)});
  EXPECT_FALSE(has(made.text(), "unsteady")) << made.text();
  Failure& failure = *made.result.kernels[0].cells[0].failure;
  failure.repeats = 10;
  failure.repeats_failed = 3;
  EXPECT_TRUE(has(made.text(), "unsteady    3 of 10 further runs failed"));
  for (const char* part : {"state that is kept between", "race"})
    EXPECT_TRUE(has(made.text(), part)) << made.text();
  EXPECT_TRUE(has(record_of({made.result, made.options, made.selected})
                      .results[0]
                      .failure->unsteady,
                  "3 of 10"));
}

TEST(Report, ALooseDeclarationIsALineAndNoMore) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  EXPECT_FALSE(has(made.text(), "looser")) << made.text();
  JudgedKernel& judged = made.result.kernels[0].kernel.judged;
  judged.info.precision.struct_size = sizeof judged.info.precision;
  judged.info.precision.declared = QKVET_KNOB_TILE;
  judged.info.precision.tile = 3;
  judged.looser_than_generic = true;
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
  EXPECT_TRUE(has(made.text(),
                  "precision   mine/fast: looser than generic: tile = 3 "
                  "(generic: "))
      << made.text();
}

// A claim that no law could test is reported, and so is its absence.
TEST(Report, CallsAtOnceThatNoLawMadeAreSaid) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  KernelInfo& info = made.result.kernels[0].kernel.judged.info;
  // Lines end at the width of the screen.
  const auto says = [&](const char* text) {
    std::string words;
    std::istringstream stream(made.text({.verbose = true}));
    for (std::string word; stream >> word;) words += word + " ";
    return has(words, text);
  };
  EXPECT_TRUE(says("calls at once (not declared)"));
  info.capabilities.flags = QKVET_FLAG_REENTRANT;
  EXPECT_FALSE(says("calls at once")) << made.text({.verbose = true});
  info.capabilities.devices = uint64_t{1} << QKVET_DEVICE_CUDA;
  EXPECT_TRUE(
      says("calls at once (declared, but on a device they are made one "
           "by one)"))
      << made.text();
  info.capabilities.devices = 0;
  info.capabilities.flags |= QKVET_FLAG_NONDETERMINISTIC;
  EXPECT_TRUE(says("calls at once (declared, but nondeterministic)"))
      << made.text();
}

TEST(Report, ManyReasonsAreNotAllShown) {
  Made made;
  std::vector<Cell> cells;
  for (size_t i = 0; i < 9; ++i)
    cells.push_back(cell(all_laws()[i]->id, Verdict::kMistrusted,
                         "vacuous in " + std::to_string(i) + " elements"));
  made.add("mine/fast", cells);
  EXPECT_TRUE(has(made.text(), "vacuous in 5 elements"));
  EXPECT_FALSE(has(made.text(), "vacuous in 6 elements"));
  line_with(made.text(), "and 3 more such lines (--verbose)");
  EXPECT_TRUE(has(made.text({.verbose = true}), "vacuous in 8 elements"));
}

// Only a declaration hides a law from these lines: the words of a kernel do
// not.
TEST(Report, AKernelsOwnRefusalIsShownWhateverItsWordsAre) {
  constexpr const char* kWords = "supports(): takes no bias, as declared";
  for (const About about : {About::kKernel, About::kDeclaration}) {
    Made made;
    made.add("mine/fast",
             {cell("agrees_with_oracle", Verdict::kPassed),
              cell("rows_stay_in_hull", Verdict::kUnsupported, kWords, about)});
    EXPECT_EQ(has(made.text(), kWords), about == About::kKernel);
  }
}

TEST(Report, AKernelThatCannotRunSaysWhy) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kUnsupported,
                              "the CPU has no AVX9"),
                         cell("rows_stay_in_hull", Verdict::kUnsupported,
                              "the CPU has no AVX9")});
  EXPECT_EQ(line_with(made.text(), "every law"),
            "  unsupported every law: the CPU has no AVX9");
}

// Each failing law is printed once: in the headline, or below the failure.
TEST(Report, AFailureNamesItsOtherLawsInALineAndDeathsInAnother) {
  Made made;
  std::vector<Cell> cells;
  for (const Law* law : all_laws())
    cells.push_back(cell(law->id, Verdict::kFailed));
  made.add("mine/fast", cells);
  for (const size_t width : {60u, 100u}) {
    const std::string text = made.text({.width = width});
    const std::string line = line_with(text, "  also ");
    EXPECT_TRUE(has(line, all_laws()[1]->id));
    EXPECT_TRUE(has(line, " more"));
    EXPECT_LE(line.size(), width) << line;
    EXPECT_FALSE(has(text, "  died in "));
  }
  auto& dies = made.result.kernels[0].cells;
  dies.erase(dies.begin() + 3, dies.end());
  dies[2].failure->judgement.kind = FailureKind::kCrash;
  const std::string text = made.text();
  EXPECT_EQ(line_with(text, "  also "),
            std::string("  also        ") + all_laws()[1]->id);
  EXPECT_EQ(line_with(text, "  died in "),
            std::string("  died in     ") + all_laws()[2]->id);
  EXPECT_TRUE(has(text, "exit 4"));
}

TEST(Report, KnownFailuresHaveAColumnAndNoLine) {
  Made made;
  made.known = KnownFailures{"known.txt", {}, {}};
  KnownFailure one;
  one.kernel = "mine/fast";
  one.law = find_law("rows_stay_in_hull");
  one.since = "2026-11-22";
  one.why = "later";
  made.known->all.push_back(one);
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed),
                         cell("rows_stay_in_hull", Verdict::kFailed)});
  const std::string text = made.text();
  EXPECT_TRUE(has(text, "passed  failed  known  not declared"));
  EXPECT_TRUE(has(text, "mine/fast       1       0      1"));
  EXPECT_FALSE(has(text, "FAIL  "));
  made.known->all.clear();
  EXPECT_TRUE(has(made.text(), "FAIL  ")) << made.text();
}

// Columns are dropped from the right, and the judged counts stay.
TEST(Report, ANarrowScreenHasFewerColumns) {
  Made made;
  made.add("mine/a_kernel_with_a_long_name",
           {cell("agrees_with_oracle", Verdict::kPassed)});
  std::string previous;
  for (const size_t width : {120u, 94u, 93u, 60u, 50u}) {
    const std::string text = made.text({.width = width});
    const std::string head = line_with(text, "kernel  ");
    EXPECT_LE(head.size(), width);
    EXPECT_TRUE(has(head, "passed  failed"));
    EXPECT_EQ(has(head, "time"), width >= 94) << head;
    EXPECT_EQ(line_with(text, "a_long_name").size(), head.size()) << text;
    for (const std::string& line : lines_of(text)) {
      if (line.starts_with("PASSED") || line.starts_with("  plan")) continue;
      EXPECT_LE(line.size(), width) << line;
    }
  }
}

// Declared, but without a case: no pass if every law was judged.
TEST(Report, WhatWasNeverDrawnIsNoPass) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  KernelResult& kernel = made.result.kernels[0];
  kernel.drawn = {"storage f32 812"};
  made.result.planned_cases = kDefaultCases;
  EXPECT_EQ(line_with(made.text({.verbose = true}), "  drawn"),
            "  drawn       calls with storage f32 812");
  EXPECT_TRUE(has(made.text(), "PASSED"));
  kernel.never_drawn = {"storage fp8e4m3", "a window"};
  EXPECT_TRUE(has(made.text(), "exit 3")) << made.text();
  EXPECT_TRUE(has(made.text({.verbose = true, .width = 1000}),
                  "mine/fast declares storage fp8e4m3, a window: no answered "
                  "call had these, so this is no pass"))
      << made.text({.verbose = true, .width = 1000});
  // With only a few laws it is counted, and their verdict decides.
  made.options.laws = {find_law("agrees_with_oracle")};
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
  EXPECT_TRUE(has(made.text(), "2 declared options never drawn"))
      << made.text();
  EXPECT_TRUE(has(made.text({.verbose = true}), "  never drawn mine/fast"));
}

TEST(Report, PairsThatNeverMetAreSaid) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  EXPECT_FALSE(has(made.text({.verbose = true}), "pairs"));
  MetPairs& pairs = made.result.kernels[0].pairs;
  pairs.settings = {"windows", "softcap", "keys: 1", "keys: 2 to 24"};
  pairs.met.assign(4, std::vector<bool>(4, true));
  EXPECT_EQ(line_with(made.text({.verbose = true}), "  pairs"),
            "  pairs       5 of 5 pairs of 4 settings met in a call");
  // Windows, softcap and either class of keys.
  pairs.triples = 1;
  EXPECT_EQ(
      line_with(made.text({.verbose = true, .width = 1000}), "  pairs"),
      "  pairs       5 of 5 pairs of 4 settings met in a call; and 1 of 2 "
      "possible triples, whose pairs all met");
  pairs.added_triples = 1;
  EXPECT_TRUE(has(made.text({.verbose = true, .width = 1000}),
                  "met, 1 of them in added cases"));
  pairs.triples.reset();
  pairs.met[0][1] = pairs.met[1][0] = false;
  EXPECT_EQ(line_with(made.text({.verbose = true, .width = 1000}), "  pairs"),
            "  pairs       4 of 5 pairs of 4 settings met in a call; never: "
            "windows with softcap");
  // A pair without a case is not a possible one.
  pairs.apart.assign(4, std::vector<bool>(4, false));
  pairs.apart[0][1] = pairs.apart[1][0] = true;
  pairs.added = 2;
  EXPECT_EQ(
      line_with(made.text({.verbose = true, .width = 1000}), "  pairs"),
      "  pairs       4 of 4 possible pairs of 4 settings met in a call, 2 "
      "of them in added cases; in no case of these laws: windows with "
      "softcap");
}

// Each kernel is counted separately, alone or with others.
TEST(Report, LessThanHalfOfItsCasesIsNoPass) {
  Made made;
  made.add("mine/other", {cell("agrees_with_oracle", Verdict::kPassed)});
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed),
                         cell("rows_stay_in_hull", Verdict::kPassed)});
  std::vector<Cell>& cells = made.result.kernels[1].cells;
  cells[0].planned = 3000;
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
  cells[0].planned = 3001;
  EXPECT_TRUE(has(made.text(), "INCOMPLETE  2 kernels")) << made.text();
  EXPECT_TRUE(has(made.text({.width = 1000}),
                  "  why         mine/fast was checked in 1500 of its 3001"))
      << made.text();
  EXPECT_FALSE(has(made.text(), "no pass: declare"));
  cells[0].unsupported = 1600;
  EXPECT_TRUE(has(made.text({.width = 1000}),
                  "checked in 1500 of its 3001 cases, so this is no pass: "
                  "declare"))
      << made.text();
  // Another law compensates by its own cases, but not by additional ones.
  cells[0].planned = 3010;
  cells[1].planned = 1;
  EXPECT_TRUE(has(made.text(), "exit 3")) << made.text();
  cells[1].planned = 1500;
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
  // A law that is not declared is not counted.
  cells[1] = cell("rows_stay_in_hull", Verdict::kUnsupported,
                  "a rotation (RoPE) is not declared", About::kDeclaration);
  cells[1].planned = 1500;
  cells[0].planned = 2000;
  cells[1].checked = 0;
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
}

// Whatever replaced the refused cases, and with any other kernels.
TEST(Report, AKernelThatRefusesMoreThanItIsCheckedInIsNoPass) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  Cell& judged = made.result.kernels[0].cells[0];
  judged.unsupported = judged.refused = 1500;  // and as many checked
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
  judged.unsupported = judged.refused = 1600;
  made.result.replaced_cases = 1600;
  made.add("mine/other", {cell("agrees_with_oracle", Verdict::kPassed)});
  EXPECT_TRUE(has(made.text(), "exit 3")) << made.text();
  EXPECT_TRUE(has(made.text(),
                  "refused 1600 of 3100 cases that it declares, so "
                  "this is no"))
      << made.text();
  made.options.strict = true;
  EXPECT_TRUE(has(made.text(), "exit 3")) << made.text();
  // Undeclared options are not counted as refused by the kernel.
  made.result.kernels[0].cells[0].refused = 0;
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
}

TEST(Report, ALawThatAKernelMostlyRefusesIsNoPass) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed),
                         cell("rows_stay_in_hull", Verdict::kPassed)});
  Cell& hollow = made.result.kernels[0].cells[1];
  hollow.checked = 3;
  hollow.unsupported = hollow.refused = 8;  // too few to decide
  EXPECT_TRUE(has(made.text(), "PASSED")) << made.text();
  hollow.unsupported = hollow.refused = 20;
  EXPECT_TRUE(has(made.text(), "rows_stay_in_hull: refused 20 of 23 cases"))
      << made.text();
  EXPECT_TRUE(has(made.text(), "exit 3")) << made.text();
  // Also if it refuses all of them.
  hollow.checked = 0;
  hollow.verdict = Verdict::kUnsupported;
  EXPECT_TRUE(has(made.text(), "exit 3")) << made.text();
}

TEST(Report, ALawThatCannotBeAskedIsNotCountedAsRefusedCases) {
  Made made;
  made.add("mine/fast",
           {cell("agrees_with_oracle", Verdict::kPassed),
            cell("rows_stay_in_hull", Verdict::kUnsupported, "d % 8 != 0")});
  made.result.kernels[0].cells[1].unsupported = 100;
  EXPECT_FALSE(has(made.text(), " refused")) << made.text();
  made.result.kernels[0].cells[0].unsupported = 7;
  made.result.kernels[0].cells[0].refusal = "Tk % 32 != 0";
  EXPECT_TRUE(has(made.text(), "7 cases refused")) << made.text();
  EXPECT_TRUE(
      has(made.text({.verbose = true}), "7 cases; the first: Tk % 32 != 0"));
}

TEST(Report, OtherCausesOfALawAreReportsOfTheirOwn) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kFailed)});
  Cell& failing = made.result.kernels[0].cells[0];
  failing.others.push_back(*failing.failure);
  failing.others[0].smallest =
      *parse_case("f32,B1,H1,Tq1,Tk2,d1,softcap=2").value;
  const std::string text = made.text();
  EXPECT_TRUE(has(text, "  case        f32,B1,H1,Tq1,Tk2,d1\n"));
  EXPECT_TRUE(has(text, "  case        f32,B1,H1,Tq1,Tk2,d1,softcap=2\n"));
}

TEST(Report, TheShortPlanSaysSoAndHowToGoDeeper) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  EXPECT_FALSE(has(made.text(), "short"));
  made.options.cases_per_law = 64;
  EXPECT_EQ(line_with(made.text(), "  plan"),
            "  plan        short: seed 1, 64 cases for every law and kernel; "
            "--cases 16384 looks deeper");
}

TEST(Report, WithoutFaultsTheCauseSaysWhatBuildsThem) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kFailed)});
  EXPECT_FALSE(has(made.text(), "  cause ")) << made.text();
  CauseOfFailures cause;
  cause.best = &*made.result.kernels[0].cells[0].failure;
  cause.diagnosis.instead.end.say({"the process ends"});
  cause.diagnosis.instead.end.cases = cause.diagnosis.instead.end.of = 9;
  made.diagnoses.kernels.push_back({cause});
  made.diagnoses.no_faults = "the family faulty is not built; `cmake`";
  EXPECT_EQ(line_with(made.text(), "  cause "),
            "  cause       not looked up: the family faulty is not built; "
            "`cmake`");
  // Descriptions that need no known fault are printed all the same.
  EXPECT_TRUE(has(made.text(), "  instead ")) << made.text();
  Diagnosis& found = made.diagnoses.kernels[0][0].diagnosis;
  found.causes.push_back(
      {"scale_times_2", "The scale is twice as large.", "Halve it.", {}});
  found.certainty = Certainty::kLikely;
  line_with(made.text(), "known faults were not looked up: the family faulty");
  EXPECT_FALSE(has(made.text(), "too few to be sure")) << made.text();
  // Causes that the probes cannot tell apart.
  made.diagnoses.no_faults.clear();
  found.causes.push_back(
      {"scale_squared", "The scale is squared.", "Take it once.", {}});
  const std::string text = made.text();
  for (const char* both :
       {"  cause       The scale is twice as large. Or: The scale is squared.",
        "              scale_times_2, likely; or scale_squared",
        "  fix         Halve it. Or: Take it once."})
    line_with(text, both);
}

// A guess from one answer is worthless if the next answer differs.
TEST(Report, WhatIsUnsteadySaysSoFirst) {
  Made made;
  Cell failing = cell("agrees_with_oracle", Verdict::kFailed);
  failing.failure->judgement.finding.emplace();
  failing.failure->judgement.finding->looks = "a key was lost";
  failing.failure->repeats = failing.failure->repeats_failed = 10;
  made.add("mine/fast", {failing});
  EXPECT_TRUE(has(made.text(), "  looks       a key was lost")) << made.text();
  made.result.kernels[0].cells[0].failure->repeats_failed = 3;
  const std::string text = made.text();
  EXPECT_FALSE(has(text, "  looks "));
  EXPECT_LT(text.find("  unsteady    3 of 10"), text.find("  again ")) << text;
}

TEST(Report, AScreenShowsTheFirstOfManyLines) {
  Made made;
  for (const char* name : {"mine/a", "mine/b", "mine/c", "mine/d"}) {
    made.add(name, {cell("agrees_with_oracle", Verdict::kPassed)});
    made.result.kernels.back().hollow = {"lse: refused in 31 of 40 calls"};
    made.result.kernels.back().cells[0].unsupported = 1000;
    made.result.kernels.back().cells[0].refusal = "d % 8 != 0";
  }
  const std::string text = made.text();
  EXPECT_TRUE(has(text, "mine/c declares lse"));
  EXPECT_FALSE(has(text, "mine/d declares lse"));
  line_with(text, "and 1 more (--verbose shows all)");
  EXPECT_TRUE(has(text, "  coverage    4,000 cases refused, "));
  const std::string all = made.text({.verbose = true});
  EXPECT_TRUE(has(all, "mine/d declares lse"));
  EXPECT_TRUE(has(all, "mine/d: 1,000 cases; the first: d % 8"));
}

// A failing kernel with a complete diagnosis.
void add_failing(Made& made) {
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kFailed),
                         cell("rows_stay_in_hull", Verdict::kFailed)});
  KernelResult& kernel = made.result.kernels.back();
  kernel.drawn = {"storage f32 812"};
  CauseOfFailures cause;
  cause.best = &*kernel.cells[0].failure;
  cause.others = {&*kernel.cells[1].failure};
  cause.diagnosis.causes.push_back(
      {"no_scale", "The scores are not scaled.", "Scale them.", {}});
  cause.diagnosis.certainty = Certainty::kSure;
  made.diagnoses.kernels.push_back({cause});
}

TEST(Screen, AFailureIsPrintedOnceAndTheVerdictIsLast) {
  Made made;
  add_failing(made);
  const std::string text = made.text({.width = 80});
  EXPECT_EQ(text.rfind("\n\nFAILED  1 kernel, 2 laws"), text.rfind("\n\n"))
      << text;
  EXPECT_EQ(line_with(text, "  cause "),
            "  cause       The scores are not scaled.");
  EXPECT_EQ(line_with(text, "  fix "), "  fix         Scale them.");
  EXPECT_TRUE(
      line_with(text, "  again ").starts_with("  again       qkvet replay "));
  // Laws with the same cause are named; --verbose adds their cases.
  const std::string also = "  also        rows_stay_in_hull";
  EXPECT_EQ(line_with(text, "  also"), also);
  EXPECT_EQ(line_with(made.text({.verbose = true}), "  also"),
            also + "   f32,B1,H1,Tq1,Tk2,d1");
  // The basis of a pass is not part of a failure.
  for (const char* name : {"  plan ", "  coverage ", "  inputs "})
    EXPECT_FALSE(has(text, name));
  for (const char* name : {"  plan ", "  not judged ", "  inputs "})
    EXPECT_TRUE(has(made.text({.verbose = true}), name)) << name;
}

// Everything that a failure can have, each in more words than there is room.
TEST(Screen, AFailureHasAtMostEighteenLines) {
  Made made;
  add_failing(made);
  Failure& failure = *made.result.kernels[0].cells[0].failure;
  std::string much;
  for (int n = 0; n < 100; ++n) much += "word ";
  Finding& finding = failure.judgement.finding.emplace();
  finding.printed = "one\ntwo\nthree\nfour\nfive";
  finding.looks = failure.story.whose = failure.dialect = much;
  failure.judgement.picture.assign(20, "q[0,0,0]  1");
  Diagnosis& diagnosis = made.diagnoses.kernels[0][0].diagnosis;
  diagnosis.hidden = much;
  diagnosis.causes[0].cause = diagnosis.causes[0].fix = much;
  const auto lines = [&](bool verbose) {
    const std::string text = made.text({.verbose = verbose});
    return lines_of(text.substr(0, text.find("\n\n"))).size();
  };
  EXPECT_LE(lines(/*verbose=*/false), 18u) << made.text();
  EXPECT_GE(lines(/*verbose=*/true), 60u);
  // These are kept, cut where they are long.
  for (const char* name :
       {"  case ", "  expected ", "  cause ", "  fix ", "  again ", "  also "})
    EXPECT_TRUE(has(made.text(), name)) << made.text();
  EXPECT_TRUE(has(made.text(), "word ...\n")) << made.text();
  EXPECT_FALSE(has(made.text(), "  hidden ")) << made.text();
}

TEST(Screen, AnUnsteadyFailureEndsWithoutACause) {
  Made made;
  add_failing(made);
  Failure& failure = *made.result.kernels[0].cells[0].failure;
  failure.repeats = 10;
  failure.repeats_failed = 3;
  const std::string text = made.text();
  EXPECT_FALSE(has(text, "not scaled"));
  line_with(text, "  unsteady    3 of 10 further runs failed");
}

TEST(Screen, WhereNoFixIsKnownTheSearchForOneIsNamed) {
  Made made;
  add_failing(made);
  const std::string source = QKVET_EXAMPLES "/cache.cpp";
  made.selected.names[0] = source;
  line_with(made.text(), "  fix         Scale them.");
  EXPECT_FALSE(has(made.text(), "  repair ")) << made.text();
  made.diagnoses.kernels.clear();
  EXPECT_EQ(line_with(made.text(), "  repair "),
            "  repair      qkvet mutate --repair " + source);
}

TEST(Screen, CoverageIsALineAndInFullWithVerbose) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  KernelResult& kernel = made.result.kernels[0];
  kernel.drawn = {"storage f32 812"};
  kernel.near_hints = {3};
  kernel.kernel.hints = {{{}, "line 7 of mine.cpp"}};
  kernel.pairs.settings = {"windows", "softcap", "keys: 1", "keys: 2 to 24"};
  kernel.pairs.met.assign(4, std::vector<bool>(4, true));
  kernel.pairs.met[0][1] = kernel.pairs.met[1][0] = false;
  const std::string text = made.text({.width = 100});
  EXPECT_TRUE(line_with(text, "  coverage")
                  .starts_with("  coverage    80 % of pairs drawn, "))
      << text;
  for (const char* name :
       {"  drawn ", "  pairs ", "  hints ", "  not judged "}) {
    EXPECT_FALSE(has(text, name));
    EXPECT_TRUE(has(made.text({.verbose = true}), name)) << name;
  }
  EXPECT_FALSE(has(made.text({.verbose = true}), "  coverage"));
}

TEST(Screen, QuietIsALineAKernelAndTheVerdict) {
  Made made;
  add_failing(made);
  const std::vector<std::string> lines =
      lines_of(made.text({.width = 200, .quiet = true}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("kernel  "));
  EXPECT_TRUE(lines[1].starts_with("mine/fast "));
  EXPECT_TRUE(lines[2].starts_with("FAILED  1 kernel, ")) << lines[2];
}

TEST(Screen, AnErrorAsLargeAsItsBoundPasses) {
  Made made;
  made.add("mine/fast", {cell("agrees_with_oracle", Verdict::kPassed)});
  made.result.kernels[0].cells[0].worst_ratio = 0.998;
  EXPECT_TRUE(has(line_with(made.text(), "mine/fast"), " <= 1 passes "));
  made.result.kernels[0].cells[0].worst_ratio = 1.002;
  EXPECT_TRUE(has(line_with(made.text(), "mine/fast"), " > 1 "));
}

TEST(Progress, ALineSaysHowFarAndHowLong) {
  EXPECT_EQ(progress_text({12345, 45678, 1, false}, 8.2),
            "12,345 of 45,678 cases, 1 failure, 9 s left");
  EXPECT_EQ(progress_text({1, 1, 0, false}, std::nullopt),
            "1 of 1 case, 0 failures");
  EXPECT_EQ(progress_text({1000, 0, 2, false}, 600),
            "1,000 cases, 2 failures, 10 min left");
  EXPECT_EQ(progress_text({1000, 2000, 2, true}, 600),
            "making 2 failures smaller");
}

TEST(Progress, TheTimeLeftFollowsTheSpeed) {
  TimeLeft left;
  EXPECT_FALSE(left.of(100));  // no evidence yet
  for (int tick = 1; tick <= 100; ++tick) left.note(0.1 * tick, 10 * tick);
  EXPECT_NEAR(*left.of(1000), 10, 1e-6);  // 100 a second
  EXPECT_EQ(*left.of(0), 0);
  EXPECT_EQ(*left.of(-5), 0);
  // From here on half as fast: it follows within some seconds, without a jump.
  double before = *left.of(1000);
  for (int tick = 1; tick <= 300; ++tick) {
    left.note(10 + 0.1 * tick, 1000 + 5 * tick);
    const double now = *left.of(1000);
    EXPECT_GT(now, before - 1e-9);
    EXPECT_LT(now - before, 0.5);
    before = now;
  }
  EXPECT_NEAR(before, 20, 0.2);
  // A speed of zero is no divisor.
  left.note(41, 2500);
  EXPECT_GT(*left.of(1000), 20);
}

}  // namespace
}  // namespace qkvet::cli::report_test
