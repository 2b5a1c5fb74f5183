// SPDX-License-Identifier: Apache-2.0
// The file from which a run of mutants can be continued: a line for the run,
// then a line per mutant.
#ifndef QKVET_CLI_MUTATE_MUTANT_LOG_H_
#define QKVET_CLI_MUTATE_MUTANT_LOG_H_

#include <cstdio>
#include <map>
#include <string>

#include "cli/mutate/mutant_record.h"

namespace qkvet::cli {

class MutantLog {
 public:
  MutantLog() = default;
  ~MutantLog();
  MutantLog(const MutantLog&) = delete;
  MutantLog& operator=(const MutantLog&) = delete;

  // Reads the log in the folder and continues it; without a folder all is kept
  // in memory. "" or one line: the folder belongs to another run, or cannot be
  // written. The last line may be cut off if an earlier run was killed.
  std::string open(const std::string& folder, const Json& head);
  const MutantRecord* find(const std::string& id) const;
  // "" or one line.
  std::string add(const MutantRecord& record);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
  std::map<std::string, MutantRecord> records_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_MUTANT_LOG_H_
