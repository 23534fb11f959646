#include "tb/tensor_caster.h"

#include "code/kernel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "tb/component_python.h"
#include "tb/failures.h"

namespace nb = nanobind;

// Of the OpenMP that libtorch carries.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace tb {
namespace {

tb_device_table device_table;
tb_stream_table stream_table;

[[noreturn]] void raise(tb_status status, const char *function, int32_t device) {
  char text[2048] = "";
  device_table.describe_error(status, function, device, text, sizeof text);
  throw_failure(status, function, text, Failed::call);
}

void check(tb_status status, const char *function, int32_t device) {
  if (status != TB_OK) [[unlikely]]
    raise(status, function, device);
}

// What lies in the queue: this, and behind it the arguments.
struct alignas(TB_CLOSURE_ALIGNMENT) Queued {
  HostKernel::Entry entry;
  int threads; // that PyTorch was told to use where the call was made
};

// Threads for a loop, as at::get_num_threads() has them: one is the host's while it goes on producing work.
class Threads {
public:
  explicit Threads(int wanted) : before_(omp_get_max_threads()), wanted_(wanted) {
    if (wanted_ != before_) omp_set_num_threads(wanted_);
  }
  ~Threads() {
    if (wanted_ != before_) omp_set_num_threads(before_);
  }
  Threads(const Threads &) = delete;
  Threads &operator=(const Threads &) = delete;

private:
  const int before_, wanted_;
};

tb_status run(void *storage, const tb_closure_context *context) {
  auto *queued = static_cast<Queued *>(storage);
  const Threads threads(context->waiters == 0 ? std::max(1, queued->threads - 1) : queued->threads);
  try {
    queued->entry(reinterpret_cast<void **>(queued + 1));
    return TB_OK;
  } catch (const std::exception &error) {
    if (context->error_capacity) std::snprintf(context->error_text, context->error_capacity, "%s", error.what());
    return TB_FAILED_PRECONDITION;
  } catch (...) {
    return TB_UNKNOWN;
  }
}

void destroy(void *) {}

} // namespace

void connect_components() {
  static bool done = false; // under Python's lock
  if (done) return;
  constexpr const char *me = "tb-compile";
  if (!tb_import(me, "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 0, &device_table, sizeof device_table) ||
      !tb_import(me, "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 0, &stream_table, sizeof stream_table))
    throw nb::python_error();
  done = true;
}

HostKernel::HostKernel(uint64_t entry, std::string name, const std::vector<std::string> &types)
    : entry_(reinterpret_cast<Entry>(entry)) {
  for (const std::string &type : types) {
    TORCH_CHECK_VALUE(type == "pointer" || type == "integer" || type == "float", "'", type,
                      "' is no type of an argument: pointer, integer or float");
    types_.push_back(type == "pointer" ? Type::pointer : type == "integer" ? Type::integer : Type::real);
  }
  // Queued work may outlive everything but the driver.
  const auto *kept = new std::string(std::move(name));
  kind_ = new tb_closure{sizeof(tb_closure), 0, kept->c_str(), &run, &destroy};
}

void HostKernel::call(nb::args arguments) const {
  TORCH_CHECK(arguments.size() == types_.size() + 1, kind_->name, ": ", types_.size() + 1, " arguments, but got ",
              arguments.size());
  // All of them before there is a place in the queue: reading one may fail.
  std::vector<void *> slots(types_.size());
  for (size_t i = 0; i < types_.size(); i++) {
    const nb::handle given = arguments[i];
    if (types_[i] == Type::pointer) {
      TORCH_CHECK_TYPE(tensor_check(given.ptr()), kind_->name, ": argument ", i, " is no tensor");
      slots[i] = const_cast<void *>(tensor_unpack(given.ptr()).const_data_ptr());
    } else if (types_[i] == Type::integer) {
      const int64_t number = nb::cast<int64_t>(given);
      std::memcpy(&slots[i], &number, sizeof number);
    } else {
      const double number = nb::cast<double>(given);
      std::memcpy(&slots[i], &number, sizeof number);
    }
  }
  const int32_t device = nb::cast<int32_t>(arguments[types_.size()]);
  tb_stream *stream = stream_table.current(device);
  if (!stream) raise(TB_OUT_OF_RANGE, "current", device);
  const tb_driver_api *driver = nullptr;
  tb_driver *self = nullptr;
  check(device_table.driver(&driver, &self), "driver", device);
  TORCH_CHECK_NOT_IMPLEMENTED(driver->groups & TB_GROUP_CLOSURE, kind_->name,
                              ": the driver runs no host code on its streams");
  void *storage = nullptr;
  const uint64_t bytes = sizeof(void *) * slots.size();
  check(driver->closure_reserve(self, stream, sizeof(Queued) + bytes, &storage), "closure_reserve", device);
  auto *queued = new (storage) Queued{entry_, at::get_num_threads()};
  std::memcpy(queued + 1, slots.data(), bytes);
  check(driver->closure_commit(self, stream, storage, kind_), "closure_commit", device);
}

} // namespace tb
