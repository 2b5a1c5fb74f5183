// SPDX-License-Identifier: Apache-2.0
#include "report/json_lines.h"

#include <cmath>

namespace qkvet::report {

Json json_line(const char* type, const Json& fields) {
  Json line = {{"schema", kSchema}, {"type", type}};
  line.update(fields);
  return line;
}

std::string line_of(const Json& json) { return json_text(json) + "\n"; }

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

}  // namespace qkvet::report
