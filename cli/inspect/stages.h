// SPDX-License-Identifier: Apache-2.0
// The movie of a call: every tensor from the inputs to the outputs, by the
// definition, with its shape, the range of its values and a few of them.
#ifndef QKVET_CLI_INSPECT_STAGES_H_
#define QKVET_CLI_INSPECT_STAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/case/case.h"
#include "reference/arithmetic/oracle.h"
#include "reference/layer/layer.h"

namespace qkvet::cli {

// A summary of one tensor.
struct StageSummary {
  std::string name;            // "scores"
  std::string how;             // "q k^T"; "" for inputs
  std::vector<int64_t> shape;  // [B,H,Tq,Tk]
  int64_t elements = 0;
  int64_t hidden = 0;  // of -infinity: scores that a rule hides
  int64_t nan = 0;     // beyond lengths, where nothing counts
  // The range of all others; 0 if there are none.
  double least = 0, most = 0;
  std::vector<double> values;  // the first ones of one row
};

// "[1,4,12,32]"
std::string shape_text(const std::vector<int64_t>& shape);

// The batch member and the head of the printed values.
struct Focus {
  int64_t member = 0, head = 0;
};

// The summary of packed values; shown are the first ones of row number `row`, a
// row being as long as the last extent.
StageSummary summary_of(std::string name, std::string how,
                        std::vector<int64_t> shape,
                        const std::vector<double>& values, int64_t row);
// The last row of the member and head in focus, in [B,H,T,width], [B,T,width]
// or [T,width].
int64_t last_row(const std::vector<int64_t>& shape, const Focus& focus);

struct Movie {
  std::vector<StageSummary> stages;
  OracleOutput attended;  // the weights [B,H,Tq,Tk], the visible pairs, o
  std::vector<double> y;  // of a layer: [B,T,D]
};

// From x over q, k, v, heads, scores and weights to y. `unbatched`: x and y are
// [T,D]. `input`: the name of x.
Movie layer_movie(const LayerProblem& problem, bool unbatched,
                  const Focus& focus, const char* input = "x");
// From q, k and v to o. The factor of the scale is printed as in the problem.
Movie attention_movie(const Problem& problem, const Focus& focus);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_INSPECT_STAGES_H_
