/** Output to a terminal, a file or a pipe: tables with colours for people, JSON and YAML for programs. */
import { styleText } from 'node:util';
import { stringify, type CreateNodeOptions, type DocumentOptions, type ToStringOptions } from 'yaml';

import { stringifyJson } from '../../json/json.ts';
import { escapeControls, printable } from '../../json/printable.ts';
import type { OutputFormat } from './options.ts';

/** Resolves when all of the text is written: a process that exits earlier truncates it. */
export const print = (text: string): Promise<void> =>
  new Promise((done) => {
    process.stdout.write(text, () => done());
  });

/** The only place that detects it. @see https://no-color.org */
export const hasColours = (stream: { readonly isTTY?: boolean | undefined } = process.stdout): boolean =>
  stream.isTTY === true && (process.env.NO_COLOR ?? '') === '';

/** A judgement of a state. The terminal has a colour for each, the status page a style. */
export type Tone = keyof typeof COLOURS;

const COLOURS = { good: 'green', warn: 'yellow', bad: 'red', rest: 'grey' } as const;

export type Cell = string | { readonly text: string; readonly tone: Tone };

export interface Row {
  readonly cells: readonly Cell[];
  readonly lines: readonly string[];
}

/** Control characters in the text cannot reach the terminal. */
export function paint(cell: Cell, colours: boolean): string {
  if (typeof cell === 'string') return printable(cell);
  const shown = printable(cell.text);
  return colours ? styleText(COLOURS[cell.tone], shown, { validateStream: false }) : shown;
}

export const GAP = '   ';

export function formatTable(headings: readonly string[], rows: readonly Row[], colours: boolean): string {
  const all: readonly Row[] = [{ cells: headings.slice(0, -1), lines: headings.slice(-1) }, ...rows];
  const widthOf = (cell: Cell = ''): number => paint(cell, false).length;
  const widths = headings
    .slice(0, -1)
    .map((_heading, column) => Math.max(...all.map(({ cells }) => widthOf(cells[column]))));
  const indent = ' '.repeat(widths.reduce((sum, width) => sum + width + GAP.length, 0));
  return all
    .flatMap(({ cells, lines }) => {
      const [first = '', ...further] = lines.map(printable);
      const padded = widths.map((width, column) => {
        const cell = cells[column] ?? '';
        return `${paint(cell, colours)}${' '.repeat(width - widthOf(cell))}${GAP}`;
      });
      return [`${padded.join('')}${first}`.trimEnd(), ...further.map((line) => `${indent}${line}`)];
    })
    .join('\n');
}

export function formatData(data: object, format: Exclude<OutputFormat, 'table'>): string {
  return format === 'json' ? formatJson(data) : formatYaml(data);
}

/** Indented JSON. Integers beyond 2^53 keep all their digits. */
export const formatJson = (data: object): string => `${escapeControls(stringifyJson(data, 2))}\n`;

function formatYaml(data: object): string {
  const text = toYaml(data);
  if (escapeControls(text) === text) return text;
  // YAML has escapes in double quotes only.
  return escapeControls(toYaml(data, { defaultStringType: 'QUOTE_DOUBLE', blockQuote: false }));
}

type Options = DocumentOptions & CreateNodeOptions & ToStringOptions;

/** YAML for kubectl and Helm. They parse YAML 1.1, in which `Off` without quotes is a Boolean, and 1:30 is a number. */
export const toYaml = (value: unknown, options: Options = {}): string =>
  stringify(value, { ...options, compat: 'yaml-1.1' });
