from torch_state import seeded_torch as seeded_torch
