// Bindings of the kernels that run on the device.
#include "device_kernels.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "backends/jit/compiler/compiler.h"
#include "backends/jit/compiler/image_cache.h"
#include "backends/jit/compiler/image_pack.h"
#include "backends/jit/device_facts.h"
#include "backends/jit/device_kernel.h"
#include "backends/jit/generated_kernel.h"
#include "backends/jit/jit.h"
#include "backends/vendor/image.h"
#include "tb/tensor_caster.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::ops {
namespace {

using InstanceRow = std::tuple<std::string, std::string, std::string, unsigned, bool>;

jit::Instance instance(const InstanceRow &row, const std::string &defines) {
  const auto &[header, body, arguments, threads, synchronizing] = row;
  return {header, body, arguments, threads, synchronizing, defines};
}

// Makes a compiler for no particular device: "nvrtc", "host" or a command.
std::unique_ptr<jit::Compiler> make_compiler(const std::string &name, const std::string &architecture,
                                             const std::string &shim) {
  if (name == "nvrtc") return jit::make_nvrtc_compiler(architecture);
  if (name == "host") return jit::make_host_compiler();
  return jit::make_command_compiler("--compiler", jit::command_words(name), "",
                                    shim.empty() ? jit::own_shim("shim_cuda.cuh") : jit::read_shim(shim, "--shim"));
}

using Dimensions = std::tuple<uint32_t, uint32_t, uint32_t>;

void launch_image(vendor::Image &image, int device, Dimensions grid, Dimensions block, uint64_t shared_memory,
                  const std::vector<nb::bytes> &parameters) {
  vendor::Image::Launch launch{{std::get<0>(grid), std::get<1>(grid), std::get<2>(grid)},
                               {std::get<0>(block), std::get<1>(block), std::get<2>(block)},
                               shared_memory,
                               {}};
  for (const nb::bytes &bytes : parameters) launch.arguments.emplace_back(bytes.c_str(), bytes.size());
  const nb::gil_scoped_release released;
  image.launch(static_cast<c10::DeviceIndex>(device), launch);
}

} // namespace

void bind_device_kernels(nb::module_ &m) {
  m.def("set_kernel_folder", &jit::set_header_folder, "folder"_a,
        "Where the sources of device kernels are installed; before the first of them runs.");
  m.def("add_image_pack", &jit::add_image_pack, "folder"_a,
        "Names a pack of images; before initialize(), which reads it.");
  m.def(
      "kernel_images",
      [] {
        const jit::ImageCounts counts = jit::image_counts();
        return nb::make_tuple(counts.compiled, counts.found, jit::cache_folder(), counts.packed);
      },
      nb::sig("def kernel_images() -> tuple[int, int, str, int]"),
      "Device kernels that this process compiled, those that it found in the cache, the cache's folder, and those of "
      "packs.");
  m.def("missing_compiler", &jit::missing_compiler,
        "Why tb-ops' kernels do not run although the open driver loads modules, and what to do; \"\" if they do.");
  m.def(
      "lacks",
      [](int device) {
        const jit::DeviceFacts facts = jit::facts_of(static_cast<c10::DeviceIndex>(device));
        std::vector<std::string> out;
        if (!facts.float64) out.push_back("float64");
        if (!facts.atomic64) out.push_back("atomic64");
        if (!facts.float_atomics) out.push_back("float_atomics");
        if (!facts.fma) out.push_back("fma");
        return out;
      },
      "device"_a, "What a device's kernels do without (TB_LACKS_* of tb/driver.h); after initialize().");
  m.def("generated_kernels_obstacle", &jit::generated_kernels_obstacle,
        "Why the open driver's devices do not run kernels that tb-compile generates; \"\" if they do.");
  m.def(
      "used_kernels",
      [] {
        std::vector<InstanceRow> out;
        for (const jit::Instance &one : jit::used_instances())
          out.emplace_back(one.header, one.body, one.arguments, one.threads, one.synchronizing);
        return out;
      },
      nb::sig("def used_kernels() -> list[tuple[str, str, str, int, bool]]"),
      "(header, function, argument struct, threads, whether it synchronizes) of each kernel that this process has "
      "used.");
  m.def(
      "kernel_defines", [](bool float64, bool fma) { return jit::kernel_defines({float64, true, true, fma}); },
      "float64"_a, "fma"_a, "The lines before a kernel's text for a device that has these or lacks them.");
  m.def(
      "architecture", [](int device) { return jit::architecture_of(static_cast<c10::DeviceIndex>(device)); },
      "device"_a, "The device's architecture; after initialize().");
  nb::class_<jit::Compiler>(m, "KernelCompiler", "A compiler of device kernels.")
      .def_static("of_device", &jit::make_compiler, "device"_a, "architecture"_a,
                  "The one that serves the device; after initialize(). RuntimeError if none is known.")
      .def_static("named", &make_compiler, "name"_a, "architecture"_a, "shim"_a,
                  "\"nvrtc\", \"host\", or a command that gets `-o IMAGE SOURCE`, with a shim's file (\"\": CUDA's).")
      .def(
          "begin_pack",
          [](const jit::Compiler &compiler, const std::string &folder, const std::string &architecture) {
            jit::ImagePack(folder, architecture).create(compiler.shim());
          },
          "folder"_a, "architecture"_a,
          "Makes a pack's folder for the architecture. RuntimeError if it has images that another shim made.")
      .def(
          "compile_into",
          [](const jit::Compiler &compiler, const std::string &folder, const std::string &architecture,
             const InstanceRow &row, const std::string &defines) {
            const jit::ImagePack pack(folder, architecture);
            const jit::Instance kernel = instance(row, defines);
            if (const std::string there = pack.find(kernel); !there.empty()) return there.size();
            const std::string image = compiler.compile(jit::make_source(kernel, compiler.shim()));
            pack.write(kernel, image);
            return image.size();
          },
          "folder"_a, "architecture"_a, "kernel"_a, "defines"_a, nb::call_guard<nb::gil_scoped_release>(),
          nb::sig("def compile_into(self, folder: str, architecture: str, kernel: tuple[str, str, str, int, bool], "
                  "defines: str) -> int"),
          "Compiles a kernel into a pack that begin_pack() made, unless the pack has it, and returns the image's "
          "bytes. "
          "RuntimeError with the compiler's messages. Any thread may call this.");
}

void bind_images(nb::module_ &m) {
  nb::class_<vendor::Image>(m, "Image", "A kernel in an image of the driver's module_load (tb/image_kernel.h).");
  m.def(
      "image",
      [](nb::bytes bytes, const std::string &entry) {
        return std::make_shared<vendor::Image>(std::string(bytes.c_str(), bytes.size()), entry);
      },
      "image"_a, "entry"_a, "Loaded on a device when it first runs there.");
  m.def(
      "image_parameter",
      [](const std::optional<at::Tensor> &tensor) {
        const std::string bytes = vendor::image_parameter(tensor.value_or(at::Tensor()));
        return nb::bytes(bytes.data(), bytes.size());
      },
      "tensor"_a.none(), "The bytes of a parameter that is a tensor, or an absent one.");
  m.def("launch_image", &launch_image, "image"_a, "device"_a, "grid"_a, "block"_a, "shared_memory"_a, "parameters"_a,
        "Queues a launch on the device's current stream. Each parameter is its bytes.");
  m.def(
      "launch_image_elements",
      [](vendor::Image &image, int device, int64_t elements, uint32_t block, const std::vector<nb::bytes> &parameters) {
        std::vector<std::string> given;
        for (const nb::bytes &bytes : parameters) given.emplace_back(bytes.c_str(), bytes.size());
        const nb::gil_scoped_release released;
        image.launch_elements(static_cast<c10::DeviceIndex>(device), elements, block, std::move(given));
      },
      "image"_a, "device"_a, "elements"_a, "block"_a, "parameters"_a,
      "Queues a thread for each element, in blocks of at most `block` threads.");
  m.def("serve_by_image", &vendor::serve_by_image, "image"_a, "operation"_a, "source"_a, "dtypes"_a, "block"_a,
        nb::call_guard<nb::gil_scoped_release>(),
        "The image serves an operator, by its overload with out=, for tensors of these dtypes (bits of TB_DTYPE_BIT).");
}

} // namespace tb::ops
