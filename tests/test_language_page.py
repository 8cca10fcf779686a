"""docs/language.md prints what it claims."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "language.md"


def test_the_page_prints_what_it_claims() -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    claim = re.search(r"prints\n\n```\n(.*?)```", text, re.DOTALL)
    assert code is not None
    assert claim is not None
    ran = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=True)
    assert ran.stdout == claim[1]
