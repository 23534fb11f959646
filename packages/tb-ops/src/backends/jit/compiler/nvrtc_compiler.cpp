// Compiles with NVIDIA's run-time compiler. It is not linked but opened when first needed, so that its prototypes are
// declared here.
#include "backends/jit/compiler/compiler.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace tb::ops::jit {
namespace {

using Result = int; // nvrtcResult; 0 is success
struct ProgramOpaque;
using Program = ProgramOpaque *;

struct Library {
  Result (*version)(int *major, int *minor);
  const char *(*error_string)(Result result);
  Result (*create)(Program *program, const char *source, const char *name, int headers, const char *const *texts,
                   const char *const *names);
  Result (*compile)(Program program, int count, const char *const *options);
  Result (*log_size)(Program program, size_t *size);
  Result (*log)(Program program, char *text);
  Result (*image_size)(Program program, size_t *size);
  Result (*image)(Program program, char *image);
  Result (*destroy)(Program *program);
};

template <class Function> bool find(void *library, const char *name, Function **function) {
  *function = reinterpret_cast<Function *>(dlsym(library, name));
  return *function != nullptr;
}

// Opens the library that TB_NVRTC names; if it is not set, the one that the loader finds, or else one of NVIDIA's
// wheels. It stays open for the life of the process.
const Library &library() {
  static const Library found = [] {
    std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    // PyTorch's wheels with CUDA depend on NVIDIA's wheels. Those put the library beside our package, where no loader
    // looks.
    for (const char *wheel : {"cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"})
      names.push_back(header_folder() + "/../../nvidia/" + wheel);
    if (const char *given = std::getenv("TB_NVRTC"); given && *given) names = {given};
    std::string tried;
    for (const std::string &name : names) {
      void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!handle) {
        tried += std::string("\n  ") + dlerror();
        continue;
      }
      Library library{};
      if (find(handle, "nvrtcVersion", &library.version) &&
          find(handle, "nvrtcGetErrorString", &library.error_string) &&
          find(handle, "nvrtcCreateProgram", &library.create) &&
          find(handle, "nvrtcCompileProgram", &library.compile) &&
          find(handle, "nvrtcGetProgramLogSize", &library.log_size) &&
          find(handle, "nvrtcGetProgramLog", &library.log) && find(handle, "nvrtcGetCUBINSize", &library.image_size) &&
          find(handle, "nvrtcGetCUBIN", &library.image) && find(handle, "nvrtcDestroyProgram", &library.destroy))
        return library;
      tried += "\n  " + name + " lacks a function that is needed: it is older than CUDA 12";
      dlclose(handle);
    }
    C10_THROW_ERROR(Error,
                    c10::str("kernels of this device are compiled by NVRTC, but no usable libnvrtc was found:", tried,
                             "\nInstall NVIDIA's run-time compiler (CUDA 12 or later), or give its file in TB_NVRTC"));
  }();
  return found;
}

class NvrtcCompiler final : public Compiler {
public:
  explicit NvrtcCompiler(const std::string &architecture) : shim_(own_shim("shim_cuda.cuh")) {
    library().version(&major_, &minor_);
    // Multiply-adds are fused only where the source says so, so that random numbers are bit-identical on every device.
    options_ = {"--std=c++20", "--gpu-architecture=" + architecture, "--fmad=false",
                "--device-as-default-execution-space", "--disable-warnings"};
  }

  std::string identity() const override {
    std::string text = "nvrtc " + std::to_string(major_) + "." + std::to_string(minor_);
    for (const std::string &option : options_) text += " " + option;
    return text;
  }

  const Shim &shim() const override { return shim_; }

  std::string compile(const Source &source) const override {
    const Library &nvrtc = library();
    Program program = nullptr;
    check(nvrtc.create(&program, source.text.c_str(), "kernel.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
    std::vector<const char *> options;
    for (const std::string &option : options_) options.push_back(option.c_str());
    const Result result = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
    size_t size = 0;
    if (result == 0) {
      check(nvrtc.image_size(program, &size), "nvrtcGetCUBINSize");
      std::string image(size, '\0');
      check(nvrtc.image(program, image.data()), "nvrtcGetCUBIN");
      nvrtc.destroy(&program);
      return image;
    }
    std::string log;
    if (nvrtc.log_size(program, &size) == 0) {
      log.resize(size);
      nvrtc.log(program, log.data());
      while (!log.empty() && log.back() == '\0') log.pop_back();
    }
    nvrtc.destroy(&program);
    C10_THROW_ERROR(Error, c10::str("compiling the device kernel ", source.name, " failed (", identity(), ": ",
                                    nvrtc.error_string(result), "):\n", log,
                                    "\nAn NVRTC that knows the architecture is needed; TB_NVRTC names another"));
  }

private:
  static void check(Result result, const char *function) {
    TORCH_CHECK(result == 0, function, " failed: ", library().error_string(result));
  }

  const Shim shim_;
  int major_ = 0, minor_ = 0;
  std::vector<std::string> options_;
};

} // namespace

std::unique_ptr<Compiler> make_nvrtc_compiler(const std::string &architecture) {
  return std::make_unique<NvrtcCompiler>(architecture);
}

} // namespace tb::ops::jit
