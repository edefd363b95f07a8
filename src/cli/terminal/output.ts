/** `-o table|json|yaml`: for people, and for programs. */
import { Option } from 'commander';
import { stringify } from 'yaml';

import { formatJson } from '../review/report/json-report.ts';
import { escapeControls } from '../../json/printable.ts';

export type OutputFormat = 'table' | 'json' | 'yaml';

export const outputOption = (): Option =>
  new Option('-o, --output <format>', 'how to print it').choices(['table', 'json', 'yaml']).default('table');

/** Resolves when all of it is written: a process that ends before would cut it off. */
export const print = (text: string): Promise<void> =>
  new Promise((done) => {
    process.stdout.write(text, () => {
      done();
    });
  });

/** @see https://no-color.org */
export const wantsColours = (): boolean => process.stdout.isTTY && (process.env.NO_COLOR ?? '') === '';

/** What programs read, and people who look at it: what users wrote steers no terminal. */
export function formatData(data: object, format: Exclude<OutputFormat, 'table'>): string {
  return format === 'json' ? formatJson(data) : formatYaml(data);
}

function formatYaml(data: object): string {
  const text = stringify(data);
  if (escapeControls(text) === text) return text;
  // Only in quotes there are escapes.
  return escapeControls(stringify(data, { defaultStringType: 'QUOTE_DOUBLE', blockQuote: false }));
}
