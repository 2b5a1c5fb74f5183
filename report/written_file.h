// SPDX-License-Identifier: Apache-2.0
// Files that are complete or absent, and one that grows by whole lines. None of
// them replaces a file that the run has read.
#ifndef QKVET_REPORT_WRITTEN_FILE_H_
#define QKVET_REPORT_WRITTEN_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/floors.h"

namespace qkvet::report {

// "" or why no file can be written there, or may not: before there is anything
// to write. An existing file stays as it is.
std::string not_writable_reason(const std::string& path);
// Replaces `path` in one step, or writes to it if it is a device or a pipe; an
// error is one line.
std::string write_file(const std::string& path, const std::string& content);

// A new folder "LEAD-XXXXXX", which is removed with the object. Folders of dead
// processes are removed, too.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& lead);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }  // "" if there is none
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

// A file that is written during a run and always ends with a whole line. One
// run at a time writes it.
class GrowingFile {
 public:
  GrowingFile() = default;
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Empties `path`. "" or one line.
  std::string open(const std::string& path);
  // Does nothing without a file. "" or one line; after an error nothing more is
  // written, and each call returns that line.
  std::string add(std::string_view lines);

 private:
  std::string path_, error_;
  int fd_ = -1;
  int64_t size_ = 0;  // of whole lines
};

}  // namespace qkvet::report

#endif  // QKVET_REPORT_WRITTEN_FILE_H_
