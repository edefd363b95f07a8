import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { METADATA_KEYS } from './reference/annotations.ts';
import { renderReference } from './render-reference.ts';
import { TRUST_BUNDLE_SIGNER } from '../src/pki/annotations.ts';

const ROOT = join(import.meta.dirname, '..');

test('docs/reference is up to date with the program; otherwise run `npm run generate`', () => {
  for (const { file, text } of renderReference())
    expect(readFileSync(join(ROOT, 'docs', 'reference', file), 'utf8')).toBe(text);
});

test('every command and every field of every kind has a description', () => {
  for (const { file, text } of renderReference()) {
    const undescribed = text.split('\n').filter((line) => /^\|.*\|\s*\|$/.test(line));
    expect(undescribed, file).toEqual([]);
  }
});

test('the reference lists every annotation and label in the source', () => {
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.includes('.test'),
  );
  const written = sources.flatMap((path) =>
    [
      ...readFileSync(join(ROOT, 'src', path), 'utf8').matchAll(
        /= '((?:[a-z]+\.)?gatehouse\.dev\/[a-z-]+)'/g,
      ),
    ].map(([, key]) => key),
  );
  expect(written).not.toEqual([]);
  const known = [...METADATA_KEYS, TRUST_BUNDLE_SIGNER];
  expect(written.filter((key = '') => !known.includes(key))).toEqual([]);
});
