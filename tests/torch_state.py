"""The state of torch that tests of modules start from."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded_torch():
    """A known seed, and one thread, so that several processes do not fight for the cores."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
