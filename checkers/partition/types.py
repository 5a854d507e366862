"""Types of the columns that the kernel works on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger]
"""Whole numbers of any width; -1 stands for null."""
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
"""Strings; None stands for null."""
