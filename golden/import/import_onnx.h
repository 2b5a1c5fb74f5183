// SPDX-License-Identifier: Apache-2.0
// Node tests of ONNX's Attention (opsets 23 to 25) as tensors and a case: the
// folder of a test holds model.onnx, and test_data_set_0 with input_N.pb and
// output_N.pb.
//
// The keys that a causal query sees. ONNX puts query i at position i + offset,
// and it sees key j if j <= i + offset. The offset depends on the inputs:
//   past_key          the number of its tokens
//   nonpad_kv_seqlen  nonpad_kv_seqlen[b] - Tq (opset 24 on)
//   neither           0
// So without a cache the alignment is top-left, also where Tq != Tk: causal=tl.
// With nonpad_kv_seqlen it is bottom-right of the keys that count: causal=br
// with kvlen=. With past_key it is bottom-right if there are as many new keys
// as queries, and neither of the two otherwise. The documents of all three
// opsets have this rule since onnx 1.23, which called it an erratum; test data
// that older versions wrote for opset 24 with nonpad_kv_seqlen are top-left.
// Windows (opset 25) count from the same position. An alignment that is neither
// of the two is spelled as a mask of the visible pairs.
//
// A query that sees no key gives zeros, in Y and in the weights. A mask with
// fewer keys than there are hides the others. The softcap comes before the
// mask. softmax_precision is ignored: it is about how the expected numbers were
// computed, not about the right ones. present_key and present_value are
// ignored: they repeat the inputs. qk_matmul_output is kept in mode 3, as the
// weights; in other modes QKVet does not judge it.
#ifndef QKVET_GOLDEN_IMPORT_IMPORT_ONNX_H_
#define QKVET_GOLDEN_IMPORT_IMPORT_ONNX_H_

#include <optional>
#include <string>
#include <vector>

#include "core/files/named_tensors.h"
#include "core/files/onnx_tensor.h"

namespace qkvet::golden {

struct ImportedOnnx {
  NamedTensors tensors;  // q, k, v, mask, bias; o and weights
  std::string options;   // tokens of the case: "causal=tl,scale=0.25"
};

// Files by their numbers. On failure *error is one line.
std::optional<ImportedOnnx> import_onnx(const OnnxNode& node,
                                        const std::vector<OnnxTensor>& inputs,
                                        const std::vector<OnnxTensor>& outputs,
                                        std::string* error);

// Imports a folder on the disk. *error names the file in it.
std::optional<ImportedOnnx> import_onnx_folder(const std::string& folder,
                                               std::string* error);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_IMPORT_IMPORT_ONNX_H_
