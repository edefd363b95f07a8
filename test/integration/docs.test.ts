/** Static checks of the README and docs/; docs-run.test.ts runs their commands. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { type Block, partsOf, proseOf } from '../../scripts/markdown.ts';
import { METADATA_KEYS } from '../../scripts/reference/annotation-keys.ts';
import { type Page, pages, ROOT, scriptOf } from '../support/doc-pages.ts';
import { TRUST_BUNDLE_SIGNER } from '../../src/pki/annotations.ts';
import { customResourceDefinitions } from '../../src/api/crds.ts';

/** Languages of blocks that the tests do not run. `text` and blocks without a language contain output or diagrams. */
const READ_ONLY = ['', 'text', 'mermaid', 'dockerfile'];
const RUN = ['console', 'yaml', 'ts', 'json', 'sh', 'bash'];

const blocksOf = ({ markdown }: Page): readonly Block[] =>
  partsOf(markdown).filter((part) => part.kind === 'block');

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

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
}

interface Definition {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

const KINDS = customResourceDefinitions().map(({ manifest }) => {
  const { spec } = JSON.parse(JSON.stringify(manifest)) as Definition; // customResourceDefinitions generated it
  return { kind: spec.names.kind, schema: spec.versions[0]?.schema.openAPIV3Schema ?? {} };
});

/** Every place of every kind at which a fragment can begin: the root, its spec, and every field below the spec. */
const PLACES = KINDS.flatMap(({ kind, schema }) => placesIn(kind, schema));

function placesIn(
  path: string,
  schema: Schema,
): readonly { readonly path: string; readonly schema: Schema }[] {
  const inner = schema.items ?? schema;
  return [
    { path, schema: inner },
    ...Object.entries(inner.properties ?? {})
      .filter(([name]) => name !== 'metadata' && name !== 'status')
      .flatMap(([name, field]) => placesIn(`${path}.${name}`, field)),
  ];
}

/**
 * The problem of a fragment at the place of a kind that knows most of its fields: at least two, or all.
 * @throws Error if the text is not YAML
 */
function fragmentProblem(text: string): string | undefined {
  const documents = parseAllDocuments(text);
  for (const { errors } of documents) if (errors[0] !== undefined) throw errors[0];
  for (const document of documents) {
    const problem = problemOf(document.toJS());
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const ENVELOPE = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status']);

function problemOf(value: unknown): string | undefined {
  const fields = keysOf(value);
  const named = KINDS.find(({ kind }) => kind === fieldOf(value, 'kind'));
  if (named === undefined && fields.includes('kind')) return undefined;
  if (named === undefined && fields.length > 0 && fields.every((field) => ENVELOPE.has(field)))
    return problemOf(fieldOf(value, 'spec'));
  const places = named === undefined ? PLACES : [{ path: named.kind, schema: named.schema }];
  const judged = places
    .map(({ path, schema }) => ({
      known: fields.filter((field) => Object.hasOwn(schema.properties ?? {}, field)).length,
      problems: unknownFields(path, schema, value),
    }))
    .filter(({ known }) => known > 1 || known === fields.length)
    .toSorted((a, b) => a.problems.length - b.problems.length || b.known - a.known);
  return judged[0]?.problems[0];
}

const fieldOf = (value: unknown, name: string): unknown =>
  Object.entries(value ?? {}).find(([key]) => key === name)?.[1];

const keysOf = (value: unknown): readonly string[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];

function unknownFields(path: string, schema: Schema, value: unknown): readonly string[] {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined
      ? []
      : value.flatMap((item, index) => unknownFields(`${path}[${index}]`, items, item));
  }
  const { properties } = schema;
  if (properties === undefined || typeof value !== 'object' || value === null) {
    return schema.enum?.includes(value) === false
      ? [`${path}: ${JSON.stringify(value)} is no such value`]
      : [];
  }
  return Object.entries(value).flatMap(([name, inner]) => {
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return field === undefined
      ? [`${path} lacks the field ${name}`]
      : unknownFields(`${path}.${name}`, field, inner);
  });
}

function brokenLinks({ path, markdown }: Page): readonly string[] {
  const prose = proseOf(markdown).replaceAll(/`[^`\n]*`/g, '');
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  return links
    .filter((link) => !/^[a-z]+:/.test(link))
    .filter((link) => {
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? join(ROOT, path) : join(ROOT, dirname(path), decodeURI(file));
      if (!existsSync(target) || relative(ROOT, target).startsWith('..')) return true;
      if (anchor === undefined || !target.endsWith('.md')) return false;
      return !anchorsOf(readFileSync(target, 'utf8')).has(anchor);
    });
}

/** Anchors as GitHub generates them from headings; a repeated heading gets a number. */
function anchorsOf(markdown: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of proseOf(markdown).matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    let unique = slug;
    for (let count = 1; anchors.has(unique); count += 1) unique = `${slug}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}
