"""Child process of `test_fragment_tasks`: releases one fragment again and again until it is killed."""

import json
import sys

from privacy_release.steps.fragments import release_one

if __name__ == "__main__":
    while True:
        release_one(json.loads(sys.argv[1]))
