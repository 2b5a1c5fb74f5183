// SPDX-License-Identifier: Apache-2.0
// One recorded call of a kernel: its inputs, its outputs, and the case with
// everything else. The inputs become data of the case (core/case/file_data.h).
#ifndef QKVET_GOLDEN_FORMAT_RECORDING_H_
#define QKVET_GOLDEN_FORMAT_RECORDING_H_

#include <map>
#include <optional>
#include <string>

#include "core/case/case.h"
#include "core/files/call_tensors.h"

namespace qkvet::golden {

// An output as it was written down, packed: f64, or the type that the case
// stores it in.
struct RecordedOutput {
  Dtype dtype = Dtype::kF32;
  std::vector<std::byte> bytes;
};

struct Recording {
  Case value;
  NamedTensors inputs;  // as they were written down
  std::map<std::string, RecordedOutput, std::less<>>
      outputs;  // by output_text(); at least one
};

// `text` is the case, without file=, which the inputs decide. Tensors have the
// names of tensor_name() and the extents that the case gives them. `path` is
// where a user finds them again. On failure *error is one line, without the
// path.
std::optional<Recording> make_recording(const NamedTensors& tensors,
                                        const std::string& text,
                                        const std::string& path,
                                        std::string* error);

// Makes inputs data of cases, under their fingerprint, which is 0 if there are
// none. Returns "" or one line.
std::string add_inputs(const NamedTensors& inputs, const std::string& path,
                       uint64_t* fingerprint);
// The case, with file= where there is a fingerprint.
std::string with_fingerprint(const std::string& text, uint64_t fingerprint);

// The case of attention that tensors of these extents can only be: q, k and v,
// and mask, bias, sink and slopes where they are there; a layer where x is. ""
// and *error where they fit no case. `options` are further tokens, such as
// "causal=br,scale=0.1".
std::string case_of_tensors(const NamedTensors& tensors,
                            const std::string& options, std::string* error);

// Rounded to a type of floating numbers, packed.
std::vector<std::byte> stored_as(Dtype dtype,
                                 const std::vector<double>& values);

// Extents and type of an output of the case.
std::vector<int64_t> output_extents(const Case& value, const OutputName& name);
Dtype output_dtype(const Case& value, TensorName output);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_RECORDING_H_
