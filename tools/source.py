"""What the checks share: the C files, and their text without comments and strings."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def c_files(*folders):
    for folder in folders or ("src",):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            yield path


def without_comments(text, strings=True):
    """The same text with comments (and strings) blanked, so that line numbers stay."""
    def blank(m):
        token = m.group()
        if token[0] in "\"'" and not strings:
            return token
        return re.sub(r"[^\n]", " ", token)
    return _TOKEN.sub(blank, text)


def relative(path):
    return path.relative_to(ROOT)


def report(problems, what):
    for p in problems:
        print(p)
    print(f"{what}: {len(problems)} problem{'s' * (len(problems) != 1)}")
    return 1 if problems else 0
