// Puts the headers into the text, so that a compiler needs no folder, and the text tells all that an image depends on.
#include "backends/jit/compiler/source.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

namespace tb::ops::jit {
namespace {

std::string folder;

constexpr char entry[] = "tb_entry";
constexpr std::string_view shim_header = "shim.cuh"; // what language.cuh includes

std::string read_file(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Returns the name in `#include "name"`, or an empty string for any other line.
std::string_view included_name(std::string_view line) {
  constexpr std::string_view directive = "#include \"";
  if (!line.starts_with(directive)) return {};
  line.remove_prefix(directive.size());
  return line.substr(0, line.find('"'));
}

class Expansion {
public:
  explicit Expansion(const Shim &shim) : shim_(shim) {}

  void add(const std::string &name) {
    if (name == shim_header) return add_text(shim_.name, shim_.text);
    const std::string path = path_of(name);
    TORCH_CHECK(!path.empty(), "the header ", name, " of tb-ops' device kernels is missing in ", folder,
                ". Reinstall it: pip install --force-reinstall tb-ops");
    add_text(name, read_file(path));
  }

  std::string text;

private:
  // The headers of the device ABI are in a folder of their own.
  static std::string path_of(const std::string &name) {
    for (const char *place : {"/", "/include/"})
      if (std::filesystem::is_regular_file(folder + place + name)) return folder + place + name;
    return "";
  }

  void add_text(const std::string &name, const std::string &content) {
    const bool once = content.find("#pragma once\n") != std::string::npos;
    if (once && !added_.insert(name).second) return;
    mark_line(1, name);
    std::istringstream lines(content);
    std::string line;
    for (int number = 1; std::getline(lines, line); number++) {
      const std::string included(included_name(line));
      if (!included.empty() && (included == shim_header || !path_of(included).empty())) {
        add(included);
        mark_line(number + 1, name);
      } else {
        text += line == "#pragma once" ? "\n" : line + "\n";
      }
    }
  }

  void mark_line(int number, const std::string &name) {
    text += "#line " + std::to_string(number) + " \"" + name + "\"\n";
  }

  const Shim &shim_;
  std::set<std::string> added_;
};

} // namespace

void set_header_folder(std::string given) { folder = std::move(given); }
const std::string &header_folder() { return folder; }

Shim read_shim(const std::string &file, const std::string &what) {
  std::string text = read_file(file);
  TORCH_CHECK(!text.empty(), what, " names the shim ", file, ", which cannot be read or is empty");
  return {std::filesystem::path(file).filename().string(), std::move(text)};
}

Shim own_shim(const std::string &name) { return read_shim(folder + "/" + name, "tb-ops"); }

Source make_source(const Instance &instance, const Shim &shim) {
  Expansion expansion(shim);
  expansion.add(instance.header);
  const std::string kernel = "#line 1 \"" + instance.body + "\"\nusing namespace tb::kernels;\nTB_ENTRY(" + entry +
                             ", (" + instance.body + "), " + instance.arguments + ", " +
                             std::to_string(instance.threads) + ", " + (instance.synchronizing ? "true" : "false") +
                             ")\n";
  return {instance.body, entry, expansion.text + kernel, instance.threads};
}

} // namespace tb::ops::jit
