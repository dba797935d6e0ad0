"""httpx transports: what answers instead of the network, or listens to it.

simulate   the simulator in process, without a socket; `serve` puts it on loopback
replay     recordings, and the recording of them
"""

from .replay import REPLAYED, RecordTransport, ReplayTransport, read_cassette
from .simulate import Server, SimulatorTransport, serve

__all__ = [
    "REPLAYED",
    "RecordTransport",
    "ReplayTransport",
    "Server",
    "SimulatorTransport",
    "read_cassette",
    "serve",
]
