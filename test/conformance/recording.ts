/** The answers of a real kube-apiserver, stored in the repository. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Recording {
  readonly server: string;
  readonly cases: Readonly<Record<string, unknown>>;
}

const FILE = join(import.meta.dirname, '..', 'data', 'conformance-1.37.json');

export const readRecording = (): Recording => JSON.parse(readFileSync(FILE, 'utf8')) as Recording; // written by this module

export function writeRecording({ server, cases }: Recording): void {
  writeFileSync(FILE, `${pretty({ server, cases: sorted(cases) }, 0)}\n`);
}

const LINE_LENGTH = 120;

/** JSON with short values on one line, so that exchanges are easy to read and diffs are short. */
function pretty(value: unknown, depth: number): string {
  const flat = JSON.stringify(value);
  if (typeof value !== 'object' || value === null || flat.length + 2 * depth < LINE_LENGTH) return flat;
  const indent = '  '.repeat(depth + 1);
  const items = Array.isArray(value)
    ? value.map((item) => pretty(item, depth + 1))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${pretty(item, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  return `${open}\n${items.map((item) => indent + item).join(',\n')}\n${'  '.repeat(depth)}${close}`;
}

function sorted(cases: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(cases).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
