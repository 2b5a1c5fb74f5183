// SPDX-License-Identifier: Apache-2.0
// What became of each question of a plan, for tables and for JSON Lines.
#ifndef QKVET_CLI_DEMOS_QUESTION_ROWS_H_
#define QKVET_CLI_DEMOS_QUESTION_ROWS_H_

#include <span>
#include <string>
#include <vector>

#include "cli/reproduce/plan_folder.h"
#include "properties/judging/law.h"

namespace qkvet::cli {

// One question: a law and a case of it.
struct QuestionRow {
  const PlanCase* asked = nullptr;
  // passed, failed, refused, not answered, not applicable (the law does not
  // apply to this kernel and case), gave up (the references disagree).
  std::string verdict;
  // The number that is the clearest evidence against the kernel, or the nearest
  // to its bound; "" if unknown.
  std::string ratio;             // error/bound; "" without a bound
  std::vector<size_t> from;      // the calls with the numbers
  std::string at;                // "o[b=0,h=0,i=1,c=0]"
  std::string actual, expected;  // as reports have them
  std::string allowed;
  std::string reason;
};

// `settled`: known without an answer.
QuestionRow question_row(const PlanCase& asked, const Judgement& judgement,
                         bool settled);
QuestionRow unanswered_row(const PlanCase& asked, const std::string& missing);

// Tab-separated, with a line of names in front.
std::string question_table(std::span<const QuestionRow> rows);
// JSON Lines, type "question".
std::string question_json(std::span<const QuestionRow> rows);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_QUESTION_ROWS_H_
