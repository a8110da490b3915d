"""The names under which Brevitas had minifloat quantizers first; see the modules of the same name one level up."""
