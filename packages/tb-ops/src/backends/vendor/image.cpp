// Loads images, and fills the parameters of their kernels.
#include "backends/vendor/image.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "backends/vendor/call.h"
#include "backends/vendor/table.h"
#include "backends/vendor/vendor.h"
#include "tb/image_kernel.h"

namespace tb::ops::vendor {
namespace {

enum class Parameter { tensor, optional_tensor, integer, real };

// What the entry of an image has as its self. It lives as long as the process.
struct ImageEntry {
  std::shared_ptr<Image> image;
  std::string operation;
  uint32_t block;
  std::vector<Parameter> parameters; // of the arguments without the outputs
};

template <class T> std::string bytes_of(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}

tb_image_tensor describe(const tb_kernel_tensor &tensor) {
  tb_image_tensor out{};
  out.data = tensor.data;
  out.elements = 1;
  out.dtype = tensor.dtype;
  out.dims = tensor.dims;
  for (int32_t i = 0; i < tensor.dims; i++) out.elements *= out.sizes[i] = tensor.sizes[i];
  return out;
}

// A call may have a number where the schema has a tensor, and none where it has an optional number.
tb_status plan(void *self, const tb_kernel_call *call, uint64_t *, void **) {
  const auto &entry = *static_cast<const ImageEntry *>(self);
  const auto refuse = [&](const char *text) {
    runtime.device.set_error(TB_UNSUPPORTED, 0, call->device, entry.image->entry().c_str(), text);
    return TB_UNSUPPORTED;
  };
  if (!(runtime.driver->groups & TB_GROUP_MODULE)) return refuse("the driver loads no images");
  for (uint32_t i = 0; i < call->argument_count; i++) {
    const bool tensor = entry.parameters[i] < Parameter::integer;
    const int32_t kind = call->arguments[i].kind;
    if (kind == (tensor ? TB_ARGUMENT_TENSOR : TB_ARGUMENT_NUMBER)) continue;
    if (kind == TB_ARGUMENT_NONE && entry.parameters[i] == Parameter::optional_tensor) continue;
    return refuse(tensor ? "an image takes no number in place of a tensor" : "an image takes no absent number");
  }
  return TB_OK;
}

tb_status run(void *self, const tb_kernel_call *call) {
  const auto &entry = *static_cast<const ImageEntry *>(self);
  std::vector<std::string> parameters;
  for (uint32_t i = 0; i < call->argument_count; i++) {
    const tb_kernel_argument &argument = call->arguments[i];
    if (argument.kind == TB_ARGUMENT_NONE)
      parameters.push_back(bytes_of(tb_image_tensor{}));
    else if (argument.kind == TB_ARGUMENT_TENSOR)
      parameters.push_back(bytes_of(describe(*argument.tensors)));
    else
      parameters.push_back(entry.parameters[i] == Parameter::real ? bytes_of(argument.numbers->real)
                                                                  : bytes_of(argument.numbers->integer));
  }
  tb_image_tensor last{};
  for (uint32_t i = 0; i < call->output_count; i++) parameters.push_back(bytes_of(last = describe(call->outputs[i])));
  entry.image->launch_elements(static_cast<c10::DeviceIndex>(call->device), last.elements, entry.block,
                               std::move(parameters));
  return TB_OK;
}

Parameter parameter_of(const c10::Argument &argument, const std::string &operation) {
  const c10::TypePtr &whole = argument.real_type();
  const bool optional = whole->kind() == c10::TypeKind::OptionalType;
  switch ((optional ? whole->containedType(0) : whole)->kind()) {
  case c10::TypeKind::TensorType:
    return optional ? Parameter::optional_tensor : Parameter::tensor;
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::ScalarTypeType:
    return Parameter::integer;
  case c10::TypeKind::FloatType:
  case c10::TypeKind::NumberType:
    return Parameter::real;
  default:
    C10_THROW_ERROR(Error, c10::str("An image cannot serve ", operation, ": its argument ", argument.name(),
                                    " is of the type ", whole->repr_str(),
                                    ", and the kernels of images take tensors and numbers. Write a table in C "
                                    "(tb/kernels.h) for it"));
  }
}

} // namespace

DeviceFunction Image::on(c10::DeviceIndex device) {
  const std::lock_guard guard(mutex_);
  if (const auto known = functions_.find(device); known != functions_.end()) return known->second;
  TORCH_CHECK_NOT_IMPLEMENTED(runtime.driver->groups & TB_GROUP_MODULE, "The kernel ", entry_,
                              " is in an image, and the driver ", driver_info().name,
                              " loads none: it lacks the group MODULE. Use a driver with it, or a table in C "
                              "(tb/kernels.h)");
  return functions_.emplace(device, load_function(device, bytes_, entry_.c_str(), "module_load")).first->second;
}

void Image::launch(c10::DeviceIndex device, const Launch &launch) {
  const DeviceScope scope(device);
  std::vector<const void *> values;
  std::vector<uint64_t> sizes;
  for (const std::string &argument : launch.arguments) {
    values.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  tb_launch config{};
  config.struct_size = sizeof config;
  config.arg_count = static_cast<uint32_t>(values.size());
  std::copy_n(launch.grid, 3, config.grid);
  std::copy_n(launch.block, 3, config.block);
  config.shared_size = launch.shared_size;
  config.args = values.data();
  config.arg_sizes = sizes.data();
  launch_function(device, on(device), config, entry_.c_str());
}

void Image::launch_elements(c10::DeviceIndex device, int64_t elements, uint32_t block,
                            std::vector<std::string> arguments) {
  if (elements == 0) return;
  const uint32_t threads = std::min(block, on(device).threads);
  const int64_t blocks = (elements + threads - 1) / threads;
  TORCH_CHECK(blocks <= INT32_MAX, "The kernel ", entry_, " would need ", blocks, " blocks for ", elements,
              " elements, and a grid has at most 2^31 - 1. Give it smaller tensors");
  launch(device, {{static_cast<uint32_t>(blocks), 1, 1}, {threads, 1, 1}, 0, std::move(arguments)});
}

std::string image_parameter(const at::Tensor &tensor) {
  if (!tensor.defined()) return bytes_of(tb_image_tensor{});
  const std::optional<int32_t> dtype = dtype_of(tensor.scalar_type());
  TORCH_CHECK(tensor.is_privateuseone() && tensor.is_contiguous() && dtype && tensor.dim() <= TB_IMAGE_TENSOR_DIMS,
              "A kernel of an image takes contiguous tensors of tb devices with at most ", TB_IMAGE_TENSOR_DIMS,
              " dimensions, of the dtypes of tb/kernels.h, and not one on ", tensor.device(), " of ",
              tensor.scalar_type(), " with the sizes ", tensor.sizes(), " and strides ", tensor.strides(),
              ". Call .contiguous(), or convert it");
  tb_image_tensor out{tensor.data_ptr(), tensor.numel(), *dtype, static_cast<int32_t>(tensor.dim()), {}};
  std::ranges::copy(tensor.sizes(), out.sizes);
  return bytes_of(out);
}

void serve_by_image(std::shared_ptr<Image> image, const std::string &operation, const std::string &source,
                    uint32_t dtypes, uint32_t block) {
  const auto op = find_operation(operation);
  TORCH_CHECK(op, "There is no operator ", operation, " for the kernel ", image->entry(),
              ". Name an overload with out=, such as aten::mul.out, after the import "
              "of its library");
  const size_t outputs = count_outputs(op->schema());
  auto entry = std::make_unique<ImageEntry>(ImageEntry{std::move(image), operation, block, {}});
  const auto &arguments = op->schema().arguments();
  for (size_t i = 0; i + outputs < arguments.size(); i++)
    entry->parameters.push_back(parameter_of(arguments[i], operation));
  tb_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.flags = TB_KERNEL_MAKE_DENSE | TB_KERNEL_CAPTURABLE;
  kernel.name = entry->image->entry().c_str();
  kernel.operation = entry->operation.c_str();
  kernel.dtypes = dtypes;
  kernel.layouts = TB_LAYOUT_DENSE;
  kernel.max_dims = TB_IMAGE_TENSOR_DIMS;
  kernel.plan = &plan;
  kernel.run = &run;
  serve(std::make_unique<Entry>(kernel, entry.get(), source));
  entry.release(); // NOLINT: it lives as long as the process
}

} // namespace tb::ops::vendor
