# SPDX-License-Identifier: Apache-2.0
"""What GPUs reach, by the name that results give them: floors of times are made of these rates, and of no others."""

H200_COPY_TB_PER_S = 4.3
# Of the memory, TB/s: what a copy reaches on an H200, of 4.8 by its data sheet, and the same share of an H100's 3.35.
COPY_TB_PER_S = {"H200": H200_COPY_TB_PER_S, "H100": 3.35 * H200_COPY_TB_PER_S / 4.8}
# Of dense products of 16-bit numbers: as measured on an H200, whose multiprocessors an H100 has.
MATMUL_TFLOP_PER_S = 790
# The data sheet's number for both. Under its limit of power kernels reach 660 to 700, so that shares of floors by this one end
# near 0.7.
SHEET_TFLOP_PER_S = 989


def copy_rate(device):
    """Where the name is none of these, an H200's."""
    return next((rate for name, rate in COPY_TB_PER_S.items() if name in device), H200_COPY_TB_PER_S)
