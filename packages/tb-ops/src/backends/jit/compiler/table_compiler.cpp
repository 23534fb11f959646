// Calls the vendor's function, and takes the image.
#include "backends/jit/compiler/table_compiler.h"

#include <c10/util/Exception.h>

#include "runtime/runtime.h"

namespace tb::ops::jit {
namespace {

// A table without a shim has a compiler of CUDA C++.
Shim chosen_shim() {
  if (std::optional<Shim> declared = declared_shim()) return *std::move(declared);
  return own_shim("shim_cuda.cuh");
}

class TableCompiler final : public Compiler {
public:
  TableCompiler(const vendor::Table &table, int32_t device) : table_(table), device_(device), shim_(chosen_shim()) {}

  std::string identity() const override { return table_.source + " " + table_.fields.compiler_identity; }
  const Shim &shim() const override { return shim_; }

  std::string compile(const Source &source) const override {
    tb_kernel_source given{sizeof given, source.threads, source.name.c_str(), entry_name, source.text.c_str()};
    std::string image;
    const auto take = [](void *context, const void *bytes, uint64_t size) {
      static_cast<std::string *>(context)->assign(static_cast<const char *>(bytes), size);
    };
    const vendor::Calling calling("compile", device_);
    const tb_status status = table_.fields.compile(table_.fields.self, device_, &given, take, &image);
    char text[4096] = "it gave no image";
    if (status != TB_OK) runtime.device.describe_error(status, "compile", device_, text, sizeof text);
    TORCH_CHECK(status == TB_OK && !image.empty(), "compiling the device kernel ", source.name,
                " failed (the compiler of ", table_.source, ", ", table_.fields.compiler_identity, "): ", text);
    return image;
  }

private:
  const vendor::Table &table_; // for the life of the process
  int32_t device_;
  Shim shim_;
};

} // namespace

const vendor::Table *find_table_with_compiler() {
  for (const vendor::Table &table : vendor::tables())
    if (table.fields.compile || table.fields.compiler_command) return &table;
  return nullptr;
}

std::optional<Shim> table_shim() {
  for (const vendor::Table &table : vendor::tables())
    if (table.fields.shim) return read_shim(table.path_of(table.fields.shim), table.source);
  return std::nullopt;
}

std::unique_ptr<Compiler> make_table_compiler(const vendor::Table &table, int32_t device) {
  TORCH_CHECK(table.fields.compiler_identity, "The kernel table of ", table.source,
              " has a compiler without compiler_identity, so that images of an older compiler would be taken for "
              "its. Report it to who ships ",
              table.source);
  if (table.fields.compile) return std::make_unique<TableCompiler>(table, device);
  std::vector<std::string> command = command_words(table.fields.compiler_command);
  if (!command.empty() && command[0].find('/') != std::string::npos) // "./mycc -O2" is beside the library
    command[0] = table.path_of(command[0]);
  return make_command_compiler(table.source, std::move(command), table.fields.compiler_identity, chosen_shim());
}

} // namespace tb::ops::jit
