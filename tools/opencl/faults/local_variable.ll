; A kernel in LLVM 15's form of SPIR 1.2, with a local variable that is not named as OpenCL C names it ("turn.values").
; Each thread stores its number, often so that groups run at the same time, and gives that of the thread after it.
target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024"
target triple = "spir64-unknown-unknown"

@values = internal addrspace(3) global [256 x i32] undef, align 4

declare spir_func i64 @_Z12get_local_idj(i32) #0
declare spir_func i64 @_Z13get_global_idj(i32) #0
declare spir_func void @_Z7barrierj(i32) #0

define spir_kernel void @turn(i32 addrspace(1)* %out) #0 !kernel_arg_addr_space !1 !kernel_arg_access_qual !2 !kernel_arg_type !3 !kernel_arg_base_type !3 !kernel_arg_type_qual !4 {
  %i = call spir_func i64 @_Z12get_local_idj(i32 0)
  %g = call spir_func i64 @_Z13get_global_idj(i32 0)
  %number = trunc i64 %g to i32
  %mine = getelementptr [256 x i32], [256 x i32] addrspace(3)* @values, i64 0, i64 %i
  br label %again

again:
  %stores = phi i32 [ 0, %0 ], [ %more, %again ]
  store volatile i32 %number, i32 addrspace(3)* %mine, align 4
  %more = add i32 %stores, 1
  %done = icmp eq i32 %more, 10000
  br i1 %done, label %wait, label %again

wait:
  call spir_func void @_Z7barrierj(i32 1)
  %next = add i64 %i, 1
  %j = and i64 %next, 255
  %other = getelementptr [256 x i32], [256 x i32] addrspace(3)* @values, i64 0, i64 %j
  %found = load i32, i32 addrspace(3)* %other, align 4
  %place = getelementptr i32, i32 addrspace(1)* %out, i64 %g
  store i32 %found, i32 addrspace(1)* %place, align 4
  ret void
}

attributes #0 = { convergent nounwind }

!opencl.ocl.version = !{!0}
!opencl.spir.version = !{!0}
!0 = !{i32 1, i32 2}
!1 = !{i32 1}
!2 = !{!"none"}
!3 = !{!"uint*"}
!4 = !{!""}
