// The base of every layer: its own self, the table that it wraps, and forwarders for all functions.
//
// A layer is a class L derived from Layer with overloads of
//   tb_status around(On<Slot::mem_free>, Next next, int32_t device, void *ptr)          for one function
//   template <Slot S, class... A> tb_status around(On<S>, Next next, A... arguments)   for all others
// where next() makes the wrapped call. A function without an overload goes to the wrapped table at once. Handles and
// pointers pass through unchanged. Functions of tb.graph arrive there too.
#pragma once

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "layers/framework/slot_kinds.h"
#include "tb/driver.h"
#include "tb/graph.h"

namespace tb::layers {

// The wrapped call. Valid during `around` only.
class Next {
public:
  template <class Body> explicit Next(Body &body)
      : call_([](void *user) { return (*static_cast<Body *>(user))(); }), user_(&body) {}
  tb_status operator()() const { return call_(user_); }

private:
  tb_status (*call_)(void *);
  void *user_;
};

class Layer {
public:
  Layer(const char *kind, const tb_host *host) : kind(kind), host(host) {}
  virtual ~Layer() = default;
  Layer(const Layer &) = delete;
  Layer &operator=(const Layer &) = delete;

  tb_driver *self() { return reinterpret_cast<tb_driver *>(this); }

  const char *const kind; // "fault"
  const tb_host *const host;
  // The next one inwards.
  tb_driver_api inner{};
  tb_driver *inner_self = nullptr;
  tb_graph_api inner_graph{}; // filled by the first get_extension, then never written again

  // Called first, with the driver's own table: a layer's own calls pass through no other layer.
  virtual void prepare(const tb_driver_api &, tb_driver *) {}
  // Wraps (*api, *self): both are then the layer's own.
  virtual void wrap(tb_driver_api *api, tb_driver **self) = 0;

  // get_extension for a layer: asks inwards and gives `wrapped` cut to what the other side offers.
  tb_status extension(const char *name, uint32_t version, void *table, uint32_t size,
                      void (*wrap_graph)(const tb_graph_api &inner, tb_graph_api &out));

  [[gnu::format(printf, 3, 4)]] tb_status fail(tb_status status, const char *format, ...) const;
  [[gnu::format(printf, 3, 4)]] void log(int32_t level, const char *format, ...) const;
  // What a forwarder does with an exception. Not inline: there are some 70 forwarders a layer.
  tb_status no_memory(const std::exception &error) const noexcept;

private:
  std::mutex graph_mutex_;
};

// Removes a layer from the list that finds layers by their outermost self (stack.h), and frees it.
void end_of(Layer *layer);

// The forwarder of a function about which a layer does nothing: one for all layers.
template <auto Table, auto Member, class... A> tb_status pass(tb_driver *self, A... arguments) {
  Layer &layer = *reinterpret_cast<Layer *>(self);
  return ((layer.*Table).*Member)(layer.inner_self, arguments...);
}

// Whether a layer has an overload for a function. Each needs one for close, where it ends, and get_extension.
template <class L, Slot S, class... A>
concept wraps = S == Slot::close || S == Slot::get_extension ||
                requires(L &layer, Next next, A... arguments) { layer.around(On<S>{}, next, arguments...); };

template <class L> struct Forwarders {
  static L &layer_of(tb_driver *self) { return static_cast<L &>(*reinterpret_cast<Layer *>(self)); }

  template <Slot S, auto Table, auto Member, class... A> static tb_status forward(tb_driver *self, A... arguments) {
    L &layer = layer_of(self);
    try {
      auto body = [&]() -> tb_status {
        if constexpr (S == Slot::get_extension)
          return layer.extension(arguments..., wrap_graph);
        else
          return ((layer.*Table).*Member)(layer.inner_self, arguments...);
      };
      const tb_status status = layer.around(On<S>{}, Next(body), arguments...);
      if constexpr (S == Slot::close)
        if (status == TB_OK) end_of(&layer);
      return status;
    } catch (const std::exception &error) {
      return layer.no_memory(error);
    }
  }

  template <Slot S, auto Table, auto Member, class... A> static void put(tb_status (*&slot)(tb_driver *, A...)) {
    if (!slot) return;
    if constexpr (wraps<L, S, A...>)
      slot = forward<S, Table, Member, A...>;
    else
      slot = pass<Table, Member, A...>;
  }

  static void wrap_driver(tb_driver_api &table) {
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  put<Slot::name, &Layer::inner, &tb_driver_api::name>(table.name);
#define TB_SLOT0(group, need, name) put<Slot::name, &Layer::inner, &tb_driver_api::name>(table.name);
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
  }

  static void wrap_graph(const tb_graph_api &inner, tb_graph_api &table) {
    table = inner;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  put<Slot::name, &Layer::inner_graph, &tb_graph_api::name>(table.name);
#include "tb/graph_slots.inc"
#undef TB_SLOT
  }
};

// class Fault : public LayerOf<Fault>
template <class L> class LayerOf : public Layer {
public:
  using Layer::Layer;
  void wrap(tb_driver_api *api, tb_driver **self) override {
    inner = *api;
    inner_self = *self;
    Forwarders<L>::wrap_driver(*api);
    *self = this->self();
  }
};

} // namespace tb::layers
