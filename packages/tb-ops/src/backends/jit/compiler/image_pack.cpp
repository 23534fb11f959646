// Finds packs, and their images.
#include "backends/jit/compiler/image_pack.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/jit/compiler/compiler.h"
#include "backends/jit/compiler/image_cache.h"
#include "backends/vendor/table.h"

namespace tb::ops::jit {
namespace {

namespace fs = std::filesystem;

constexpr char shim_file[] = "/shim.cuh";

std::vector<std::string> added;

std::vector<std::string> folders() {
  std::vector<std::string> out;
  if (const char *given = std::getenv("TB_KERNEL_IMAGES")) {
    std::istringstream list(given);
    for (std::string folder; std::getline(list, folder, ':');) out.push_back(folder);
    if (out.empty()) return out;
  }
  for (const vendor::Table &table : vendor::tables())
    if (table.fields.images) out.push_back(table.path_of(table.fields.images));
  out.insert(out.end(), added.begin(), added.end());
  return out;
}

// A pack's shim is the text that create() has written, as it is: its headers are in it already.
Shim pack_shim(const std::string &file) {
  std::ifstream stream(file, std::ios::binary);
  return {"shim.cuh", {std::istreambuf_iterator<char>(stream), {}}};
}

} // namespace

void add_image_pack(std::string folder) { added.push_back(std::move(folder)); }

ImagePack::ImagePack(std::string given, const std::string &architecture)
    : folder(std::move(given)), place_(folder + "/" + architecture) {
  if (fs::is_regular_file(place_ + shim_file)) shim_ = pack_shim(place_ + shim_file);
}

bool ImagePack::exists() const { return !shim_.text.empty(); }

std::string ImagePack::find(const Instance &instance) const {
  return read_image(place_ + "/" + digest(make_source(instance, shim_).text) + ".image");
}

void ImagePack::create(const Shim &shim) {
  TORCH_CHECK(!exists() || has_shim(shim), "the pack ", folder, " has images that were compiled with another shim, ",
              place_, shim_file, ". Remove ", place_, ", or name another folder");
  if (exists()) return;
  std::error_code error;
  fs::create_directories(place_, error);
  std::ofstream(place_ + shim_file) << shim.text;
  shim_ = pack_shim(place_ + shim_file);
  TORCH_CHECK(has_shim(shim), "the pack ", folder, " cannot be written: ", place_, shim_file);
}

void ImagePack::write(const Instance &instance, const std::string &image) const {
  const std::string path = place_ + "/" + digest(make_source(instance, shim_).text) + ".image";
  TORCH_CHECK(write_image(path, image), "the image ", path, " cannot be written");
}

std::vector<ImagePack> find_image_packs(const std::string &architecture) {
  std::vector<ImagePack> out;
  const std::optional<Shim> declared = declared_shim();
  for (const std::string &folder : folders()) {
    ImagePack pack(folder, architecture);
    if (pack.exists() && (!declared || pack.has_shim(*declared))) out.push_back(std::move(pack));
  }
  return out;
}

} // namespace tb::ops::jit
