"""Sends frames to an accelerator on a board through its serial port, and receives the results.

    python host.py /dev/ttyUSB0 x.npz y.npz

``x.npz`` holds integers for the hardware, one array named as its input, ``(frames, *shape)``. ``driver.py`` and
``io.json`` beside this file describe the streams. Needs numpy and pyserial.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from driver import Stream


class SerialAccelerator:
    """The accelerator behind an open serial port (as of pyserial)."""

    def __init__(self, port: object, description: dict) -> None:
        self.port = port
        (self.source,) = (Stream(entry) for entry in description["inputs"])
        (self.target,) = (Stream(entry) for entry in description["outputs"])

    def reset(self) -> None:
        """Reset the accelerator by a break, and forget what it has sent: after a program that ended inside a frame."""
        self.port.send_break(0.05)
        time.sleep(0.01)
        self.port.reset_input_buffer()

    def execute(self, frames: np.ndarray) -> np.ndarray:
        """The results ``(frames, *shape)``, frame by frame.

        Raises:
            TimeoutError: when the board does not answer in the time that the port was opened with.
        """
        results = []
        for index in range(len(frames)):
            self.port.write(self.source.pack(frames[index : index + 1]).tobytes())
            wanted = self.target.bytes_of(1)
            data = self.port.read(wanted)
            if len(data) != wanted:
                raise TimeoutError(f"frame {index}: {len(data)} of {wanted} bytes came back")
            results.append(self.target.unpack(np.frombuffer(data, np.uint8)))
        return np.concatenate(results)


def main() -> None:
    """Run the command line."""
    import serial

    name, source, target = sys.argv[1:]
    description = json.loads(Path(__file__).with_name("io.json").read_text())
    with serial.Serial(name, description["baud"], timeout=10) as port, np.load(source, allow_pickle=False) as arrays:
        accelerator = SerialAccelerator(port, description)
        accelerator.reset()
        np.savez(target, **{accelerator.target.name: accelerator.execute(arrays[accelerator.source.name])})


if __name__ == "__main__":
    main()
