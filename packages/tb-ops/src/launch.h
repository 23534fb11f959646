// The launch seam: work of an operator goes to the current stream of a device as a closure built in place.
//
//   launch<"aten::relu">(device, [in = TensorArgument(x), out = TensorArgument(y)]() mutable { ... in.alias() ... });
//   launch_kernel<"aten::mm.out", kernel>(device, self, mat2, out);   // kernel(const Tensor &, const Tensor &, Tensor &)
//
// The closure runs on the stream's worker with autograd off; what it throws appears at the next synchronise with the
// operator's name. It must not take Python's lock nor launch or wait for anything.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "argument.h"
#include "runtime.h"

namespace tb {

// A string as a template argument.
template <size_t N> struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value); }
  char value[N];
};

// Runs call(storage) with the worker's settings; returns its status and leaves the text of what it threw.
tb_status run_guarded(void (*call)(void *storage), void *storage, int32_t threads, const tb_closure_context *context);

template <class Function> struct Closure {
  int32_t threads; // of the launching thread: what torch.set_num_threads gave
  Function function;

  static void call(void *storage) { static_cast<Closure *>(storage)->function(); }
  static tb_status run(void *storage, const tb_closure_context *context) {
    return run_guarded(&call, storage, static_cast<Closure *>(storage)->threads, context);
  }
  static void destroy(void *storage) { static_cast<Closure *>(storage)->~Closure(); }
  template <Name name> static constexpr tb_closure kind{sizeof(tb_closure), 0, name.value, &run, &destroy};
};

// Builds Function from `arguments` inside the stream's queue.
template <Name name, class Function, class... Arguments>
void launch_in_place(c10::DeviceIndex device, Arguments &&...arguments) {
  using Kind = Closure<Function>;
  static_assert(alignof(Kind) <= TB_CLOSURE_ALIGNMENT);
  tb_stream *stream = current_stream(device);
  void *storage = nullptr;
  check(runtime.driver->closure_reserve(runtime.self, stream, sizeof(Kind), &storage), name.value, device);
  try {
    new (storage) Kind{at::get_num_threads(), Function(std::forward<Arguments>(arguments)...)};
  } catch (...) {
    runtime.driver->closure_cancel(runtime.self, stream, storage);
    throw;
  }
  check(runtime.driver->closure_commit(runtime.self, stream, storage, &Kind::template kind<name>), name.value, device);
}

template <Name name, class Function> void launch(c10::DeviceIndex device, Function function) {
  launch_in_place<name, Function>(device, std::move(function));
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

template <Name name, auto kernel, class... Arguments>
void launch_kernel(c10::DeviceIndex device, const Arguments &...arguments) {
  launch_in_place<name, KernelCall<kernel, std::index_sequence_for<Arguments...>, decltype(stored(arguments))...>>(
      device, arguments...);
}

} // namespace tb
