// Texts of layers, and the extension's table between them.
#include "layers/framework/layer.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "tb/kernels.h"
#include "tb/races.h"

namespace tb::layers {

namespace {
constexpr size_t text_size = 1024; // what the host keeps of a text
}

tb_status Layer::fail(tb_status status, const char *format, ...) const {
  char text[text_size];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  host->set_error(status, 0, text);
  return status;
}

void Layer::log(int32_t level, const char *format, ...) const {
  char text[text_size];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  host->log(level, text);
}

tb_status Layer::no_memory(const std::exception &error) const noexcept {
  return fail(TB_OUT_OF_MEMORY, "the layer %s has no memory for its records: %s", kind, error.what());
}

tb_status Layer::extension(const char *name, uint32_t version, void *table, uint32_t size,
                           void (*wrap_graph)(const tb_graph_api &, tb_graph_api &)) {
  // Their functions have a self of their own, and layers change no handle.
  const bool passes =
      name && (std::strcmp(name, TB_RACES_EXTENSION) == 0 || std::strcmp(name, TB_KERNELS_EXTENSION) == 0);
  if (passes && inner.get_extension) return inner.get_extension(inner_self, name, version, table, size);
  if (!name || std::strcmp(name, TB_GRAPH_EXTENSION) != 0)
    return fail(TB_NOT_FOUND,
                "the layer %s cannot wrap the extension '%s', which it does not know. Open the driver "
                "without layers to use it",
                kind, name ? name : "NULL");
  if (!table || size < offsetof(tb_graph_api, capture_begin))
    return fail(TB_INVALID_ARGUMENT, "get_extension('%s') needs a table of at least its head, %zu bytes; it got %u",
                name, offsetof(tb_graph_api, capture_begin), table ? size : 0);
  tb_graph_api offered{};
  offered.struct_size = sizeof offered;
  if (const tb_status status = inner.get_extension(inner_self, name, version, &offered, sizeof offered)) return status;
  {
    std::lock_guard lock(graph_mutex_);
    if (!inner_graph.struct_size) {
      offered.struct_size = sizeof offered;
      inner_graph = offered;
    }
  }
  tb_graph_api wrapped;
  wrap_graph(offered, wrapped);
  wrapped.struct_size = size;
  std::memcpy(table, &wrapped, std::min<size_t>(size, sizeof wrapped));
  return TB_OK;
}

} // namespace tb::layers
