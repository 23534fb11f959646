// Runs PyTorch's own device-independent operator bodies (at::native::*) on tb tensors. They check the arguments,
// allocate and build a TensorIterator on the calling thread, then call a dispatch stub. tb-ops' entry in that stub
// sends the iterator's operands to the worker, which builds the same iterator over CPU tensors and calls the CPU's
// entry.
#pragma once
#include <ATen/TensorIterator.h>
#include <ATen/native/DispatchStub.h>

#include "launch/launch.h"

namespace tb::ops::host {

// How operands of different dtypes are converted. If an operator promotes them, PyTorch converts them itself on the
// CPU, but leaves it to the kernel on other devices; the iterator does not say which operators promote. `compare`
// converts inputs, and an output that is not bool, for which the comparison kernels have a case of their own.
enum class Types { as_given, compare, promote_all };

class IteratorArgument {
public:
  IteratorArgument(const at::TensorIteratorBase &iterator, Types types);
  // Calls kernel(TensorIterator &) with an iterator over CPU tensors. Runs on the worker.
  template <class Kernel> void run(const Kernel &kernel) {
    at::TensorIterator iterator = restore();
    kernel(iterator);
    write_back();
  }

private:
  struct Operand {
    TensorDescriptor tensor;
    c10::ScalarType wanted;
    at::Tensor converted; // only on the worker
  };
  at::TensorIterator restore();
  void write_back();

  c10::SmallVector<Operand, 4> operands_;
  int outputs_;
};

using ops::capture;
inline TensorDescriptor capture(const at::TensorBase &tensor) { return TensorDescriptor(at::Tensor(tensor)); }

template <auto &stub, Types types, class... Stored> struct IteratorCall {
  template <class... Arguments> explicit IteratorCall(const at::TensorIteratorBase &iterator, const Arguments &...given)
      : operands(iterator, types), arguments{capture(given)...} {}
  void operator()() {
    operands.run([&](at::TensorIterator &iterator) {
      std::apply([&](auto &...argument) { stub(c10::kCPU, iterator, materialize(argument)...); }, arguments);
    });
  }
  IteratorArgument operands;
  std::tuple<Stored...> arguments;
};

template <Name name, auto &stub, Types types, class Function = typename std::remove_reference_t<decltype(stub)>::FnPtr>
struct StubEntry;

template <Name name, auto &stub, Types types, class Iterator, class... Rest>
  requires std::derived_from<Iterator, at::TensorIteratorBase>
struct StubEntry<name, stub, types, void (*)(Iterator &, Rest...)> {
  static void launch(Iterator &iterator, Rest... rest) {
    // The iterator has refused outputs that overlap themselves.
    using Call = IteratorCall<stub, types, decltype(capture(rest))...>;
    launch_as<Call>(launched_as<Call, name>(), iterator.device(0).index(), false, iterator, rest...);
  }
};

// The entry of a stub that takes tensors instead of an iterator.
template <Name name, auto &stub, Types types, class First, class... Rest>
  requires std::same_as<std::remove_cvref_t<First>, at::Tensor>
struct StubEntry<name, stub, types, void (*)(First, Rest...)> {
  static void call(First first, Rest... rest) { stub(c10::kCPU, first, rest...); }
  static void launch(First first, Rest... rest) { launch_kernel<name, call>(first.device().index(), first, rest...); }
};

// Sets tb-ops' entry in a stub. Changes nothing for other device types.
template <Name name, auto &stub, Types types = Types::as_given> void enter_stub() {
  stub.set_privateuse1_dispatch_ptr(&StubEntry<name, stub, types>::launch);
}

} // namespace tb::ops::host
