#!/usr/bin/env python3
"""The web page in Chromium, before a mock of the API and before `hadal serve` itself.

usage: test_web.py [HADAL [MODEL [FOLDER]]]     defaults: build/hadal models/demo
FOLDER receives pictures of the page, light and dark, wide and narrow."""
import json
import pathlib
import shutil
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
from mock_server import POLICY, TYPES, WEB, ApiFailure, MockServer, call, text
from served import FRANCE, PARIS, Server
from served import TOOLS as DEMO_TOOLS
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())

SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-web-"))
PICTURES = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
WIDE, NARROW = (1200, 820), (320, 640)

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
SHOWCASE = """Three ways to **compare** two floats, from *loose* to ***strict***:

1. By absolute difference, `fabs(a - b) <= eps`
2. By [relative error](https://example.org/floats "a page")
   - good for sums
   - poor near ~~one~~ zero
3. By bits

```c
static bool is_close(float a, float b, float tol)
{
    return fabsf(a - b) <= tol * fmaxf(fabsf(a), fabsf(b)); /* NaN gives false, as it should be for a comparison of this kind */
}
```

| format | bits | largest |
|:-------|-----:|:-------:|
| E4M3   | 8    | 448     |
| E2M1   | 4    | `6`     |

> A tolerance is derived,
> not tuned.

### In short
- [x] say what is compared
- [ ] say *why*"""
HOSTILE = """<img src=x onerror="document.title='owned'"> <script>document.title='owned'</script>

[click](javascript:document.title='owned') [tab](java\tscript:alert(1)) [data](data:text/html,<script>1</script>)
![pixel](https://tracker.invalid/pixel.png) [ok](https://example.org/a_b_c) <svg onload=alert(1)>
[x](JAVASCRIPT:alert(1)) [y](vbscript:x) <https://example.org/"onmouseover=alert(1)> [z]( javascript:alert(1))

```"><img src=x onerror=document.title='owned'>
<b>code</b>
```

| <i>a</i> | b |
|---|---|
| <img src=x onerror=alert(1)> | c |"""


def weather(request):
    last = request["messages"][-1]
    if last["role"] == "tool":
        return text(f"It is {json.loads(last['content'])['sky']} in Paris.")
    return call("get_weather", '{"location": "Paris"}')


def think(request):
    yield from text("First the question.\nThen the answer.", "reasoning_content", pace=0.5)
    yield from text("Forty-two.")


def slow(request):
    yield from text("one two three four five six seven eight nine ten " * 40, pace=0.03)


def fail_late(request):
    yield from text("So far so good")
    raise ApiFailure("NaN in layer 3, step attn_norm")


def refuse(request):
    raise ApiFailure("temperature: wanted 0 to 2, found 7")


def blank(request):
    yield from text("hmm", "reasoning_content")
    yield {"finish": "length", "more": {"hadal": {"blank": "reasoning"}}}


ANSWERS = {"weather": weather, "think": think, "slow": slow, "late": fail_late, "refuse": refuse, "blank": blank,
           "hostile": lambda r: text(HOSTILE), "show": lambda r: text(SHOWCASE), "none": lambda r: []}


def scripted(request):
    asked = next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user")
    plain = lambda r: text(f"You said: {asked}", pace=0.05)
    return ANSWERS.get(asked.split()[0], plain)(request)


# ---- the browser --------------------------------------------------------------------

def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     f"--user-data-dir={SCRATCH}/profile", "--disable-background-networking", "--lang=en"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(SCRATCH / "downloads")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


def size(width_height):
    # A window is never as narrow as a phone; the page's view can be.
    BROWSER.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width_height[0], "height": width_height[1], "deviceScaleFactor": 1, "mobile": False})


def theme(name):
    BROWSER.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": name}]})


def fresh(url, shape=WIDE, ready="ready"):
    size(shape)
    BROWSER.get(url)
    BROWSER.execute_script("localStorage.clear(); sessionStorage.clear();")
    BROWSER.get(url)
    until(lambda: BROWSER.find_element(By.TAG_NAME, "body").get_attribute("data-server") == ready)
    BROWSER.get_log("browser")


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain; page:\n{BROWSER.find_element(By.TAG_NAME, 'body').text}"
        time.sleep(0.03)


def one(selector):
    return BROWSER.find_element(By.CSS_SELECTOR, selector)


def every(selector):
    return BROWSER.find_elements(By.CSS_SELECTOR, selector)


def script(body, *args):
    return BROWSER.execute_script(body, *args)


def is_running():
    return "running" in (one("body").get_attribute("class") or "")


def ask(words, wait=True):
    one("#prompt").send_keys(words, Keys.ENTER)
    if wait:
        until(lambda: words in one("#log").text and not is_running())


def answer_text():
    return every(".assistant .text")[-1].text


def keys(*sequence):
    webdriver.ActionChains(BROWSER).send_keys(*sequence).perform()


def focused():
    return script("const e = document.activeElement; return e.id || e.textContent.trim() || e.tagName;")


def has_sideways_scroll():
    return script("return document.documentElement.scrollWidth > innerWidth ||"
                  "[...document.querySelectorAll('#scroll, main, dialog[open]')].some(e => e.scrollWidth > e.clientWidth);")


def picture(name):
    if PICTURES:
        BROWSER.save_screenshot(str(PICTURES / f"{name}.png"))


def no_complaints():
    """Nothing was written to the console: no error, no breach of the content security policy."""
    lines = [line for line in BROWSER.get_log("browser") if "favicon" not in line["message"]]
    assert not lines, lines


# ---- answers -----------------------------------------------------------------------

def test_first_view():
    fresh(MOCK.url)
    assert one("#model-name").text == "mock-model"
    assert "4,096 tokens" in one("#welcome").text and "NVFP4 x 412" in one("#welcome").text
    assert focused() == "prompt"
    picture("first")
    no_complaints()


def test_streaming_shows_what_came():
    fresh(MOCK.url)
    ask("slow", wait=False)
    until(lambda: "three" in answer_text())
    assert is_running() and one("#send-button").get_attribute("aria-label") == "Stop"
    assert one("#log").get_attribute("aria-busy") == "true"
    seen = len(answer_text())
    until(lambda: len(answer_text()) > seen + 20)
    one("#send-button").click()
    until(lambda: not is_running())
    no_complaints()


def test_request_and_numbers():
    fresh(MOCK.url)
    ask("hello")
    assert answer_text() == "You said: hello"
    sent = MOCK.requests[-1]
    assert sent == {"model": "mock-model", "messages": [{"role": "user", "content": "hello"}], "stream": True,
                    "stream_options": {"include_usage": True}}, sent
    numbers = one(".numbers").text
    assert "3 tokens" in numbers and "tokens/s" in numbers and "prompt 21 (16 kept)" in numbers, numbers
    assert one("#status").get_attribute("textContent") == "The answer is complete."


def test_stop_keeps_and_tells_the_server():
    fresh(MOCK.url)
    MOCK.left.clear()
    ask("slow", wait=False)
    until(lambda: "two" in answer_text())
    keys(Keys.ESCAPE)
    until(lambda: not is_running())
    assert MOCK.left.wait(5), "the server was not told"
    kept = answer_text()
    assert "one two" in kept and "stopped" in one(".numbers").text
    ask("and?")
    assert [m["role"] for m in MOCK.requests[-1]["messages"]] == ["user", "assistant", "user"]
    no_complaints()


def test_reasoning_is_folded():
    fresh(MOCK.url)
    ask("think", wait=False)
    until(lambda: one(".reasoning summary").text == "Thinking")
    until(lambda: not is_running())
    assert answer_text() == "Forty-two."
    assert one(".reasoning summary").text.startswith("Thought for ")
    assert not one(".thought").is_displayed()
    one(".reasoning summary").click()
    assert one(".thought").text == "First the question.\nThen the answer."
    picture("reasoning")
    ask("more")
    back = MOCK.requests[-1]["messages"][1]
    assert back["reasoning_content"] == "First the question.\nThen the answer.", back


def set_options(**values):
    one("#options-button").click()
    for name, value in values.items():
        field = one(f"#options [name={name}]")
        if field.tag_name == "select":
            one(f"#options [name={name}] option[value='{value}']").click()
        else:
            field.clear()
            field.send_keys(value)
    one("#options button[value=save]").click()


def test_tool_call_and_its_result():
    fresh(MOCK.url)
    set_options(tools=json.dumps(TOOLS))
    ask("weather")
    assert MOCK.requests[-1]["tools"] == TOOLS
    assert one(".call figcaption").text.split() == ["Calls", "get_weather"], one(".call figcaption").text
    assert json.loads(one(".call pre").text) == {"location": "Paris"}
    picture("call")
    one(".results textarea").send_keys('{"sky": "clear"}', Keys.ENTER)
    until(lambda: "clear in Paris" in one("#log").text and not is_running())
    assert [m["role"] for m in MOCK.requests[-1]["messages"]] == ["user", "assistant", "tool"]
    assert MOCK.requests[-1]["messages"][1]["tool_calls"][0]["id"] == "call_0"
    assert MOCK.requests[-1]["messages"][2]["tool_call_id"] == "call_0"
    assert not every(".results")
    no_complaints()


def test_options_reach_the_request():
    fresh(MOCK.url)
    set_options(system="Be brief.", thinking="max", temperature="0.5", top_p="0.9", top_k="40", min_p="0.1",
                max_tokens="64", seed="7", stop="END\n##")
    ask("hello")
    sent = MOCK.requests[-1]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    for name, value in {"thinking": {"type": "enabled"}, "reasoning_effort": "max", "temperature": 0.5, "top_p": 0.9,
                        "top_k": 40, "min_p": 0.1, "max_tokens": 64, "seed": 7, "stop": ["END", "##"]}.items():
        assert sent[name] == value, (name, sent)
    set_options(thinking="off")
    ask("again")
    assert MOCK.requests[-1]["thinking"] == {"type": "disabled"} and "reasoning_effort" not in MOCK.requests[-1]


def test_wrong_options_are_told():
    fresh(MOCK.url)
    one("#options-button").click()
    one("#options [name=tools]").send_keys("{no json")
    one("#options button[value=save]").click()
    assert one("#options-error").text.startswith("Tools: ") and one("#options").get_attribute("open")
    one("#options [name=tools]").clear()
    one("#options [name=temperature]").send_keys("7")
    one("#options button[value=save]").click()
    assert one("#options-error").text.startswith("Temperature"), one("#options-error").text
    keys(Keys.ESCAPE)
    ask("hello")
    assert "temperature" not in MOCK.requests[-1]


def test_errors_are_told():
    fresh(MOCK.url)
    ask("refuse")
    assert one(".assistant .error").text == "temperature: wanted 0 to 2, found 7"
    ask("late")
    assert every(".assistant .error")[-1].text == "NaN in layer 3, step attn_norm"
    assert answer_text() == "So far so good"
    ask("hello")
    assert [m["content"] for m in MOCK.requests[-1]["messages"]] == ["refuse", "late", "hello"]


def test_blank_answer_is_explained():
    fresh(MOCK.url)
    ask("blank")
    assert one(".note").text == "The limit of tokens came before the reasoning ended."
    assert "cut at the limit" in one(".numbers").text


def test_server_gone():
    mock = MockServer(scripted)
    fresh(mock.url)
    mock.close()
    ask("hello")
    assert "does not answer" in one(".assistant .error").text


def test_key():
    mock = MockServer(scripted, key="sesame")
    fresh(mock.url, ready="away")
    assert one("#options").get_attribute("open") is not None
    assert "wants an API key" in one("#options-error").text and focused() == "INPUT"
    keys("sesame", Keys.ENTER)
    until(lambda: one("body").get_attribute("data-server") == "ready")
    ask("hello")
    assert answer_text() == "You said: hello"
    assert "sesame" not in script("return JSON.stringify(localStorage);")
    mock.close()


# ---- retry, edit, list -----------------------------------------------------------------

def named(words, scope=""):
    return next(b for b in every(f"{scope} button") if b.text == words)


def test_retry_and_edit():
    fresh(MOCK.url)
    ask("first")
    ask("second")
    named("Retry", ".turn:last-child").click()
    until(lambda: not is_running())
    assert [m["content"] for m in MOCK.requests[-1]["messages"]] == ["first", "You said: first", "second"]
    assert len(every(".turn")) == 4
    webdriver.ActionChains(BROWSER).move_to_element(one(".user")).perform()
    named("Edit", ".turn:first-child").click()
    area = one(".edit textarea")
    assert area.get_attribute("value") == "first" and focused() == "TEXTAREA"
    area.send_keys(" of all", Keys.ENTER)
    until(lambda: "first of all" in answer_text() and not is_running())
    assert len(every(".turn")) == 2
    assert MOCK.requests[-1]["messages"] == [{"role": "user", "content": "first of all"}]


def test_conversations_are_kept():
    fresh(MOCK.url)
    ask("about whales")
    named("New conversation").click()
    assert not every(".turn") and one("#welcome").is_displayed()
    ask("about squid")
    BROWSER.get(MOCK.url)
    assert [b.text for b in every(".item")] == ["about squid", "about whales"]
    named("about whales").click()
    assert answer_text() == "You said: about whales"
    assert one(".item[aria-current]").text == "about whales"
    one("#delete-button").click()
    one("#confirm button[value=no]").click()
    assert len(every(".item")) == 2
    one("#delete-button").click()
    one("#confirm button[value=yes]").click()
    until(lambda: [b.text for b in every(".item")] == ["about squid"])
    BROWSER.get(MOCK.url)
    assert [b.text for b in every(".item")] == ["about squid"]


def test_export():
    fresh(MOCK.url)
    set_options(system="Be brief.", temperature="0.5")
    ask("about: whales/../")
    one("#export-button").click()
    file = SCRATCH / "downloads/about-whales.json"
    until(file.exists)
    exported = json.loads(file.read_text())
    assert exported["temperature"] == 0.5 and exported["model"] == "mock-model"
    assert [m["role"] for m in exported["messages"]] == ["system", "user", "assistant"]


def test_damaged_storage():
    fresh(MOCK.url)
    script("localStorage['hadal.conversation.a'] = '{'; localStorage['hadal.conversation.b'] = '{\"id\":\"b\"}';"
           "localStorage['hadal.conversation.c'] = '{\"id\":\"c\",\"messages\":[null]}'; localStorage['hadal.options'] = '[';")
    BROWSER.get(MOCK.url)
    until(lambda: one("body").get_attribute("data-server") == "ready")
    assert not every(".item")
    ask("hello")
    assert answer_text() == "You said: hello"


# ---- markdown --------------------------------------------------------------------------

def test_hostile_answer():
    fresh(MOCK.url)
    ask("hostile")
    assert BROWSER.title == "Hadal"
    assert not every("#log img, #log script, #log svg, #log b, #log i:not(.wait i)")
    links = {a.get_attribute("href") for a in every("#log a")}
    assert links == {"https://tracker.invalid/pixel.png", "https://example.org/a_b_c",
                     "https://example.org/%22onmouseover=alert(1)"}, links
    assert all(a.get_attribute("rel") == "noopener noreferrer" for a in every("#log a"))
    shown = answer_text()
    assert "<img src=x onerror=" in shown and "[click](javascript:document.title='owned')" in shown
    assert not script("return [...document.querySelectorAll('#log *')].flatMap(e => e.getAttributeNames())"
                      ".filter(n => n.startsWith('on'));")
    no_complaints()  # nothing was fetched either: the policy would have complained


def test_markdown():
    fresh(MOCK.url)
    ask("show")
    assert [li.text for li in every(".text > ol > li > ul > li")] == ["good for sums", "poor near one zero"]
    assert len(every(".text > ol > li")) == 3 and one("del").text == "one" and one("em strong, strong em").text == "strict"
    assert one("figure.code figcaption span").text == "c" and "NaN gives false" in one("figure.code code").text
    assert [c.text for c in every("td")] == ["E4M3", "8", "448", "E2M1", "4", "6"]
    assert every("td")[1].get_attribute("class") == "end" and every("td")[2].get_attribute("class") == "center"
    assert one("blockquote").text == "A tolerance is derived,\nnot tuned."
    assert [b.is_selected() for b in every(".task input")] == [True, False]
    assert one(".text h5").text == "In short"
    no_complaints()


def rendered(source):
    return BROWSER.execute_async_script(
        "const done = arguments[1]; import('./web/markdown.js').then(({Markdown}) => {"
        "const box = document.createElement('div'); new Markdown(box).show(arguments[0]); done(box.innerHTML);});", source)


def test_markdown_pieces():
    fresh(MOCK.url)
    p = lambda inner: f'<p dir="auto">{inner}</p>'
    for source, wanted in {
            "a": p("a"), "a\nb": p("a<br>b"), "*a*": p("<em>a</em>"), "**a*": p("*<em>a</em>"), "***a***": p("<em><strong>a</strong></em>"),
            "snake_case_name": p("snake_case_name"), "2 * 3 * 4": p("2 * 3 * 4"), "\\*a\\*": p("*a*"), "``a`b``": p("<code>a`b</code>"),
            "`a": p("`a"), "<b>": p("&lt;b&gt;"), "[a](b)": p("[a](b)"), "# ": '<h3 dir="auto"></h3>', "#a": p("#a"), "---": "<hr>",
            "- a\n- b": "<ul><li>a</li><li>b</li></ul>", "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
            "- a\n\n- b": f"<ul><li>{p('a')}</li><li>{p('b')}</li></ul>", "> a\nb": f"<blockquote>{p('a<br>b')}</blockquote>",
            "a\n- b": p("a") + "<ul><li>b</li></ul>", "* a *b*": "<ul><li>a <em>b</em></li></ul>", "**a": p("**a"),
            "1986. A year": '<ol start="1986"><li>A year</li></ol>', "~~a~~ ~b~": p("<del>a</del> ~b~"), "": "", "|": p("|"),
            "a | b\n--- | ---": None}.items():
        got = rendered(source).replace('<li dir="auto">', "<li>")
        assert got == wanted or wanted is None and "<table>" in got, (source, got)


def test_growing_text_is_rendered_as_the_whole():
    fresh(MOCK.url)
    same = BROWSER.execute_async_script(
        "const [text, done] = arguments; import('./web/markdown.js').then(({Markdown}) => {"
        "const [a, b] = [document.createElement('div'), document.createElement('div')]; const grown = new Markdown(a);"
        "for (let n = 0; n <= text.length; n++) grown.show(text.slice(0, n));"
        "new Markdown(b).show(text); done(a.innerHTML === b.innerHTML);});", SHOWCASE + "\n\n" + HOSTILE)
    assert same


def test_hostile_markdown_is_quick():
    fresh(MOCK.url)
    n = 20000  # anything but linear work takes minutes here
    for source in ("*" * n, "*a " * n, "a* " * n, "_a" * n, "[" * n, "[a](" * n, "!" + "[" * n, "`" * n, "` `` " * n, "> " * n, "- " * n,
                   "\n".join("  " * (i % 99) + "- a" for i in range(n)), "~" * n + "`", "# " + " " * n + "x", "|" * n + "\n" + "|" * n,
                   "a|b\n-|-" + " " * n + "x", "<" * n, "http://" * n, "http://a" + "." * n, "\\" * n, "1. " * n, "~~" * n, "* " * n + "x",
                   "\n".join(["a"] * n), "\n".join([">"] * n), "```\n" * n, " " * n + "x", "[a](<" + "b " * n, "**a_b*c" * n):
        start = time.monotonic()
        rendered(source)
        assert time.monotonic() - start < 15, source[:20]


# ---- looks and keys ----------------------------------------------------------------------

def brightness():
    return script("return getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3)"
                  ".reduce((a, b) => a + Number(b), 0) / 3;")


def test_light_and_dark():
    fresh(MOCK.url)
    ask("show")
    theme("light")
    assert brightness() > 200
    picture("wide-light")
    theme("dark")
    assert brightness() < 60
    picture("wide-dark")
    set_options(theme="light")
    assert brightness() > 200
    BROWSER.get(MOCK.url)
    assert brightness() > 200
    theme("light")


def contrast(selector):
    """The ratio of text to what is behind it, as the accessibility guidelines define it."""
    front, back = script(
        "const e = document.querySelector(arguments[0]); let b = e; const solid = c => !/, 0\\)$|^transparent/.test(c);"
        "while (!solid(getComputedStyle(b).backgroundColor) && b.parentElement) b = b.parentElement;"
        "return [getComputedStyle(e).color, getComputedStyle(b).backgroundColor];", selector)
    def light(colour):
        parts = [float(x) / 255 for x in colour[colour.index("(") + 1:-1].split(",")[:3]]
        parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    a, b = sorted([light(front), light(back)])
    return (b + 0.05) / (a + 0.05)


def test_contrast():
    fresh(MOCK.url)
    ask("think")
    ask("show")
    ask("refuse")
    for name in ("light", "dark"):
        theme(name)
        for selector in (".assistant p", ".user .text", ".numbers", ".reasoning summary", ".error", "#log a", "blockquote p",
                         "figcaption span", "code", "#hint", ".chip", ".item", "#delete-button", "#new-button"):
            assert contrast(selector) >= 4.5, (name, selector, contrast(selector))
    theme("light")


def test_phone():
    fresh(MOCK.url, NARROW)
    assert not has_sideways_scroll()
    picture("narrow-first")
    ask("show")
    assert not has_sideways_scroll()
    picture("narrow-light")
    ask("longword" + "x" * 300)
    ask("hostile")
    assert not has_sideways_scroll()
    assert not one("#list").is_displayed()
    one("#list-button").click()
    until(lambda: one("#list").is_displayed() and one("#list").location["x"] == 0)
    assert focused() == "new-button"
    time.sleep(0.3)
    picture("narrow-list")
    keys(Keys.ESCAPE)
    until(lambda: not one("#list").is_displayed())
    assert focused() == "list-button"
    one("#options-button").click()
    assert not has_sideways_scroll()
    picture("narrow-options")
    keys(Keys.ESCAPE)
    one("#facts-button").click()
    assert "NVFP4 x 412" in one("#facts").text and not has_sideways_scroll()
    theme("dark")
    picture("narrow-facts-dark")
    keys(Keys.ESCAPE)
    picture("narrow-dark")
    theme("light")


def test_keyboard_only():
    fresh(MOCK.url)
    webdriver.ActionChains(BROWSER).send_keys("line one").key_down(Keys.SHIFT).send_keys(Keys.ENTER) \
        .key_up(Keys.SHIFT).send_keys("line two").perform()
    assert one("#prompt").get_attribute("value") == "line one\nline two"
    keys(Keys.ENTER)
    until(lambda: "You said: line one" in one("#log").text and not is_running())
    assert focused() == "prompt"
    script("document.querySelector('.skip').focus();")
    order = [focused()]
    for _ in range(12):
        keys(Keys.TAB)
        order.append(focused())
        visible = script("const r = document.activeElement.getBoundingClientRect(); return r.width > 0 && r.height > 0;")
        assert visible, order
    assert order[0] == "Skip to the message field" and order[1:3] == ["facts-button", "options-button"], order
    assert order.index("new-button") < order.index("export-button") < order.index("Edit") < order.index("Retry") \
        < order.index("prompt") < order.index("send-button"), order
    one("#options-button").send_keys(Keys.ENTER)
    assert one("#options").get_attribute("open") is not None
    keys(Keys.ESCAPE)
    assert one("#options").get_attribute("open") is None and focused() == "options-button"


def test_screen_readers():
    fresh(MOCK.url)
    ask("think")
    assert one("#log").get_attribute("role") == "log" and one("#log").get_attribute("aria-busy") == "false"
    assert one("#status").get_attribute("role") == "status"
    nameless = script("return [...document.querySelectorAll('button, input, select, textarea')].filter(e => !("
                      "e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length))).map(e => e.outerHTML);")
    assert not nameless, nameless


# ---- the server itself -------------------------------------------------------------------

def test_files_are_served():
    for file in WEB.iterdir():
        path = "/" if file.name == "index.html" else "/openapi.json" if file.suffix == ".json" else f"/web/{file.name}"
        status, fields, data = SERVER.ask("GET", path)
        assert status == 200 and data == file.read_bytes(), path
        assert fields["Content-Type"] == {**TYPES, ".json": "application/json"}[file.suffix]
        assert fields["Content-Security-Policy"] == POLICY and fields["X-Content-Type-Options"] == "nosniff"
    assert SERVER.ask("GET", "/web/none.js")[0] == 404 and SERVER.ask("GET", "/web/..%2froutes.c")[0] == 404


def test_demo_answers():
    fresh(SERVER.url + "/")
    assert one("#model-name").text == "demo" and "NVFP4" in one("#welcome").text
    set_options(thinking="off", temperature="0")
    ask(FRANCE)
    assert answer_text() == PARIS and "8 tokens" in one(".numbers").text
    set_options(thinking="high")
    ask("What is the capital of Greece?")
    assert "Athens" in answer_text() and every(".reasoning summary")[-1].text.startswith("Thought for ")
    set_options(max_tokens="2")
    named("Retry", ".turn:last-child").click()
    until(lambda: "cut at the limit" in every(".numbers")[-1].text)
    assert every(".note")[-1].text == "The limit of tokens came before the reasoning ended."
    no_complaints()


def test_demo_calls_a_tool():
    fresh(SERVER.url + "/")
    set_options(thinking="off", temperature="0", system="You are a helpful assistant.", tools=json.dumps(DEMO_TOOLS))
    ask("What is the weather in Athens?")
    assert json.loads(one(".call pre").text) == {"location": "Athens"}
    one(".results textarea").send_keys('{"temperature": 6, "condition": "sunny"}', Keys.ENTER)
    until(lambda: "In Athens it is sunny with 6 degrees." in one("#log").text and not is_running())
    no_complaints()


def test_stop_frees_the_server():
    fresh(SERVER.url + "/")
    set_options(thinking="off", seed="1", temperature="2")
    one("#prompt").send_keys("Tell me a story.", Keys.ENTER)
    until(lambda: is_running() or answer_text())
    keys(Keys.ESCAPE)
    until(lambda: not is_running())
    until(lambda: SERVER.metric("vllm:num_requests_running") == 0)


def main():
    global BROWSER, MOCK, SERVER
    SERVER = Server(HADAL, MODEL)
    BROWSER = start_browser()
    MOCK = MockServer(scripted)
    chosen = {name: value for name, value in globals().items() if name.startswith("test_")}
    try:
        return suite.run(chosen, tempfile.mkdtemp())
    finally:
        BROWSER.quit()
        SERVER.stop()
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
