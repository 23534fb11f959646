// Calls PyTorch's interface of lazy backends wrongly, as a program outside could.
#include <ATen/ops/ones.h>
#include <torch/csrc/lazy/backend/backend_interface.h>
#include <torch/csrc/lazy/backend/lowering_context.h>
#include <torch/csrc/lazy/ts_backend/ts_lowering_context.h>
#include <torch/library.h>

namespace {

namespace ltc = torch::lazy;

ltc::BackendDevice device() { return ltc::getBackend()->GetBackendDevice(c10::Device(c10::DeviceType::Lazy, 0)); }

// A computation that adds its two parameters. Nothing compiled it.
ltc::ComputationPtr sum_of_two() {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::Value *one = graph->addInput(), *other = graph->addInput();
  torch::jit::Value *sum = graph->insert(c10::aten::add, {one, other});
  graph->registerOutput(sum);
  return std::make_shared<ltc::TSComputation>(graph);
}

struct Foreign final : ltc::Computation {
  int parameters_size() const override { return 0; }
  const std::vector<ltc::Shape> &parameter_shapes() const override { return shapes; }
  const std::vector<std::string> &parameter_names() const override { return names; }
  const ltc::Shape &result_shape() const override { return shape; }
  const std::string to_string() const override { return "foreign"; }
  std::vector<ltc::Shape> shapes;
  std::vector<std::string> names;
  ltc::Shape shape;
};

void execute(int64_t arguments, bool compiled, bool missing, bool placeholder) {
  const auto *backend = ltc::getBackend();
  ltc::ComputationPtr computation = sum_of_two();
  if (compiled) computation = backend->Compile({computation}).at(0);
  std::vector<ltc::BackendDataPtr> given;
  for (int64_t i = 0; i < arguments; i++)
    given.push_back(backend->MakeComputationDataFromTensor(at::ones({2}), ltc::Shape(at::kFloat, {2}), device()));
  if (missing) given.back() = nullptr;
  if (placeholder) given.back() = backend->CreateDataPlaceholder(device(), ltc::Shape(at::kFloat, {2}));
  backend->ExecuteComputation(computation, given, device());
}

void compile_foreign() { ltc::getBackend()->Compile({std::make_shared<Foreign>()}); }

} // namespace

TORCH_LIBRARY(lazy_interface, m) {
  m.def("execute(int arguments, bool compiled, bool missing, bool placeholder) -> ()", &execute);
  m.def("compile_foreign() -> ()", &compile_foreign);
}
