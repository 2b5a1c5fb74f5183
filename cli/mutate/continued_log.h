// SPDX-License-Identifier: Apache-2.0
// The file from which a run can be continued: a line for the run, then a line
// per result.
#ifndef QKVET_CLI_MUTATE_CONTINUED_LOG_H_
#define QKVET_CLI_MUTATE_CONTINUED_LOG_H_

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "report/json_fields.h"

namespace qkvet::cli {

class ContinuedFile {
 public:
  ContinuedFile() = default;
  ~ContinuedFile();
  ContinuedFile(const ContinuedFile&) = delete;
  ContinuedFile& operator=(const ContinuedFile&) = delete;

  // `take` returns whether a line is a result; others are dropped.
  std::string open(const std::string& folder, const char* name,
                   const Json& head,
                   const std::function<bool(const std::string&)>& take);
  std::string add(const Json& line);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

// Results with a key() and fields(), by their keys.
template <class Result>
class ContinuedLog {
 public:
  // Reads the file in the folder and continues it; without a folder all is kept
  // in memory. `head` has everything on which the results depend. "" or one
  // line: the folder belongs to another run, or cannot be written. The last
  // line may be cut off if an earlier run was killed.
  std::string open(const std::string& folder, const char* name,
                   const Json& head) {
    return file_.open(folder, name, head, [this](const std::string& line) {
      const auto known = report::fields_in<Result>(line);
      if (known) known_[known->key()] = *known;
      return known.has_value();
    });
  }
  // Null if it is not known.
  const Result* find(const std::string& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? nullptr : &found->second;
  }
  // "" or one line.
  std::string add(const Result& result) {
    known_[result.key()] = result;
    return file_.add(report::with_fields(Json::object(), result));
  }

 private:
  ContinuedFile file_;
  std::map<std::string, Result> known_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_CONTINUED_LOG_H_
