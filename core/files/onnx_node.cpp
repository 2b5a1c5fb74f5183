// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <utility>

#include "core/files/onnx_reading.h"
#include "core/files/onnx_tensor.h"

namespace qkvet {
namespace {

using namespace onnx_reading;

// Field numbers of onnx.proto, by message.
namespace model_field {
enum : uint32_t { kGraph = 7, kOpsetImport = 8 };
}  // namespace model_field
namespace opset_field {
enum : uint32_t { kDomain = 1, kVersion = 2 };
}  // namespace opset_field
namespace graph_field {
enum : uint32_t { kNode = 1, kInitializer = 5, kInput = 11, kOutput = 12 };
}  // namespace graph_field
namespace node_field {
enum : uint32_t {
  kInput = 1,
  kOutput = 2,
  kOpType = 4,
  kAttribute = 5,
  kDomain = 7
};
}  // namespace node_field
namespace attribute_field {
enum : uint32_t { kName = 1, kF = 2, kI = 3, kS = 4, kInts = 8, kType = 20 };
}  // namespace attribute_field

// Types of AttributeProto.
enum : int64_t { kFloatType = 1, kIntType = 2, kTextType = 3, kIntsType = 7 };

void read_attribute(Reader reader, OnnxNode& node) {
  std::string name;
  int64_t type = 0;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<int64_t> ints;
  while (reader.next()) switch (reader.tag()) {
      case attribute_field::kName:
        name = read_text(reader);
        break;
      case attribute_field::kF:
        expect_wire(reader, pbf_wire_type::fixed32);
        f = reader.get_float();
        break;
      case attribute_field::kI:
        i = read_int(reader);
        break;
      case attribute_field::kS:
        s = read_text(reader);
        break;
      case attribute_field::kInts:
        read_ints(reader, ints);
        break;
      case attribute_field::kType:
        type = read_int(reader);
        break;
      default:
        reader.skip();
    }
  const auto [place, is_new] = node.attributes.try_emplace(name);
  if (!is_new) throw Wrong{"attribute " + shown(name) + " is there twice"};
  if (type == kFloatType) place->second = f;
  if (type == kIntType) place->second = i;
  if (type == kTextType) place->second = std::move(s);
  if (type == kIntsType) place->second = std::move(ints);
}

void read_node(Reader reader, OnnxNode& node) {
  while (reader.next()) switch (reader.tag()) {
      case node_field::kInput:
        node.inputs.push_back(read_text(reader));
        break;
      case node_field::kOutput:
        node.outputs.push_back(read_text(reader));
        break;
      case node_field::kOpType:
        node.op_type = read_text(reader);
        break;
      case node_field::kDomain:
        node.domain = read_text(reader);
        break;
      case node_field::kAttribute:
        read_attribute(read_message(reader), node);
        break;
      default:
        reader.skip();
    }
}

// The name is the first field of both ValueInfoProto and OperatorSetIdProto's
// domain.
std::string first_text(Reader reader) {
  std::string text;
  while (reader.next())
    if (reader.tag() == 1)
      text = read_text(reader);
    else
      reader.skip();
  return text;
}

void read_graph(Reader reader, OnnxNode& node, int& nodes) {
  while (reader.next()) switch (reader.tag()) {
      case graph_field::kNode:
        if (++nodes > 1) throw Wrong{"has more than one node"};
        read_node(read_message(reader), node);
        break;
      case graph_field::kInitializer:
        node.has_initializers = true;
        reader.skip();
        break;
      case graph_field::kInput:
        node.graph_inputs.push_back(first_text(read_message(reader)));
        break;
      case graph_field::kOutput:
        node.graph_outputs.push_back(first_text(read_message(reader)));
        break;
      default:
        reader.skip();
    }
}

// The two names of ONNX's own domain are one.
std::string plain_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

void read_opset(Reader reader, std::map<std::string, int64_t>& opsets) {
  std::string domain;
  int64_t version = 0;
  while (reader.next()) switch (reader.tag()) {
      case opset_field::kDomain:
        domain = read_text(reader);
        break;
      case opset_field::kVersion:
        version = read_int(reader);
        break;
      default:
        reader.skip();
    }
  opsets[plain_domain(domain)] = version;
}

OnnxNode read_model(Reader reader) {
  OnnxNode node;
  int nodes = 0;
  std::map<std::string, int64_t> opsets;
  while (reader.next()) switch (reader.tag()) {
      case model_field::kGraph:
        read_graph(read_message(reader), node, nodes);
        break;
      case model_field::kOpsetImport:
        read_opset(read_message(reader), opsets);
        break;
      default:
        reader.skip();
    }
  if (nodes == 0) throw Wrong{"has no node"};
  node.domain = plain_domain(node.domain);
  if (!opsets.contains(node.domain))
    throw Wrong{"imports no opset of the node's domain " + shown(node.domain)};
  node.opset = opsets[node.domain];
  return node;
}

}  // namespace

std::optional<OnnxNode> parse_onnx_node(std::span<const std::byte> file,
                                        std::string* error) {
  return guarded(read_model, file, "model of ONNX", error);
}

}  // namespace qkvet
