"""Print, as JSON, the versions of what dpsynth runs on, and the iterations that its authors set."""

import json
import platform
from importlib.metadata import version

from dpsynth.discrete_mechanisms import AIMGDPConfig, MSTConfig, SWIFTConfig

STOCK = {"AIM-GDP": AIMGDPConfig, "SWIFT": SWIFTConfig, "MST": MSTConfig}
PACKAGES = ("dpsynth", "mbi", "jax", "dp-accounting", "numpy")

if __name__ == "__main__":
    versions = {"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    iterations = {name: config().pgm_iters for name, config in STOCK.items()}
    print(json.dumps({"versions": versions, "iterations": iterations}))
