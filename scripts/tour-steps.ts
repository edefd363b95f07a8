/** Commands of a page, and what it says that they print. */
import { partsOf } from './markdown.ts';

export interface Step {
  readonly command: string;
  /** `…` stands for anything within a line, a line of nothing but `…` for any lines. */
  readonly expected: string;
}

/** Every `$ command` of the `console` blocks of a page, in order. */
export function stepsOf(markdown: string): readonly Step[] {
  return partsOf(markdown).flatMap((part) =>
    part.kind === 'block' && part.language === 'console' ? stepsIn(part.text) : [],
  );
}

/**
 * The steps of one block. What follows a command up to the next is what it prints.
 * An `export` is left out: it is about the reader's own shell.
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

/** A command goes on behind a backslash, and to the end of its here-document. */
function lastOfCommand(lines: readonly string[]): number {
  const last = lines.findIndex((line) => !line.endsWith('\\'));
  const { word } = /<<'?(?<word>[A-Z]+)'?/.exec(lines[last] ?? '')?.groups ?? {};
  return word === undefined ? last : Math.max(last, lines.indexOf(word));
}

/** Whether this was printed, but for how blanks are counted: columns are as wide as what stands in them. */
export function printsAs(expected: string, printed: string): boolean {
  const pattern = linesOf(expected)
    .map((line) => (line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(escape).join('.*')}\\n`))
    .join('');
  const lines = linesOf(printed).map((line) => `${line}\n`); // of a command that prints nothing there are none
  return new RegExp(`^${pattern}$`).test(lines.join(''));
}

const linesOf = (text: string): readonly string[] =>
  text
    .split('\n')
    .map((line) => line.trim().replaceAll(/\s+/g, ' '))
    .filter((line) => line !== '');

const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
