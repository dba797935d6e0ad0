"""How a reply looks, in one place.

Untrusted notebooks strip `<style>`, `id`, `data-*` and every style with `var()`, so boxes carry
inline styles in greys that suit light and dark, and only refinements stand in the one `<style>`.
"""

from __future__ import annotations

import re

from .code import STYLE

LINE = "1px solid rgba(128,128,128,.35)"
BOX = f"border:{LINE};border-radius:6px;padding:.35em .8em;margin:.3em 0 .7em"
FOLDED = "cursor:pointer;display:list-item"
"""Of a summary, with its triangle also where a page takes it away (nbconvert's classic template)."""
SUMMARY = f"{FOLDED};opacity:.75"
QUIET = "opacity:.65;font-size:90%"
RUNNING = "white-space:pre-wrap;overflow-wrap:anywhere;opacity:.8"
THINKING = f"{RUNNING};margin:.5em 0 .2em;max-height:24em;overflow-y:auto"
FOLLOW = (
    "display:flex;flex-direction:column-reverse;line-height:1.5;max-height:9em;"  # six whole lines
    "overflow-y:auto;margin:.4em 0 .2em"
)
"""A box that stands scrolled to its end, however often its content is replaced: text that runs."""
BADGE = (
    "display:inline-block;border:1px solid rgba(200,130,0,.8);border-radius:1em;padding:0 .7em;"
    "font-size:85%;margin:.3em 0 .5em"
)
NOTE = "border-left:3px solid rgba(200,130,0,.8);padding:.1em .8em;margin:.5em 0;font-size:92%"
FAILURE = "border-left:3px solid rgba(210,60,60,.85);padding:.1em .8em;margin:.5em 0;font-size:92%"
FOOTER = f"{QUIET};border-top:{LINE};margin-top:.9em;padding-top:.35em"
PRE = "white-space:pre-wrap;overflow:auto;max-height:20em;margin:.4em 0"
RESULT = f"{PRE};border-top:{LINE};padding-top:.4em"
RESULT_ERROR = f"{RESULT};border-left:3px solid rgba(210,60,60,.85);padding-left:.6em"
IMAGE = "max-width:100%;max-height:30em;display:block;margin:.4em 0"
THUMBNAIL = "max-width:100%;max-height:10em;margin:.4em .6em .2em 0"
CELL = "padding:.1em .9em .1em 0;text-align:left;border:0"

_PAGE_CLASS = "jp-RenderedHTMLCommon mathjax_ignore tex2jax_ignore"
"""The front end's own typography; math only where a formula's own class says so."""
WRAPPER_CLASS = f"kimi {_PAGE_CLASS}"
"""As wide as text is read, and with the rules of the style sheet."""

_RULES = """
.kimi { max-width: 60em; padding-right: 0; overflow-wrap: break-word }
.jupyter-widgets .kimi { padding-right: 20px }
.kimi table { margin-left: 0; margin-right: 0 }
.kimi .kimi-table table th, .kimi .kimi-table table td { text-align: left }
.kimi summary:focus-visible { outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 2px }
.kimi .kimi-text > :first-child { margin-top: 0 }
.kimi div.mathjax_process { margin: 1em 0; overflow-x: auto; overflow-y: hidden }
.kimi div.mathjax_process > mjx-container[display] { margin: 0; padding: .1em 0 }
.kimi section { overflow-x: auto; overflow-y: hidden }
.kimi pre.kimi-code { background: rgba(128,128,128,.08); border: 1px solid rgba(128,128,128,.25);
  border-radius: 6px; line-height: 1.45; margin: .2em 0 1em; overflow-x: auto; padding: .6em .9em }
.kimi pre.kimi-code code { background: none; padding: 0; white-space: pre }
"""


def wrapped(body: str, *, sheet: bool = True) -> str:
    """`body` in the one element that replies stand in. sheet: with the style sheet."""
    return _wrapped(f"{_sheet() if sheet else ''}{body}", WRAPPER_CLASS)


def wrapped_wide(body: str) -> str:
    """`body` in an element as wide as the page: a table of ours."""
    return _wrapped(body, _PAGE_CLASS)


def _wrapped(body: str, classes: str) -> str:
    """All HTML that is published comes through here: outside of it MathJax takes `$` for formulas.

    No line in it is empty: exporters put HTML into markdown as it is, where HTML ends at an empty line
    (https://spec.commonmark.org/0.31.2/#html-blocks). In code a character reference keeps it.
    """
    body = _EMPTY_LINE.sub(r"\1&#10;", body)
    return f'<div class="{classes}">{body}</div>'


_EMPTY_LINE = re.compile(r"(?<=\n)([ \t]*)\n")


def _sheet() -> str:
    """The one `<style>`."""
    return f"<style>\n{rules()}\n</style>\n"


def rules() -> str:
    """What stands in it: every rule is below the class `kimi`. No line is empty (see `_wrapped`)."""
    return _RULES.strip() + STYLE.rstrip().replace("\n.kimi-", "\n.kimi .kimi-")
