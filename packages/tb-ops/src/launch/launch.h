// Launches: the work of an operator is queued on the current stream of a device, as a closure built in place.
//
//   launch<"aten::relu">(device, [in = TensorDescriptor(x), out = WrittenDescriptor(y)]() mutable {
//     ... in.as_cpu_tensor(), out.as_cpu_tensor() ...
//   });
//   launch_kernel<"aten::mm.out", kernel>(device, self, mat2, out);   // kernel(const Tensor &, const Tensor &, Tensor &)
//
// The closure runs on the stream's worker with autograd off. What it throws is raised by the next synchronisation, as the
// same type of exception, with the operator's name. It must not take Python's lock nor launch or wait for anything.
//
// Whether a CPU kernel takes a combination of dtypes is known only once it has run. So the first launch of each kernel
// with each combination waits, and so does one that writes to a tensor that overlaps itself or has a number that the
// tensors' dtypes cannot hold: those errors are raised by the call, as on the CPU. Only what depends on values (an index
// out of range) is raised late.
#pragma once
#include <algorithm>
#include <type_traits>
#include <utility>

#include "intraop/thread_invariant_ops.h"
#include "launch/captured_arguments.h"
#include "launch/dtype_probe.h"
#include "launch/run_closure.h"
#include "runtime/runtime.h"
#include "runtime/synchronize.h"

namespace tb::ops {

// A string as a template argument.
template <size_t N> struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value); }
  char value[N];
};

template <class Function> struct Closure {
  LaunchContext launch_context;
  Function function;

  static void call(void *storage) { static_cast<Closure *>(storage)->function(); }
  // What identifies the kernel for the measured times: an address that the function gives if several kernels share its type.
  const void *kernel_address() const {
    if constexpr (requires { function.kernel_address(); }) return function.kernel_address();
    return reinterpret_cast<const void *>(&call);
  }
  template <ThreadInvariance invariance> static tb_status run(void *storage, const tb_closure_context *context) {
    const Closure &closure = *static_cast<Closure *>(storage);
    return run_closure(&call, closure.kernel_address(), storage, here(invariance), closure.launch_context, context);
  }
  static void destroy(void *storage) { static_cast<Closure *>(storage)->~Closure(); }
  template <Name name> static constexpr tb_closure kind{sizeof(tb_closure), TB_CLOSURE_ON_WAITER, name.value,
                                                        &run<thread_invariance(name.value)>, &destroy};
};

// Commits a closure of `kind`. construct(storage) builds the Queued, and up to `more` bytes behind it, inside the stream's
// queue.
template <class Queued, class Construct>
void enqueue_made(c10::DeviceIndex device, const tb_closure &kind, const Construct &construct, size_t more = 0) {
  static_assert(alignof(Queued) <= TB_CLOSURE_ALIGNMENT);
  tb_stream *stream = current_stream(device);
  void *storage = nullptr;
  check(runtime.driver->closure_reserve(runtime.self, stream, sizeof(Queued) + more, &storage), kind.name, device);
  try {
    construct(storage);
  } catch (...) {
    runtime.driver->closure_cancel(runtime.self, stream, storage);
    throw;
  }
  commit(stream, storage, kind, device);
}

// Builds Function there from `arguments`. Returns the notes on the arguments that it captured.
template <class Function, class... Arguments>
LaunchNote enqueue(c10::DeviceIndex device, const tb_closure &kind, Arguments &&...arguments) {
  using Queued = Closure<Function>;
  LaunchNote note;
  enqueue_made<Queued>(device, kind, [&](void *storage) {
    new (storage) Queued{{}, Function(std::forward<Arguments>(arguments)...)};
    note = launch_notes.take();
  });
  return note;
}

// What the launches of a kernel do not share with those of others: the rest is compiled once for a type of closure.
struct LaunchedAs {
  const tb_closure &kind;
  DtypeProbe &dtype_probe;
};
template <class Function, Name name, auto... kernel> LaunchedAs launched_as() {
  static constinit DtypeProbe dtype_probe;
  return {Closure<Function>::template kind<name>, dtype_probe};
}

// `wait`: waits until it has run.
template <class Function, class... Arguments>
void launch_as(const LaunchedAs &as, c10::DeviceIndex device, bool wait, Arguments &&...arguments) {
  const LaunchNote note = enqueue<Function>(device, as.kind, std::forward<Arguments>(arguments)...);
  if (wait || note.doubtful || !as.dtype_probe.known(note.types)) [[unlikely]]
    as.dtype_probe.wait(device, note.types, as.kind.name);
}

template <Name name, class Function> void launch(c10::DeviceIndex device, Function function) {
  launch_as<Function>(launched_as<Function, name>(), device, false, std::move(function));
}

// A kernel and its captured arguments. Kernels of one type share this type, which is compiled once, but not their times. Leaves rather than
// std::tuple, which takes longer to compile.
template <size_t i, class Captured> struct Leaf {
  template <class Argument> explicit Leaf(const Argument &argument) : value(capture(argument)) {}
  Captured value;
};
template <class Kernel, class Indices, class... Captured> struct KernelCall;
template <class Kernel, size_t... i, class... Captured>
struct KernelCall<Kernel, std::index_sequence<i...>, Captured...> : Leaf<i, Captured>... {
  template <class... Arguments> explicit KernelCall(Kernel kernel, const Arguments &...arguments)
      : Leaf<i, Captured>(arguments)..., kernel(kernel) {}
  void operator()() { kernel(materialize(static_cast<Leaf<i, Captured> &>(*this).value)...); }
  const void *kernel_address() const
    requires std::is_pointer_v<Kernel>
  {
    return reinterpret_cast<const void *>(kernel);
  }
  [[no_unique_address]] Kernel kernel;
};

// Whether a tensor that a kernel writes to overlaps itself. The kernel's parameter is then no const reference, or a list,
// about which nothing is known.
template <class Parameter, class Argument> bool written_on_overlap(const Argument &argument) {
  if constexpr (std::is_same_v<Parameter, at::Tensor &> && std::is_convertible_v<const Argument &, const at::Tensor &>)
    return overlaps_itself(argument);
  if constexpr (std::is_same_v<Parameter, at::TensorList>)
    return std::any_of(argument.begin(), argument.end(), &overlaps_itself);
  return false;
}
template <class... Parameters, class... Arguments>
bool writes_on_overlap(void (*)(Parameters...), const Arguments &...arguments) {
  return (written_on_overlap<Parameters>(arguments) || ...);
}
template <class Lambda, class... Arguments> bool writes_on_overlap(const Lambda &, const Arguments &...) {
  return false; // generic: it has no parameter types; such kernels fill tensors of tb-ops' own
}

template <Name name, auto kernel, class... Arguments>
void launch_kernel(c10::DeviceIndex device, const Arguments &...arguments) {
  using Call = KernelCall<std::remove_const_t<decltype(kernel)>, std::index_sequence_for<Arguments...>,
                          decltype(capture(arguments))...>;
  launch_as<Call>(launched_as<Call, name, kernel>(), device, writes_on_overlap(kernel, arguments...), kernel,
                  arguments...);
}

} // namespace tb::ops
