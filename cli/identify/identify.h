// SPDX-License-Identifier: Apache-2.0
// Derives a kernel's declaration from its answers: options and storage types,
// dialect and arithmetic, with evidence for each line. The kernel's own
// declaration is ignored.
#ifndef QKVET_CLI_IDENTIFY_IDENTIFY_H_
#define QKVET_CLI_IDENTIFY_IDENTIFY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "properties/conventions/conventions.h"
#include "report/exit_code.h"

namespace qkvet::cli {

enum class Part : uint8_t { kCapabilities, kDialect, kPrecision };

// A field of the declaration, as files and conventions spell it.
struct FoundField {
  Part part = Part::kCapabilities;
  std::string field;     // "lse_base"
  std::string value;     // "natural"; one word of a list: "window"
  std::string evidence;  // the call and its result
};

// A field that is not declared, and why: it was refused, is wrong, is not
// determined, or is the default for an undeclared kernel.
struct NotFound {
  enum class Why : uint8_t { kRefused, kWrong, kNotTold, kUsual };
  Why why = Why::kNotTold;
  std::string what;
  std::string evidence;
};

struct Identified {
  std::string kernel;
  std::string error;  // "" or why no call was made
  bool is_attention = false;
  std::string not_attention;       // why it is not
  std::vector<FoundField> fields;  // lists word by word, in their order
  std::vector<NotFound> rest;
  // The kernel judged with the whole declaration.
  int64_t calls = 0;    // that were made
  int64_t checked = 0;  // cases within the bounds of the declaration
  std::string fails;    // "" or the smallest case that is not
  bool died = false;

  bool holds() const { return is_attention && checked > 0 && fails.empty(); }
  ExitCode exit_code() const;
};

struct IdentifyOptions {
  int64_t cases = 400;  // to judge the declaration with
  uint64_t seed = 1;
  int jobs = 1;
};

// Opens the library in a separate worker, undeclared.
Identified identify_kernel(const LibrarySpec& library, int index,
                           const IdentifyOptions& options);

// "options = scale mask": the fields of a part, lists in one line.
std::vector<std::pair<std::string, std::string>> lines_of(
    const Identified& found, Part part);

// What `qkvet identify` prints, and a line of --json.
std::string identified_text(const Identified& found);
std::string identified_json(const Identified& found);
// kCapabilities and kDialect in C; "" if nothing is known.
std::string identified_c(const Identified& found);
// The fields of a part as a file of --dialect or --precision.
std::string identified_file(const Identified& found, Part part);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_IDENTIFY_IDENTIFY_H_
