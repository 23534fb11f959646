// A compiled function as a device graph: the first calls run the function; when they repeat, one is captured, and each
// later call is one launch.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tb/component.h"

namespace tb::compile {

// The function takes a list of tensors and numbers and returns a list of tensors, numbers and None. There is one
// GraphedCallable for each choice of the numbers. The graph reads inputs whose address does not change (parameters,
// results of another graph) in place; others are copied to its own buffers. Results are returned in the graph's memory,
// unless callers keep a result from call to call: that one is copied. A graph shares its memory with no other, so
// results stay valid while others are launched. Not thread-safe.
class GraphedCallable {
public:
  // written: the numbers of the inputs that the function writes to.
  explicit GraphedCallable(std::vector<size_t> written) : written_(std::move(written)) {}
  ~GraphedCallable() { drop(); }
  GraphedCallable(const GraphedCallable &) = delete;
  GraphedCallable &operator=(const GraphedCallable &) = delete;

  // Launches the graph, empties `inputs` and returns the results. None: the function must be called.
  nanobind::object launch(nanobind::list inputs);
  // Called before the function. None: the caller calls the function with the inputs. Otherwise the current stream
  // captures; the caller calls the function with the returned list, and end() or fail() afterwards.
  nanobind::object begin(nanobind::list inputs);
  // Ends the capture of a call that returned `results`, launches it, and returns the results of the launch.
  nanobind::object end(nanobind::list results, nanobind::list inputs);
  // Drops the capture. After some failures nothing is captured any more.
  void fail(std::string reason);

  int64_t captures() const { return captures_; }
  int64_t launches() const { return launches_; }
  // Why there is no graph; empty while there is one or may be one.
  const std::string &refusal() const { return refusal_; }

private:
  // Two tensors of the same form at the same address are equal to a graph.
  struct Form {
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::kFloat;
    void take(const at::Tensor &tensor);
    bool matches(const at::Tensor &tensor) const;
  };
  struct Input {
    bool is_tensor = false;
    bool moves = false; // its address has changed once
    const void *address = nullptr;
    Form form;
    at::Tensor buffer; // the graph reads the input here if it moves
  };
  struct Result {
    at::Tensor tensor;             // in the graph's memory; if undefined, `other` is the result
    nanobind::object other;        // a number or None
    std::optional<size_t> view_of; // the result is a view of this input, as the caller passed it,
    int64_t offset = 0;            // at this offset in elements
    bool is_kept = false;          // callers keep it from call to call
    size_t holders = 0;            // the number of own tensors that use its memory
  };

  bool fits(const std::vector<at::Tensor> &given);
  void follow(tb_stream *stream);
  void observe_addresses(const std::vector<at::Tensor> &given);
  void drop();

  const std::vector<size_t> written_;
  std::vector<Input> inputs_;
  std::vector<Result> results_;
  tb_capture *capture_ = nullptr;
  tb_stream *last_stream_ = nullptr; // the stream of the last launch
  tb_stream *before_ = nullptr;      // the current stream before the capture
  int32_t device_ = -1;
  int calls_ = 0, failures_ = 0, drops_ = 0;
  int64_t captures_ = 0, launches_ = 0;
  std::string refusal_;
};

} // namespace tb::compile
