#include "slots/kernels_table.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kernels/compiler.h"
#include "opencl/failure.h"
#include "tb/kernels.h"

namespace tb::opencl {
namespace {

// Files and folders are beside this library.
constexpr const char *pack = "images", *shim = "shim_opencl.cuh";

// A folder for one compilation, which the destructor removes.
struct Folder {
  std::string path;
  Folder() {
    const char *base = std::getenv("TMPDIR");
    path = std::string(base && *base ? base : "/tmp") + "/tb-opencl-XXXXXX";
    if (!mkdtemp(path.data())) path.clear();
  }
  ~Folder() {
    if (path.empty()) return;
    for (const char *file : {"/kernel.cpp", "/kernel.image"}) unlink((path + file).c_str());
    rmdir(path.c_str());
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
};

tb_status compile(void *given, int32_t, const tb_kernel_source *source, tb_take_image_fn take, void *context) {
  auto *self = static_cast<tb_driver *>(given);
  return guarded(self->host, [&]() -> tb_status {
    const Folder folder;
    if (folder.path.empty())
      return fail(self->host, TB_UNAVAILABLE, 0, "no folder for temporary files. Set TMPDIR to one that is writable");
    const std::string file = folder.path + "/kernel.cpp", image = folder.path + "/kernel.image";
    std::ofstream(file) << source->text;
    std::string log;
    if (!self->compiler.compile(file, image, &log))
      return fail(self->host, TB_INVALID_ARGUMENT, 0, "%s says:\n%s", self->compiler.command[0].c_str(), log.c_str());
    std::ifstream stream(image, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    take(context, bytes.data(), bytes.size());
    return TB_OK;
  });
}

} // namespace

bool give_kernels_table(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  if (std::strcmp(name, TB_KERNELS_EXTENSION) != 0 || version != TB_KERNELS_VERSION) return false;
  tb_kernels mine{};
  mine.struct_size = size < sizeof mine ? size : sizeof mine;
  mine.kernel_size = sizeof(tb_kernel);
  mine.self = self;
  mine.images = pack, mine.shim = shim;
  if (!self->compiler.command.empty()) {
    mine.compile = compile;
    mine.compiler_identity = self->compiler.identity.c_str();
  }
  std::memcpy(table, &mine, mine.struct_size);
  return true;
}

} // namespace tb::opencl
