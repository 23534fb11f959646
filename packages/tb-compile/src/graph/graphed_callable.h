// A compiled function as a device graph: its calls run as they are until they repeat, then one is captured, and from then
// on a call is one launch.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tb/component.h"

namespace tb {

// Of a function that takes a list of tensors and numbers and returns a list of tensors, numbers and None. There is one
// for each choice of the numbers. Inputs that lie where they lay (parameters, what another graph has given) are read
// where they are, others are copied to where the graph reads them. Results are handed out in the graph's memory, unless
// callers keep them from call to call: those get copies. No graph shares its memory: results live on while others are
// launched. Not for two threads at once.
class GraphedCallable {
public:
  // written: numbers of the inputs that the function writes to.
  explicit GraphedCallable(std::vector<size_t> written) : written_(std::move(written)) {}
  ~GraphedCallable() { drop(); }
  GraphedCallable(const GraphedCallable &) = delete;
  GraphedCallable &operator=(const GraphedCallable &) = delete;

  // The results, with the inputs taken out of the list. None: the function has to be called.
  nanobind::object launch(nanobind::list inputs);
  // Before the function is called. None: with the inputs as they are. Otherwise the current stream captures, and the
  // function is to be called with the list that is returned; end() or fail() follows.
  nanobind::object begin(nanobind::list inputs);
  // Ends the capture of a call that gave `results`, launches it, and gives the results of the launch.
  nanobind::object end(nanobind::list results, nanobind::list inputs);
  // Gives the capture up, and after some failures the device graph for good.
  void fail(std::string reason);

  int64_t captures() const { return captures_; }
  int64_t launches() const { return launches_; }
  // Why there is no graph; empty while there is one, or may be.
  const std::string &refusal() const { return refusal_; }

private:
  // What makes two tensors the same to a graph that is given their address.
  struct Form {
    std::vector<int64_t> sizes, strides;
    at::ScalarType type = at::kFloat;
    void take(const at::Tensor &tensor);
    bool matches(const at::Tensor &tensor) const;
  };
  struct Input {
    bool is_tensor = false;
    bool moves = false; // it was found elsewhere once
    const void *address = nullptr;
    Form form;
    at::Tensor buffer; // where the graph reads it if it moves
  };
  struct Result {
    at::Tensor tensor;             // in the graph's memory; undefined: `other` is the result
    nanobind::object other;        // a number or None
    std::optional<size_t> view_of; // it shows memory of this input, as the caller gave it,
    int64_t offset = 0;            // so many elements behind it
    bool is_kept = false;          // callers keep it
    size_t holders = 0;            // tensors of ours in its memory
  };

  bool fits(const std::vector<at::Tensor> &given);
  void follow(tb_stream *stream);
  void learn(const std::vector<at::Tensor> &given);
  void drop();

  const std::vector<size_t> written_;
  std::vector<Input> inputs_;
  std::vector<Result> results_;
  tb_capture *capture_ = nullptr;
  tb_stream *last_stream_ = nullptr; // of the launch before
  tb_stream *before_ = nullptr;      // that was current when the capture began
  int32_t device_ = -1;
  int calls_ = 0, failures_ = 0, drops_ = 0;
  int64_t captures_ = 0, launches_ = 0;
  std::string refusal_;
};

} // namespace tb
