"""A panel beside the cells: the same chat, asked and read in one place.

    panel       `Panel`: hears what the front end wants, and tells it what there is
    state       what is to be seen, as plain values
    asking      a filled-in form → the question that it makes
    confirming  asks the user whether a tool may run
    transcript  a conversation as HTML, markdown and text: what a saved notebook keeps
    widget      the widget, made on first use

Its front end is in the scripts, put together in this order:

    messages.js  what the kernel says, what the user wants, and the form that is being filled in
    pieces.js    small pieces of the page
    log.js       the transcript
    strip.js     the usage
    panel.js     the panel as one sees it; `panel.css` is its look

Model text reaches the page only as text, or as HTML that `render` made and sanitised.
"""

from .panel import Panel

__all__ = ["Panel"]
