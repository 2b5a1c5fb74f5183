// SPDX-License-Identifier: Apache-2.0
// Descriptions of layers: a projection with another matrix, without its bias,
// or with the columns of another head; and other readings of the attention
// between them, as in a kernel of attention alone.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "diagnosis/instead/reading.h"
#include "diagnosis/instead/wrong_layer.h"

namespace qkvet::diagnosis {
namespace {

// One projection of a layer, with pointers into its problem; in the order of
// Projection.
struct Matrix {
  Projection which;
  const char *w, *b;  // their names
  const double* LayerProblem::*weights;
  const double* LayerProblem::*bias;
  Stage stage;
};
constexpr Matrix kMatrices[] = {
    {Projection::kQ, "w_q", "b_q", &LayerProblem::w_q, &LayerProblem::b_q,
     Stage::kProjectQ},
    {Projection::kK, "w_k", "b_k", &LayerProblem::w_k, &LayerProblem::b_k,
     Stage::kProjectK},
    {Projection::kV, "w_v", "b_v", &LayerProblem::w_v, &LayerProblem::b_v,
     Stage::kProjectV},
    {Projection::kO, "w_o", "b_o", &LayerProblem::w_o, &LayerProblem::b_o,
     Stage::kProjectOut}};

struct Extents {
  int64_t in, out, heads, width;  // of a matrix; its heads are those of q, ...
};
Extents extents_of_matrix(const Shape& s, Projection which) {
  const bool is_out = which == Projection::kO;
  const int64_t heads = is_out || which == Projection::kQ ? s.H : s.Hkv;
  const int64_t width = is_out || which == Projection::kV ? s.dv : s.d;
  return {is_out ? heads * width : s.D, is_out ? s.D : heads * width, heads,
          width};
}

// Edits the problem; false: there is nothing to edit.
using EditLayer =
    std::function<bool(LayerProblem& layer, const Matrix& of, Room& room)>;

class LayerDescriptions {
 public:
  LayerDescriptions(const JudgedKernel& kernel, TensorName output)
      : kernel_(std::make_shared<const JudgedKernel>(kernel)), output_(output) {
    for (const Matrix& of : kMatrices)
      if (output == name_of(of.which) || may_be_any()) add_all(of);
    if (output == TensorName::kStageQ || output == TensorName::kStageK)
      add(kMatrices[output == TensorName::kStageQ ? 0 : 1],
          "without its rotation", [](LayerProblem& p, const Matrix&, Room&) {
            const bool has = p.rotation.style != RopeStyle::kNone;
            p.rotation = {};
            return has;
          });
    if (output == TensorName::kY) add_merges();
    if (output == TensorName::kAttended) add_attention();
  }
  std::vector<Description> take() { return std::move(all_); }

 private:
  // Whether a wrong y may come from any stage, because the layer returns none.
  bool may_be_any() const {
    return output_ == TensorName::kY &&
           (kernel_->info.layer_options & QKVET_LAYER_STAGES) == 0;
  }

  void add(const Matrix& of, const std::string& text, EditLayer edit) {
    all_.push_back({"the result " + text, of.stage,
                    [of, edit = std::move(edit), kernel = kernel_](
                        const WrongAnswer& answer,
                        const WrongOutput& output) -> std::optional<Predicted> {
                      const LayerAnswer layer(answer, *kernel);
                      LayerProblem other = layer.problem();
                      Room room;
                      if (!edit(other, of, room)) return std::nullopt;
                      return layer.predicted(other, output.name);
                    }});
  }

  void add_all(const Matrix& of) {
    add_biases(of);
    add_matrices(of);
    add_others(of);
    add_heads(of);
  }

  // --- its bias, times 0, -1 and 2

  void add_biases(const Matrix& of) {
    const std::string b = of.b;
    const auto times = [&](const std::string& text, double factor) {
      add(of, text, [factor](LayerProblem& p, const Matrix& m, Room& room) {
        const double*& bias = p.*m.bias;
        if (bias == nullptr) return false;
        bias = room.changed(bias, extents_of_matrix(p.shape, m.which).out,
                            [=](double x) { return x * factor; });
        return true;
      });
    };
    times("without " + b, 0);
    times("of minus " + b, -1);
    times("of twice " + b, 2);
  }

  // --- its matrix: w(i, j) of another one

  // The index of the number that is read for row i and column j; -1: 0 is used.
  using Element = int64_t (*)(const Extents& e, int64_t i, int64_t j);
  static bool rearrange(LayerProblem& p, const Matrix& m, Room& room,
                        Element element) {
    const Extents e = extents_of_matrix(p.shape, m.which);
    const double*& w = p.*m.weights;
    std::vector<double> other;
    for (int64_t i = 0; i < e.in; ++i)
      for (int64_t j = 0; j < e.out; ++j) {
        const int64_t from = element(e, i, j);
        other.push_back(from < 0 ? 0 : w[from]);
      }
    const bool is_other =
        !std::equal(other.begin(), other.end(), w, w + e.in * e.out);
    w = room.keep(std::move(other));
    return is_other;
  }
  void add_element(const Matrix& of, const std::string& text, Element element) {
    add(of, text, [element](LayerProblem& p, const Matrix& m, Room& room) {
      return rearrange(p, m, room, element);
    });
  }

  void add_matrices(const Matrix& of) {
    const std::string w = of.w;
    add_element(
        of, "of " + w + " read as its transpose",
        [](const Extents& e, int64_t i, int64_t j) { return j * e.in + i; });
    add_element(of, "without the last row of " + w,
                [](const Extents& e, int64_t i, int64_t j) {
                  return i + 1 < e.in ? i * e.out + j : -1;
                });
    add_element(of, "without the first row of " + w,
                [](const Extents& e, int64_t i, int64_t j) {
                  return i > 0 ? i * e.out + j : -1;
                });
    add_element(of, "without " + w,
                [](const Extents&, int64_t, int64_t) { return int64_t{-1}; });
    const auto times = [&](const std::string& text, double factor) {
      add(of, text, [factor](LayerProblem& p, const Matrix& m, Room& room) {
        const Extents e = extents_of_matrix(p.shape, m.which);
        p.*m.weights = room.changed(p.*m.weights, e.in * e.out,
                                    [=](double x) { return x * factor; });
        return true;
      });
    };
    times("of minus " + w, -1);
    times("of twice " + w, 2);
    times("of half " + w, 0.5);
  }

  // --- another projection's matrix

  void add_others(const Matrix& of) {
    for (const Matrix& other : kMatrices)
      for (const bool with_bias : {false, true}) {
        if (other.which == of.which) continue;
        const std::string text =
            with_bias ? std::string(other.w) + " and " + other.b +
                            " instead of " + of.w + " and " + of.b
                      : std::string(other.w) + " instead of " + of.w;
        add(of, "of " + text,
            [other, with_bias](LayerProblem& p, const Matrix& m, Room&) {
              const Extents a = extents_of_matrix(p.shape, m.which);
              const Extents b = extents_of_matrix(p.shape, other.which);
              if (a.in != b.in || a.out != b.out) return false;
              p.*m.weights = p.*other.weights;
              if (with_bias) p.*m.bias = p.*other.bias;
              return true;
            });
      }
  }

  // --- another head's columns, with their bias; of w_o, its rows

  using OtherHead = int64_t (*)(int64_t h, int64_t heads);
  void add_head(const Matrix& of, const std::string& whose, OtherHead head) {
    const bool is_out = of.which == Projection::kO;
    const std::string text = std::string("of the ") +
                             (is_out ? "rows" : "columns") + " of " + of.w +
                             " " + whose;
    add(of, text, [head, is_out](LayerProblem& p, const Matrix& m, Room& room) {
      const Extents e = extents_of_matrix(p.shape, m.which);
      const auto other = [&](int64_t n) {
        return head(n / e.width, e.heads) * e.width + n % e.width;
      };
      const double*& w = p.*m.weights;
      std::vector<double> moved;
      for (int64_t i = 0; i < e.in; ++i)
        for (int64_t j = 0; j < e.out; ++j)
          moved.push_back(
              w[(is_out ? other(i) : i) * e.out + (is_out ? j : other(j))]);
      w = room.keep(std::move(moved));
      const double*& bias = p.*m.bias;
      if (is_out || bias == nullptr) return e.heads > 1;
      std::vector<double> biases;
      for (int64_t j = 0; j < e.out; ++j) biases.push_back(bias[other(j)]);
      bias = room.keep(std::move(biases));
      return e.heads > 1;
    });
  }
  void add_heads(const Matrix& of) {
    add_head(of, "of head 0 for every head",
             [](int64_t, int64_t) { return int64_t{0}; });
    add_head(of, "of the next head",
             [](int64_t h, int64_t heads) { return (h + 1) % heads; });
    add_head(of, "of the heads in reverse",
             [](int64_t h, int64_t heads) { return heads - 1 - h; });
    if (of.which == Projection::kO) return;
    // x is cut into heads before the projection.
    add_element(
        of, "of each head's own slice of x and block of " + std::string(of.w),
        [](const Extents& e, int64_t i, int64_t j) {
          const int64_t slice = e.in / e.heads;
          const bool is_own = e.in % e.heads != 0 || i / slice == j / e.width;
          return is_own ? i * e.out + j : -1;
        });
  }

  // --- heads on their way to y

  // The element of the heads [B,H,T,dv] that is used for row t and column n of
  // member b.
  using Merged = int64_t (*)(const Shape& s, int64_t t, int64_t n);
  void add_merge(const char* text, Merged merged, bool is_projected) {
    all_.push_back({text, Stage::kProjectOut,
                    [merged, is_projected, kernel = kernel_](
                        const WrongAnswer& answer,
                        const WrongOutput&) -> std::optional<Predicted> {
                      const LayerAnswer layer(answer, *kernel);
                      const Shape& s = layer.problem().shape;
                      if (!layer.has_stages()) return std::nullopt;
                      const std::vector<double>& heads = layer.attended();
                      std::vector<double> rows;
                      for (int64_t b = 0; b < s.B; ++b)
                        for (int64_t t = 0; t < s.Tq; ++t)
                          for (int64_t n = 0; n < s.H * s.dv; ++n)
                            rows.push_back(heads[static_cast<size_t>(
                                b * s.H * s.Tq * s.dv + merged(s, t, n))]);
                      if (is_projected)
                        return layer.output_of(layer.problem(), rows);
                      if (s.H * s.dv != s.D) return std::nullopt;
                      LayerProblem other = layer.problem();
                      std::vector<double> identity(
                          static_cast<size_t>(s.D * s.D), 0.0);
                      for (int64_t i = 0; i < s.D; ++i)
                        identity[static_cast<size_t>(i * s.D + i)] = 1;
                      other.w_o = identity.data();
                      return layer.output_of(other, rows);
                    }});
  }
  void add_merges() {
    const Merged rightly = [](const Shape& s, int64_t t, int64_t n) {
      return (n / s.dv * s.Tq + t) * s.dv + n % s.dv;
    };
    add_merge("the merged heads, with b_o and without w_o", rightly, false);
    add_merge(
        "the result of heads as they lie, [H,T,dv] taken for [T,H dv]",
        [](const Shape& s, int64_t t, int64_t n) { return t * s.H * s.dv + n; },
        true);
    add_merge(
        "the result of heads whose channels are merged side by side",
        [](const Shape& s, int64_t t, int64_t n) {
          return (n % s.H * s.Tq + t) * s.dv + n / s.H;
        },
        true);
  }

  // --- attention between the projections

  void add_attention() {
    Readings rows;
    add_readings_of_scores(rows);
    add_readings_of_keys(rows);
    add_readings_of_places(rows);
    for (OtherReading& row : rows)
      all_.push_back(
          {row.text, Stage::kInLayer,
           [edit = row.edit, kernel = kernel_](const WrongAnswer& answer,
                                               const WrongOutput& output) {
             const LayerAnswer layer(answer, *kernel);
             Problem problem = layer.attention();
             Room room;
             edit(problem, room);
             Predicted out = layer.attended_of(problem);
             for (size_t n = 0; n < out.bounds.size(); ++n)
               out.bounds[n] = std::max(out.bounds[n], output.bound[n]);
             return std::optional(std::move(out));
           }});
  }

  // A copy, because descriptions are used after the search has ended.
  std::shared_ptr<const JudgedKernel> kernel_;
  TensorName output_;
  std::vector<Description> all_;
};

// The numbers of a projection are read as heads without a transposition,
// [T,heads width] as [heads,T,width]. Not for projections that are then
// rotated.
Description description_of_split(const JudgedKernel& kernel, Projection which) {
  return {
      "right, but cut into heads as it lies, [T,heads width] taken for "
      "[heads,T,width]",
      kMatrices[static_cast<size_t>(which)].stage,
      [which, own = std::make_shared<const JudgedKernel>(kernel)](
          const WrongAnswer& answer,
          const WrongOutput& output) -> std::optional<Predicted> {
        const LayerAnswer layer(answer, *own);
        const Shape& s = layer.problem().shape;
        if (layer.problem().rotation.style != RopeStyle::kNone &&
            which != Projection::kV)
          return std::nullopt;
        const Extents e = extents_of_matrix(s, which);
        Predicted out{output.right, output.bound};
        const int64_t of_member = s.Tq * e.out;
        for (int64_t n = 0; n < std::ssize(out.values); ++n) {
          const int64_t at = n % of_member, t = at / e.out;
          const int64_t h = at % e.out / e.width, c = at % e.width;
          const auto from = static_cast<size_t>(n / of_member * of_member +
                                                (h * s.Tq + t) * e.width + c);
          out.values[static_cast<size_t>(n)] = output.right[from];
          out.bounds[static_cast<size_t>(n)] = output.bound[from];
        }
        return out;
      }};
}

}  // namespace

std::vector<Description> descriptions_of_layers(const JudgedKernel& kernel,
                                                TensorName output) {
  std::vector<Description> all = LayerDescriptions(kernel, output).take();
  for (const Projection which :
       {Projection::kQ, Projection::kK, Projection::kV})
    if (output == name_of(which))
      all.push_back(description_of_split(kernel, which));
  return all;
}

}  // namespace qkvet::diagnosis
