// SPDX-License-Identifier: Apache-2.0
// JSON Lines, as commands write them: one object a line, which begins with its
// format ("schema") and its type ("type").
#ifndef QKVET_REPORT_JSON_LINES_H_
#define QKVET_REPORT_JSON_LINES_H_

#include <string>

#include "core/base/json.h"

namespace qkvet::report {

// Grows when a field of some line changes its meaning.
inline constexpr int kSchema = 1;

// {"schema": kSchema, "type": type}, and the fields.
Json json_line(const char* type, const Json& fields = Json::object());

// The object on a separate line.
std::string line_of(const Json& json);

// What JSON has no spelling for is text: "nan", "inf", "-inf".
Json json_number(double value);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_JSON_LINES_H_
