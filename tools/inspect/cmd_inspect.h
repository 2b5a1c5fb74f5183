// SPDX-License-Identifier: Apache-2.0
// What `qkvet inspect` and `qkvet trace` are told.
#ifndef QKVET_TOOLS_INSPECT_CMD_INSPECT_H_
#define QKVET_TOOLS_INSPECT_CMD_INSPECT_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/pictures/picture_files.h"
#include "tools/report/commands.h"

namespace qkvet::tools {

struct InspectOptions {
  std::string value;            // a case
  KernelSelection selection;    // nothing named: the definition alone
  std::optional<int64_t> head;  // absent: all of them, with a kernel one
  int64_t member = 0;
  PictureFiles pictures;
  bool json = false;
  std::vector<std::string> data;  // files that cases take data from
};
ExitCode run_inspect(const InspectOptions& options);

struct TraceOptions {
  KernelSelection selection;  // nothing named: the definition
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t width = 32;
  int64_t context = 12;
  int64_t vocab = 64;
  int64_t batch = 1;
  std::vector<std::string> tokens;  // "3,1,4", a sequence each; none: drawn
  std::string seed = "1";
  bool shapes = false;  // no numbers
  bool json = false;
};
ExitCode run_trace(const TraceOptions& options);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_INSPECT_CMD_INSPECT_H_
