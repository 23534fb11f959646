// Puts the headers into the text, so that a compiler needs no folder, and the text tells all that an image depends on.
#include "backends/jit/compiler/source.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace tb::ops::jit {
namespace {

std::string folder;

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

// A file in the first of the folders that has it; an empty string if none has.
std::string find_file(const std::string &name, const std::vector<std::string> &folders) {
  for (const std::string &place : folders)
    if (std::filesystem::is_regular_file(place + "/" + name)) return place + "/" + name;
  return "";
}

// The headers of the device ABI, which the host's shim includes, are in a folder of their own.
std::vector<std::string> header_folders() { return {folder, folder + "/include"}; }

// Text with the headers that it includes in their places.
class Expansion {
public:
  // `shim` may be null: then the shim's header stays out.
  Expansion(std::vector<std::string> folders, const Shim *shim) : folders_(std::move(folders)), shim_(shim) {}

  void add(const std::string &name, const std::string &content) {
    const bool once = content.find("#pragma once\n") != std::string::npos;
    if (once && !added_.insert(name).second) return;
    mark_line(1, name);
    std::istringstream lines(content);
    std::string line;
    for (int number = 1; std::getline(lines, line); number++) {
      if (add_included(std::string(included_name(line))))
        mark_line(number + 1, name);
      else
        text += line == "#pragma once" ? "\n" : line + "\n";
    }
  }

  std::string text;

private:
  bool add_included(const std::string &name) {
    if (name.empty()) return false;
    if (shim_ && name == shim_header) return add(shim_->name, shim_->text), true;
    const std::string path = find_file(name, folders_);
    if (path.empty()) return false;
    add(name, read_file(path));
    return true;
  }

  void mark_line(int number, const std::string &name) {
    text += "#line " + std::to_string(number) + " \"" + name + "\"\n";
  }

  const std::vector<std::string> folders_;
  const Shim *shim_;
  std::set<std::string> added_;
};

} // namespace

void set_header_folder(std::string given) { folder = std::move(given); }
const std::string &header_folder() { return folder; }

Shim read_shim(const std::string &file, const std::string &what) {
  const std::string text = read_file(file);
  TORCH_CHECK(!text.empty(), what, " names the shim ", file, ", which cannot be read or is empty");
  const std::filesystem::path path = std::filesystem::absolute(file);
  const std::string name = path.filename().string();
  if (path.parent_path() == folder) return {name, text}; // tb-ops' own, beside the headers that it includes
  Expansion expansion({path.parent_path().string()}, nullptr);
  expansion.add(name, text);
  return {name, expansion.text};
}

Shim own_shim(const std::string &name) { return read_shim(folder + "/" + name, "tb-ops"); }

Source make_source(const Instance &instance, const Shim &shim) {
  const std::string path = instance.text.empty() ? find_file(instance.header, header_folders()) : "";
  TORCH_CHECK(!path.empty() || !instance.text.empty(), "the header ", instance.header,
              " of tb-ops' device kernels is missing in ", folder,
              ". Reinstall it: pip install --force-reinstall tb-ops");
  Expansion expansion(header_folders(), &shim);
  expansion.add(instance.header, path.empty() ? instance.text : read_file(path));
  const std::string kernel = "#line 1 \"" + instance.body + "\"\nusing namespace tb::kernels;\nTB_ENTRY(" + entry_name +
                             ", (" + instance.body + "), " + instance.arguments + ", " +
                             std::to_string(instance.threads) + ", " + (instance.synchronizing ? "true" : "false") +
                             ")\n";
  return {instance.body, instance.defines + expansion.text + kernel, instance.threads};
}

} // namespace tb::ops::jit
