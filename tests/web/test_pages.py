"""Pages: the visible main content of any HTML."""

from __future__ import annotations

import pytest

from hilt.errors import ToolError
from hilt.fence import Fence
from hilt.formats.invisible import visible
from hilt.web import pages

WORDS = "These are the words that the page is about, and there are enough of them to be its main content. " * 3


def markdown(html: str, url: str = "https://site.example/a/b.html") -> str:
    return pages.convert(html.encode(), url, plain=False)[1]


def test_structure_becomes_markdown():
    text = markdown(
        f"<h1>Title</h1><p>{WORDS}<b>bold</b> <em>em</em> <code>x = 1</code></p>"
        "<ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul><ol start=3><li>three</ol>"
        "<table><tr><th>A<th>B<tr><td>1<td>2</table>"
        '<pre><code class="language-py">def f():\n    return 1</code></pre><blockquote>quoted</blockquote>'
        '<a href="/x?y=1#z">link</a> <a href="c.html">near</a> <img src="//img.example/i.png" alt="picture">'
    )

    for part in (
        "# Title",
        "**bold** *em* `x = 1`",
        "- one",
        "inner",
        "3. three",
        "| A | B |",
        "| 1 | 2 |",
        "```py\ndef f():\n    return 1\n```",
        "> quoted",
        "[link](https://site.example/x?y=1#z)",
        "[near](https://site.example/a/c.html)",
        "![picture](https://img.example/i.png)",
    ):
        assert part in text, part


def test_plain_text_has_no_markup():
    page = pages.convert(
        f"<h1>Title</h1><p>{WORDS}<b>bold</b> <a href=/x>link</a>".encode(), "https://a.example/", plain=True
    )[1]

    assert "Title" in page
    assert "bold link" in page
    assert "**" not in page
    assert "](" not in page


def test_the_base_of_a_page_applies_to_its_links():
    assert "[x](https://other.example/d/x)" in markdown(
        f'<base href="https://other.example/d/"><p>{WORDS}<a href=x>x</a>'
    )


BOILERPLATE = [
    "<nav>GONE</nav>",
    "<header>GONE</header>",
    "<footer>GONE</footer>",
    "<aside>GONE</aside>",
    "<div role=navigation>GONE</div>",
    "<div class='cookie-banner'>GONE</div>",
    "<div id=comments>GONE</div>",
    "<form>GONE<input value=GONE><button>GONE</button></form>",
    "<dialog open>GONE</dialog>",
    "<select><option>GONE</select>",
    "<div>GONE</div>",
]


@pytest.mark.parametrize("boilerplate", BOILERPLATE)
def test_text_around_the_main_content_is_dropped(boilerplate):
    text = markdown(f"<body>{boilerplate}<main><h1>Kept</h1><p>{WORDS}</p></main>{boilerplate}</body>")

    assert "Kept" in text
    assert "GONE" not in text


@pytest.mark.parametrize("boilerplate", BOILERPLATE[:-1])
def test_boilerplate_is_dropped_without_a_main_element(boilerplate):
    text = markdown(f"<body>{boilerplate}<div><h1>Kept</h1><p>{WORDS}</p></div>{boilerplate}</body>")

    assert "Kept" in text
    assert "GONE" not in text


HIDDEN = [
    "<script>GONE</script>",
    "<script>'<p>GONE</p>'</script>",
    "<style>p { content: 'GONE' }</style>",
    "<noscript>GONE</noscript>",
    "<template>GONE</template>",
    "<!-- GONE -->",
    "<!-- <p>GONE</p> -->",
    "<p hidden>GONE</p>",
    "<p hidden=until-found>GONE</p>",
    "<p aria-hidden=true>GONE</p>",
    "<p aria-hidden=TRUE>GONE</p>",
    "<p style='display:none'>GONE</p>",
    "<p style='color: red; DISPLAY : NONE !important'>GONE</p>",
    "<p style='visibility: hidden'>GONE</p>",
    "<p style='opacity: 0'>GONE</p>",
    "<p style='opacity: .0'>GONE</p>",
    "<p style='opacity:0.01'>GONE</p>",
    "<p style='font-size: 0'>GONE</p>",
    "<p style='font-size:0px'>GONE</p>",
    "<p style='font-size:1px'>GONE</p>",
    "<p style='position:absolute; left:-9999px'>GONE</p>",
    "<p style='text-indent: -5000px'>GONE</p>",
    "<p style='clip: rect(0 0 0 0)'>GONE</p>",
    "<p style='clip-path: inset(50%)'>GONE</p>",
    "<p style='height:0; overflow:hidden'>GONE</p>",
    "<p style='overflow: hidden; width: 1px'>GONE</p>",
    "<p style='transform: scale(0)'>GONE</p>",
    "<p style='color: transparent'>GONE</p>",
    "<div style='display:none'><p>GONE<b hidden>GONE</b></p><div hidden>GONE</div></div>",
    "<style>.x { display: none }</style><p class='y x'>GONE</p>",
    "<style>/* } */ #z, .q > i { color: red; visibility: hidden }</style><p id=z>GONE</p><p class=q><i>GONE</i></p>",
    "<style>@media print { p { display: none } } .x{opacity:0}</style><p class=x>GONE</p>",
    "<style>a, b, i, u, s, .x { display: none }</style><p class=x>GONE</p>",
    "<svg><text>GONE</text></svg>",
    "<svg><!-- </svg> --><text>GONE</text></svg>",
    "<svg><svg></svg>GONE</svg>",
    "<svg>GONE<svg>GONE",
    "<svg><foreignObject><p>GONE</p></foreignObject></svg>",
    "<iframe srcdoc='GONE'>GONE</iframe>",
    "<object data=x>GONE</object>",
    "<input type=hidden value=GONE>",
    "<textarea>GONE</textarea>",
    "<canvas>GONE</canvas>",
    "<video src=x>GONE</video>",
    "<p title=GONE>kept</p>",
    "<a href='javascript:GONE'>kept</a>",
    "<a href=' JavaScript:GONE'>kept</a>",
    "<a href='data:text/html,GONE'>kept</a>",
    "<img src='data:image/png;base64,GONE' alt=kept>",
    "<a href=x title=GONE>kept</a>",
    "<meta name=description content=GONE>",
    "<p style='display:none'/>GONE",
]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("plain", [False, True])
def test_hidden_text_is_dropped(hidden, plain):
    text = pages.convert(
        f"<main><h1>Kept</h1><p>{WORDS}</p>{hidden}</main>".encode(), "https://a.example/", plain=plain
    )[1]

    assert "Kept" in text
    assert "GONE" not in text


@pytest.mark.parametrize(
    "html",
    [
        "<p style='opacity: 0.5'>SEEN</p>",
        "<p style='opacity: 1'>SEEN</p>",
        "<p style='font-size: 10px'>SEEN</p>",
        "<p style='font-size: 1.2em'>SEEN</p>",
        "<p style='font-size: 1rem'>SEEN</p>",
        "<p style='left: -10px'>SEEN</p>",
        "<p style='overflow: hidden; width: 100%'>SEEN</p>",
        "<p style='overflow: hidden; width: 1em'>SEEN</p>",
        "<p aria-hidden=false>SEEN</p>",
        "<details><summary>more</summary>SEEN</details>",
        "<style>@media print { .x { display: none } }</style><p class=x>SEEN</p>",
        "<style>.x:hover { display: none }</style><p class=x>SEEN</p>",
        "<style>body { opacity: 0 }</style><p>SEEN</p>",
        "<style>[, #, a..b, p >> i, .x~ { opacity: 0 }</style><p>SEEN</p>",
        "<math><mi>SEEN</mi></math>",
        "<svg>x<p>SEEN</p>",
        "<p>SEEN <span hidden>x</span></p>",
    ],
)
def test_visible_text_is_kept(html):
    assert "SEEN" in markdown(f"<main><h1>Kept</h1><p>{WORDS}</p>{html}</main>")


@pytest.mark.parametrize(
    "html",
    [
        f"<p>{WORDS}KEPT",
        f"<html><body><div><p>{WORDS}KEPT<b><i>x</b></i>",
        f"<p>{WORDS}KEPT<script>never closed",
        f"<p>{WORDS}KEPT<style>never closed {WORDS}",
        f"<p>{WORDS}KEPT<!-- never closed",
        f"<p>{WORDS}KEPT<a href='never closed>x",
        f"<table><tr><td>{WORDS}KEPT",
        f"</div></p><p>{WORDS}KEPT</span></main>",
        f"\0<p>{WORDS}\0KEPT",
        f"<P>{WORDS}KEPT</P>",
        f"<p>{WORDS}KEPT &lt;b&gt; &amp; &#x41; &nbsp;",
        f"<![CDATA[x]]><?php x ?><p>{WORDS}KEPT",
    ],
)
def test_broken_html_is_read_as_far_as_possible(html):
    assert "KEPT" in markdown(html)
    assert "never closed" not in markdown(html)


def test_an_empty_page_is_empty():
    for html in ("", "<html></html>", "<script>x</script>", "<frameset><frame src=x></frameset>", "\0"):
        assert visible(markdown(html)).strip() == ""


def test_a_page_has_its_title():
    assert pages.convert(b"<title> A\n &amp; B </title><p>x", "https://a.example/", plain=False)[0] == "A & B"


# --- hostile pages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "html",
    [
        "<svg>" + "<!" * 200_000,
        "<svg>" * 80_000,
        "<svg>" + "<!--" * 100_000,
        "<svg><p>" * 50_000,
        "<" * 500_000,
        "<a b='" * 80_000,
        "<!--" * 100_000,
        "<table>" + "<tr><td colspan=1000>x" * 20_000,
        "<table><tr>" + "<td>x" * 2000 + "<tr><td>y" * 40_000,
        "<style>" + ".a{display:none}" * 30_000 + "</style>" + "<p>x" * 1000,
        "<style>" + "/*" * 200_000 + "</style>x",
        "<p style='" + "height:0;" * 50_000 + "'>x",
        "<style>" + "@media{" * 60_000 + "</style>x",
        "<style>" + "@" * 400_000 + "</style>x",
        "<style>" + "{}" * 200_000 + "</style>x",
        "<style>" + "a," * 200_000 + "b{display:none}</style>x",
        "<style>" + " " * 400_000 + "b{display:none}</style>x",
    ],
)
def test_a_hostile_page_is_converted_quickly_to_little_text(html):
    assert len(markdown(html)) < 2_000_000


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 200_000,
        "<ul><li>" * 200_000,
        "<b><i><u><p>" * 100_000,
        "<a " + " ".join(map("a{}=1".format, range(200_000))),
    ],
)
def test_a_page_that_takes_too_long_is_an_error(monkeypatch, html):
    monkeypatch.setattr(pages, "_CONVERTER", pages._CONVERTER._replace(seconds=1))

    with pytest.raises(ToolError) as caught:
        pages.read(html, "https://a.example/", Fence(), plain=False)

    assert caught.value.code == "resource_limit"
    assert caught.value.message == "Decoding https://a.example/ takes more than 1 seconds."
    assert "raw" in caught.value.suggestion


@pytest.mark.starts_processes
def test_a_page_that_takes_too_much_memory_is_an_error():
    html = "".join(map("<b id={}><p>".format, range(200_000)))

    with pytest.raises(ToolError, match="needs more than 1024 MiB of memory") as caught:
        pages.read(html, "https://a.example/", Fence(), plain=False)

    assert caught.value.code == "resource_limit"


@pytest.mark.starts_processes
def test_the_end_of_a_very_long_page_is_cut_off():
    page = pages.read("<p>a b c</p>" * 400_000 + "<h1>end</h1>", "https://a.example/", Fence(), plain=False)

    assert (page.is_cut, page.text[:7], "end" in page.text) == (True, "a b c\n\n", False)


@pytest.mark.starts_processes
def test_a_page_is_the_same_from_a_child_process():
    html = f"<title>T &amp; ü</title><h1>Head</h1><p>{WORDS}<b>b</b> é \x00 \ufffd <a href=x>y</a>"

    for plain in (True, False):
        expected = pages.convert(html.encode(), "https://a.example/", plain=plain)
        assert pages.read(html, "https://a.example/", Fence(), plain=plain) == (*expected, False)
