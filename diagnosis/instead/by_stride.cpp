// SPDX-License-Identifier: Apache-2.0
// Descriptions of wrong addresses: an element of q, k, v or the bias is read
// with the stride of another axis, with its own stride negated or left out, or
// one stride further.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/door/call_plan.h"
#include "diagnosis/instead/reading.h"

namespace qkvet::diagnosis {
namespace {

constexpr const char* kAxesOfHeads[] = {"member", "head", "token", "channel"};
constexpr const char* kAxesOfPairs[] = {"member", "head", "row", "key"};

constexpr size_t kRank = 4;

using Steps = std::array<size_t, 4>;  // for each axis, the axis that provides
                                      // its stride

// An element is read at the address of another one.
struct Address {
  TensorName tensor;
  Steps steps = {0, 1, 2, 3};
  int64_t further = 0;
  std::array<int64_t, 4> strides_further = {};
  std::array<int64_t, 4> times = {1, 1, 1, 1};  // of each stride
};

// f(element, its place) for every one of [B,heads,T,width], in order.
template <class F>
void for_each_element(const TensorSpec& spec, F f) {
  const Extents& e = spec.shape;
  for (int64_t b = 0; b < e[0]; ++b)
    for (int64_t h = 0; h < e[1]; ++h)
      for (int64_t t = 0; t < e[2]; ++t)
        for (int64_t c = 0; c < e[3]; ++c) f(Extents{b, h, t, c});
}

// `first`: the token from which addresses are counted; its own address is
// right.
int64_t wrong_address(const TensorSpec& spec, Extents at, const Address& where,
                      int64_t first = 0) {
  at[2] -= first;
  int64_t address = where.further + first * spec.strides[2];
  for (size_t a = 0; a < 4; ++a)
    address += at[a] * where.times[a] * spec.strides[where.steps[a]] +
               where.strides_further[a] * spec.strides[a];
  return address;
}

// A tensor in one of a kernel's possible layouts.
struct Layout {
  TensorSpec spec;
  // For a packed batch with an address per member: the first token of the
  // member of each token. Empty: one address for all.
  std::vector<int64_t> firsts = {};

  int64_t address(const Extents& at, const Address& where) const {
    return wrong_address(
        spec, at, where,
        firsts.empty() ? 0 : firsts[static_cast<size_t>(at[2])]);
  }
};

// Whether an address stays in its head, whatever the axes of heads are.
bool is_in_head(const Address& where) {
  return where.steps[0] == 0 && where.steps[1] == 1 &&
         where.strides_further[0] == 0 && where.strides_further[1] == 0 &&
         where.times[0] == 1 && where.times[1] == 1;
}

// Reads each head of each member in memory of its own, as in a kernel that
// copies one at a time. `cuts` as in cuts_of().
std::vector<double> read_in_head(const double* from, const Extents& shape,
                                 std::vector<int64_t> cuts,
                                 const Address& where) {
  if (cuts.empty()) cuts = {0, shape[2]};
  for (int64_t& cut : cuts) cut = std::min(cut, shape[2]);
  const int64_t width = shape[3];
  std::vector<double> out;
  for (int64_t h = 0; h < shape[0] * shape[1]; ++h) {
    int64_t rows = 0;
    for (size_t m = 1; m < cuts.size(); ++m, rows = cuts[m - 1]) {
      const TensorSpec head =
          packed_spec(Dtype::kF32, 4, {1, 1, cuts[m] - cuts[m - 1], width});
      const double* const begin = from + (h * shape[2] + rows) * width;
      for_each_element(head, [&](const Extents& at) {
        const int64_t address = wrong_address(head, at, where);
        out.push_back(address >= 0 && address < head.elements() ? begin[address]
                                                                : std::nan(""));
      });
    }
    out.resize(static_cast<size_t>((h + 1) * shape[2] * width), std::nan(""));
  }
  return out;
}

// The numbers that are read; NaN at an address without an element.
std::vector<double> read_with_strides(const double* from, const Layout& layout,
                                      const Address& where) {
  const TensorSpec& spec = layout.spec;
  // The element at each address; -1: none.
  std::vector<int64_t> elements(static_cast<size_t>(spec.span()), -1);
  int64_t n = 0;
  for_each_element(spec, [&](const Extents& at) {
    elements[static_cast<size_t>(spec.offset(at))] = n++;
  });
  std::vector<double> out;
  for_each_element(spec, [&](const Extents& at) {
    const int64_t address = layout.address(at, where);
    const int64_t element = address >= 0 && address < std::ssize(elements)
                                ? elements[static_cast<size_t>(address)]
                                : -1;
    out.push_back(element < 0 ? std::nan("") : from[element]);
  });
  return out;
}

const double*& data_of(Problem& p, TensorName tensor) {
  switch (tensor) {
    case TensorName::kQ:
      return p.q;
    case TensorName::kK:
      return p.k;
    case TensorName::kBias:
      return p.bias;
    default:
      return p.v;
  }
}

// The first row of each member of a packed batch, and the end; empty for other
// batches.
const std::vector<int64_t>& cuts_of(const Case& value, TensorName tensor) {
  return tensor == TensorName::kK || tensor == TensorName::kV ? value.cu_k
                                                              : value.cu_q;
}

// The layout of the call and a copy without gaps, each also with strides of 0
// for extents of 1; in a packed batch each also member by member.
std::vector<Layout> layouts_of(const WrongAnswer& answer,
                               const KernelInfo& kernel, TensorName tensor) {
  const Case& value = answer.value();
  CallPlan plan;
  std::string why;
  const bool is_in_pages =
      (value.paging.size > 0 || value.append > 0) &&
      (tensor == TensorName::kK || tensor == TensorName::kV);
  if (is_in_pages || answer.evidence->calls.size() != 1 ||
      !plan_call(answer.evidence->calls[0], kernel, &plan, &why))
    return {};
  TensorSpec given = plan.tensors[static_cast<size_t>(tensor)];
  // Tensors that are placed far apart have no other element near a wrong
  // address.
  if (given.ndim != 4 || plan.is_far(static_cast<size_t>(tensor))) return {};
  std::vector<Layout> layouts = {{given},
                                 {packed_spec(given.dtype, 4, given.shape)}};
  for (size_t n = 0; n < 2; ++n) {
    TensorSpec spec = layouts[n].spec;
    for (size_t axis = 0; axis < 4; ++axis)
      if (spec.shape[axis] == 1) spec.strides[axis] = 0;
    layouts.push_back({spec});
  }
  const std::vector<int64_t>& cuts = cuts_of(value, tensor);
  if (cuts.empty()) return layouts;
  std::vector<int64_t> firsts;
  for (int64_t t = 0; t < given.shape[2]; ++t)
    firsts.push_back(*std::prev(std::upper_bound(cuts.begin(), cuts.end(), t)));
  for (size_t n = 0, one_for_all = layouts.size(); n < one_for_all; ++n)
    layouts.push_back({layouts[n].spec, firsts});
  return layouts;
}

// [B,heads,T,width] of a tensor with a row per token.
std::optional<Extents> shape_of_heads(const WrongAnswer& answer,
                                      TensorName tensor) {
  const Case& value = answer.value();
  const Shape& s = value.shape;
  if (!value.cu_q.empty() || !value.cu_k.empty()) return std::nullopt;
  switch (tensor) {
    case TensorName::kQ:
      return Extents{s.B, s.H, s.Tq, s.d};
    case TensorName::kK:
      return Extents{s.B, s.Hkv, s.Tk, s.d};
    case TensorName::kV:
      return Extents{s.B, s.Hkv, s.Tk, s.dv};
    default:
      return std::nullopt;
  }
}

// Whether it predicts all wrong numbers for which it makes a prediction; if it
// makes none, NaN.
bool gives_wrong_numbers(const Predicted& predicted,
                         const WrongOutput& output) {
  size_t known = 0;
  for (const size_t n : output.wrong) {
    if (std::isnan(predicted.values[n])) continue;
    ++known;
    if (!is_near(output.actual[n], predicted.values[n], predicted.bounds[n],
                 output.dtype))
      return false;
  }
  return known > 0 || std::isnan(output.actual[output.wrong[0]]);
}

bool is_left_open(const Predicted& predicted, const WrongOutput& output) {
  return std::all_of(output.wrong.begin(), output.wrong.end(),
                     [&](size_t n) { return std::isnan(predicted.values[n]); });
}

// Tries the strides that the kernel may have. Returns a prediction that gives
// the wrong numbers, or else one that leaves all of them open.
std::optional<Predicted> read_at(const Address& address,
                                 const JudgedKernel& kernel, TimeUse& time,
                                 const WrongAnswer& answer,
                                 const WrongOutput& output) {
  std::vector<std::vector<double>> known;
  std::optional<Predicted> open;  // all of it, in memory of a layout
  const auto read = [&](const auto& data_from) -> std::optional<Predicted> {
    bool is_new = false;
    const Edit edit = [&](Problem& p, Room& room) {
      const double*& own = data_of(p, address.tensor);
      if (own == nullptr) return;
      std::vector<double> data = data_from(own);
      // NaN is not equal to itself, so bytes are compared.
      const auto is_same = [&](const std::vector<double>& other) {
        return std::memcmp(other.data(), data.data(),
                           data.size() * sizeof(double)) == 0;
      };
      is_new = std::none_of(known.begin(), known.end(), is_same);
      known.push_back(data);
      own = room.keep(std::move(data));
    };
    auto out = read_as(edit, kernel, time, answer, output);
    if (!out || !is_new) return std::nullopt;
    if (gives_wrong_numbers(*out, output)) return out;
    if (is_left_open(*out, output)) open = std::move(out);
    return std::nullopt;
  };
  const std::vector<Layout> layouts =
      layouts_of(answer, kernel.info, address.tensor);
  for (const Layout& layout : layouts)
    if (auto out = read([&](const double* own) {
          return read_with_strides(own, layout, address);
        }))
      return out;
  // Pages are gathered head by head as well.
  const auto shape = layouts.empty() ? shape_of_heads(answer, address.tensor)
                                     : std::optional(layouts[0].spec.shape);
  if (shape && is_in_head(address))
    if (auto out = read([&](const double* own) {
          return read_in_head(own, *shape,
                              cuts_of(answer.value(), address.tensor), address);
        }))
      return out;
  return open;
}

// The extents that distinguish addresses; nullopt: they are not known.
std::optional<Extents> telling_extents(TensorName tensor,
                                       const JudgedKernel& kernel,
                                       const WrongAnswer& answer) {
  if (const auto shape = shape_of_heads(answer, tensor)) return shape;
  const auto layouts = layouts_of(answer, kernel.info, tensor);
  return layouts.empty() ? std::nullopt : std::optional(layouts[0].spec.shape);
}

// The stride of an axis of extent 1 may be 0: a kernel that reads the first
// element along all others reads the same.
bool is_address_told(const Address& address, const JudgedKernel& kernel,
                     const WrongAnswer& answer) {
  const auto shape = telling_extents(address.tensor, kernel, answer);
  if (!shape) return true;
  for (size_t axis = 0; axis < 4; ++axis)
    if (address.steps[axis] != axis &&
        ((*shape)[axis] < 2 || (*shape)[address.steps[axis]] < 2))
      return false;
  return true;
}

// For an axis with stride times 0, which reads the first element throughout:
// the other axes (bits) with a stride that may do the same. A stride may be 0
// if its axis has an extent of 1.
unsigned axes_like_the_first(const Address& address) {
  unsigned axes = 0;
  for (size_t a = 0; a < kRank; ++a)
    if (address.times[a] == 0) axes |= ((1U << kRank) - 1) & ~(1U << a);
  return axes;
}

unsigned axes_unlike_the_first(const Address& address,
                               const JudgedKernel& kernel,
                               const WrongAnswer& answer) {
  // Half storage may be widened head by head, to tensors of one head each.
  const Case& value = answer.value();
  if (dtype_bytes(value.kv_dtype) < 4 || dtype_bytes(value.o_dtype) < 4)
    return 0;
  const auto shape = telling_extents(address.tensor, kernel, answer);
  unsigned axes = 0;
  for (size_t a = 0; shape && a < 4; ++a)
    if ((*shape)[a] > 1) axes |= 1U << a;
  return axes;
}

// Every wrong address, and its description.
template <class Add>
void for_each_address(TensorName tensor, Add add) {
  const auto& axes = tensor == TensorName::kBias ? kAxesOfPairs : kAxesOfHeads;
  add({tensor, {0, 1, 2, 3}, 1}, "one element after the right one");
  add({tensor, {0, 1, 2, 3}, -1}, "one element before the right one");
  for (size_t a = 0; a < 3; ++a)
    for (const int64_t step : {1, -1}) {
      Address address{tensor};
      address.strides_further[a] = step;
      add(address, std::string("one ") + axes[a] +
                       (step > 0 ? " further on" : " further back") +
                       ", also where that is the next of another");
    }
  for (size_t a = 0; a < kRank; ++a)
    for (const int64_t times : {-1, 0}) {
      Address address{tensor};
      address.times[a] = times;
      add(address,
          times == 0
              ? std::string("with the first ") + axes[a] + " instead of each"
              : "with the stride of the " + std::string(axes[a]) + " times -1");
    }
  for (size_t a = 0; a < kRank; ++a)
    for (size_t b = 0; b < kRank; ++b) {
      if (a == b) continue;
      const std::string of_a = axes[a], of_b = axes[b];
      Address address{tensor};
      address.steps[a] = b;
      add(address, "with the stride of the " + of_b + " for each " + of_a);
      address.steps[b] = a;
      if (a < b) add(address, "with " + of_a + " and " + of_b + " exchanged");
    }
}

}  // namespace

void add_strides(const JudgedKernel& kernel, TimeUse& time,
                 std::vector<Description>& out) {
  for (const TensorName tensor :
       {TensorName::kQ, TensorName::kK, TensorName::kV, TensorName::kBias}) {
    const Stage stage = tensor == TensorName::kV      ? Stage::kValues
                        : tensor == TensorName::kBias ? Stage::kBias
                                                      : Stage::kScores;
    const char* name =
        tensor == TensorName::kBias ? "the bias" : tensor_name(tensor);
    for_each_address(
        tensor, [&](const Address& address, const std::string& how) {
          out.push_back(
              {std::string("the result of ") + name + " read " + how, stage,
               [address, &kernel, &time](const WrongAnswer& answer,
                                         const WrongOutput& output) {
                 return read_at(address, kernel, time, answer, output);
               },
               /*leaves_open=*/true,
               [address, &kernel](const WrongAnswer& answer) {
                 return is_address_told(address, kernel, answer);
               },
               axes_like_the_first(address),
               [address, &kernel](const WrongAnswer& answer) {
                 return axes_unlike_the_first(address, kernel, answer);
               }});
        });
  }
}

}  // namespace qkvet::diagnosis
