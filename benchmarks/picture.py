"""A study -> docs/img/report.png: the top of its report page, as Chromium shows it.

python benchmarks/picture.py STUDY.json     benchmarks/demo.py makes it of the study that it writes down
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hotlap.record import Study, load
from hotlap.report import html

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "img" / "report.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# The conclusion and the timeline, at the width for which the page is laid out.
WIDTH, HEIGHT = 1000, 810


def draw(study: Study, path: Path = PICTURE) -> bool:
    """Write the picture; False where there is no browser to do it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"no picture: none of {', '.join(BROWSERS)} is installed", file=sys.stderr)
        return False
    path.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(html.render(study), encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={path}"]
        subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=120)
    return True


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if draw(load(Path(sys.argv[1]), Study)) else 1)
