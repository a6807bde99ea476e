"""Child process of `test_fragment_tasks`: releases one fragment again and again until it is killed."""

import json
import sys

from privacy_release.steps.producers.fragments import release_one
from privacy_release.workarea.references import FragmentRef

if __name__ == "__main__":
    fragment = FragmentRef.from_ref(json.loads(sys.argv[1]))
    while True:
        release_one(fragment)
