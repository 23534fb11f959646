#include "tb/tensor_caster.h"

#include "code/kernel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "device/components.h"

namespace nb = nanobind;

// Of the OpenMP that libtorch carries.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace tb {
namespace {

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
  tb_stream *stream = components.stream.current(device);
  if (!stream) raise(TB_OUT_OF_RANGE, "current", device);
  const Driver driver = open_driver();
  TORCH_CHECK_NOT_IMPLEMENTED(driver.api->groups & TB_GROUP_CLOSURE, kind_->name,
                              ": the driver runs no host code on its streams");
  void *storage = nullptr;
  const uint64_t bytes = sizeof(void *) * slots.size();
  check(driver.api->closure_reserve(driver.self, stream, sizeof(Queued) + bytes, &storage), "closure_reserve", device);
  auto *queued = new (storage) Queued{entry_, at::get_num_threads()};
  std::memcpy(queued + 1, slots.data(), bytes);
  check(driver.api->closure_commit(driver.self, stream, storage, kind_), "closure_commit", device);
}

} // namespace tb
