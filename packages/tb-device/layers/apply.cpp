// Makes the layers of a spec and puts them around a driver; the list that finds them again.
#include <algorithm>
#include <map>

#include "layers/fault/fault.h"
#include "layers/framework/options.h"
#include "layers/framework/stack.h"
#include "layers/layers.h"
#include "layers/leak/leak.h"
#include "layers/races/races.h"
#include "layers/serialise/serialise.h"
#include "layers/trace/trace.h"
#include "layers/validate/validate.h"

namespace tb::layers {
namespace {

using Maker = std::unique_ptr<Layer> (*)(const tb_host *, OptionReader &);

template <class L> std::unique_ptr<Layer> make(const tb_host *host, OptionReader &options) {
  return std::make_unique<L>(host, options);
}

const std::map<std::string, Maker> &makers() {
  static const std::map<std::string, Maker> all = {{Fault::name, make<Fault>}, {Leak::name, make<Leak>},
                                                   {Races::name, make<Races>}, {Serialise::name, make<Serialise>},
                                                   {Trace::name, make<Trace>}, {Validate::name, make<Validate>}};
  return all;
}

struct Stacks {
  std::mutex mutex;
  std::map<const tb_driver *, std::vector<Layer *>> by_outermost;
};
Stacks &stacks() {
  static auto *all = new Stacks; // never destroyed: drivers may be closed while the process ends
  return *all;
}

std::unique_ptr<Layer> make_layer(const LayerSpec &spec, const tb_host *host) {
  const auto found = makers().find(spec.name);
  if (found == makers().end()) {
    std::string known;
    for (const auto &[name, maker] : makers()) known += (known.empty() ? "" : ", ") + name;
    throw BadSpec("there is no layer '" + spec.name + "'. There are: " + known);
  }
  OptionReader options(spec.name, spec.options);
  std::unique_ptr<Layer> layer = found->second(host, options);
  options.done();
  return layer;
}

} // namespace

tb_status apply(const std::string &spec, const tb_host *host, tb_driver_api *api, tb_driver **self,
                std::string *problem) {
  try {
    std::vector<std::unique_ptr<Layer>> made;
    for (const LayerSpec &each : parse_spec(spec)) made.push_back(make_layer(each, host));
    if (made.empty()) return TB_OK;
    for (const auto &layer : made) layer->prepare(*api, *self);
    tb_driver_api table = *api;
    tb_driver *outermost = *self;
    for (auto layer = made.rbegin(); layer != made.rend(); ++layer) (*layer)->wrap(&table, &outermost);
    std::vector<Layer *> list;
    for (const auto &layer : made) list.push_back(layer.get());
    std::lock_guard lock(stacks().mutex);
    stacks().by_outermost[outermost] = std::move(list);
    for (auto &layer : made) (void)layer.release(); // each ends with its own close
    *api = table;
    *self = outermost;
    return TB_OK;
  } catch (const std::exception &error) {
    *problem = error.what();
    return TB_INVALID_ARGUMENT;
  }
}

std::vector<std::string> names(const tb_driver *outermost) {
  std::lock_guard lock(stacks().mutex);
  std::vector<std::string> out;
  const auto found = stacks().by_outermost.find(outermost);
  if (found == stacks().by_outermost.end()) return out;
  for (const Layer *layer : found->second) out.push_back(layer->kind);
  return out;
}

Layer *find(const tb_driver *outermost, const std::string &kind) {
  std::lock_guard lock(stacks().mutex);
  const auto found = stacks().by_outermost.find(outermost);
  if (found == stacks().by_outermost.end()) return nullptr;
  for (Layer *layer : found->second)
    if (layer->kind == kind) return layer;
  return nullptr;
}

void discard(tb_driver *outermost) {
  std::vector<Layer *> all;
  {
    std::lock_guard lock(stacks().mutex);
    const auto found = stacks().by_outermost.find(outermost);
    if (found == stacks().by_outermost.end()) return;
    all = std::move(found->second);
    stacks().by_outermost.erase(found);
  }
  for (Layer *layer : all) delete layer;
}

void end_of(Layer *layer) {
  {
    std::lock_guard lock(stacks().mutex);
    auto &all = stacks().by_outermost;
    for (auto stack = all.begin(); stack != all.end();) {
      std::erase(stack->second, layer);
      stack = stack->second.empty() ? all.erase(stack) : std::next(stack);
    }
  }
  delete layer;
}

} // namespace tb::layers
