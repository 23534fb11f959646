#include "kernels/compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

extern char **environ;

namespace tb::opencl {
namespace {

// Clang's front end alone: its driver would ask for ROCm and a linker. Numbers are computed as the source says, since
// random numbers have the bits of the host's.
const std::vector<std::string> options = {"-cc1",
                                          "-triple",
                                          "spirv64v1.2-unknown-unknown",
                                          "-aux-triple",
                                          "x86_64-unknown-linux-gnu",
                                          "-O2",
                                          "-std=c++20",
                                          "-fcuda-is-device",
                                          "-discard-value-names",
                                          "-ffp-contract=off",
                                          "-fvisibility=hidden",
                                          "-fapply-global-visibility-to-externs",
                                          "-w",
                                          "-emit-obj",
                                          "-x",
                                          "hip"};

std::string folder_of_library() {
  Dl_info info{};
  static const char here = 0;
  if (!dladdr(&here, &info) || !info.dli_fname) return ".";
  const std::string file = info.dli_fname;
  return file.substr(0, file.find_last_of('/'));
}

std::string read_file(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> words_of(const std::string &text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The words of the command, and size and time of its program and of other files that it uses.
Compiler identified(std::vector<std::string> command, std::vector<std::string> files) {
  Compiler out{std::move(command), ""};
  for (const std::string &word : out.command) out.identity += word + " ";
  files.push_back(out.command[0]);
  for (const std::string &file : files)
    if (struct stat facts{}; stat(file.c_str(), &facts) == 0)
      out.identity += std::to_string(facts.st_size) + " " + std::to_string(facts.st_mtime) + " ";
  return out;
}

// Runs a program with its output in a file. Returns its exit status, or -1.
int run(const std::vector<std::string> &words, const std::string &output) {
  std::vector<char *> list;
  for (const std::string &word : words) list.push_back(const_cast<char *>(word.c_str()));
  list.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, list[0], &actions, nullptr, list.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    std::ofstream(output) << list[0] << " does not start: " << std::strerror(failed);
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

Compiler find_spirv_compiler(const char *asked) {
  std::vector<std::string> command;
  const std::string zig = folder_of_library() + "/../ziglang/zig";
  if (asked && *asked)
    command = words_of(asked);
  else if (access(zig.c_str(), X_OK) == 0)
    command = {zig, "clang"};
  else
    return {};
  command.insert(command.end(), options.begin(), options.end());
  return identified(std::move(command), {});
}

Compiler find_spir_compiler() {
  const std::string script = folder_of_library() + "/compile_spir.sh";
  const std::string tools[] = {script, "/usr/bin/clang-15", "/usr/bin/llvm-spirv-15"};
  for (const std::string &tool : tools)
    if (access(tool.c_str(), R_OK) != 0) return {};
  return identified({"/bin/sh", script}, {std::begin(tools), std::end(tools)});
}

bool Compiler::compile(const std::string &source, const std::string &image, std::string *log) const {
  std::vector<std::string> words = command;
  words.insert(words.end(), {source, "-o", image});
  const std::string output = image + ".log";
  const bool good = run(words, output) == 0;
  *log = read_file(output);
  unlink(output.c_str());
  return good;
}

} // namespace tb::opencl
