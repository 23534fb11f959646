// Reads the dynamic symbol table of an ELF file.
#include "contract/support/elf_symbols.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "contract/case.h"

namespace tb::contract {
namespace {

// A copy: nothing in a file is sure to be aligned, or there at all.
template <class T> T at(const std::string &bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) throw Failed("the library's file is cut short");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

} // namespace

std::vector<std::string> exported_symbols(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto head = at<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    throw Failed(path + " is no ELF file of 64 bits, and this case reads no other");
  std::vector<std::string> names;
  for (uint64_t i = 0; i < head.e_shnum; ++i) {
    const auto section = at<Elf64_Shdr>(bytes, head.e_shoff + i * head.e_shentsize);
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto texts = at<Elf64_Shdr>(bytes, head.e_shoff + uint64_t(section.sh_link) * head.e_shentsize);
    for (uint64_t place = 0; place + sizeof(Elf64_Sym) <= section.sh_size; place += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(bytes, section.sh_offset + place);
      const unsigned binding = ELF64_ST_BIND(symbol.st_info), visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      if (symbol.st_shndx == SHN_UNDEF || binding == STB_LOCAL) continue;
      if (visibility != STV_DEFAULT && visibility != STV_PROTECTED) continue;
      const uint64_t start = texts.sh_offset + symbol.st_name;
      if (start >= bytes.size()) throw Failed("the library's file is cut short");
      names.emplace_back(bytes.c_str() + start);
    }
  }
  return names;
}

} // namespace tb::contract
