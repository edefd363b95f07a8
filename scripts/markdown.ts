/** The parts of a Markdown page that tests can run or check, in the order of the page. */
export type Part =
  | {
      readonly kind: 'block';
      /** The first word after the fence; empty if there is none. */
      readonly language: string;
      /** The other words after the fence. */
      readonly marks: readonly string[];
      readonly text: string;
      /** The 1-based line of the fence. */
      readonly line: number;
    }
  | {
      /** `<!-- key: text -->`, which is not rendered. The text may have several lines. */
      readonly kind: 'note';
      readonly key: string;
      readonly text: string;
      readonly line: number;
    };

export type Block = Extract<Part, { readonly kind: 'block' }>;

const FENCE = /^(?<indent> *)(?<ticks>`{3,}|~{3,})(?<info>.*)$/;
const NOTE = /^\s*<!--\s*(?<key>[a-z ]+):(?<text>.*?)-->\s*$/s;

export function partsOf(markdown: string): readonly Part[] {
  const lines = markdown.split('\n');
  const parts: Part[] = [];
  let at = 0;
  while (at < lines.length) {
    const { part, next } = partAt(lines, at);
    if (part !== undefined) parts.push(part);
    at = next;
  }
  return parts;
}

function partAt(lines: readonly string[], at: number): { readonly part?: Part; readonly next: number } {
  const line = lines[at] ?? '';
  const { indent, ticks, info = '' } = FENCE.exec(line)?.groups ?? {};
  if (indent !== undefined && ticks !== undefined) {
    const end = lines.findIndex((other, index) => index > at && other.trim() === ticks);
    if (end === -1) throw new Error(`line ${at + 1}: the fence of this block is not closed`);
    const [language = '', ...marks] = info.trim().split(/\s+/);
    const text = lines.slice(at + 1, end).map((inner) => `${withoutIndent(inner, indent)}\n`);
    return { part: { kind: 'block', language, marks, text: text.join(''), line: at + 1 }, next: end + 1 };
  }
  if (!line.trimStart().startsWith('<!--')) return { next: at + 1 };
  const end = lines.findIndex((other, index) => index >= at && other.includes('-->'));
  if (end === -1) throw new Error(`line ${at + 1}: this comment is not closed`);
  const { key, text } = NOTE.exec(lines.slice(at, end + 1).join('\n'))?.groups ?? {};
  return {
    next: end + 1,
    ...(key === undefined || text === undefined
      ? {}
      : { part: { kind: 'note', key, text: text.trim(), line: at + 1 } }),
  };
}

const withoutIndent = (line: string, indent: string): string =>
  line.startsWith(indent) ? line.slice(indent.length) : line.trimStart();

/** The page without its code blocks, which may contain text that looks like Markdown. */
export function proseOf(markdown: string): string {
  return markdown.replaceAll(/^ *(`{3,}|~{3,})[^\n]*\n.*?^ *\1\s*$/gms, '');
}
