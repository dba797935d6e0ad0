"""A panel beside the cells: the same chat, asked and read in one place.

    panel       `Panel`: hears what the front end wants, and tells it what there is
    state       what is to be seen, as plain values
    asking      a filled-in form → the question that it makes
    confirming  asks the user whether a tool may run
    transcript  a conversation as HTML, markdown and text: what a saved notebook keeps
    widget      the widget, made on first use; the scripts and the style sheet are its front end

Model text reaches the page only as text, or as HTML that `render` made and sanitised.
"""

from .panel import Panel

__all__ = ["Panel"]
