// SPDX-License-Identifier: Apache-2.0
// A failure as a folder that needs no QKVet: its calls in safetensors, the
// kernel's answers, and the only program that runs them (templates/run.py).
#ifndef QKVET_CLI_REPRODUCE_CALL_FOLDER_H_
#define QKVET_CLI_REPRODUCE_CALL_FOLDER_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/reproduce/reproducer.h"

namespace qkvet::cli {

inline constexpr const char* kCallFile = "call.safetensors";

// "c0012": how plans and call folders name a call and its tensors.
std::string call_name(size_t call);

// Path in the folder, content.
using NamedFile = std::pair<std::string, std::string>;

// call.safetensors holds tensors c0000/q, ... (inputs), c0000/o.expected,
// o.bound, o.least and o.largest in f64 (an infinite bound: not judged), and
// for stages of a layer o.recorded, o.staged.expected, ...; its metadata holds
// law, case, kernel and, as JSON, `calls` (a call's arguments, by the names of
// the C interface, and its tensors' strides), `same_bits` (name, call, call,
// factor, elements, elements) and `abi` (the fields of the structs).
// answer.safetensors: c0000/o, ...; metadata c0000/refused, c0000/lengths.
std::vector<NamedFile> call_folder(const Reproducer& from);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_CALL_FOLDER_H_
