// Runs a compiler as a child process, which writes the image into a temporary folder.
#include "backends/jit/compiler/compiler.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

extern char **environ;

namespace tb::ops::jit {
namespace {

namespace fs = std::filesystem;

// Multiply-adds are fused only where the source says so, so that every host does the same arithmetic.
const std::vector<std::string> options = {"-std=c++20",          "-O2", "-fPIC", "-shared", "-ffp-contract=off",
                                          "-fvisibility=hidden", "-w"};

// Returns the program's file as the shell would find it, or an empty string if there is none.
std::string find_program(const std::string &name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char *path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  return "";
}

std::string read_file(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A temporary folder, which the destructor removes with everything in it.
class Folder {
public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "tb-kernel-XXXXXX").string();
    TORCH_CHECK(mkdtemp(pattern.data()), "a device kernel cannot be compiled: no folder for its source in ",
                fs::temp_directory_path().string(), " (", std::strerror(errno), "). Set TMPDIR to a writable one");
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored; // a left-over in the folder for temporary files harms nobody
    fs::remove_all(path, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  fs::path path;
};

// Runs a program with its output in a file. Returns the exit status, or 128 + the number of the signal that ended it.
int run(const std::string &program, const std::vector<std::string> &arguments, const fs::path &output) {
  std::vector<char *> list;
  for (const std::string &argument : arguments) list.push_back(const_cast<char *>(argument.c_str()));
  list.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, list.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  TORCH_CHECK(failed == 0, "a device kernel cannot be compiled: ", program, " does not start (", std::strerror(failed),
              "). TB_HOST_COMPILER names another compiler");
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    TORCH_CHECK(errno == EINTR, "waiting for ", program, " failed (", std::strerror(errno), ")");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Names the compiler, and what to do if it fails.
struct Command {
  std::string owner; // "the host's C++ compiler"
  std::vector<std::string> words;
  std::string identity; // besides the words and the program's file
  std::string remedy;
};

class CommandCompiler final : public Compiler {
public:
  CommandCompiler(Command command, Shim shim) : command_(std::move(command)), shim_(std::move(shim)) {
    TORCH_CHECK(!command_.words.empty(), "the command of ", command_.owner,
                ", which compiles device kernels, is empty");
    program_ = find_program(command_.words[0]);
    TORCH_CHECK(!program_.empty(), "kernels of this device are compiled by ", command_.owner, ", but ",
                command_.words[0], " is no program that can be run. ", command_.remedy);
  }

  // The program's path, size and time of change serve as its version. Asking the compiler would start a process in
  // every program.
  std::string identity() const override {
    std::ostringstream text;
    text << command_.identity;
    for (const std::string &word : command_.words) text << ' ' << word;
    struct stat facts{};
    if (stat(program_.c_str(), &facts) == 0)
      text << ' ' << fs::canonical(program_).string() << ' ' << facts.st_size << ' ' << facts.st_mtime;
    return text.str();
  }

  const Shim &shim() const override { return shim_; }

  std::string compile(const Source &source) const override {
    const Folder folder;
    const fs::path input = folder.path / "kernel.cpp", image = folder.path / "kernel.image", log = folder.path / "log";
    std::ofstream(input) << source.text;
    std::vector<std::string> arguments = command_.words;
    for (const std::string &more : {std::string("-o"), image.string(), input.string()}) arguments.push_back(more);
    const int status = run(program_, arguments, log);
    std::string object = status == 0 ? read_file(image) : "";
    if (!object.empty()) return object;
    std::string shown;
    for (const std::string &word : command_.words) shown += word + " ";
    C10_THROW_ERROR(Error, c10::str("compiling the device kernel ", source.name, " failed with status ", status,
                                    status == 0 ? ", and there is no image" : "", " (", command_.owner, "):\n",
                                    read_file(log), "\nThe command: ", shown, "-o IMAGE SOURCE\n", command_.remedy));
  }

private:
  const Command command_;
  const Shim shim_;
  std::string program_;
};

} // namespace

std::vector<std::string> command_words(const std::string &command) {
  std::istringstream stream(command);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

std::unique_ptr<Compiler> make_command_compiler(const std::string &owner, std::vector<std::string> command,
                                                const std::string &identity, Shim shim) {
  return std::make_unique<CommandCompiler>(
      Command{"the compiler of " + owner, std::move(command), identity, "Install what " + owner + " needs"},
      std::move(shim));
}

std::unique_ptr<Compiler> make_host_compiler() {
  const char *given = std::getenv("TB_HOST_COMPILER");
  Command command{"the host's C++ compiler", {}, "host", ""};
  if (given && *given) {
    command.owner = std::string("TB_HOST_COMPILER=") + given;
    command.words = command_words(given);
    command.remedy = "Give a file or a name in PATH; gcc from 11 and clang from 14 on understand the kernels";
    for (const std::string &word : command.words)
      TORCH_CHECK(
          word.find("TB_KERNEL_SHIM") == std::string::npos, "TB_HOST_COMPILER=", given,
          " defines TB_KERNEL_SHIM, which no header reads. Name the shim's file in the variable TB_KERNEL_SHIM, "
          "so that kernels are compiled again after it has changed");
  } else {
    for (const char *name : {"c++", "g++", "clang++"})
      if (command.words.empty() && !find_program(name).empty()) command.words = {name};
    TORCH_CHECK(!command.words.empty(),
                "kernels of this device are compiled by the host's C++ compiler, but PATH has no "
                "c++, g++ or clang++. Install one (gcc 11 or clang 14 at least), or name it in TB_HOST_COMPILER");
    command.remedy = "TB_HOST_COMPILER names another compiler; gcc from 11 and clang from 14 on understand the kernels";
  }
  command.words.insert(command.words.end(), options.begin(), options.end());
  std::optional<Shim> declared = declared_shim();
  return std::make_unique<CommandCompiler>(std::move(command),
                                           declared ? *std::move(declared) : own_shim("shim_host.cuh"));
}

} // namespace tb::ops::jit
