// The Python extension: states, fills of buffers, and the exported table.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <utility>

#include "bits.h"
#include "elementary.h"
#include "instruction_set.h"
#include "parallel.h"
#include "philox.h"
#include "sampling.h"
#include "table.h"
#include "target.h"
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

void dropout_buffers(const Target &source, const Target &out, const Target *mask, uint64_t seed, uint64_t offset,
                     double keep, double scale, uint32_t threads) {
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
          "words"_a, "Seed and offset of the next `words` 32-bit words, which nobody else gets.")
      .def(
          "capture_begin", [](const Handle &self) { capture_begin(*self); }, "See tb/component.h.")
      .def(
          "capture_end", [](const Handle &self) { return capture_end(*self); }, "Words that one run takes.")
      .def("is_capturing", [](const Handle &self) { return is_capturing(*self); });

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
      "ulp_bounds", [] { return std::tuple(ulp_negative_log, ulp_cosine, ulp_sine, ulp_exponential); },
      "Of the errors of negative_log, cosine, sine and exponential.");
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
      "For tests: negative_log, cosine and sine of words (wide: of 64 bits), as elementary.h has them.");
  module.def(
      "exponentials",
      [](const std::vector<double> &numbers, bool wide) {
        std::vector<double> out;
        for (const double one : numbers)
          out.push_back(wide ? exponential(one) : static_cast<double>(exponential(static_cast<float>(one))));
        return out;
      },
      "numbers"_a, "wide"_a, "For tests: exponential of float64 numbers, or of float32 ones.");

  nb::class_<Target>(module, "Target", "The elements of a buffer or DLPack tensor, in row-major order.")
      .def(nb::init<nb::handle, int32_t, bool>(), "object"_a, "type"_a, "writable"_a)
      .def_prop_ro("type", &Target::type)
      .def_prop_ro("count", &Target::count)
      .def_prop_ro("contiguous", &Target::contiguous);
  module.def(
      "fill",
      [](const Target &out, int32_t kind, std::array<double, 4> numbers, int64_t from, uint64_t width, uint64_t seed,
         uint64_t offset, uint64_t start, uint32_t threads) {
        const auto [first, second, low, high] = numbers;
        const Distribution distribution{kind, first, second, low, high, from, width};
        const nb::gil_scoped_release release;
        out.run(start, threads,
                [&](void *dst, Range range) { fill(distribution, dst, out.type(), range, {seed, offset}); });
      },
      "out"_a, "kind"_a, "numbers"_a, "from_"_a, "width"_a, "seed"_a, "offset"_a, "start"_a, "threads"_a,
      "Fills with the elements `start` and following of a sequence. kind: TB_FILL_*.");
  module.def(
      "check_fill",
      [](int32_t kind, int32_t type, std::array<double, 4> numbers, int64_t from, uint64_t width) {
        const auto [first, second, low, high] = numbers;
        fill({kind, first, second, low, high, from, width}, nullptr, type, {0, 0}, {0, 0});
      },
      "kind"_a, "type"_a, "numbers"_a, "from_"_a, "width"_a, "ValueError where the fill would be refused.");
  module.def("dropout", dropout_buffers, "source"_a, "out"_a, "mask"_a.none(), "seed"_a, "offset"_a, "keep"_a,
             "scale"_a, "threads"_a, "out = source * mask * scale; mask: bernoulli(keep).");
  module.def(
      "permutation",
      [](const Target &out, uint64_t seed, uint64_t offset) {
        const nb::gil_scoped_release release;
        permutation(reinterpret_cast<int64_t *>(out.data()), out.count(), {seed, offset});
      },
      "out"_a, "seed"_a, "offset"_a, "Fills int64 elements with 0 to count - 1 in random order.");
  module.def(
      "multinomial",
      [](const Target &out, const Target &weights, bool replacement, uint64_t seed, uint64_t offset) {
        const nb::gil_scoped_release release;
        multinomial(reinterpret_cast<int64_t *>(out.data()), out.count(),
                    reinterpret_cast<const double *>(weights.data()), weights.count(), replacement, {seed, offset});
      },
      "out"_a, "weights"_a, "replacement"_a, "seed"_a, "offset"_a, "Fills int64 elements with classes.");

  nb::class_<Bits>(module, "Bits", "A stream of words behind NumPy's bitgen_t.")
      .def(nb::init<uint64_t>(), "seed"_a)
      .def(
          "get", [](const Bits &self) { return std::tuple(self.seed(), self.block(), self.place()); },
          "Seed, block and place in the block of the next word.")
      .def("set", &Bits::set, "seed"_a, "block"_a, "place"_a)
      .def("next_pair", &Bits::next_pair, "The next 64 bits.")
      .def(
          "capsule", [](Bits &self) { return nb::capsule(&self.interface, "BitGenerator"); },
          "Valid as long as this object lives.");
}
