// SPDX-License-Identifier: Apache-2.0
// Declarations in small files, for kernels that cannot be recompiled: one
// "field = value" a line, # begins a comment. Fields are those of qkvet_dialect
// and qkvet_precision.
#ifndef QKVET_CORE_CAPABILITY_DECLARATION_H_
#define QKVET_CORE_CAPABILITY_DECLARATION_H_

#include <string>
#include <string_view>
#include <vector>

#include "qkvet/kernel.h"

namespace qkvet {

// Overwrites the fields that the file names; "" or one line that names the
// file and the line, what is wrong and what is allowed.
std::string read_dialect(const std::string& path, qkvet_dialect& dialect);
// The same; each knob that is named is marked as declared.
std::string read_precision(const std::string& path, qkvet_precision& precision);

// The same for a text; `name` replaces the file's name.
std::string parse_dialect(const std::string& name, std::string_view text,
                          qkvet_dialect& dialect);
std::string parse_precision(const std::string& name, std::string_view text,
                            qkvet_precision& precision);
// The lines of a declaration, which can be read back; "" where nothing is
// declared.
std::string dialect_text(const qkvet_dialect& dialect);
// Their values, field by field.
struct DeclaredWord {
  const char* field;     // "empty_row"
  const char* word;      // "zero"
  const char* constant;  // "QKVET_EMPTY_ROW_ZERO"
};
std::vector<DeclaredWord> declared_words(const qkvet_dialect& dialect);
// All words of a dialect.
std::vector<DeclaredWord> dialect_words();
// The same of a precision, a line each.
std::vector<std::string> precision_lines(const qkvet_precision& precision);

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_DECLARATION_H_
