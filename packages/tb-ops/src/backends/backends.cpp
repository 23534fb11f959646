// The list of backends, and the registration of all operators.
#include "backends/backends.h"

#include <c10/core/Allocator.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "backends/host/cpu_kernels.h"
#include "backends/host/host.h"
#include "backends/host_copy/host_copy.h"
#include "backends/jit/jit.h"
#include "backends/sync_batch_norm.h"
#include "backends/vendor/table.h"
#include "backends/vendor/vendor.h"
#include "custom/custom.h"
#include "dispatch/fallback.h"
#include "dispatch/replacing_kernels.h"
#include "dispatch/routes.h"
#include "dispatch/tensor_kinds.h"
#include "launch/launch_blocking.h"
#include "runtime/late_warning_report.h"
#include "runtime/runtime.h"
#include "tensor/copy.h"
#include "tensor/factories.h"

namespace tb::ops {
namespace {

template <bool (*serves)(const Runtime &), void (*install)(torch::Library &, torch::Library &)>
constexpr tb_operator_backend row(const char *name, const char *description, const char *rule) {
  return {sizeof(tb_operator_backend),
          torch_major,
          torch_minor,
          0,
          name,
          description,
          rule,
          nullptr,
          [](const tb_driver_api *, tb_driver *) -> int32_t { return serves(runtime); },
          [](const tb_operator_libraries *to) {
            install(*static_cast<torch::Library *>(to->aten), *static_cast<torch::Library *>(to->autograd));
          }};
}

// In the order in which they register.
constexpr tb_operator_backend rows[] = {
    row<&host::serves, &host::install>("host",
                                       "PyTorch's CPU kernels, run by the driver's worker on the device's memory",
                                       "memory that the host may touch, and the group CLOSURE"),
    row<&jit::serves, &jit::install>(
        "jit", "kernels of tb-ops, compiled when they first run; random numbers only, beside torch_cuda",
        "no native closures, the groups ASYNC and MODULE, and a compiler or a pack of images for the "
        "device's architecture"),
    row<&host_copy::serves, &host_copy::install>(
        "host_copy", "random numbers and dropout made on the host; all else by the counted fallback",
        "every driver that host does not serve"),
    row<&vendor::serves, &vendor::install>(
        "vendor", "a vendor's own kernels (tb/kernels.h), in front of the kernels of the others",
        "the extension tb.kernels, an entry point tb.kernels with a library for the driver, or images that a program "
        "adds"),
};

std::vector<OperatorBackend> row_list() {
  std::vector<OperatorBackend> out;
  for (const tb_operator_backend &row : rows) out.push_back({&row, own_source});
  return out;
}

std::mutex lock;
bool done = false;
std::vector<OperatorBackend> all = row_list();
std::vector<BackendState> states;

using Place = std::vector<OperatorBackend>::const_iterator;

Place find(const std::vector<OperatorBackend> &list, std::string_view name) {
  return std::ranges::find_if(list, [&](const OperatorBackend &each) { return each.table->name == name; });
}

std::string names(const std::vector<OperatorBackend> &list) {
  std::string out;
  for (const OperatorBackend &each : list) out += (out.empty() ? "" : ", ") + std::string(each.table->name);
  return out;
}

void check_table(const OperatorBackend &added) {
  const tb_operator_backend &table = *added.table;
  constexpr size_t least = offsetof(tb_operator_backend, install) + sizeof table.install; // of the first version
  TORCH_CHECK(table.struct_size >= least, added.source, ": its tb_operator_backend has ", table.struct_size,
              " bytes, and this tb-ops reads ", least, ". Set struct_size, and build the package again");
  TORCH_CHECK(table.torch_major == torch_major && table.torch_minor == torch_minor, added.source,
              " was built for torch ", table.torch_major, ".", table.torch_minor, ", the installed tb-ops for torch ",
              torch_major, ".", torch_minor, ". Build the package again");
  TORCH_CHECK(table.name && table.description && table.rule && table.serves && table.install, added.source,
              ": its tb_operator_backend has no ",
              !table.name          ? "name"
              : !table.description ? "description"
              : !table.rule        ? "rule"
              : !table.serves      ? "function `serves`"
                                   : "function `install`",
              ". See tb/operator_backend.h");
}

int32_t is_free(const char *operation) {
  const auto op = vendor::find_operation(operation);
  return !op || !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
}

void set_copy(int32_t (*copy)(const void *from, const void *to)) {
  static int32_t (*copy_)(const void *, const void *) = nullptr;
  copy_ = copy;
  set_element_copy([](const at::Tensor &from, const at::Tensor &to) { return copy_(&from, &to) != 0; });
}

// PyTorch's table of an operator shows where a kernel was registered: by which backend, of which source.
void install(const OperatorBackend &backend) {
  const auto *place = new std::string(c10::str(backend.table->name, " (", backend.source, ")"));
  auto *aten = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, place->c_str(), 0);
  auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, place->c_str(), 0);
  const ReplacingKernels replacing;
  const tb_operator_libraries libraries{sizeof libraries, 0, aten, autograd, &is_free, &set_copy};
  backend.table->install(&libraries);
}

} // namespace

void set_added_backends(const std::vector<OperatorBackend> &added) {
  std::vector<OperatorBackend> list = row_list();
  for (const OperatorBackend &each : added) {
    check_table(each);
    const tb_operator_backend &table = *each.table;
    const Place same = find(list, table.name);
    TORCH_CHECK(same == list.end(), "The operator backend ", table.name, " of ", each.source,
                " has the name of one of ", same->source, ". Uninstall one of the packages");
    const Place place = find(list, table.before ? table.before : "vendor");
    TORCH_CHECK(place != list.end(), "The operator backend ", table.name, " of ", each.source, " registers before ",
                table.before, ", which is not there. There are ", names(list));
    list.insert(place, each);
  }
  const std::lock_guard guard(lock);
  TORCH_CHECK(!done, "Operator backends cannot be added: the operators are registered");
  all = std::move(list);
}

std::vector<BackendState> backends() {
  std::vector<BackendState> out = states;
  if (!out.empty()) out.back().serves = !vendor::entries().empty(); // entries may be added at any time
  return out;
}

void initialize() {
  const std::lock_guard guard(lock);
  if (done) return;
  TORCH_CHECK(c10::GetAllocator(device_type) != nullptr,
              "tb-ops needs an allocator for the device type; import torch_backend, which registers it, first.");
  host::cpu_kernels(); // throws for an unknown value of its variable, before anything is registered
  open();
  block_launches();
  check(runtime.device.on_shutdown(&report_last_warnings, nullptr), "on_shutdown", -1);
  vendor::read_tables(); // they say which compilers there are, too
  std::vector<BackendState> decided;
  for (const OperatorBackend &each : all)
    decided.push_back({each, each.table->serves(runtime.driver, runtime.self) != 0});
  static auto *aten = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, own_source, 0);
  register_factories(*aten);
  register_routed_views(*aten);
  register_copies(*aten);
  register_fallback();
  register_tensor_kinds();
  for (const BackendState &state : decided)
    if (state.serves) install(state.backend);
  if (!has_default_kernel()) register_sync_batch_norm(*aten); // PyTorch's CUDA kernels have their own
  states = std::move(decided);
  done = true;
}

} // namespace tb::ops
