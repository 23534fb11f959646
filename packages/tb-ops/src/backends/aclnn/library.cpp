// Finds and opens the vendor's library of operators.
#include "backends/aclnn/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

namespace tb::ops::aclnn {
namespace {

constexpr const char *remedy = "Install CANN and source its set_env.sh, or name the file by TB_ACLNN_LIBRARY. Until "
                               "then operators run on the CPU, counted";

// Returns sets of files in the order in which they are tried. The first set whose files all open is used. Newer
// versions of CANN split the operators into several files.
std::vector<std::vector<std::string>> places() {
  if (const char *asked = std::getenv("TB_ACLNN_LIBRARY")) {
    std::vector<std::string> files;
    std::stringstream all(asked);
    for (std::string file; std::getline(all, file, ':');) files.push_back(file);
    return {files};
  }
  std::vector<std::vector<std::string>> out = {{"libopapi.so"}, {"libopapi_math.so", "libopapi_nn.so"}};
  if (const char *home = std::getenv("ASCEND_HOME_PATH")) out.push_back({std::string(home) + "/lib64/libopapi.so"});
  return out;
}

struct Files {
  std::vector<void *> handles;
  std::string path, reasons;

  Files() {
    for (const std::vector<std::string> &files : places())
      if (open(files)) return;
  }

  bool open(const std::vector<std::string> &files) {
    std::vector<void *> opened;
    std::string names;
    for (const std::string &file : files) {
      void *handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (!handle) {
        const char *said = dlerror();
        reasons += (reasons.empty() ? "" : "; ") + std::string(said ? said : file.c_str());
        return false;
      }
      opened.push_back(handle);
      names += (names.empty() ? "" : ":") + file;
    }
    if (opened.empty()) return false;
    handles = std::move(opened), path = names;
    // The functions that describe arguments are in a library of their own, which the others need not depend on.
    if (void *base = dlopen("libnnopbase.so", RTLD_LAZY | RTLD_LOCAL)) handles.push_back(base);
    // The driver has opened the runtime already. The runtime's messages say why an operator failed.
    for (const char *file : {std::getenv("TB_NPU_LIBRARY"), static_cast<char *>(nullptr)})
      if (void *runtime = dlopen(file ? file : "libascendcl.so", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD))
        handles.push_back(runtime);
    return true;
  }

  void *find(const char *name) const {
    for (void *handle : handles)
      if (void *found = dlsym(handle, name)) return found;
    return nullptr;
  }
};

const Files &files() {
  static const auto *opened = new Files(); // queued work and other threads may use it until the process ends
  return *opened;
}

Library open() {
  Library out{};
  const Files &opened = files();
  if (opened.handles.empty()) {
    const std::string said = opened.reasons.empty() ? "TB_ACLNN_LIBRARY names no file" : opened.reasons;
    out.reason = "the library of operators (libopapi) cannot be loaded: " + said + ". " + remedy;
    return out;
  }
  std::string missing;
  const auto take = [&]<class F>(F &function, const char *name, bool needed = true) {
    void *found = opened.find(name);
    std::memcpy(&function, &found, sizeof found);
    if (needed && !found) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  take(out.create_tensor, "aclCreateTensor");
  take(out.create_scalar, "aclCreateScalar");
  take(out.create_ints, "aclCreateIntArray");
  take(out.create_bools, "aclCreateBoolArray");
  take(out.create_list, "aclCreateTensorList");
  take(out.destroy_tensor, "aclDestroyTensor");
  take(out.destroy_scalar, "aclDestroyScalar");
  take(out.destroy_ints, "aclDestroyIntArray");
  take(out.destroy_bools, "aclDestroyBoolArray");
  take(out.destroy_list, "aclDestroyTensorList");
  take(out.set_repeatable, "aclSetAclOpExecutorRepeatable", false);
  take(out.destroy_executor, "aclDestroyAclOpExecutor", false);
  take(out.set_input, "aclSetInputTensorAddr", false);
  take(out.set_output, "aclSetOutputTensorAddr", false);
  take(out.recent_message, "aclGetRecentErrMsg", false);
  if (missing.empty())
    out.path = opened.path;
  else
    out.reason = opened.path + " lacks functions that describe arguments: " + missing + ". " + remedy;
  return out;
}

} // namespace

const Library &library() {
  static const Library *opened = new Library(open());
  return *opened;
}

void *find(const std::string &name) { return files().find(name.c_str()); }

} // namespace tb::ops::aclnn
