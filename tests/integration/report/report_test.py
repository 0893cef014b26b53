"""report.html as a reader sees it, in Chromium: report_test.py SAMPLE_REPORT [unittest's arguments]."""
import os
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

# Pixels of a canvas that are not transparent.
INK = """(() => [...document.querySelectorAll('canvas')].filter((c) => !c.closest('details:not([open])')).map((c) => {
  const pixels = c.getContext('2d').getImageData(0, 0, Math.max(1, c.width), Math.max(1, c.height)).data;
  let inked = 0;
  for (let i = 3; i < pixels.length; i += 4) if (pixels[i]) ++inked;
  return inked;
}))()"""


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="samerun-report-")
        cls.browser = Browser().__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def file(self, kind):
        file = os.path.join(self.folder.name, kind + ".html")
        if not os.path.exists(file):
            subprocess.run([SAMPLE, kind, file], check=True)
        return file

    def open(self, kind, **conditions):
        page = self.browser.page(**conditions)
        page.open(self.file(kind))
        return page

    def assert_quiet(self, page, kind):
        self.assertEqual(page.complaints(), [])
        self.assertEqual(page.requests(), ["file://" + self.file(kind)])

    def assert_visible(self, page, selector, text):
        box = page.evaluate(f"(() => {{ const b = document.querySelector('{selector}').getBoundingClientRect(); return [b.width, b.height]; }})()")
        self.assertGreater(min(box), 5, selector)
        self.assertIn(text, page.evaluate(f"document.querySelector('{selector}').innerText"))

    def test_every_plot_in_view_is_drawn_without_a_complaint_or_a_request(self):
        page = self.open("clean")
        ink = page.evaluate(INK)
        self.assertEqual(len(ink), 12 + 2)  # curves in view, loss, phases
        self.assertEqual(page.evaluate("Number(document.documentElement.dataset.charts)"), len(ink))
        self.assertGreater(min(ink), 1000)
        self.assert_quiet(page, "clean")

    def test_plots_that_are_folded_away_are_drawn_when_opened(self):
        page = self.open("clean")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        ink = page.evaluate(INK)
        self.assertEqual(len(ink), 14 + 2)
        self.assertGreater(min(ink), 1000)
        self.assert_quiet(page, "clean")

    def test_the_verdict_is_seen_first_in_words_and_in_its_color(self):
        colors = set()
        for kind, word, sentence in (("clean", "same", "is the experiment of"), ("different", "different", "first, at step 3"),
                                     ("incomplete", "refused", "no run of the reference")):
            page = self.open(kind)
            self.assert_visible(page, "h1", word)
            self.assert_visible(page, ".sentence", sentence)
            self.assertLess(page.evaluate("document.querySelector('.sentence').getBoundingClientRect().bottom"), 400)
            colors.add(page.evaluate("getComputedStyle(document.querySelector('h1')).color"))
            self.assert_quiet(page, kind)
        self.assertEqual(len(colors), 3)

    def test_a_point_above_the_limit_is_drawn_in_its_own_color(self):
        red = """(() => { const c = document.querySelector('canvas'), p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
          for (let i = 0; i < p.length; i += 4) if (p[i] > 150 && p[i + 1] < 60 && p[i + 2] < 60 && p[i + 3] > 200) ++n; return n; })()"""
        self.assertGreater(self.open("different").evaluate(red), 100)
        self.assertEqual(self.open("clean").evaluate(red), 0)

    def test_no_text_of_the_record_becomes_markup_or_script(self):
        page = self.open("hostile")
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.evaluate("new Promise((done) => setTimeout(done, 0))")
        self.assertIsNone(page.evaluate("document.documentElement.dataset.hostile ?? null"))
        self.assertEqual(page.evaluate("document.querySelectorAll('img').length"), 0)
        self.assertEqual(page.evaluate("document.scripts.length"), self.open("clean").evaluate("document.scripts.length"))
        self.assertIn("</script><script>", page.evaluate("document.querySelector('figcaption code').innerText"))
        self.assertGreater(min(page.evaluate(INK)), 1000)
        self.assert_quiet(page, "hostile")

    def test_nothing_runs_over_the_edge_of_a_narrow_window(self):
        for kind in ("clean", "different", "hostile", "large", "incomplete"):
            page = self.open(kind, width=400, height=800)
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 400, kind)
            wide = page.evaluate("[...document.querySelectorAll('section, header, figure, canvas')].filter((e) => e.getBoundingClientRect().right > 400).length")
            self.assertEqual(wide, 0, kind)
            self.assert_quiet(page, kind)

    def test_without_script_all_text_is_there(self):
        page = self.open("different", script=False)
        self.assert_visible(page, "noscript", "need JavaScript")
        for selector, text in (("h1", "different"), ("#checks", "sharding"), ("#findings", "layer0.weight is off"), ("#evidence", "times its limit"),
                               ("#phases", "exposed communication"), ("#settings", "world_size"), ("#environment", "with uncommitted changes"),
                               ("#reproduce", "samerun pair -n 4")):
            self.assert_visible(page, selector, text)

    def test_dark_and_light_are_told_apart_and_both_can_be_read(self):
        contrast = """(() => {
          const light = (color) => color.match(/[0-9.]+/g).slice(0, 3).map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
          const card = light(getComputedStyle(document.querySelector('section')).backgroundColor);
          return ['h1', '.sentence', 'h2', 'section > p', 'thead th', '.word', 'summary'].map((selector) => {
            const ink = light(getComputedStyle(document.querySelector(selector)).color);
            return (Math.max(ink, card) + .05) / (Math.min(ink, card) + .05);
          });
        })()"""
        backgrounds = set()
        for dark in (False, True):
            page = self.open("different", dark=dark)
            backgrounds.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
            self.assertGreaterEqual(min(page.evaluate(contrast)), 4.5)
        self.assertEqual(len(backgrounds), 2)

    def test_the_keyboard_reaches_what_can_be_opened_or_scrolled(self):
        page = self.open("clean")
        wanted = page.evaluate("document.querySelectorAll('.scroll, pre, summary').length")
        reached = set()
        for _ in range(60):
            for kind in ("keyDown", "keyUp"):
                page.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
            reached.add(page.evaluate("(() => { const all = [...document.querySelectorAll('.scroll, pre, summary')]; return all.indexOf(document.activeElement); })()"))
        visible = page.evaluate("""[...document.querySelectorAll('.scroll, pre, summary')].filter((e) =>
          !(e.matches('summary') ? e.parentElement : e).parentElement.closest('details:not([open])')).length""")
        self.assertGreater(wanted, 8)
        self.assertEqual(len(reached - {-1}), visible)

    def test_it_prints_with_its_plots_and_opens_what_was_folded(self):
        page = self.open("clean", dark=True)
        self.assertGreater(len(page.pdf()), 20000)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(page.evaluate("document.querySelectorAll('details:not([open])').length"), 0)
        self.assertGreater(min(page.evaluate(INK)), 1000)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(page.evaluate("document.querySelectorAll('details[open]').length"), 0)
        self.assertEqual(page.complaints(), [])

    def test_it_stays_small(self):
        self.assertLess(os.path.getsize(self.file("clean")), 300_000)
        self.assertLess(os.path.getsize(self.file("large")), 1_000_000)


if __name__ == "__main__":
    SAMPLE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
