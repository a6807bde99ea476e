"""Take the pictures that the pages show from those of the UI test, and make them small."""

import re
import sys
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).parent
HEIGHT = 1_100  # pixels that are kept of a long page
COLOURS = 64  # the pages are plain: more could hardly be seen, and take twice the bytes


def main(pictures: Path) -> None:
    """Write each picture that a page names into the folder of pictures."""
    pages = "".join(page.read_text(encoding="utf-8") for page in FOLDER.glob("*.md"))
    for name in sorted(set(re.findall(r"\(screens/([\w-]+\.png)\)", pages))):
        shrink(pictures / name, FOLDER / "screens" / name)


def shrink(source: Path, target: Path) -> None:
    """Keep the top of a picture, in few colours."""
    with Image.open(source) as picture:
        top = picture.convert("RGB").crop((0, 0, picture.width, min(picture.height, HEIGHT)))
    target.parent.mkdir(exist_ok=True)
    # Median cut without dithering: dots would blur the text, and compress badly.
    top.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER, where the UI test kept its pictures ($PRIVACY_SCREENSHOTS)")
    main(Path(sys.argv[1]))
