"""How each integer operator reads its streams as they come: the operator in physical order.

One rule per operator. A rule gets the layouts of the operands and returns the operator with its constants permuted to
stream order, the frames in which it reads, and the layout of the result. It refuses an order that it cannot read, and
says which it could.
"""

from headrace.passes.placement import elementwise, images, moving, vectors
from headrace.passes.placement.moving import reordered
from headrace.passes.placement.placed import OrderError, Placed, place, wanted_axes

__all__ = ["OrderError", "Placed", "elementwise", "images", "moving", "place", "reordered", "vectors", "wanted_axes"]
