/** docs/troubleshooting.md quotes the current messages of Gatehouse, so that users who search for a message find it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const PAGE = readFileSync(join(ROOT, 'docs', 'troubleshooting.md'), 'utf8');
/** The messages of other programs, which our source does not contain. */
const FOREIGN = '## Errors of the API server';

const [ours = '', theirs] = PAGE.split(`\n${FOREIGN}\n`);
const quoted = [...ours.matchAll(/^### `(?<message>.+)`$/gm)].map(({ groups }) => groups?.message ?? '');
const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !/\.test(-support)?\.ts$/.test(path))
  .map((path) => inOnePiece(readFileSync(join(ROOT, 'src', path), 'utf8')));

test('src contains every message that the page quotes', () => {
  expect(quoted.filter((message) => !isSaid(message))).toEqual([]);
});

test('the page has the most common messages, and a separate section for messages of the API server', () => {
  expect(quoted.length).toBeGreaterThan(25);
  expect(theirs).toContain('### `failed calling webhook');
});

function inOnePiece(source: string): string {
  return source.replaceAll(/['"`]\s*\+\s*['"`]/g, '').replaceAll(String.raw`\'`, "'");
}

function isSaid(message: string): boolean {
  const pieces = message
    .split('…')
    .map((piece) => piece.trim())
    .filter((piece) => /\w{2}/.test(piece));
  return sources.some((source) => {
    let from = 0;
    return pieces.every((piece) => {
      const at = source.indexOf(piece, from);
      from = at + piece.length;
      return at !== -1;
    });
  });
}
