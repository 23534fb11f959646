// The extension tb_generator._core: states, fills of host arrays, and the exported table.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <utility>

#include "fill/sampling.h"
#include "philox/philox.h"
#include "processor/instruction_set.h"
#include "processor/parallel.h"
#include "python/host_array.h"
#include "python/numpy_bit_generator.h"
#include "table.h"
#include "tb/component_python.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::generator {
namespace {

// A generator as Python holds it. It owns the generator, unless it is a device's default one.
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

void dropout_buffers(const HostArray &source, const HostArray &out, const HostArray *mask, uint64_t seed,
                     uint64_t offset, double keep, double scale, uint32_t threads) {
  if (!source.contiguous() || !out.contiguous() || (mask && !mask->contiguous()) || source.type() != out.type() ||
      source.count() != out.count() || (mask && (mask->count() != out.count() || element_size(mask->type()) != 1)))
    throw Refusal{TB_INVALID_ARGUMENT,
                  "dropout: source, out and mask must be contiguous, of one size, source and out of "
                  "one dtype, the mask of bool. Copy what is not"};
  const uint64_t size = element_size(out.type());
  const nb::gil_scoped_release release;
  dropout(nullptr, nullptr, nullptr, out.type(), {0, 0}, {seed, offset}, keep, scale);
  in_parallel(out.count(), threads, [&](uint64_t first, uint64_t count) {
    dropout(source.data() + first * size, out.data() + first * size, mask ? mask->data() + first : nullptr, out.type(),
            {first, count}, {seed, offset}, keep, scale);
  });
}

void translate(const std::exception_ptr &error, void *) {
  try {
    std::rethrow_exception(error);
  } catch (const Refusal &refusal) {
    PyObject *type = refusal.status == TB_OUT_OF_RANGE                                              ? PyExc_IndexError
                     : refusal.status == TB_UNAVAILABLE || refusal.status == TB_FAILED_PRECONDITION ? PyExc_RuntimeError
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
  module.def("_connect", connect,
             "Imports tb-device's function table. ImportError if it is missing or does not match.");

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
          "words"_a, "Takes the next `words` 32-bit words; returns the seed and the offset where they start.")
      .def(
          "capture_begin", [](const Handle &self) { capture_begin(*self); },
          "Counts offsets from 0 until capture_end(). RuntimeError while a capture is in progress.")
      .def(
          "capture_end", [](const Handle &self) { return capture_end(*self); },
          "Restores the state from before the capture; returns the number of words that one run takes.")
      .def("is_capturing", [](const Handle &self) { return is_capturing(*self); });

  module.def(
      "default_state", [](int32_t device) { return Handle(default_generator(device, known_device_count())); },
      "device"_a, "The state of a device's default generator.");
  module.def("seed_all", seed_all, "seed"_a, "Seeds the devices' default generators, also those made later.");
  module.def(
      "current_device", [] { return device_table.current_device(); }, "This thread's current device; opens no driver.");
  module.def(
      "philox", [](philox::Block counter, philox::Key key) { return philox::block(counter, key); }, "counter"_a,
      "key"_a, "One block of Philox4x32-10.");
  module.def("words_needed", words_needed, "kind"_a, "type"_a, "count"_a,
             "The number of 32-bit words that a fill takes from the sequence; 0 if there is no such fill.");
  module.def(
      "instruction_sets",
      [] {
        nb::list out;
        for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
          if (is_available(set)) out.append(name_of(set));
        return out;
      },
      nb::sig("def instruction_sets() -> list[str]"),
      "The instruction sets of this processor that fills can use, the fastest one last.");
  module.def("instruction_set", [] { return name_of(instruction_set()); }, "The instruction set in use.");
  module.def(
      "use_instruction_set",
      [](const std::string &name) {
        for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
          if (name == name_of(set) && use(set)) return;
        throw nb::value_error(("there is no instruction set '" + name + "' on this processor").c_str());
      },
      "name"_a, "Selects the instruction set of fills. What they write does not change.");

  nb::class_<HostArray>(module, "HostArray", "The elements of a buffer or DLPack tensor, in row-major order.")
      .def(nb::init<nb::handle, int32_t, bool>(), "object"_a, "type"_a, "writable"_a)
      .def_prop_ro("type", &HostArray::type)
      .def_prop_ro("count", &HostArray::count)
      .def_prop_ro("contiguous", &HostArray::contiguous);
  module.def(
      "fill",
      [](const HostArray &out, int32_t kind, std::array<double, 4> numbers, int64_t from, uint64_t width, uint64_t seed,
         uint64_t offset, uint64_t start, uint32_t threads) {
        const auto [first, second, low, high] = numbers;
        const Distribution distribution{kind, first, second, low, high, from, width};
        const nb::gil_scoped_release release;
        out.run(start, threads,
                [&](void *dst, Range range) { fill(distribution, dst, out.type(), range, {seed, offset}); });
      },
      "out"_a, "kind"_a, "numbers"_a, "from_"_a, "width"_a, "seed"_a, "offset"_a, "start"_a, "threads"_a,
      "Writes element number `start` and the following ones of a sequence. kind: TB_FILL_*.");
  module.def(
      "check_fill",
      [](int32_t kind, int32_t type, std::array<double, 4> numbers, int64_t from, uint64_t width) {
        const auto [first, second, low, high] = numbers;
        fill({kind, first, second, low, high, from, width}, nullptr, type, {0, 0}, {0, 0});
      },
      "kind"_a, "type"_a, "numbers"_a, "from_"_a, "width"_a, "Raises the ValueError that the fill would raise.");
  module.def("dropout", dropout_buffers, "source"_a, "out"_a, "mask"_a.none(), "seed"_a, "offset"_a, "keep"_a,
             "scale"_a, "threads"_a, "out = source * mask * scale; mask: bernoulli(keep).");
  module.def(
      "permutation",
      [](const HostArray &out, uint64_t seed, uint64_t offset) {
        const nb::gil_scoped_release release;
        permutation(reinterpret_cast<int64_t *>(out.data()), out.count(), {seed, offset});
      },
      "out"_a, "seed"_a, "offset"_a, "Fills int64 elements with 0 to count - 1 in random order.");
  module.def(
      "multinomial",
      [](const HostArray &out, const HostArray &weights, bool replacement, uint64_t seed, uint64_t offset) {
        const nb::gil_scoped_release release;
        multinomial(reinterpret_cast<int64_t *>(out.data()), out.count(),
                    reinterpret_cast<const double *>(weights.data()), weights.count(), replacement, {seed, offset});
      },
      "out"_a, "weights"_a, "replacement"_a, "seed"_a, "offset"_a,
      "Fills int64 elements with classes drawn by their weights.");

  nb::class_<NumpyBitGenerator>(module, "NumpyBitGenerator", "A stream of words behind NumPy's bitgen_t.")
      .def(nb::init<uint64_t>(), "seed"_a)
      .def(
          "get", [](const NumpyBitGenerator &self) { return std::tuple(self.seed(), self.block(), self.position()); },
          "Seed, block, and position of the next word in the block.")
      .def("set", &NumpyBitGenerator::set, "seed"_a, "block"_a, "position"_a)
      .def("next_pair", &NumpyBitGenerator::next_pair, "The next 64 bits.")
      .def(
          "capsule", [](NumpyBitGenerator &self) { return nb::capsule(&self.interface, "BitGenerator"); },
          "A capsule of NumPy's bitgen_t. Valid as long as this object lives.");
}
