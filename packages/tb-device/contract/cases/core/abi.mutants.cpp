// Drivers whose table breaks a rule.
#include <cstring>

#include "contract/mutant.h"

namespace tb::contract::abi_mutants {

TB_MUTANT(abi_ignores_struct_size, "cpu", "V2", "ABI-04", "writes the whole table, whatever room the host gave") {
  if (api.struct_size >= sizeof api) return;
  api.closure_cancel = [](tb_driver *, tb_stream *, void *) -> tb_status { return TB_OK; };
}

TB_MUTANT(abi_grows_struct_size, "cpu", "V2", "ABI-05", "writes its own size over the host's") {
  api.struct_size = sizeof api;
}

TB_MUTANT(abi_half_group, "cpu", "V3", "ABI-06", "declares a group and lacks one of its functions") {
  api.event_query = nullptr;
}

TB_MUTANT(abi_undeclared_group, "cpu", "V3", "ABI-07", "fills a group that its bits do not declare") {
  api.groups &= ~static_cast<uint64_t>(TB_GROUP_TIMING);
}

TB_MUTANT(abi_no_build_id, "cpu", "V5", "ABI-08", "has an empty build_id") { api.build_id = ""; }

TB_MUTANT(abi_info_overruns, "cpu", "V2", "ABI-09", "fills info structs past the host's struct_size") {
  api.get_info = [](tb_driver *self, tb_driver_info *out) -> tb_status {
    tb_driver_info mine{};
    mine.struct_size = sizeof mine;
    const tb_status status = real().get_info(self, &mine);
    mine.struct_size = out->struct_size;
    memcpy(static_cast<void *>(out), &mine, sizeof mine);
    return status;
  };
}

TB_MUTANT(abi_text_without_end, "cpu", "get_info.1", "ABI-10", "a vendor's name fills its field without a zero") {
  api.get_info = [](tb_driver *self, tb_driver_info *out) -> tb_status {
    const tb_status status = real().get_info(self, out);
    memset(out->vendor, 'v', sizeof out->vendor);
    return status;
  };
}

TB_MUTANT(abi_any_extension, "cpu", "get_extension.2", "ABI-12",
          "writes the head of a table for an extension it lacks") {
  api.get_extension = [](tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) -> tb_status {
    const tb_status status = real().get_extension(self, name, version, table, size);
    if (status == TB_NOT_FOUND && size >= 4) memcpy(table, &size, sizeof size);
    return status;
  };
}

} // namespace tb::contract::abi_mutants
