// The launch seam: work of an operator goes to the current stream of a device as a closure built in place.
//
//   launch<"aten::relu">(device, [in = TensorArgument(x), out = WrittenArgument(y)]() mutable { ... in.alias() ... });
//   launch_kernel<"aten::mm.out", kernel>(device, self, mat2, out);   // kernel(const Tensor &, const Tensor &, Tensor &)
//
// The closure runs on the stream's worker with autograd off; what it throws appears at the next synchronise, as the same
// type of exception, with the operator's name. It must not take Python's lock nor launch or wait for anything.
//
// Whether a CPU kernel takes a combination of types is known only once it has run. So the first launch of each kernel
// with each combination waits, and so does one that writes to a tensor that overlaps itself or has a number that the
// tensors' types cannot hold: those errors appear at the call, as on the CPU. Only what depends on values (an index out of
// range) is told late.
#pragma once
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "launch/tensor_descriptor.h"
#include "runtime/call_site.h"
#include "worker/denormals.h"
#include "launch/dtype_probe.h"
#include "runtime/runtime.h"
#include "intraop/thread_invariant_ops.h"
#include "runtime/synchronize.h"

namespace tb {

// A string as a template argument.
template <size_t N> struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value); }
  char value[N];
};

// What the worker needs to know of the launching thread.
struct Launcher {
  int32_t threads = at::get_num_threads(); // what torch.set_num_threads gave
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool flushes_denormals = tb::flushes_denormals();
  Caller caller = tb::caller();
};

// Runs call(storage) with the worker's settings; returns its status and leaves the text of what it threw. `independent`:
// see thread_independent.h.
tb_status run_guarded(void (*call)(void *storage), void *storage, bool independent, const Launcher &launcher,
                      const tb_closure_context *context);

template <class Function> struct Closure {
  Launcher launcher;
  Function function;

  static void call(void *storage) { static_cast<Closure *>(storage)->function(); }
  template <ThreadIndependent independence> static tb_status run(void *storage, const tb_closure_context *context) {
    return run_guarded(&call, storage, holds_here(independence), static_cast<Closure *>(storage)->launcher, context);
  }
  static void destroy(void *storage) { static_cast<Closure *>(storage)->~Closure(); }
  template <Name name>
  static constexpr tb_closure kind{sizeof(tb_closure), 0, name.value, &run<thread_independence(name.value)>, &destroy};
};

// construct(storage) builds a Queued, and up to `more` bytes behind it, inside the stream's queue, as a closure of `kind`,
// which is then made to run.
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

// Builds Function there from `arguments`. Gives what was noted of the tensors that it captured.
template <class Function, class... Arguments>
Noted enqueue(c10::DeviceIndex device, const tb_closure &kind, Arguments &&...arguments) {
  using Queued = Closure<Function>;
  Noted noted;
  enqueue_made<Queued>(device, kind, [&](void *storage) {
    new (storage) Queued{{}, Function(std::forward<Arguments>(arguments)...)};
    noted = launch_notes.take();
  });
  return noted;
}

// `wait`: until it has run.
template <Name name, class Function, class... Arguments>
void launch_in_place(c10::DeviceIndex device, bool wait, Arguments &&...arguments) {
  static constinit FirstUse first_use;
  const Noted noted =
      enqueue<Function>(device, Closure<Function>::template kind<name>, std::forward<Arguments>(arguments)...);
  if (wait || noted.doubtful || !first_use.known(noted.types)) [[unlikely]]
    first_use.wait(device, noted.types, name.value);
}

template <Name name, class Function> void launch(c10::DeviceIndex device, Function function) {
  launch_in_place<name, Function>(device, false, std::move(function));
}

// The stored arguments of one kernel. Leaves rather than std::tuple: there are hundreds of these types, and a generated
// file compiled in 24 s of processor time instead of 30.
template <size_t i, class Stored> struct Leaf {
  template <class Argument> explicit Leaf(const Argument &argument) : value(stored(argument)) {}
  Stored value;
};
template <auto kernel, class Indices, class... Stored> struct KernelCall;
template <auto kernel, size_t... i, class... Stored> struct KernelCall<kernel, std::index_sequence<i...>, Stored...>
    : Leaf<i, Stored>... {
  template <class... Arguments> explicit KernelCall(const Arguments &...arguments) : Leaf<i, Stored>(arguments)... {}
  void operator()() { kernel(restore(static_cast<Leaf<i, Stored> &>(*this).value)...); }
};

// Whether several elements of a tensor that a kernel writes to are one: its parameter is no const reference, or is a list,
// of which nobody knows.
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
  return false; // generic: it has no parameter types; these fill tensors of our own
}

template <Name name, auto kernel, class... Arguments>
void launch_kernel(c10::DeviceIndex device, const Arguments &...arguments) {
  launch_in_place<name, KernelCall<kernel, std::index_sequence_for<Arguments...>, decltype(stored(arguments))...>>(
      device, writes_on_overlap(kernel, arguments...), arguments...);
}

} // namespace tb
