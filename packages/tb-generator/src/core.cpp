// The Python extension: states, fills of buffers, and the exported table.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <utility>

#include "elementary.h"
#include "instruction_set.h"
#include "parallel.h"
#include "philox.h"
#include "table.h"
#include "tb/component_python.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::generator {
namespace {

// A generator of Python's: owned by it, or a device's own.
class Handle {
public:
  explicit Handle(uint64_t seed) : owned_(true), generator_(new tb_generator{{seed, 0}}) {}
  explicit Handle(tb_generator &generator) : owned_(false), generator_(&generator) {}
  Handle(Handle &&other) noexcept : owned_(std::exchange(other.owned_, false)), generator_(other.generator_) {}
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  ~Handle() {
    if (owned_) delete generator_;
  }
  tb_generator &operator*() const { return *generator_; }

private:
  bool owned_;
  tb_generator *generator_;
};

class Buffer {
public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_WRITABLE) != 0) throw nb::python_error();
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }
  char *data() const { return static_cast<char *>(view_.buf); }
  uint64_t size() const { return static_cast<uint64_t>(view_.len); }

private:
  Py_buffer view_{};
};

// fill(dst, range) for the elements `first` to `first` + count of the buffer. The buffer is held, Python's lock is not.
template <class Fill>
void fill_buffer(nb::handle out, int32_t type, uint64_t first, uint64_t count, uint32_t threads, const Fill &fill) {
  const uint32_t size = element_size(type);
  const Buffer buffer(out);
  if (!size || count > buffer.size() / size)
    throw Refusal{TB_INVALID_ARGUMENT, "a fill of " + std::to_string(count) + " elements of type " +
                                           std::to_string(type) + " into a buffer of " + std::to_string(buffer.size()) +
                                           " bytes: the type is unknown or the buffer too small"};
  const nb::gil_scoped_release release;
  fill(buffer.data(), Range{first, 0}); // refuses what it must before threads start, where nothing could catch it
  in_parallel(count, threads,
              [&](uint64_t start, uint64_t part) { fill(buffer.data() + start * size, Range{first + start, part}); });
}

void translate(const std::exception_ptr &error, void *) {
  try {
    std::rethrow_exception(error);
  } catch (const Refusal &refusal) {
    PyObject *type = refusal.status == TB_OUT_OF_RANGE  ? PyExc_IndexError
                     : refusal.status == TB_UNAVAILABLE ? PyExc_RuntimeError
                                                        : PyExc_ValueError;
    PyErr_SetString(type, refusal.text.c_str());
  }
}

constexpr tb_export record = {{'t', 'b', 'e', 'x', 'p', 'o', 'r', 't'},
                              TB_GENERATOR_API_MAJOR,
                              TB_GENERATOR_API_MINOR,
                              sizeof(tb_generator_table),
                              "tb-generator",
                              TB_PACKAGE_VERSION,
                              TB_PLATFORM,
                              &table};

void connect() {
  if (!tb_import("tb-generator", "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 0, &device_table,
                 sizeof device_table))
    throw nb::python_error();
}

} // namespace
} // namespace tb::generator

using namespace tb::generator;

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  module.attr(TB_EXPORT_ATTRIBUTE) = nb::capsule(&record, TB_EXPORT_CAPSULE);
  module.attr("DEFAULT_SEED") = default_seed;
  module.def("_connect", connect, "Finds tb-device's function table. ImportError if it is missing or does not match.");

  nb::class_<Handle>(module, "State", "A seed and an offset that any number of threads may use.")
      .def(nb::init<uint64_t>(), "seed"_a)
      .def(
          "get",
          [](const Handle &self) {
            const State state = get_state(*self);
            return std::pair(state.seed, state.offset);
          },
          "Seed and offset.")
      .def(
          "set", [](const Handle &self, uint64_t seed, uint64_t offset) { set_state(*self, {seed, offset}); }, "seed"_a,
          "offset"_a)
      .def(
          "reserve",
          [](const Handle &self, uint64_t words) {
            const State state = reserve(*self, words);
            return std::pair(state.seed, state.offset);
          },
          "words"_a, "Seed and offset of the next `words` 32-bit words, which nobody else gets.");

  module.def(
      "default_state", [](int32_t device) { return Handle(default_generator(device, known_device_count())); },
      "device"_a, "The state of a device's own generator.");
  module.def("seed_all", seed_all, "seed"_a, "Seeds the devices' own generators, also those made later.");
  module.def(
      "current_device", [] { return device_table.current_device(); }, "This thread's current device; opens no driver.");
  module.def(
      "philox", [](tb::philox::Block counter, tb::philox::Key key) { return tb::philox::block(counter, key); },
      "counter"_a, "key"_a, "One block of Philox4x32-10.");
  module.def("words_needed", words_needed, "kind"_a, "type"_a, "count"_a,
             "32-bit words that a fill takes out of the sequence; 0 where there is no such fill.");
  module.def(
      "instruction_sets",
      [] {
        nb::list out;
        for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
          if (is_available(set)) out.append(name_of(set));
        return out;
      },
      nb::sig("def instruction_sets() -> list[str]"), "Those of this processor that fills can use, the best one last.");
  module.def("instruction_set", [] { return name_of(instruction_set()); }, "The one in use.");
  module.def(
      "use_instruction_set",
      [](const std::string &name) {
        for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
          if (name == name_of(set) && use(set)) return;
        throw nb::value_error(("there is no instruction set '" + name + "' on this processor").c_str());
      },
      "name"_a, "Fills use it from now on; the bits are the same.");
  module.def(
      "ulp_bounds", [] { return std::tuple(ulp_negative_log, ulp_cosine, ulp_sine); },
      "Of the errors of negative_log, cosine and sine.");
  module.def(
      "elementary",
      [](const std::vector<uint64_t> &random, bool wide) {
        std::vector<std::tuple<double, double, double>> out;
        for (const uint64_t one : random) {
          if (wide) {
            const Direction<double> towards = direction(one);
            out.emplace_back(negative_log(one), towards.cosine, towards.sine);
          } else {
            const Direction<float> towards = direction(static_cast<uint32_t>(one));
            out.emplace_back(negative_log(static_cast<uint32_t>(one)), towards.cosine, towards.sine);
          }
        }
        return out;
      },
      "random"_a, "wide"_a,
      "For tests: negative_log, cosine and sine of words (wide: of 53 bits), as elementary.h has them.");

  module.def(
      "uniform",
      [](nb::handle out, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset, double low,
         double high, uint32_t threads) {
        fill_buffer(out, type, first, count, threads,
                    [&](void *dst, Range range) { uniform(dst, type, range, {seed, offset}, low, high); });
      },
      "out"_a, "type"_a, "first"_a, "count"_a, "seed"_a, "offset"_a, "low"_a, "high"_a, "threads"_a,
      "Fills elements `first` to `first` + `count` of a sequence: from low to high, high not included.");
  module.def(
      "normal",
      [](nb::handle out, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset, double mean,
         double std, uint32_t threads) {
        fill_buffer(out, type, first, count, threads,
                    [&](void *dst, Range range) { normal(dst, type, range, {seed, offset}, mean, std); });
      },
      "out"_a, "type"_a, "first"_a, "count"_a, "seed"_a, "offset"_a, "mean"_a, "std"_a, "threads"_a,
      "Fills elements `first` to `first` + `count` of a sequence: of the normal distribution.");
  module.def(
      "integers",
      [](nb::handle out, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset, int64_t low,
         uint64_t width, uint32_t threads) {
        fill_buffer(out, type, first, count, threads,
                    [&](void *dst, Range range) { integers(dst, type, range, {seed, offset}, low, width); });
      },
      "out"_a, "type"_a, "first"_a, "count"_a, "seed"_a, "offset"_a, "low"_a, "width"_a, "threads"_a,
      "Fills elements `first` to `first` + `count` of a sequence: `width` integers from `low` on; 0: 2**64.");
  module.def(
      "bernoulli",
      [](nb::handle out, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset, double p,
         uint32_t threads) {
        fill_buffer(out, type, first, count, threads,
                    [&](void *dst, Range range) { bernoulli(dst, type, range, {seed, offset}, p); });
      },
      "out"_a, "type"_a, "first"_a, "count"_a, "seed"_a, "offset"_a, "p"_a, "threads"_a,
      "Fills elements `first` to `first` + `count` of a sequence: 1 with probability p.");
  module.def(
      "exponential",
      [](nb::handle out, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset, double rate,
         uint32_t threads) {
        fill_buffer(out, type, first, count, threads,
                    [&](void *dst, Range range) { exponential(dst, type, range, {seed, offset}, rate); });
      },
      "out"_a, "type"_a, "first"_a, "count"_a, "seed"_a, "offset"_a, "rate"_a, "threads"_a,
      "Fills elements `first` to `first` + `count` of a sequence: with density rate * exp(-rate * x).");
}
