"""Bitstreams by open tools: a design between the lines of a serial port, on boards with Lattice or Gowin devices."""

from headrace.board.bitstream import board_files, make_bitstream
from headrace.board.boards import BOARDS, Board, find_board

__all__ = ["BOARDS", "Board", "board_files", "find_board", "make_bitstream"]
