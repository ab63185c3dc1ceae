# SPDX-License-Identifier: Apache-2.0
# The kernels that are compiled with the library: source, architecture it is written for, machine code (StofCuda.cmake).
