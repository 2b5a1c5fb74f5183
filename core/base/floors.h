// SPDX-License-Identifier: Apache-2.0
// The floors of the program. Each has a namespace of its own and sees the names
// of the floors below it without qualification (ci/floors.py compares this with
// what the files include). core/ defines its names in qkvet, which all floors
// see. Two floors may use one name for two things: the linker cannot mix them
// up, and a floor that sees both must qualify the name.
#ifndef QKVET_CORE_BASE_FLOORS_H_
#define QKVET_CORE_BASE_FLOORS_H_

namespace qkvet {

namespace reference {}

namespace properties {
using namespace reference;
}

namespace diagnosis {
using namespace reference;
using namespace properties;
}  // namespace diagnosis

namespace fuzz {
using namespace reference;
using namespace properties;
}  // namespace fuzz

namespace golden {
using namespace reference;
using namespace properties;
}  // namespace golden

namespace report {
using namespace reference;
using namespace properties;
using namespace diagnosis;
}  // namespace report

namespace cli {
using namespace reference;
using namespace properties;
using namespace diagnosis;
using namespace fuzz;
using namespace golden;
using namespace report;
}  // namespace cli

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_FLOORS_H_
