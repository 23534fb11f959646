// Compiled images on disk.
#include "backends/jit/compiler/image_cache.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tb::ops::jit {
namespace {

namespace fs = std::filesystem;

std::atomic<unsigned> compiled, found, packed;

// A file consists of this line, the digest of the image, a newline and the image.
constexpr char first_line[] = "torch-backend kernel image 1\n";
constexpr size_t digest_length = 40;

// A process holds this lock while it compiles an image, so that others wait for the image. On a system without such
// locks several processes compile it.
class FileLock {
public:
  explicit FileLock(const fs::path &path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

private:
  int file_;
};

std::string compile_counted(const std::function<std::string()> &compile) {
  std::string image = compile();
  compiled++;
  return image;
}

} // namespace

std::string digest(const std::string &text) { return c10::sha1(text).str(); }

std::string read_image(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return "";
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const size_t line = std::strlen(first_line), head = line + digest_length + 1;
  if (text.size() <= head || text.compare(0, line, first_line) != 0) return "";
  std::string image = text.substr(head);
  return text.compare(line, digest_length, digest(image)) == 0 ? image : "";
}

bool write_image(const std::string &path, const std::string &image) {
  const fs::path unfinished = path + "." + std::to_string(getpid());
  {
    std::ofstream stream(unfinished, std::ios::binary);
    stream << first_line << digest(image) << '\n' << image;
    stream.flush();
    if (!stream) return false;
  }
  std::error_code error;
  fs::rename(unfinished, path, error);
  if (error) fs::remove(unfinished, error);
  return !error;
}

std::string cache_folder() {
  if (const char *given = std::getenv("TB_KERNEL_CACHE")) return given;
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::string(cache) + "/torch-backend/kernels";
  const char *home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/torch-backend/kernels" : "";
}

std::string cached_image(const std::string &key, const std::function<std::string()> &compile) {
  const std::string folder = cache_folder();
  if (folder.empty()) return compile_counted(compile);
  const std::string path = folder + "/" + digest(key) + ".image";
  if (std::string image = read_image(path); !image.empty()) return found++, image;
  std::error_code error;
  fs::create_directories(folder, error);
  const FileLock lock(path + ".lock");
  if (std::string image = read_image(path); !image.empty()) return found++, image; // another process has made it
  std::string image = compile_counted(compile);
  if (!write_image(path, image)) {
    TORCH_WARN_ONCE("compiled device kernels cannot be kept in ", folder,
                    ", so that every process compiles them again. Make it writable, or name another folder in "
                    "TB_KERNEL_CACHE");
  }
  return image;
}

ImageCounts image_counts() { return {compiled, found, packed}; }
void count_packed_image() { packed++; }

} // namespace tb::ops::jit
