/** Static checks of the README and docs/; docs-run.test.ts runs their commands. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { partsOf, type Block } from '../../scripts/markdown.ts';
import { METADATA_KEYS } from '../../scripts/reference/annotations.ts';
import { fragmentProblem } from '../support/doc-fragments.ts';
import { anchorsOf, brokenLinks } from '../support/doc-links.ts';
import { pages, ROOT, scriptOf, type Page } from '../support/doc-pages.ts';
import { TRUST_BUNDLE_SIGNER } from '../../src/pki/annotations.ts';

/** Languages of blocks that the tests do not run. `text` and blocks without a language contain output or diagrams. */
const READ_ONLY = ['', 'text', 'mermaid', 'dockerfile'];
const RUN = ['console', 'yaml', 'ts', 'json', 'sh', 'bash'];

const blocksOf = ({ markdown }: Page): readonly Block[] =>
  partsOf(markdown).filter((part) => part.kind === 'block');

/** The problems that `judge` finds in the blocks of a page, with line numbers. */
function complaints(page: Page, judge: (block: Block) => string | undefined): readonly string[] {
  return blocksOf(page).flatMap((block) => {
    try {
      const complaint = judge(block);
      return complaint === undefined ? [] : [`line ${block.line}: ${complaint}`];
    } catch (error) {
      return [`line ${block.line}: ${String(error)}`];
    }
  });
}

describe.each(pages())('$path', (page) => {
  test('every block names its language, and follows the rules for that language', () => {
    const unknown = complaints(page, ({ language }) =>
      [...READ_ONLY, ...RUN].includes(language) ? undefined : `"${language}" is no language of a block`,
    );
    const broken = scriptOf(page).actions.flatMap((action) =>
      action.kind === 'complain' ? [`line ${action.line}: ${action.complaint}`] : [],
    );
    expect([...unknown, ...broken]).toEqual([]);
  });

  test('YAML and JSON can be parsed, and fields of Gatehouse exist', () => {
    const problems = complaints(page, ({ language, marks, text }) => {
      if (language === 'json') JSON.parse(text);
      if (language !== 'yaml') return undefined;
      if (marks.includes('fragment')) return fragmentProblem(text);
      return parseAllDocuments(text).flatMap(({ errors }) => errors)[0]?.message;
    });
    expect(problems).toEqual([]);
  });

  test('links have existing targets', () => {
    expect(brokenLinks(page)).toEqual([]);
  });

  test('annotations and labels of Gatehouse exist', () => {
    const named = [...page.markdown.matchAll(/(?<![\w.])gatehouse\.dev\/[a-z][\w-]*\w/g)].map(([key]) => key);
    const known = [...METADATA_KEYS, TRUST_BUNDLE_SIGNER, 'gatehouse.dev/v1alpha1'];
    expect(new Set(named.filter((key) => !known.includes(key)))).toEqual(new Set());
  });
});

test('another page links to every page of docs/', () => {
  const all = pages();
  const unnamed = all
    .filter(({ path }) => path.startsWith('docs/'))
    .filter(({ path }) => {
      const name = path.split('/').at(-1) ?? '';
      return !all.some((other) => other.path !== path && other.markdown.includes(name));
    });
  expect(unnamed.map(({ path }) => path)).toEqual([]);
});

test('a page that breaks the rules is reported', () => {
  const page = (markdown: string): Page => ({ path: 'docs/one.md', markdown });
  expect(fragmentProblem('validate:\n  unique:\n    - { name: a, path: [spec.a] }\n')).toBe(
    'AdmissionPolicy.spec.validate.unique[0] has no field path',
  );
  expect(fragmentProblem('spec: { owners: { preserved: true } }\n')).toContain('has no field preserved');
  expect(fragmentProblem('jobs: { test: {} }\n')).toBeUndefined();
  expect(() => fragmentProblem('a: [')).toThrow();
  expect(
    brokenLinks(page('[a](review.md#no-such-heading) [b](nowhere.md) [c](review.md) [d](../../x)')),
  ).toEqual(['review.md#no-such-heading', 'nowhere.md', '../../x']);
  expect([...anchorsOf('# A `b`, c!\n# A b c\n```sh\n# no\n```\n')]).toEqual(['a-b-c', 'a-b-c-1']);
  expect(scriptOf(page('```sh\nls\n```\n')).actions).toMatchObject([{ kind: 'complain', line: 1 }]);
  expect(scriptOf(page('<!-- not run: why -->\n\n```sh\nls\n```\n')).actions).toMatchObject([
    { kind: 'skip', reason: 'why' },
  ]);
  expect(readFileSync(join(ROOT, 'README.md'), 'utf8')).toContain('```console');
});
