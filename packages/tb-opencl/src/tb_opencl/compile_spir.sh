#!/bin/sh
# compile_spir.sh -o IMAGE SOURCE: compiles a kernel for devices that take LLVM's bitcode of SPIR 1.2 and no SPIR-V.
#
# By clang 15 and SPIR-V's translator of LLVM 15, which Debian 12 has, for pocl 3.1, which has LLVM 15 in it. What pocl
# does not do right is avoided here (README.md).
set -e
image=$2 source=$3
clang-15 -x hip --cuda-device-only --offload=spirv64 -nogpulib -nogpuinc -nostdinc -fno-builtin -std=c++20 -w \
  -ffp-contract=off -fvisibility=hidden -Xclang -no-opaque-pointers -O0 -S -emit-llvm "$source" -o "$image.ll"
# SPIR-V 1.2 has no freeze, which translates to itself elsewhere.
sed -i -E 's/^( *%[^ ]+ = )freeze (.*) (%[^ ,]+)/\1bitcast \2 \3 to \2/' "$image.ll"
llvm-as-15 --opaque-pointers=0 "$image.ll" -o "$image.bc"
llvm-spirv-15 --spirv-max-version=1.2 "$image.bc" -o "$image.spv"
# The way back gives what OpenCL calls kernels, with the types of their arguments.
llvm-spirv-15 -r --spirv-target-env=CL1.2 "$image.spv" -o "$image.bc"
llvm-dis-15 --opaque-pointers=0 "$image.bc" -o "$image.ll"
# pocl gives each group its own copy of a local variable only if its name begins with the kernel's.
names=$(sed -nE 's/^@([A-Za-z0-9_.$]+) = [^@]*addrspace\(3\) global.*/\1/p' "$image.ll")
for name in $names; do sed -i "s/@$name\b/@tb_entry.$name/g" "$image.ll"; done
sed -i -E '/addrspace\(3\) global/s/ = common / = internal /' "$image.ll"
llvm-as-15 --opaque-pointers=0 "$image.ll" -o "$image"
rm "$image.ll" "$image.bc" "$image.spv"
