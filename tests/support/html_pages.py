"""Read the elements and tables of an HTML page."""

from html.parser import HTMLParser


class Parsed(HTMLParser):
    """This parser collects elements with their attributes, and the text of table rows."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.rows, self.texts, self.inside = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if "script" not in self.inside[-1:] and "style" not in self.inside[-1:]:
            self.texts.append(data)
        if self.rows and {"td", "th"} & set(self.inside):
            self.rows[-1][-1] += data.strip() and f" {data.strip()}"

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def sections(self):
        return [attributes["id"] for attributes in self.all("section")]
