// SPDX-License-Identifier: Apache-2.0
// A failure in the record of a run (run_record.h). Each struct lists its
// fields, by which lines are read and written (record_lines.cpp). `must`:
// always written, and required; `may`: written unless empty; `part`: a nested
// object; `flat`: fields of the line itself.
#ifndef QKVET_REPORT_FAILURE_LINE_H_
#define QKVET_REPORT_FAILURE_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "diagnosis/diagnose.h"

namespace qkvet::report {

using Texts = std::vector<std::string>;

// Maximum number of elements of an output in a record.
inline constexpr int64_t kMostElements = 4096;

enum class ReachKind : uint8_t { kLeak, kStale };

struct ReachLine {
  ReachKind kind = ReachKind::kLeak;
  std::string of, into;
  Texts tokens;
  std::string text;

  void fields(auto& v) {
    v.must("kind", kind, "of", of, "into", into, "tokens", tokens, "text",
           text);
  }
};

struct WhereFound {
  std::string law, data, sentence, condition;
  bool believed = false;
  int64_t fresh = 0, right = 0, fresh_failing = 0, failing = 0, passing = 0,
          calls = 0;
  std::string text, nearest_pass, nearest_failure, left_out;

  void fields(auto& v) {
    v.must("law", law, "data", data, "sentence", sentence, "condition",
           condition, "believed", believed, "fresh", fresh, "right", right,
           "fresh_failing", fresh_failing, "failing", failing, "passing",
           passing, "calls", calls, "text", text);
    v.may("nearest_pass", nearest_pass, "nearest_failure", nearest_failure,
          "left_out", left_out);
  }
};

struct StageFound {
  std::string name, text;

  void fields(auto& v) { v.must("name", name, "text", text); }
};

struct OutputFound {
  std::string output, description;
  int64_t wrong_elements = 0, cases = 0;

  void fields(auto& v) {
    v.must("output", output, "description", description, "wrong_elements",
           wrong_elements, "cases", cases);
  }
};

struct FactFound {
  std::string description;
  int64_t cases = 0;

  void fields(auto& v) { v.must("description", description, "cases", cases); }
};

struct InsteadFound {
  int64_t cases = 0, calls = 0;
  std::string text;
  std::vector<OutputFound> outputs;
  std::optional<FactFound> read_back, end;
  std::string left_out;

  void fields(auto& v) {
    v.must("cases", cases, "calls", calls, "text", text, "outputs", outputs);
    v.may("read_back", read_back, "end", end, "left_out", left_out);
  }
};

struct DiagnosisFound {
  std::string cause;
  Certainty certainty = Certainty::kUnknown;
  std::string reported_with;
  int64_t probes = 0, failing = 0, foretold = 0, calls = 0;
  std::string hidden;
  Texts after;
  std::string left_out;
  std::optional<WhereFound> where;
  std::optional<InsteadFound> instead;
  std::optional<StageFound> stage;
  std::string seen;
  Texts also_possible;
  std::string text, fix;

  // "" if no known fault is the cause.
  std::string known_cause() const {
    return certainty == Certainty::kUnknown ? "" : cause;
  }

  void fields(auto& v) {
    v.must("cause", cause, "certainty", certainty, "reported_with",
           reported_with, "probes", probes, "failing", failing, "foretold",
           foretold, "calls", calls);
    v.may("hidden", hidden, "after", after, "left_out", left_out, "where",
          where, "instead", instead, "stage", stage, "seen", seen,
          "also_possible", also_possible, "text", text, "fix", fix);
  }
};

// A tensor, packed: of as many elements as its shape has, kMostElements at
// most. An axis has a letter, of two the second and the third.
struct OutputNumbers {
  std::string name, axes, dtype;
  std::vector<int64_t> shape;
  std::vector<double> expected, low, high, actual;

  void fields(auto& v) {
    v.must("name", name, "axes", axes, "dtype", dtype, "shape", shape,
           "expected", expected, "low", low, "high", high, "actual", actual);
  }
};

// "" or the error: its numbers do not fit its shape, or are too many.
std::string misfit(const OutputNumbers& output);

struct CallNumbers {
  std::string place;
  std::vector<OutputNumbers> outputs;

  void fields(auto& v) {
    v.may("place", place);
    v.must("outputs", outputs);
  }
};

struct FailureLine {
  std::string law, value, found;  // cases: the smallest, and as planned
  int64_t number = 0;
  std::string digest;
  int64_t shrink_steps = 0, alike = 0, repeats = 0, repeats_failed = 0;
  double seconds = 0;
  std::string at, expected, actual, allowed, looks;
  double error_over_bound = 0;
  std::string printed;
  Texts picture;
  std::vector<ReachLine> reaches;
  std::string whose, unsteady, other_dialect;
  std::optional<DiagnosisFound> diagnosis;
  std::string where, again, report;
  std::vector<CallNumbers> calls;

  // Empty if its cause was not looked for.
  const DiagnosisFound& cause() const;

  void fields(auto& v) {
    v.must("law", law, "case", value, "found", found, "number", number,
           "digest", digest, "shrink_steps", shrink_steps);
    v.may("alike", alike);
    v.must("repeats", repeats, "repeats_failed", repeats_failed, "seconds",
           seconds);
    v.may("at", at, "expected", expected, "actual", actual, "allowed", allowed,
          "looks", looks, "error_over_bound", error_over_bound, "printed",
          printed, "picture", picture, "reaches", reaches, "whose", whose,
          "unsteady", unsteady, "other_dialect", other_dialect, "diagnosis",
          diagnosis, "where", where);
    v.must("again", again, "report", report);
    v.may("calls", calls);
  }
};

}  // namespace qkvet::report

#endif  // QKVET_REPORT_FAILURE_LINE_H_
