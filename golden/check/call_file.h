// SPDX-License-Identifier: Apache-2.0
// One call in a file from elsewhere: safetensors, .npz, or the folder of an
// ONNX node test.
#ifndef QKVET_GOLDEN_CHECK_CALL_FILE_H_
#define QKVET_GOLDEN_CHECK_CALL_FILE_H_

#include <string>
#include <vector>

#include "core/base/floors.h"
#include "golden/format/recording.h"
#include "golden/import/import_names.h"

namespace qkvet::golden {

struct CallFile {
  std::string value;                 // the case, without file=
  NamedTensors tensors;              // by QKVet's names, in its layout
  std::string dialect;               // of a golden set; "" of all else
  std::vector<std::string> ignored;  // unused tensors of the file
};

// `options` are tokens of the case that tensors cannot express ("causal=br"). A
// golden set contains its case. Returns "" or one line that names the file.
std::string read_call_file(const std::string& path, const ImportRules& rules,
                           const std::string& options, CallFile* file);

// Only the tensors, under the names of the file.
std::string read_file_tensors(const std::string& path, NamedTensors* tensors,
                              std::string* value, std::string* dialect);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_CHECK_CALL_FILE_H_
