/** Light and dark, wide and narrow, screen and paper. Colour is never the only sign: a word accompanies each. */
export const STYLE_SHEET = `
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --card: #ffffff; --line: #dfe3e8; --ink: #17202b; --soft: #566272; --accent: #1c5fb8;
  --good: #176b41; --good-fill: #dcf2e5; --warn: #7c5200; --warn-fill: #fdf0cf; --bad: #b3201f; --bad-fill: #fde3e1;
  --rest: #566272; --rest-fill: #e9ecf0; --bar-good: #2f9e65; --bar-warn: #d99a1c; --bar-bad: #d6423f; --bar-rest: #98a3b1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0f141a; --card: #171e26; --line: #2b3540; --ink: #e6ebf1; --soft: #9eabba; --accent: #7fb4ff;
    --good: #6fd6a0; --good-fill: #12382a; --warn: #f0c365; --warn-fill: #3d2f10; --bad: #ff9d97; --bad-fill: #4a1d1d;
    --rest: #a9b4c1; --rest-fill: #26303b; --bar-good: #38a871; --bar-warn: #c9922c; --bar-bad: #d8564f; --bar-rest: #66727f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif;
}
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .3rem .7rem; z-index: 1; }
header.top { background: var(--card); border-bottom: 1px solid var(--line); }
header.top > div, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem; }
header.top > div { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1.5rem; padding-block: .8rem; }
.brand { display: flex; align-items: center; gap: .6rem; margin-right: auto; }
.brand svg { width: 1.9rem; height: 1.9rem; color: var(--accent); flex: none; }
h1 { font-size: 1.15rem; line-height: 1.2; margin: 0; font-weight: 650; }
.brand p, .who, footer { color: var(--soft); font-size: .85rem; }
.brand p, .who, footer p { margin: 0; }
.who { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1rem; overflow-wrap: anywhere; }
.dot { display: inline-block; width: .55rem; height: .55rem; border-radius: 50%; background: var(--bar-rest); margin-right: .35rem; }
.live .dot { background: var(--bar-good); }
button {
  font: inherit; font-size: .85rem; color: var(--ink); background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: .25rem .8rem; cursor: pointer;
}
button:hover { border-color: var(--accent); }
main { padding-block: 1.25rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.2rem 1.1rem; margin-bottom: 1.1rem; }
h2 { font-size: 1.05rem; margin: 0 0 .2rem; font-weight: 650; }
h2 .count { color: var(--soft); font-weight: 400; }
h3 { font-size: .95rem; margin: .9rem 0 .3rem; font-weight: 650; overflow-wrap: anywhere; }
.lead { color: var(--soft); margin: 0 0 .7rem; overflow-wrap: anywhere; }
.verdict { border-left: 5px solid var(--bar-good); }
.verdict.bad { border-left-color: var(--bar-bad); }
.verdict.warn { border-left-color: var(--bar-warn); }
.verdict ul { margin: .4rem 0 0; padding-left: 1.1rem; }
.verdict li { overflow-wrap: anywhere; margin: .15rem 0; }
nav.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .7rem; margin-bottom: 1.1rem; }
nav.tiles a {
  display: block; text-decoration: none; color: var(--ink); background: var(--card); border: 1px solid var(--line);
  border-top: 3px solid var(--bar-good); border-radius: 10px; padding: .6rem .9rem .7rem; line-height: 1.35; font-weight: 550;
}
nav.tiles a:hover { border-color: var(--accent); }
nav.tiles a.warn { border-top-color: var(--bar-warn); }
nav.tiles a.bad { border-top-color: var(--bar-bad); }
nav.tiles a.rest { border-top-color: var(--bar-rest); }
.state { display: inline-block; border-radius: 99px; padding: 0 .6rem; font-size: .82rem; line-height: 1.55; white-space: nowrap; }
.good { color: var(--good); background: var(--good-fill); }
.warn.state { color: var(--warn); background: var(--warn-fill); }
.bad.state { color: var(--bad); background: var(--bad-fill); }
.rest.state { color: var(--rest); background: var(--rest-fill); }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; color: var(--soft); font-size: .82rem; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
thead th { border-top: 0; color: var(--soft); font-weight: 500; font-size: .82rem; white-space: nowrap; }
tbody th { font-weight: 550; min-width: 11rem; }
td.number { font-variant-numeric: tabular-nums; }
.mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .88em; }
.nothing, .unread, .more { color: var(--soft); margin: .3rem 0 0; font-size: .9rem; overflow-wrap: anywhere; }
.unread { color: var(--warn); }
figure { margin: .2rem 0 1rem; }
figcaption { color: var(--soft); font-size: .82rem; margin-bottom: .3rem; }
svg.time { display: block; width: 100%; overflow: visible; }
svg.time text { font-size: 12px; fill: var(--soft); }
svg.time text.name { fill: var(--ink); font-weight: 550; }
svg.time .track { fill: var(--rest-fill); }
svg.time .good, svg.span .good { fill: var(--bar-good); } svg.time .warn, svg.span .warn { fill: var(--bar-warn); }
svg.time .bad, svg.span .bad { fill: var(--bar-bad); } svg.time .rest, svg.span .rest { fill: var(--bar-rest); }
svg.time .now { stroke: var(--accent); stroke-width: 2; }
svg.time text.now { fill: var(--accent); stroke: none; font-weight: 600; }
svg.time .mark { fill: var(--card); stroke: var(--ink); stroke-width: 1.5; }
svg.time .grid { stroke: var(--line); }
svg.references { display: block; width: 100%; }
svg.references text { font-size: 13px; fill: var(--ink); }
svg.references text.count { font-size: 11px; }
svg.references .kind { fill: var(--accent); }
svg.references .arc { fill: none; stroke: var(--bar-rest); stroke-width: 1.5; } svg.references .tip { fill: var(--bar-rest); }
svg.references .warn .arc { stroke: var(--bar-warn); } svg.references .warn .tip { fill: var(--bar-warn); }
svg.references rect.count { fill: var(--card); stroke: var(--bar-warn); }
svg.span { display: block; width: 100%; height: 8px; border-radius: 4px; background: var(--rest-fill); margin: .3rem 0 .2rem; }
.window { border-top: 1px solid var(--line); padding: .2rem 0 .6rem; margin: 0; }
details.window { padding-block: .5rem; }
details.window > summary h3 { display: inline; }
summary .brief { color: var(--soft); margin-left: .5rem; }
.same { color: var(--soft); font-weight: 400; }
.command { white-space: nowrap; }
.command code { white-space: normal; overflow-wrap: anywhere; background: var(--rest-fill); border-radius: 5px; padding: .1rem .4rem; color: var(--ink); }
button.copy { display: none; padding: 0 .5rem; font-size: .78rem; min-height: 1.5rem; }
.scripts button.copy { display: inline-block; }
ul.nothing { padding-left: 1.1rem; } ul.nothing li { margin: .2rem 0; }
ol.steps { display: flex; flex-wrap: wrap; gap: .3rem 0; list-style: none; margin: .4rem 0 .5rem; padding: 0; font-size: .85rem; color: var(--soft); }
ol.steps li { display: flex; align-items: center; }
ol.steps li + li::before { content: ""; width: 1.6rem; height: 2px; background: var(--line); margin: 0 .5rem; }
ol.steps li.done { color: var(--ink); }
ol.steps li.done + li::before { background: var(--bar-good); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .4rem 0; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .4rem 0; } summary { cursor: pointer; font-size: .9rem; }
footer { padding-bottom: 2rem; }
.login { max-width: 42rem; }
.login label { display: block; font-weight: 550; margin: .8rem 0 .3rem; }
.login input {
  width: 100%; color: var(--ink); background: var(--ground); border: 1px solid var(--bar-rest);
  border-radius: 6px; padding: .5rem .6rem;
}
.login form button { margin-block: .7rem .5rem; background: var(--accent); border-color: var(--accent); color: var(--card); padding: .4rem 1.2rem; }
.problem { color: var(--bad); background: var(--bad-fill); border-radius: 6px; padding: .5rem .8rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  header.top > div, main, footer { padding-inline: .8rem; }
  section { padding: .8rem .9rem; }
  nav.tiles { grid-template-columns: 1fr 1fr; gap: .5rem; } nav.tiles a { padding: .5rem .65rem .55rem; font-size: .92rem; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, th, td, caption { display: block; }
  tr { border-top: 1px solid var(--line); padding: .45rem 0; }
  th, td { border: 0; padding: .08rem 0; }
  td[data-label] { display: grid; grid-template-columns: 7rem 1fr; gap: .5rem; }
  td[data-label]::before { content: attr(data-label); color: var(--soft); font-size: .82rem; }
  td > .state { justify-self: start; }
  td.empty { display: none; }
  svg.time .wide { display: none; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .35rem; }
}
@media print { button, .skip, #live { display: none; } section { break-inside: avoid; } }
`;
