// Which instructions the fills are run with. The bits that they write do not depend on it.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define TB_X86_SETS 1
#else
#define TB_X86_SETS 0
#endif

namespace tb::generator {

// portable: what the compiler's target has; on ARM that is NEON, and the name. Each includes those before.
enum class InstructionSet { portable, avx2, avx512 };

const char *name_of(InstructionSet set);
bool is_available(InstructionSet set);
// The best available one, unless TB_GENERATOR_INSTRUCTIONS (portable, avx2, avx512; neon) or use() chose another.
InstructionSet instruction_set();
// False, and nothing changes, where the processor lacks it.
bool use(InstructionSet set);

} // namespace tb::generator
