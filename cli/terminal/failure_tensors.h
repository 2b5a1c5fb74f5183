// SPDX-License-Identifier: Apache-2.0
// Expected and actual outputs of a failure's calls, number by number: the
// smallest case is run once more, for the record of a run.
#ifndef QKVET_CLI_TERMINAL_FAILURE_TENSORS_H_
#define QKVET_CLI_TERMINAL_FAILURE_TENSORS_H_

#include <map>
#include <vector>

#include "cli/reproduce/reproducer.h"
#include "cli/terminal/report.h"
#include "report/run_record.h"

namespace qkvet::cli {

// Without those of a failure that has an output of more than kMostElements.
struct FailureTensors {
  std::map<const Failure*, std::vector<WrittenCall>> calls;
};

// Tensors of failures that repeat and that the kernel answers: calls at which
// it died, or touched memory that it must not touch, are not repeated. `result`
// must not move.
FailureTensors collect_tensors(const RunResult& result,
                               const SelectedKernels& selected,
                               bool in_process);
// The same for recorded answers, for every kernel.
FailureTensors collect_tensors(const RunResult& result, Executor& answers);

// Null if there are none.
const std::vector<WrittenCall>* tensors_of(const FailureTensors* tensors,
                                           const Failure& failure);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_FAILURE_TENSORS_H_
