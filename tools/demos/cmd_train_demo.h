// SPDX-License-Identifier: Apache-2.0
// What `qkvet train-demo` is told.
#ifndef QKVET_TOOLS_DEMOS_CMD_TRAIN_DEMO_H_
#define QKVET_TOOLS_DEMOS_CMD_TRAIN_DEMO_H_

#include <cstdint>
#include <string>

#include "tools/pictures/picture_files.h"
#include "tools/report/commands.h"

namespace qkvet::tools {

struct TrainDemoOptions {
  KernelSelection selection;    // nothing named: scalar/plain
  std::string task = "repeat";  // or "count"
  std::string fault;            // "no_mask", "" for none
  int64_t epochs = 3;
  int64_t rows = 2048;
  std::string seed = "1";
  PictureFiles pictures;  // of the curves
};
ExitCode run_train_demo(const TrainDemoOptions& options);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_DEMOS_CMD_TRAIN_DEMO_H_
