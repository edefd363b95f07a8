/** The answers of a real kube-apiserver, stored in the repository. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'prettier';

export interface Recording {
  readonly server: string;
  readonly cases: Readonly<Record<string, unknown>>;
}

const FILE = join(import.meta.dirname, '..', 'data', 'conformance-1.37.json');

export const readRecording = (): Recording => JSON.parse(readFileSync(FILE, 'utf8')) as Recording; // written by this module

export async function writeRecording({ server, cases }: Recording): Promise<void> {
  const sorted = Object.fromEntries(Object.entries(cases).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(
    FILE,
    await format(JSON.stringify({ server, cases: sorted }), { parser: 'json', printWidth: 120 }),
  );
}
