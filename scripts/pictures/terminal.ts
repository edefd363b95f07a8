/** Draws text of a terminal as an SVG that follows the reader's light or dark scheme. */

const COLUMNS = 112;
const LINE = 19;
const CHARACTER = 7.83;
const MARGIN = 18;

type Style = 'command' | 'heading' | 'text';

interface Line {
  readonly style: Style;
  readonly text: string;
}

export function drawTerminal(title: string, command: string, output: string): string {
  const lines: readonly Line[] = [
    { style: 'command', text: `$ ${command}` },
    ...output.trimEnd().split('\n').flatMap(wrapped),
  ];
  const width = Math.ceil(COLUMNS * CHARACTER + 2 * MARGIN);
  const height = lines.length * LINE + 2 * MARGIN;
  const texts = lines.map(
    ({ style, text }, row) =>
      `  <text class="${style}" x="${MARGIN}" y="${MARGIN + LINE * row + 13}" xml:space="preserve">${escaped(text)}</text>\n`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" role="img" aria-labelledby="t">
  <title id="t">${escaped(title)}</title>
  <style>
    rect { fill: #f6f8fa; stroke: #d0d7de }
    .text { fill: #57606a }
    .heading { fill: #1f2328; font-weight: 600 }
    .command { fill: #0550ae; font-weight: 600 }
    @media (prefers-color-scheme: dark) {
      rect { fill: #161b22; stroke: #30363d }
      .text { fill: #9198a1 }
      .heading { fill: #f0f6fc }
      .command { fill: #79c0ff }
    }
  </style>
  <rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" />
${texts.filter((text) => !text.includes('></text>')).join('')}</svg>
`;
}

function wrapped(line: string): readonly Line[] {
  const style: Style = /^\d+\. /.test(line) ? 'heading' : 'text';
  const [indent = ''] = /^ */.exec(line) ?? [];
  const rows: string[] = [];
  for (const word of line.trimStart().split(' ').flatMap(parts)) {
    const last = rows.at(-1);
    if (last !== undefined && `${last} ${word}`.length <= COLUMNS) rows[rows.length - 1] = `${last} ${word}`;
    else rows.push((rows.length === 0 ? indent : `${indent}  `) + word);
  }
  return rows.map((text) => ({ style, text }));
}

const parts = (word: string): readonly string[] => word.match(/.{1,100}/g) ?? [''];

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
