// The instruction set that fills run with. What they write does not depend on it.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define TB_X86_SETS 1
#else
#define TB_X86_SETS 0
#endif

namespace tb::generator {

// Each set includes those before it. `portable` is what the compiler's target has; on ARM it is NEON, and is named so.
enum class InstructionSet { portable, avx2, avx512 };

const char *name_of(InstructionSet set);
bool is_available(InstructionSet set);
// The best available set, unless TB_GENERATOR_INSTRUCTIONS (portable, avx2, avx512; neon) or use() chose another.
InstructionSet instruction_set();
// Returns false and changes nothing if the processor lacks the set.
bool use(InstructionSet set);

} // namespace tb::generator
