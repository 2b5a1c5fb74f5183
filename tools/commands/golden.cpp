// SPDX-License-Identifier: Apache-2.0
// qkvet golden: four commands.
#include "tools/commands/golden.h"

namespace qkvet::tools {

void add_golden(Command& app, Chosen& chosen) {
  Command golden = app.add_command(
      "golden",
      "Sets of calls with known outputs: verify, record, show, import");
  golden.needs_a_command();
  add_golden_verify(golden, chosen);
  add_golden_record(golden, chosen);
  add_golden_show(golden, chosen);
  add_golden_import(golden, chosen);
}

}  // namespace qkvet::tools
