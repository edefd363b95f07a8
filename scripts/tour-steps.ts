/** A command of the README, and what it says that the command prints. */
export interface Step {
  readonly command: string;
  /** `…` stands for anything within a line, a line of nothing but `…` for any lines. */
  readonly expected: string;
}

/**
 * Every `$ command` of the `console` blocks, in order. What follows a command up to the next is what it prints.
 * An `export` is left out: it is about the reader's own shell.
 */
export function stepsOf(markdown: string): readonly Step[] {
  return [...markdown.matchAll(/^```console\n(.*?)^```$/gms)].flatMap(([, block = '']) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .filter((text) => !text.startsWith('export '))
      .map((text) => {
        const lines = text.trimEnd().split('\n');
        const last = lines.findIndex((line) => !line.endsWith('\\'));
        return {
          command: lines.slice(0, last + 1).join('\n'),
          expected: lines.slice(last + 1).join('\n'),
        };
      }),
  );
}

/** Whether this was printed, but for how blanks are counted: columns are as wide as what stands in them. */
export function printsAs(expected: string, printed: string): boolean {
  const pattern = linesOf(expected)
    .map((line) => (line === '…' ? '(?:.*\\n)*?' : `${line.split('…').map(escape).join('.*')}\\n`))
    .join('');
  return new RegExp(`^${pattern}$`).test(`${linesOf(printed).join('\n')}\n`);
}

const linesOf = (text: string): readonly string[] =>
  text
    .split('\n')
    .map((line) => line.trim().replaceAll(/\s+/g, ' '))
    .filter((line) => line !== '');

const escape = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
