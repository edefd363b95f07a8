/** Rows of text for people, in columns as wide as what is in them. */
import { printable } from '../../json/printable.ts';

export type Colour = 'green' | 'yellow' | 'red' | 'grey';

export interface Cell {
  readonly text: string;
  readonly colour?: Colour;
}

export interface Row {
  /** One a column but the last. */
  readonly cells: readonly Cell[];
  /** The last column, a line each. */
  readonly lines: readonly string[];
}

const CODES: Readonly<Record<Colour, number>> = { green: 32, yellow: 33, red: 31, grey: 90 };

export function paint({ text, colour }: Cell, colours: boolean): string {
  const shown = printable(text);
  return colours && colour !== undefined ? `\u001b[${CODES[colour]}m${shown}\u001b[39m` : shown;
}

/** @param headings of all columns, the last one too */
export function formatTable(headings: readonly string[], rows: readonly Row[], colours: boolean): string {
  const all: readonly Row[] = [
    { cells: headings.slice(0, -1).map((text) => ({ text })), lines: headings.slice(-1) },
    ...rows,
  ];
  const widths = headings
    .slice(0, -1)
    .map((_heading, column) =>
      Math.max(...all.map(({ cells }) => printable(cells[column]?.text ?? '').length)),
    );
  const indent = ' '.repeat(widths.reduce((sum, width) => sum + width + GAP.length, 0));
  return all
    .map(({ cells, lines }) => {
      const [first = '', ...further] = lines.map(printable);
      const padded = widths.map((width, column) => {
        const cell = cells[column] ?? { text: '' };
        return `${paint(cell, colours)}${' '.repeat(width - printable(cell.text).length)}${GAP}`;
      });
      return [`${padded.join('')}${first}`.trimEnd(), ...further.map((line) => `${indent}${line}`)].join(
        '\n',
      );
    })
    .join('\n');
}

const GAP = '   ';
