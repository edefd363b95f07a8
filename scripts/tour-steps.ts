/** The commands of a page and their expected output. */
import { partsOf } from './markdown.ts';

export interface Step {
  readonly command: string;
  /** `…` matches any text within a line. A line with only `…` matches any lines. */
  readonly expected: string;
}

/** Every `$ command` of the `console` blocks of a page, in order. */
export function stepsOf(markdown: string): readonly Step[] {
  return partsOf(markdown).flatMap((part) =>
    part.kind === 'block' && part.language === 'console' ? stepsIn(part.text) : [],
  );
}

/**
 * The steps of one block. The text between a command and the next is its expected output. `export` commands are left
 * out: they change the reader's own shell.
 */
export function stepsIn(block: string): readonly Step[] {
  return block
    .split(/^\$ /m)
    .slice(1)
    .filter((text) => !text.startsWith('export '))
    .map((text) => {
      const lines = text.trimEnd().split('\n');
      const last = lastOfCommand(lines);
      return {
        command: lines.slice(0, last + 1).join('\n'),
        expected: lines.slice(last + 1).join('\n'),
      };
    });
}

/** The index of the last line of the command, which may continue after a backslash or contain a here-document. */
function lastOfCommand(lines: readonly string[]): number {
  const last = lines.findIndex((line) => !line.endsWith('\\'));
  const { word } = /<<'?(?<word>[A-Z]+)'?/.exec(lines[last] ?? '')?.groups ?? {};
  return word === undefined ? last : Math.max(last, lines.indexOf(word));
}

/** Compares the output. The number of blanks does not matter, because the width of a column depends on its values. */
export function printsAs(expected: string, printed: string): boolean {
  const pattern = linesOf(expected)
    .map((line) => (line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(escape).join('.*')}\\n`))
    .join('');
  const lines = linesOf(printed).map((line) => `${line}\n`); // empty for a command that prints nothing
  return new RegExp(`^${pattern}$`).test(lines.join(''));
}

const linesOf = (text: string): readonly string[] =>
  text
    .split('\n')
    .map((line) => line.trim().replaceAll(/\s+/g, ' '))
    .filter((line) => line !== '');

const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
