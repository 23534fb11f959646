// generator.cpp -- c10::GeneratorImpl over tb-generator's seed and offset.
//
// The state tensor is 16 bytes of CPU uint8: seed, then offset, both little-endian unsigned 64-bit integers. As
// elsewhere in PyTorch, callers hold mutex_ around a group of calls.
#include "generator.h"

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <tuple>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/TensorOptions.h>

#include "components.h"
#include "tb/philox_offset.h"
#include "tb/torch_versions.h"

namespace tb::backend {
namespace {

constexpr int64_t state_bytes = 16;
using State = std::shared_ptr<tb_generator>;

State make_state(uint64_t seed, uint64_t offset) {
  tb_generator *made = nullptr;
  check(components.generator.create(seed, &made), "create");
  components.generator.set_state(made, seed, offset);
  return {made, [](tb_generator *generator) { components.generator.destroy(generator); }};
}

at::Tensor number(int64_t value) {
  const at::TensorBase made = at::detail::empty_cpu({1}, c10::TensorOptions().dtype(c10::kLong));
  *made.mutable_data_ptr<int64_t>() = value;
  return at::Tensor(made);
}

struct Generator final : c10::GeneratorImpl {
  Generator(c10::DeviceIndex device, State state)
      : c10::GeneratorImpl(make_device(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  void set_current_seed(uint64_t seed) override {
    before_set_state(seed, 0);
    components.generator.set_state(state_.get(), seed, 0);
  }
  uint64_t current_seed() const override { return read().first; }
  uint64_t seed() override {
    const uint64_t seed = c10::detail::getNonDeterministicRandom();
    set_current_seed(seed);
    return seed;
  }
  void set_offset(uint64_t offset) override { components.generator.set_state(state_.get(), current_seed(), offset); }
  uint64_t get_offset() const override { return read().second; }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const auto [seed, offset] = read();
    at::TensorBase tensor = at::detail::empty_cpu({state_bytes}, c10::TensorOptions().dtype(c10::kByte));
    auto *bytes = static_cast<char *>(tensor.mutable_data_ptr());
    std::memcpy(bytes, &seed, 8);
    std::memcpy(bytes + 8, &offset, 8);
    return tensor.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl &state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK_VALUE(state.numel() == state_bytes, "a tb generator's state has ", state_bytes, " bytes, but got ",
                      state.numel(), ": it must come from get_state of a tb generator");
    const auto *bytes = static_cast<const char *>(state.data());
    uint64_t seed = 0, offset = 0;
    std::memcpy(&seed, bytes, 8);
    std::memcpy(&offset, bytes + 8, 8);
    before_set_state(seed, offset);
    components.generator.set_state(state_.get(), seed, offset);
  }
  // "Graph safe": the new generator shares this one's state instead of copying it.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Generator>(device_.index(), state_);
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl> &other) override {
    auto *mine = dynamic_cast<Generator *>(other.get());
    TORCH_CHECK_TYPE(mine, "expected a generator of a tb device");
    state_ = mine->state_;
  }
  // Reserves numbers for a kernel that is not tb-ops'. Overrides what only newer versions of PyTorch have. Captures are known
  // to tb-ops, which reserves for its own kernels.
  void philox_state(uint64_t increment, at::Tensor &seed, at::Tensor &offset, at::Tensor &intragraph_offset) {
    const uint64_t counters = increment / 4 + (increment % 4 != 0);
    if (__atomic_load_n(components.stream.capturing, __ATOMIC_RELAXED) == 0) {
      const auto [start_seed, start] = read();
      seed = number(static_cast<int64_t>(start_seed));
      offset = number(offset_in_words(start));
      intragraph_offset = number(0);
      components.generator.set_state(state_.get(), start_seed, (start + counters) % counters_of_pytorch);
      return;
    }
    ensure_ready();
    using Reserve = std::tuple<at::Tensor, int64_t, int64_t>(std::optional<at::Generator>, int64_t);
    static const auto reserve =
        c10::Dispatcher::singleton().findSchemaOrThrow("tb::reserve_random", "").typed<Reserve>();
    const auto self = c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(this);
    const auto [at_launch, start_seed, start] = reserve.call(at::Generator(self), static_cast<int64_t>(counters));
    seed = at_launch.defined() ? at_launch.slice(0, 0, 1) : number(start_seed);
    offset = at_launch.defined() ? at_launch.slice(0, 1, 2) : number(start);
    intragraph_offset = number(at_launch.defined() ? start : 0);
  }

private:
  // Tells tb-ops, which knows the captures.
  void before_set_state(uint64_t seed, uint64_t offset) {
    if (readiness.load() != Readiness::ready || __atomic_load_n(components.stream.capturing, __ATOMIC_RELAXED) == 0)
      return;
    using Before = void(std::optional<at::Generator>, int64_t, int64_t);
    static const auto before =
        c10::Dispatcher::singleton().findSchemaOrThrow("tb::set_random_state", "").typed<Before>();
    before.call(at::Generator(c10::intrusive_ptr<c10::GeneratorImpl>::reclaim_copy(this)), static_cast<int64_t>(seed),
                static_cast<int64_t>(offset));
  }
  Generator *clone_impl() const override {
    const auto [seed, offset] = read();
    return new Generator(device_.index(), make_state(seed, offset));
  }
  std::pair<uint64_t, uint64_t> read() const {
    uint64_t seed = 0, offset = 0;
    components.generator.get_state(state_.get(), &seed, &offset);
    return {seed, offset};
  }

  State state_;
};

c10::DeviceIndex number_of(c10::DeviceIndex device) {
  return device >= 0 ? device : static_cast<c10::DeviceIndex>(components.device.current_device());
}

static_assert(PhiloxStateAgrees<c10::GeneratorImpl>);

} // namespace

const at::Generator &default_generator(c10::DeviceIndex device) {
  static std::mutex mutex;
  static auto &made = *new std::array<at::Generator, 128>; // never destroyed
  const c10::DeviceIndex number = number_of(device);
  std::lock_guard<std::mutex> lock(mutex);
  at::Generator &generator = made[number];
  if (!generator.defined()) {
    tb_generator *own = nullptr;
    check(components.generator.default_generator(number, &own), "default_generator", number);
    generator = at::make_generator<Generator>(number, State(own, [](tb_generator *) {})); // tb-generator owns it
  }
  return generator;
}

at::Generator new_generator(c10::DeviceIndex device) {
  TORCH_CHECK(device <= 0 || device < device_count(), "there is no device tb:", static_cast<int>(device),
              " for a generator; the driver has ", static_cast<int>(device_count()), ", counted from 0");
  // An operator to which it is given finds tb's kernels by it, on a tensor of any device. A forked child cannot use them.
  if (!in_bad_fork()) make_ready();
  return at::make_generator<Generator>(number_of(device), make_state(c10::default_rng_seed_val, 0));
}

} // namespace tb::backend
