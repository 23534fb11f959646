"""The documentation site: `nox -s docs` renders docs/, the READMEs and the references into build/site.

session.py says which step runs in which environment; the other modules are the steps.
"""


class DocsError(Exception):
    """Something is missing on the site, or a link is dead; the text says where and what to do."""
