from nnghmc.run.report.markup import Html, element, joined


def test_text_is_escaped_and_elements_are_not():
    inner = element("b", "1 < 2 & 3")
    assert inner == "<b>1 &lt; 2 &amp; 3</b>"
    assert element("p", inner, "<i>") == "<p><b>1 &lt; 2 &amp; 3</b>&lt;i&gt;</p>"
    assert joined("<", Html("<br>")) == "&lt;<br>"


def test_attributes_cannot_be_broken_out_of():
    made = element("img", alt='"><script>', class_="a", aria_label="b", title=None, hidden=True)
    assert made == '<img alt="&quot;&gt;&lt;script&gt;" class="a" aria-label="b" hidden>'
