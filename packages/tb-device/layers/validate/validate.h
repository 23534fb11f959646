// The layer that refuses misuse of the table: a wrong call fails with a text that says what it got, which
// calls made and ended it, and what to do; the driver never sees it.
//
// It knows what was given through it. Not checked: what kernels and closures do with pointers, copies through host
// memory that was never registered, and whether two threads use a handle at once while a third destroys it.
// Freeing a block while a copy or set queued on it is unfinished is refused when the program does not know that the
// work is done (by a synchronise or query of the stream, or of an event after it, also through other streams) and the
// stream says that it is not idle. Kernels' and closures' uses of a block are unknown and never refused.
// Calls are numbered from 1, all functions together. Has no options.
#pragma once

#include "layers/framework/layer.h"
#include "layers/framework/options.h"
#include "layers/validate/handles.h"
#include "layers/validate/progress.h"
#include "layers/validate/ranges.h"

namespace tb::layers {

class Validate : public LayerOf<Validate> {
public:
  static constexpr const char *name = "validate";
  Validate(const tb_host *host, OptionReader &);
  ~Validate() override;
  void prepare(const tb_driver_api &api, tb_driver *self) override;

  // All functions without an overload below: their arguments, what they make and what they take back.
  template <Slot S, class... A> tb_status around(On<S>, Next next, A... arguments);

  tb_status around(On<Slot::close>, Next next);
  tb_status around(On<Slot::device_reset>, Next next, int32_t device);
  tb_status around(On<Slot::mem_copy>, Next next, int32_t device, tb_stream *stream, void *dst, const void *src,
                   uint64_t size, int32_t kind);
  tb_status around(On<Slot::mem_set>, Next next, int32_t device, tb_stream *stream, void *dst, uint32_t pattern,
                   uint32_t pattern_size, uint64_t count);
  tb_status around(On<Slot::mem_copy_2d>, Next next, int32_t device, tb_stream *stream, const tb_copy_2d *copy);
  tb_status around(On<Slot::peer_copy>, Next next, tb_stream *stream, void *dst, int32_t dst_device, const void *src,
                   int32_t src_device, uint64_t size);
  tb_status around(On<Slot::vmm_map>, Next next, void *address, uint64_t size, tb_physical *physical, uint64_t offset);
  tb_status around(On<Slot::vmm_unmap>, Next next, void *address, uint64_t size);
  tb_status around(On<Slot::vmm_release>, Next next, void *address, uint64_t size);
  tb_status around(On<Slot::vmm_set_access>, Next next, void *address, uint64_t size, const int32_t *devices,
                   uint32_t device_count, uint32_t access);
  tb_status around(On<Slot::device_synchronize>, Next next, int32_t device);
  tb_status around(On<Slot::stream_default>, Next next, int32_t device, tb_stream **out);
  tb_status around(On<Slot::stream_destroy>, Next next, tb_stream *stream);
  tb_status around(On<Slot::stream_query>, Next next, tb_stream *stream);
  tb_status around(On<Slot::stream_synchronize>, Next next, tb_stream *stream);
  tb_status around(On<Slot::stream_wait_event>, Next next, tb_stream *stream, tb_event *event);
  tb_status around(On<Slot::event_record>, Next next, tb_event *event, tb_stream *stream);
  tb_status around(On<Slot::event_query>, Next next, tb_event *event);
  tb_status around(On<Slot::event_synchronize>, Next next, tb_event *event);
  tb_status around(On<Slot::closure_reserve>, Next next, tb_stream *stream, uint64_t size, void **out);
  tb_status around(On<Slot::closure_commit>, Next next, tb_stream *stream, void *storage, const tb_closure *closure);
  tb_status around(On<Slot::closure_cancel>, Next next, tb_stream *stream, void *storage);
  tb_status around(On<Slot::module_function>, Next next, tb_module *module, const char *function, tb_function **out);
  tb_status around(On<Slot::module_global>, Next next, tb_module *module, const char *global, void **out,
                   uint64_t *out_size);
  tb_status around(On<Slot::module_unload>, Next next, tb_module *module);
  tb_status around(On<Slot::launch>, Next next, tb_stream *stream, tb_function *function, const tb_launch *config);
  tb_status around(On<Slot::capture_begin>, Next next, tb_stream *stream, uint64_t flags);
  tb_status around(On<Slot::capture_end>, Next next, tb_stream *stream, tb_graph **out);

private:
  // A call under way: its function and number.
  struct Call {
    Slot slot;
    uint64_t number;
  };
  enum class Side { device, host };

  Call begin(Slot slot) { return {slot, calls_.fetch_add(1, std::memory_order_relaxed) + 1}; }
  Handles &handles(Kind kind) { return handles_[static_cast<size_t>(kind)]; }
  const Handles &handles(Kind kind) const { return handles_[static_cast<size_t>(kind)]; }

  // Arguments (validate_arguments.cpp). TB_OK or the refusal, with its text.
  template <Slot S, class... A> tb_status check_all(Call call, A... arguments) const;
  template <Slot S, int Place, class T> tb_status check_one(Call call, T argument) const;
  tb_status check_device(Call call, std::string_view argument, int32_t device) const;
  tb_status check_flags(Call call, uint64_t flags) const;
  tb_status check_given(Call call, std::string_view argument, const void *pointer) const;
  tb_status check_stream(Call call, tb_stream *stream) const;
  tb_status check_function(Call call, tb_function *function) const;
  tb_status check_handle(Call call, Kind kind, const void *handle) const;
  tb_status refuse_handle(Call call, Kind kind, const void *handle) const;
  tb_status check_kind(Call call, int32_t kind) const;
  tb_status check_launch_arguments(const tb_launch &config);
  tb_status check_stream_device(Call call, tb_stream *stream, int32_t device, int32_t other = -1) const;
  bool knows(Kind kind, const void *handle) const;
  std::string belongs_elsewhere(Kind kind, const void *handle) const;

  // Memory (validate_memory.cpp).
  struct Piece { // of a call's memory
    const char *argument;
    const void *address;
    uint64_t size;
    Side side;
    int32_t device;
  };
  tb_status check_piece(Call call, const Piece &piece, uint32_t serial, uint64_t position) const;
  tb_status refuse_piece(Call call, const Piece &piece) const;
  tb_status with_pieces(Call call, Next next, tb_stream *stream, std::initializer_list<Piece> pieces);
  tb_status take_range(Call call, Next next, Kind kind, void *pointer, int32_t device);
  tb_status refuse_range(Call call, Kind kind, const void *pointer, int32_t device) const;
  tb_status check_finished(Call call, const void *pointer, const Range &range) const;
  tb_status check_reserved(Call call, const void *address, uint64_t size) const;
  void made_range(Call call, Kind kind, const void *pointer, uint64_t size, bool size_known, int32_t device,
                  const void *owner = nullptr);

  // Streams (validate_streams.cpp).
  std::shared_ptr<StreamProgress> progress_of(tb_stream *stream) const;
  std::shared_ptr<const EventPoint> point_in(tb_event *event) const;
  // A question or a wait that, when it succeeds, shows that the event's point has passed.
  tb_status passing(Slot slot, Next next, tb_event *event);
  void made_handle(Call call, Kind kind, const void *handle, int32_t device, uint64_t size, bool borrowed);
  tb_status take_handle(Call call, Next next, Kind kind, const void *handle);
  int32_t device_of(Kind kind, const void *handle) const;
  tb_status report_kept(StreamProgress &stream, tb_status status) const;
  tb_status take_storage(Call call, Next next, tb_stream *stream, void *storage);
  template <Slot S, class... A> int32_t device_argument(A... arguments) const;

  static constexpr bool is_memory(Kind kind) {
    return kind == Kind::block || kind == Kind::host_block || kind == Kind::registered_host ||
           kind == Kind::imported_block;
  }

  tb_driver_api driver_{}; // the driver's own, for what the layer asks itself
  tb_driver *driver_self_ = nullptr;
  int32_t device_count_ = 0;
  bool async_ = false;
  std::atomic<uint64_t> calls_{0};
  std::atomic<int32_t> captures_{0}; // streams that capture: their work is not queued, so its end is not known
  std::array<Handles, static_cast<size_t>(Kind::count)> handles_;
  Handles functions_;
  Ranges ranges_;
  ShardedMap<bool> lost_; // memory of a device that was reset; it may still be freed
  mutable Streams streams_;
};

// ---- all functions without an overload ------------------------------------------------------------------------------

template <Slot S, int Place, class T> tb_status Validate::check_one(Call call, T argument) const {
  constexpr std::string_view text = argument_of(S, Place);
  constexpr bool is_result = text.starts_with("out");
  if constexpr (std::is_same_v<T, tb_stream *>)
    return check_stream(call, argument);
  else if constexpr (std::is_same_v<T, tb_event *>)
    return check_handle(call, Kind::event, argument);
  else if constexpr (std::is_same_v<T, tb_physical *>)
    return check_handle(call, Kind::physical, argument);
  else if constexpr (std::is_same_v<T, tb_module *>)
    return check_handle(call, Kind::module, argument);
  else if constexpr (std::is_same_v<T, tb_graph *>)
    return check_handle(call, Kind::graph, argument);
  else if constexpr (std::is_same_v<T, tb_graph_exec *>)
    return check_handle(call, Kind::executable, argument);
  else if constexpr (std::is_same_v<T, tb_function *>)
    return check_function(call, argument);
  else if constexpr (text == "device" || text == "peer" || text == "dst_device" || text == "src_device")
    return check_device(call, text, argument);
  else if constexpr (text == "flags")
    return check_flags(call, argument);
  else if constexpr (is_result || text == "key" || text == "name" || text == "image" || text == "handle" ||
                     text == "function" || text == "closure" || text == "copy" || text == "config" || text == "table")
    return check_given(call, text, reinterpret_cast<const void *>(argument));
  else
    return TB_OK;
}

template <Slot S, class... A> tb_status Validate::check_all(Call call, A... arguments) const {
  return [&]<int... Place>(std::integer_sequence<int, Place...>) {
    tb_status status = TB_OK;
    (void)(((status = check_one<S, Place>(call, arguments)) == TB_OK) && ...);
    return status;
  }(std::make_integer_sequence<int, static_cast<int>(sizeof...(A))>{});
}

// Of the object that a call makes.
template <Slot S, class... A> int32_t Validate::device_argument(A... arguments) const {
  if constexpr (place_of(S, "device") >= 0)
    return argument_at<place_of(S, "device")>(arguments...);
  else if constexpr (place_of(S, "stream") >= 0)
    return device_of(Kind::stream, argument_at<place_of(S, "stream")>(arguments...));
  else if constexpr (place_of(S, "graph") >= 0)
    return device_of(Kind::graph, argument_at<place_of(S, "graph")>(arguments...));
  else
    return -1;
}

template <Slot S, class... A> tb_status Validate::around(On<S>, Next next, A... arguments) {
  const Call call = begin(S);
  if (const tb_status status = check_all<S>(call, arguments...)) return status;
  constexpr Kind made = made_by(S), taken = taken_by(S);
  if constexpr (is_memory(taken)) {
    int32_t device = -1;
    if constexpr (S == Slot::mem_free) device = device_argument<S>(arguments...);
    return take_range(call, next, taken, taken_object<S>(arguments...), device);
  } else if constexpr (taken != Kind::none) {
    return take_handle(call, next, taken, taken_object<S>(arguments...));
  } else if constexpr (made != Kind::none) {
    const tb_status status = next();
    if (status != TB_OK) return status;
    const uint64_t size = size_argument<S>(arguments...);
    if constexpr (is_memory(made))
      made_range(call, made, made_object<S>(arguments...), size, made != Kind::imported_block,
                 device_argument<S>(arguments...));
    else
      made_handle(call, made, made_object<S>(arguments...), device_argument<S>(arguments...), size, false);
    return status;
  } else {
    return next();
  }
}

} // namespace tb::layers
