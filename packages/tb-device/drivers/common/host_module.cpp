// Loads shared objects from memory and looks up what they export.
#include "drivers/common/host_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "drivers/common/error_text.h"

// The linker puts the header of the object that contains this code here. An image must be for the same kind of machine.
extern "C" [[gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;

namespace tb::drivers {

namespace {

// What is wrong with an image, or NULL. The loader maps what the headers say, and a page past the end of the file would
// end the process at its first use.
const char *find_fault(const void *image, uint64_t size) {
  ElfW(Ehdr) header;
  if (size < sizeof header) return "it is too short for an ELF file";
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is not an ELF file";
  if (header.e_machine != __ehdr_start.e_machine || header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS])
    return "it is for another kind of machine"; // the loader would call it "no such file"
  if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phoff > size ||
      header.e_phnum * sizeof(ElfW(Phdr)) > size - header.e_phoff)
    return "its program headers are outside";
  for (unsigned number = 0; number < header.e_phnum; ++number) {
    ElfW(Phdr) part;
    std::memcpy(&part, static_cast<const char *>(image) + header.e_phoff + number * sizeof part, sizeof part);
    if (part.p_offset > size || part.p_filesz > size - part.p_offset) return "it is cut off";
  }
  return nullptr;
}

int make_file() {
#ifdef MFD_EXEC
  const int file = memfd_create("tb-cpu-module", MFD_CLOEXEC | MFD_EXEC); // a system may forbid it by default
  if (file >= 0 || errno != EINVAL) return file;
#endif
  return memfd_create("tb-cpu-module", MFD_CLOEXEC);
}

// A name of the file that no other load has. The loader takes an object for loaded already whose name it knows, and some
// stay loaded after dlclose: those with a symbol that is unique in the process, or with destructors of other threads.
std::string own_name(int file) {
  static std::atomic<uint64_t> next{0};
  std::string name = "/proc/self/fd";
  const uint64_t serial = next.fetch_add(1);
  for (int bit = 0; bit < 64; ++bit) name += serial >> bit & 1 ? "/." : "/"; // the same folder in other words
  return name + "/" + std::to_string(file);
}

bool write_all(int file, const void *image, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    const ssize_t part = write(file, static_cast<const char *>(image) + done, size - done);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) return false;
    done += static_cast<uint64_t>(part);
  }
  return true;
}

} // namespace

struct Module::Symbol {
  void *address;
  uint64_t size;
};

Module::~Module() {
  if (library_) dlclose(library_);
  close(file_);
}

tb_status Module::load(const Place &place, const void *image, uint64_t size, Ref<Module> *out) {
  const tb_host *host = place.host;
  static constexpr char repair[] = "An image is a shared object for this machine: cc -shared -fPIC (tb/host_kernel.h)";
  if (const char *wrong = find_fault(image, size))
    return fail(host, TB_INVALID_ARGUMENT, "the image of %llu bytes cannot be loaded: %s. %s",
                static_cast<unsigned long long>(size), wrong, repair);
  const int file = make_file();
  if (file < 0) return fail_native(host, TB_UNAVAILABLE, errno, "the system gives no memfd for the image");
  Ref<Module> module;
  try {
    module = Ref<Module>::take(new Module(place, file));
  } catch (...) {
    close(file);
    throw;
  }
  if (!write_all(file, image, size))
    return fail_native(host, TB_OUT_OF_MEMORY, errno, "the system gives no memory for a copy of the image (%s)",
                       std::strerror(errno));
  const std::string path = own_name(file);
  module->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module->library_) {
    const char *text = dlerror();
    if (std::strncmp(text, path.c_str(), path.size()) == 0) text += path.size() + std::strlen(": ");
    return fail(host, TB_INVALID_ARGUMENT, "the image cannot be loaded: %s. %s", text, repair);
  }
  *out = std::move(module);
  return TB_OK;
}

bool Module::look_up(const char *name, int type, Symbol *out) const noexcept {
  void *address = dlsym(library_, name);
  // dlsym also searches the object's dependencies ("malloc"), and does not distinguish variables from functions.
  Dl_info info;
  link_map *own = nullptr;
  void *holder = nullptr, *entry = nullptr;
  if (!address || dlinfo(library_, RTLD_DI_LINKMAP, &own) != 0 || !dladdr1(address, &info, &holder, RTLD_DL_LINKMAP) ||
      holder != own || !dladdr1(address, &info, &entry, RTLD_DL_SYMENT) || !entry)
    return false;
  const auto &symbol = *static_cast<const ElfW(Sym) *>(entry);
  *out = {address, symbol.st_size};
  return ELF64_ST_TYPE(symbol.st_info) == type;
}

tb_status Module::function(const char *name, Function **out) {
  std::lock_guard lock(mutex_);
  const auto known = functions_.find(name);
  if (known != functions_.end()) return *out = &known->second, TB_OK;
  Symbol symbol;
  if (!look_up(name, STT_FUNC, &symbol))
    return fail(place_.host, TB_NOT_FOUND,
                "the module exports no function \"%.200s\" (in C++ it must be extern \"C\": TB_HOST_KERNEL does that)",
                name);
  Function function = {this, nullptr, reinterpret_cast<tb_host_kernel>(symbol.address), TB_HOST_KERNEL_MAX_THREADS, 0};
  if (look_up((std::string(name) + "_info").c_str(), STT_OBJECT, &symbol)) {
    const auto *info = static_cast<const tb_host_kernel_info *>(symbol.address);
    if (info->struct_size < sizeof *info)
      return fail(place_.host, TB_INVALID_ARGUMENT, "%.200s_info.struct_size is %u, but its fields take %zu", name,
                  info->struct_size, sizeof *info);
    if (info->max_threads) function.max_threads = info->max_threads;
    function.shared_size = info->shared_size;
  }
  const auto place = functions_.emplace(name, function).first;
  place->second.name = place->first.c_str();
  *out = &place->second;
  return TB_OK;
}

tb_status Module::global(const char *name, void **out, uint64_t *out_size) {
  Symbol symbol;
  if (!look_up(name, STT_OBJECT, &symbol))
    return fail(place_.host, TB_NOT_FOUND, "the module exports no variable \"%.200s\"", name);
  *out = symbol.address;
  *out_size = symbol.size;
  return TB_OK;
}

} // namespace tb::drivers
