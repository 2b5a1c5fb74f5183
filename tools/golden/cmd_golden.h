// SPDX-License-Identifier: Apache-2.0
// qkvet golden: its commands, one file each.
#ifndef QKVET_TOOLS_GOLDEN_CMD_GOLDEN_H_
#define QKVET_TOOLS_GOLDEN_CMD_GOLDEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "golden/format/manifest.h"
#include "golden/import/import_names.h"
#include "tools/base/exit_code.h"
#include "tools/kernels/kernels.h"

namespace qkvet::tools {

struct GoldenVerifyOptions {
  std::string target;  // a folder or a file; "": the sets that QKVet brings
  KernelSelection selection;
  std::vector<std::string> sets;  // globs over names; empty: all
  bool unchanged = false;         // every other bit is a failure
  double ulps = -1;  // >= 0: so much of a change is allowed, and no more
  std::string junit, json;
  int diagnose = 1;
};
ExitCode run_golden_verify(const GoldenVerifyOptions& options);

struct GoldenRecordOptions {
  std::string folder;
  std::vector<std::string> cases;  // CASE, NAME:CASE or @FILE; empty: a plan
  int64_t planned = 32;            // cases of that plan
  KernelSelection selection;       // one kernel
  std::string pins, source;        // "": what QKVet says itself
  bool update = false;
  bool wrong = false;  // also what is not correct
};
ExitCode run_golden_record(const GoldenRecordOptions& options);

struct GoldenShowOptions {
  std::string target;  // a file, or a set that QKVet brings
  std::string tensor;  // of which a picture is wanted; "": a fitting one
};
ExitCode run_golden_show(const GoldenShowOptions& options);

struct GoldenImportOptions {
  std::string file;    // .safetensors, .npz, or the folder of an ONNX node test
  std::string folder;  // where the set is put, with others
  std::string name, pins, source;
  std::string arithmetic = "storage";  // exact, f64 or storage
  std::string finding;                 // "" for none
  std::string dialect;                 // a file; "": of the set, or none
  std::string value;  // tokens of the case, which tensors do not say
  ImportWords words;
  bool update = false;
};
ExitCode run_golden_import(const GoldenImportOptions& options);

// "" or why nothing can be put there; `there`: a folder of that name is.
std::string look_at_folder(const std::string& path, GoldenFolder* old,
                           bool* there);

// The folder of the sets that QKVet brings.
std::string golden_folder();
// Reads a folder or one file. "" or one line.
std::string read_golden_target(const std::string& target,
                               const std::vector<std::string>& globs,
                               GoldenFolder* folder);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_GOLDEN_CMD_GOLDEN_H_
