// SPDX-License-Identifier: Apache-2.0
// A recorded story on a kernel. After every command the lengths of all
// sequences are compared with the sums of their commands; illegal commands must
// be refused; every answer must be attention over the history of its sequence.
//
// Only a batch of commands is in memory as calls: tensors are made for each
// command when it is run, and judged before the next batch.
#ifndef QKVET_PROPERTIES_SEQUENCES_LOG_RUN_H_
#define QKVET_PROPERTIES_SEQUENCES_LOG_RUN_H_

#include <optional>
#include <string>

#include "core/door/executor.h"
#include "core/story/story_log.h"
#include "properties/judging/answer.h"
#include "properties/judging/judged_kernel.h"

namespace qkvet::properties {

// The mistake of a command.
enum class LogPart : uint8_t {
  kOutcome,  // refused, died, forbidden accesses
  kRefusal,  // it is illegal, and was not refused with a reason
  kLength,
  kAnswer
};

struct LogFailure {
  size_t at = 0;  // number of the command, from 0
  LogPart part = LogPart::kOutcome;
  Judgement judgement;
};

struct LogRun {
  Verdict verdict = Verdict::kPassed;
  std::string reason;  // as Judgement's
  std::optional<LogFailure> failure;
  size_t commands = 0;  // that were run
  int64_t illegal = 0;
  int64_t answers = 0;  // that were due ...
  int64_t checked = 0;  // ... and how many were compared with the oracle
  int64_t compared = 0;
  double worst_ratio = 0;
};

inline constexpr int64_t kMostScores = int64_t{1} << 22;

struct LogChecks {
  // One answer in `every` is compared with the oracle, and that of the last
  // command; 0: only that one. Answers with more than kMostScores scores (long
  // prompts in one step) are not, because the oracle would need gigabytes.
  int64_t every = 1;
  bool with_twin = false;  // the oracle is tested in one answer of sixteen
  Oracle oracle = plain_forward;  // another one only in tests
};

// One kernel and the way to it.
struct LogKernel {
  const JudgedKernel& judged;
  int index = 0;
  Executor& executor;
  TimeUse& time;
};

// The story on a cache of this geometry; its B is the number of sequences.
// Ends at the first command that fails.
LogRun run_log(const Case& geometry, const Story& story,
               const LogKernel& kernel, const LogChecks& checks);

// How often an answer can be compared with the oracle so that all of them take
// no more than a minute on a machine of today: one in this many, a pure
// function of the recording.
int64_t affordable_share(const StoryLog& log);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_LOG_RUN_H_
